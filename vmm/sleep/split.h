/*
 * Chunks that hold blocks which are to sleep beside blocks which stay awake: split at pages, so
 * that the first can sleep. Each becomes chunks that hold nothing of what stays awake, and chunks
 * between, all with their contents (move/exchange.h). Best effort: a chunk for whose copy there is
 * no room, or that the driver refuses to split, stays as it is.
 *
 * The caller holds both locks, at a quiet point; a driver scope is open.
 */
#ifndef MEND_SLEEP_SPLIT_H
#define MEND_SLEEP_SPLIT_H

#include "sleep/keep.h"

typedef struct mend_splits {
    size_t count;          /* chunks that were split */
    uint64_t copied_bytes; /* for that */
    bool lacks_room;       /* for another one */
} mend_splits;

/* Splits those that can be; gives the pool's empty chunks back if they are in the way of a copy.
 * MEND_ERROR_DEVICE_LOST; MEND_ERROR_DRIVER: a chunk lacks its mapping. */
mend_result mend_sleep_split(mend_heap *heap, const mend_sleep_options *options,
                             mend_splits *splits);

#endif
