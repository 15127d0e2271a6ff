/*
 * Files for contents that sleep: without a name, so that they end with the process. Reading and
 * writing release `state`.
 */
#ifndef MEND_SLEEP_FILE_H
#define MEND_SLEEP_FILE_H

#include "layout/state.h"

typedef struct mend_kept_file {
    int descriptor;
    uint64_t size_bytes;
    uint64_t uses; /* chunks that have bytes in it, and the call that writes it */
} mend_kept_file;

/* Makes an empty file in a directory, with one use. MEND_ERROR_SYSTEM,
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_sleep_file_open(const char *directory, mend_kept_file **file);

/* Ends one use; the last one closes the file. NULL does nothing. */
void mend_sleep_file_leave(mend_kept_file *file);

/* Takes space of the disk for more bytes at the end. MEND_ERROR_SYSTEM. */
mend_result mend_sleep_file_extend(mend_kept_file *file, uint64_t size_bytes);

/* MEND_ERROR_SYSTEM. */
mend_result mend_sleep_file_write(mend_heap *heap, const mend_kept_file *file, const void *bytes,
                                  uint64_t size_bytes, uint64_t at);
mend_result mend_sleep_file_read(mend_heap *heap, const mend_kept_file *file, void *bytes,
                                 uint64_t size_bytes, uint64_t at);

#endif
