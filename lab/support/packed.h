/*
 * The bytes of a file, plain or compressed by gzip (one or more members, and nothing after them).
 */
#ifndef MEND_LAB_SUPPORT_PACKED_H
#define MEND_LAB_SUPPORT_PACKED_H

#include <stddef.h>

#include "mend/mend.h"

typedef struct mend_packed_file mend_packed_file;

/* MEND_OK; MEND_ERROR_INVALID_ARGUMENT, with the reason in errno; MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_packed_open(const char *path, mend_packed_file **file);

/* Reads at most `size` bytes. *count is 0 at the end. Returns NULL, or the reason for a failure,
 * which is valid as long as the file. */
const char *mend_packed_read(mend_packed_file *file, char *bytes, size_t size, size_t *count);

/* NULL does nothing. */
void mend_packed_close(mend_packed_file *file);

#endif
