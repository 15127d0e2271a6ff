/*
 * The interface of the heap: its life, and the calls of mend.h. layout/state.h has its state, the
 * invariants, and what each lock guards.
 */
#ifndef MEND_HEAP_HEAP_H
#define MEND_HEAP_HEAP_H

#include "ladder/ladder.h"
#include "move/locks.h"

/*
 * On failure nothing stays. The caller opened `device`, and closes it after mend_heap_destroy. The
 * heap must not be moved in memory afterwards. MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_heap_init(mend_heap *heap, const mend_driver *driver,
                           const mend_device_info *device, const mend_heap_config *config);

/*
 * Waits for the context, then unmaps, releases and frees everything. MEND_ERROR_CAPTURING: a
 * capture forbids the wait, and nothing changed. Otherwise the heap no longer exists, and the
 * result is the first refusal of the driver (heap/destroy.c). The caller holds no lock.
 */
mend_result mend_heap_destroy(mend_heap *heap);

/* The calls of mend.h with the same names, without checks of the arguments. The caller holds
 * `state`; the call may release it in between. A failure is noted (base/error.h). */
mend_result mend_heap_alloc(mend_heap *heap, uint64_t size_bytes, const mend_terms *terms,
                            mend_order order, const mend_helpers *helpers, uint64_t *address);

/* An allocation from the front cache, with the alignment that every block has. 0: the cache has no
 * such block, or the request is wrong; nothing changed, and mend_heap_alloc decides. */
uint64_t mend_heap_alloc_cached(mend_heap *heap, uint64_t requested_bytes, mend_stream stream);
mend_result mend_heap_free(mend_heap *heap, uint64_t address, mend_order order);

/* The block at its first address, live; NULL: there is none. mend_heap_free_found is mend_heap_free
 * of one that was found so, without releasing `state` in between. */
mend_span *mend_heap_find(mend_heap *heap, uint64_t address);
mend_result mend_heap_free_found(mend_heap *heap, mend_span *span, mend_order order);

/* The same; the memory stays with the group whose number is given. */
mend_result mend_heap_free_in_group(mend_heap *heap, uint64_t address, mend_order order,
                                    uint32_t group);
mend_result mend_heap_record_stream(mend_heap *heap, uint64_t address, mend_order order);

#endif
