/*
 * The interface of the heap: its life, and the calls of mend.h. layout/state.h has its state, the
 * invariants, and the data under each lock.
 */
#ifndef MEND_ALLOC_HEAP_H
#define MEND_ALLOC_HEAP_H

#include <assert.h>

#include "alloc/fallback.h"
#include "layout/feature.h"
#include "layout/layout.h"
#include "layout/state.h"
#include "map/map.h"
#include "mend/mend.h"

/*
 * On failure nothing stays. The caller opened `device`, and closes it after mend_heap_destroy. The
 * heap must not be moved in memory afterwards. MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_heap_init(mend_heap *heap, const mend_driver *driver,
                           const mend_device_info *device, const mend_heap_config *config);

/*
 * Waits for the context, then unmaps, releases and frees everything. MEND_ERROR_CAPTURING: a
 * capture forbids the wait, and nothing changed. Otherwise the heap no longer exists, and the
 * result is the first refusal of the driver (alloc/life.c). The caller holds no lock.
 */
mend_result mend_heap_destroy(mend_heap *heap);

/* For features, as it ends: refused calls are tried once more, and noted. */
void mend_ending_unmap(mend_heap *heap, mend_ending *ending, uint64_t address, uint64_t size_bytes);
void mend_ending_release(mend_heap *heap, mend_ending *ending, mend_chunk_handle handle);

/* The calls of mend.h with the same names, without checks of the arguments. The caller holds
 * `state`. The call may release it in between. A failure is noted (base/error.h). */
mend_result mend_heap_alloc(mend_heap *heap, uint64_t size_bytes, const mend_terms *terms,
                            mend_order order, uint64_t *address);

/* The block at its first address, live. NULL: there is none. mend_heap_free_found is mend_heap_free
 * of one that was found so, without releasing `state` in between. */
mend_span *mend_heap_find(mend_heap *heap, uint64_t address);
mend_result mend_heap_free_found(mend_heap *heap, mend_span *span, mend_order order);

/* The same by the long way. The memory stays with the graph pool whose number is given. 0: no graph
 * pool is named. */
mend_result mend_heap_free_in_graph_pool(mend_heap *heap, uint64_t address, mend_order order,
                                         uint32_t graph_pool);
/* graph pool 0: whichever takes the stream. */
mend_result mend_heap_record_stream(mend_heap *heap, uint64_t address, mend_order order,
                                    uint32_t graph_pool);

/* ---- block.c --------------------------------------------------------------------------------- */

/* Functions that the fast calls (alloc/fast.h) share with the full ones. Guarded by the heap's
 * `state` lock.
 */

/* The streams that a use of a block counts for. `first` is the stream, inside a graph pool or
 * outside all. If a capture records the use, `second` is the stream outside all graph pools,
 * because its earlier work may still use the block. */
typedef struct mend_block_users {
    uint32_t first;
    uint32_t second; /* MEND_STREAM_UNKNOWN: none */
} mend_block_users;

/* The live block that contains an address. MEND_ERROR_FOREIGN_POINTER, MEND_ERROR_DOUBLE_FREE:
 * there is none. */
mend_result mend_block_around(const mend_heap *heap, uint64_t address, mend_span **span);

/* Finds the block at an address, and the streams whose use ends with a free in this order. In a
 * graph pool that the program names, or 0. May release `state`. Errors as mend_free. */
mend_result mend_block_find_to_free(mend_heap *heap, uint64_t address, mend_order order,
                                    uint32_t graph_pool, mend_span **span, mend_block_users *users);

/* Makes memory that was taken for a request a block. Needs a node of waits and an entry in the
 * pointer map. */
void mend_block_hand_out(mend_heap *heap, const mend_request *request, mend_span *span);

/* Frees a block. No fence is recorded. The caller reserved nodes (mend_layout_reserve). */
void mend_block_let_go(mend_heap *heap, mend_span *span, mend_block_users users);

/* Turns the declared users of a live span into stamps of now, and adds a stamp of the freeing
 * stream. The caller reserved nodes. */
void mend_block_stamp(mend_heap *heap, mend_span *span, uint32_t freed_on);

/* Adds a user to a live span. It is stamped when the span is freed. Idempotent.
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_block_add_user(mend_heap *heap, mend_span *span, uint32_t user);

/* For a free whose users could not be found: the result, or MEND_OK where it must not fail. *users
 * then makes the memory wait for all work of the context. */
mend_result mend_block_go_without_users(const mend_heap *heap, mend_result result,
                                        mend_block_users *users);

/* Records useful fences for frees: of the stream (or UNKNOWN), and of streams that may be destroyed
 * unseen and used memory that was freed since frees.of_users was so. Calls the driver, and releases
 * `state` in between. If the driver refuses, the frees still succeed. */
void mend_block_record_fences(mend_heap *heap, uint32_t stream, uint64_t of_users_before);

/* Frees a block that the cache cannot keep. MEND_ERROR_OUT_OF_HOST_MEMORY: the block is still
 * live. */
mend_result mend_block_free_into_runs(mend_heap *heap, mend_span *span, mend_block_users users);

/* Whether other streams are likely to request memory that one stream frees. */
static inline bool mend_block_wants_early_fence(const mend_heap *heap)
{
    return heap->frees.early_fences_left > 0 && mend_streams_are_several(&heap->streams);
}

/* Records a fence if enough bytes were freed on the stream. Calls the driver. */
void mend_block_record_early_fence(mend_heap *heap, uint32_t freed_on);

/* Events of requests, for listeners. The block is live, and counted. */
void mend_events_alloc(mend_heap *heap, const mend_span *span, mend_service service);

/* The block was freed in the order of a stream, or MEND_NO_STREAM. Its span describes it. */
void mend_events_free(mend_heap *heap, const mend_span *span, mend_stream stream);

/* A request for so many bytes ran out of memory: counts it, and adds an event. The failure is just
 * noted. */
void mend_events_refuse(mend_heap *heap, uint64_t size_bytes, mend_stream stream);

/* Frees a block that is passed through. The caller holds `state`, which is released in between.
 * MEND_ERROR_NOT_SUPPORTED: the stream is captured, or as mend_free. */
mend_result mend_block_free_passed(mend_heap *heap, uint64_t address, mend_order order);

/* Frees a block whose users were found: calls no driver that can refuse the free.
 * MEND_ERROR_OUT_OF_HOST_MEMORY: the block is still live. */
mend_result mend_block_free(mend_heap *heap, mend_span *span, mend_block_users users);

/* ---- pass.c ---------------------------------------------------------------------------------- */

/* Serves the request by an allocation of the driver's own, as memory for a block. The caller holds
 * `state`, which is released in between. After a success it holds `grow`, too, and the pointer map
 * has an entry to spare. Errors as mend_alloc. */
mend_result mend_pass_alloc(mend_heap *heap, const mend_request *request, mend_span **span);

/* Releases a block to the driver, which no other thread frees meanwhile. The caller holds both
 * locks. `state` is released in between. Errors as mend_free: the driver still has it. */
mend_result mend_pass_give_back(mend_heap *heap, const mend_span *span, mend_order order);

/* MEND_OK, or MEND_ERROR_NOT_SUPPORTED: `call` would have a graph use such a block. */
mend_result mend_pass_check_order(mend_order order, const char *call);

/* Releases all such blocks, which no work uses any more. The first refusal of the driver. */
mend_status mend_pass_end(mend_heap *heap);

#endif
