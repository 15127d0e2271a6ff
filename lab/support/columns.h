/* Columns of numbers as text that a page unpacks with DecompressionStream: variable-length bytes,
 * compressed by zlib, in base64. */
#ifndef MEND_LAB_SUPPORT_COLUMNS_H
#define MEND_LAB_SUPPORT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mend_column {
    uint8_t *bytes;
    size_t count;
    size_t room;
    uint64_t last;     /* of values that are added as a difference */
    bool lacks_memory; /* malloc failed: the column is not whole */
} mend_column;

/* Seven bits a byte, the lowest first. The last byte has no top bit. */
void mend_column_add(mend_column *column, uint64_t value);

/* The difference to the one added before, modulo 2^64: 0, -1, 1, -2 and so on are 0, 1, 2, 3. */
void mend_column_add_change(mend_column *column, uint64_t value);

/* Writes the column in base64. False: no host memory. */
bool mend_column_write(const mend_column *column, FILE *out);

/* A column of zeros is an empty one. */
void mend_column_clear(mend_column *column);

#endif
