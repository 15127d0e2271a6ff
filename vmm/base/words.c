/* Digits are found with integers, so that no rounding of floating point shows in a message. */
#include "base/words.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/align.h"

static const struct {
    uint64_t bytes;
    const char *name;
} units[] = {{MEND_TIB, "TiB"}, {MEND_GIB, "GiB"}, {MEND_MIB, "MiB"}, {MEND_KIB, "KiB"}};
enum { UNITS = sizeof(units) / sizeof(units[0]) };

static_assert(MEND_TIB < UINT64_C(1) << 57, "a hundred times the rest of a unit is a number");
static_assert(MEND_AMOUNT_BYTES >= sizeof("16777216.00 TiB"), "all of 64 bits can be shown");

static mend_amount in_words(uint64_t bytes, bool above)
{
    mend_amount amount;
    int unit = 0;
    while (unit < UNITS && bytes < units[unit].bytes) {
        unit++;
    }
    if (unit == UNITS) {
        snprintf(amount.text, sizeof(amount.text), "%u bytes", (unsigned)bytes);
        return amount;
    }
    uint64_t whole = bytes / units[unit].bytes;
    uint64_t rest = bytes % units[unit].bytes * 100; /* no overflow: a unit is far below 2^57 */
    uint64_t hundredths = rest / units[unit].bytes + (above && rest % units[unit].bytes != 0);
    assert(hundredths <= 100);
    snprintf(amount.text, sizeof(amount.text), "%llu.%02u %s",
             (unsigned long long)whole + hundredths / 100, (unsigned)(hundredths % 100),
             units[unit].name);
    return amount;
}

mend_amount mend_words_amount(uint64_t bytes)
{
    return in_words(bytes, false);
}

mend_amount mend_words_amount_above(uint64_t bytes)
{
    return in_words(bytes, true);
}

void mend_words_make_plain(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}
