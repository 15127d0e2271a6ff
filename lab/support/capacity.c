#include "lab/support/capacity.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"

static const struct {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"TiB", MEND_TIB}, {"GiB", MEND_GIB}, {"MiB", MEND_MIB}, {"KiB", MEND_KIB}, {"B", 1},
};
enum { UNIT_COUNT = sizeof(units) / sizeof(*units) };

/* Digits with at most one point, whatever the user's locale: "12", "1.5", not ".5". */
static bool parse_decimal(const char *text, size_t length, long double *value)
{
    long double whole = 0;
    long double place = 0; /* value of the next digit after the point. 0: no point yet */
    if (length == 0 || length > 40 || !isdigit((unsigned char)text[0]) ||
        !isdigit((unsigned char)text[length - 1])) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && place == 0) {
            place = 0.1L;
        } else if (!isdigit((unsigned char)text[i])) {
            return false;
        } else if (place == 0) {
            whole = whole * 10 + (text[i] - '0');
        } else {
            whole += place * (text[i] - '0');
            place /= 10;
        }
    }
    *value = whole;
    return true;
}

bool mend_is_fraction_of_bytes(const char *text)
{
    size_t digits = strspn(text, "0123456789.");
    long double value;
    return (text[digits] == 0 || strcmp(text + digits, "B") == 0) &&
           memchr(text, '.', digits) != NULL && parse_decimal(text, digits, &value);
}

bool mend_parse_bytes(const char *text, uint64_t *bytes)
{
    if (mend_is_fraction_of_bytes(text)) {
        return false;
    }
    size_t digits = strspn(text, "0123456789.");
    uint64_t unit = text[digits] == 0 ? 1 : 0;
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (strcmp(text + digits, units[i].name) == 0) {
            unit = units[i].bytes;
        }
    }
    long double value;
    if (unit == 0 || !parse_decimal(text, digits, &value)) {
        return false;
    }
    value = ceill(value * (long double)unit);
    if (value >= (long double)(UINT64_C(1) << 62)) {
        return false;
    }
    *bytes = (uint64_t)value;
    return true;
}

const char *mend_parse_device_bytes(const char *text, uint64_t *bytes)
{
    uint64_t parsed;
    if (!mend_parse_bytes(text, &parsed) || parsed == 0) {
        return "not a size (bytes, or a number with KiB, MiB, GiB or TiB)";
    }
    if (parsed < 2 * MEND_MIB) {
        return "less than a page of 2 MiB; did you forget the unit?";
    }
    *bytes = parsed;
    return NULL;
}

bool mend_parse_capacity(const char *text, mend_capacity *capacity)
{
    mend_capacity parsed = {.kind = MEND_CAPACITY_UNLIMITED};
    size_t length = strlen(text);
    if (strcmp(text, "fit") == 0) {
        parsed.kind = MEND_CAPACITY_FIT;
    } else if (length > 1 && text[length - 1] == 'x') {
        long double factor;
        if (!parse_decimal(text, length - 1, &factor) || !(factor > 0) || factor > 1e6L) {
            return false;
        }
        parsed.kind = MEND_CAPACITY_FACTOR;
        parsed.factor = (double)factor;
    } else if (strcmp(text, "unlimited") != 0) {
        parsed.kind = MEND_CAPACITY_BYTES;
        if (!mend_parse_bytes(text, &parsed.bytes) || parsed.bytes == 0) {
            return false;
        }
    }
    *capacity = parsed;
    return true;
}

void mend_format_bytes(uint64_t bytes, char *text, size_t size)
{
    size_t unit = 0;
    while (unit + 1 < UNIT_COUNT && bytes < units[unit].bytes) {
        unit++;
    }
    if (units[unit].bytes == 1) {
        snprintf(text, size, "%llu B", (unsigned long long)bytes);
    } else {
        snprintf(text, size, "%.2f %s", (double)bytes / (double)units[unit].bytes,
                 units[unit].name);
    }
}
