/* The state before the first event of a snapshot of PyTorch: it keeps the last events only, and the
 * state at the end. */
#ifndef MEND_LAB_TRACE_BEFORE_H
#define MEND_LAB_TRACE_BEFORE_H

#include "lab/support/values.h"
#include "lab/trace/detail.h"

/* Adds the segments that the allocator held before the events of a device: the segments of the end,
 * with the events walked back. */
void mend_trace_add_held_before(mend_value snapshot, size_t device, mend_value events,
                                mend_trace_detail *detail);

/* A block that was live before the events. */
typedef struct mend_trace_old_block {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t stream;
    mend_value frames; /* absent: it has no stack */
} mend_trace_old_block;

/*
 * Calls `take` for each of them, once: those whose first event is their free, in the order of the
 * frees, and those at the end that no event names. False: malloc failed, or `take` returned false.
 */
typedef bool (*mend_trace_take_old)(void *context, const mend_trace_old_block *block);
bool mend_trace_find_old_blocks(mend_value snapshot, size_t device, mend_value events,
                                uint64_t salt, mend_trace_take_old take, void *context);

#endif
