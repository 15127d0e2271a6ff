/*
 * The heap's face: its life, its locks, and the calls of mend.h. What it knows, its invariants and
 * what each lock guards stand in layout/state.h.
 */
#ifndef MEND_HEAP_HEAP_H
#define MEND_HEAP_HEAP_H

#include "ladder/ladder.h"
#include "move/locks.h"

/*
 * Takes over nothing on failure. `device` was opened by the caller, who closes it after destroy.
 * The heap must not move from then on. MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_heap_init(mend_heap *heap, const mend_driver *driver,
                           const mend_device_info *device, const mend_heap_config *config);

/*
 * Waits for the context, unmaps, releases and frees everything. MEND_ERROR_CAPTURING: a capture
 * forbids it, nothing changed. Otherwise the heap is gone, and the first refusal of the driver is
 * returned (heap/destroy.c). Without locks.
 */
mend_result mend_heap_destroy(mend_heap *heap);

/* The calls of mend.h by the same names, without the checks of arguments. `state` is held by the
 * caller; the call may let go of it in between. A failure is noted (base/error.h). */
mend_result mend_heap_alloc(mend_heap *heap, uint64_t size_bytes, uint64_t alignment_bytes,
                            mend_order order, const mend_helpers *helpers, uint64_t *address);

/* An allocation that the front cache serves, with an alignment that every block has. 0: it does
 * not, nothing changed; whatever is wrong with the request mend_heap_alloc says. */
uint64_t mend_heap_alloc_cached(mend_heap *heap, uint64_t requested_bytes, mend_stream stream);
mend_result mend_heap_free(mend_heap *heap, uint64_t address, mend_order order);
mend_result mend_heap_record_stream(mend_heap *heap, uint64_t address, mend_order order);

#endif
