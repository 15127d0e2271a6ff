/* Digits are found with integers, so that no rounding of floating point shows in a message. */
#include "base/words.h"

#include <stdio.h>
#include <string.h>

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

size_t mend_words_character(const char *text)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        size_t bytes;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const unsigned char *c = (const unsigned char *)text;
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        if (c[0] < forms[i].first_low || c[0] > forms[i].first_high) {
            continue;
        }
        bool is_valid =
            forms[i].bytes == 1 || (c[1] >= forms[i].second_low && c[1] <= forms[i].second_high);
        for (size_t k = 2; k < forms[i].bytes && is_valid; k++) {
            is_valid = c[k] >= 0x80 && c[k] <= 0xbf;
        }
        return is_valid ? forms[i].bytes : 0;
    }
    return 0;
}

size_t mend_words_join(char *text, size_t text_bytes, const char *part)
{
    const size_t before = strlen(text);
    const size_t used = before + (before > 0 ? strlen(", ") : 0);
    if (used + 1 >= text_bytes) {
        return 0;
    }
    char *const to = text + used;
    const size_t room = text_bytes - used - 1;
    const size_t whole = strlen(part);
    size_t bytes = mend_min_u64(whole, room);
    memcpy(to, part, bytes);
    to[bytes] = '\0';
    size_t last = bytes; /* behind the first byte of the last character */
    while (last > 0 && ((unsigned char)to[last - 1] & 0xc0) == 0x80) {
        last--;
    }
    if (bytes < whole && last > 0 && mend_words_character(to + last - 1) != bytes - (last - 1)) {
        bytes = last - 1;
        to[bytes] = '\0';
    }
    if (bytes > 0) {
        memcpy(text + before, ", ", used - before);
    }
    return bytes;
}

void mend_words_make_printable(char *text)
{
    for (; *text != 0; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}
