/* Sizes of memory as text: bytes, 16GiB, and capacities relative to a trace. */
#ifndef MEND_LAB_SUPPORT_CAPACITY_H
#define MEND_LAB_SUPPORT_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mend_capacity_kind {
    MEND_CAPACITY_UNLIMITED,
    MEND_CAPACITY_BYTES,
    MEND_CAPACITY_FACTOR, /* a multiple of the trace's peak live bytes */
    MEND_CAPACITY_FIT     /* search for the smallest capacity that is enough */
} mend_capacity_kind;

typedef struct mend_capacity {
    mend_capacity_kind kind;
    uint64_t bytes;
    double factor;
} mend_capacity;

/* "4096", "1.5MiB" (B, KiB, MiB, GiB, TiB), rounded up to full bytes. False for anything else, and
 * *bytes is untouched: a sign, a fraction of a byte without a larger unit, an unknown unit, 2^62
 * bytes or more. */
bool mend_parse_bytes(const char *text, uint64_t *bytes);

/* The size of a device, or of a part: a page of 2 MiB or more. NULL, or why it is none. */
const char *mend_parse_device_bytes(const char *text, uint64_t *bytes);

/* Whether it is an amount with a fraction of a byte: "1.05", "1.5B". */
bool mend_is_fraction_of_bytes(const char *text);

/* "1.05x", "unlimited", "fit", or bytes as above but not 0. */
bool mend_parse_capacity(const char *text, mend_capacity *capacity);

/* "5.2 GiB" */
void mend_format_bytes(uint64_t bytes, char *text, size_t size);

#endif
