/*
 * The interface of the heap: its life, the calls of mend.h, the users of blocks, and the fallback
 * chain. layout/state.h has its state, the invariants, and the data under each lock.
 */
#ifndef MEND_ALLOC_HEAP_H
#define MEND_ALLOC_HEAP_H

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
mend_result mend_heap_alloc(mend_heap *heap, uint64_t size_bytes, const mend_request *terms,
                            mend_order order, uint64_t *address);

/* The block at its first address, live. NULL: there is none. */
mend_span *mend_heap_find(const mend_heap *heap, uint64_t address);

/* mend_free by the long way. The memory stays with the graph pool whose number is given. 0: no
 * graph pool is named. */
mend_result mend_heap_free_in_graph_pool(mend_heap *heap, uint64_t address, mend_order order,
                                         uint32_t graph_pool);
/* graph pool 0: whichever takes the stream. */
mend_result mend_heap_record_stream(mend_heap *heap, uint64_t address, mend_order order,
                                    uint32_t graph_pool);

/* ---- block.c --------------------------------------------------------------------------------- */

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

/* Makes memory taken for a request a block. Needs a node of waits and an entry in the pointer map.
 */
void mend_block_hand_out(mend_heap *heap, const mend_request *request, mend_span *span);

/* Frees a block. No fence is recorded. The caller reserved nodes (mend_layout_reserve). */
void mend_block_let_go(mend_heap *heap, mend_span *span, mend_block_users users);

/* Stamps a live span for its declared users and the freeing stream. The caller reserved nodes. */
void mend_block_stamp(mend_heap *heap, mend_span *span, uint32_t freed_on);

/* Adds a user to a live span. It is stamped when the span is freed. Idempotent.
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_block_add_user(mend_heap *heap, mend_span *span, uint32_t user);

/* For a free whose users could not be found: the result, or MEND_OK where it must not fail. */
mend_result mend_block_go_without_users(const mend_heap *heap, mend_result result,
                                        mend_block_users *users);

/* Records useful fences: of the stream (or UNKNOWN), and of streams that may be destroyed unseen
 * and used memory freed since frees.of_users was so. Releases `state` in between. */
void mend_block_record_fences(mend_heap *heap, uint32_t stream, uint64_t of_users_before);

/* Frees a block whose users were found. The second one: that the cache cannot keep.
 * MEND_ERROR_OUT_OF_HOST_MEMORY: the block is still live. */
mend_result mend_block_free(mend_heap *heap, mend_span *span, mend_block_users users);
mend_result mend_block_free_into_runs(mend_heap *heap, mend_span *span, mend_block_users users);

/* Whether other streams are likely to request memory that one stream frees. */
static inline bool mend_block_wants_early_fence(const mend_heap *heap)
{
    return mend_streams_are_several(&heap->streams) && heap->frees.early_fences_left > 0;
}

/* Records a fence if enough bytes were freed on the stream. Calls the driver. */
void mend_block_record_early_fence(mend_heap *heap, uint32_t freed_on);

/* Events, for listeners. A block is live, and counted. It was freed in the order of a stream, or
 * MEND_NO_STREAM. A request ran out of memory, which is counted: the failure is just noted. */
void mend_events_alloc(mend_heap *heap, const mend_span *span, mend_service service);
void mend_events_free(mend_heap *heap, const mend_span *span, mend_stream stream);
void mend_events_refuse(mend_heap *heap, uint64_t size_bytes, mend_stream stream);

/* ---- pass.c ---------------------------------------------------------------------------------- */

/* Serves the request by an allocation of the driver's own. Releases `state` in between. After a
 * success the caller holds `grow`, too, and the pointer map has an entry to spare. */
mend_result mend_pass_alloc(mend_heap *heap, const mend_request *request, mend_span **span);

/* Releases a block to the driver, which no other thread frees meanwhile. Under both locks, but
 * `state` is released in between. Errors as mend_free: the driver still has it. */
mend_result mend_pass_give_back(mend_heap *heap, const mend_span *span, mend_order order);

/* MEND_OK, or MEND_ERROR_NOT_SUPPORTED: `call` would have a graph use such a block. */
mend_result mend_pass_check_order(mend_order order, const char *call);

/* ---- users.c --------------------------------------------------------------------------------- */

/* The stream of a handle, if that identifies it and no graph pool can take it. Or UNKNOWN. */
static inline uint32_t mend_users_known_stream(mend_heap *heap, mend_stream handle)
{
    mend_streams *streams = &heap->streams;
    return handle == streams->last_handle ||
                   (mend_streams_handle_suffices(streams, handle) && !streams->serves_graph_pools)
               ? mend_streams_lookup(streams, handle, 0)
               : MEND_STREAM_UNKNOWN;
}

/* Finds or registers a stream. Calls the driver if necessary. Errors of mend_streams_find. */
mend_result mend_users_learn_stream(mend_heap *heap, mend_stream stream, uint32_t graph_pool,
                                    uint32_t *index);
static inline mend_result mend_users_find_stream(mend_heap *heap, mend_stream stream,
                                                 uint32_t graph_pool, uint32_t *index)
{
    if (mend_streams_handle_suffices(&heap->streams, stream)) {
        *index = mend_streams_lookup(&heap->streams, stream, graph_pool);
        if (*index != MEND_STREAM_UNKNOWN) {
            return MEND_OK;
        }
    }
    return mend_users_learn_stream(heap, stream, graph_pool, index);
}

/* Records a fence for frees on a stream that the current call names, inside an open driver scope.
 * If the driver refuses, a later call records it, or a wait for the context covers the frees. */
void mend_users_record_fence(mend_heap *heap, uint32_t stream);

/* As mend_unregister_stream. The caller holds both locks. */
mend_result mend_users_unregister_stream(mend_heap *heap, mend_stream stream);

/* Registers the stream of a request and finds its graph pool. A request without a stream has none,
 * and gets only idle memory. Errors of mend_streams_find. */
mend_result mend_requester_find(mend_heap *heap, mend_request *request);

/* The stream that this finds without the driver, as it does for almost all, or UNKNOWN. */
static inline uint32_t mend_requester_known(mend_heap *heap, const mend_request *request)
{
    const bool is_usual = request->owner == 0 && request->capture == 0;
    return is_usual ? mend_users_known_stream(heap, request->handle) : MEND_STREAM_UNKNOWN;
}

/* The stream of an order, in a graph pool (0: none). The graph pools of the stream watch it from
 * now on. Errors of mend_streams_find. */
mend_result mend_requester_find_stream(mend_heap *heap, mend_order order, uint32_t graph_pool,
                                       uint32_t *index);

/* The graph pool for allocations in this order: begun by the program, or of the capture. 0: none.
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_requester_find_graph_pool(mend_heap *heap, mend_order order, uint32_t *graph_pool);

struct mend_graph_pool {
    mend_list link;  /* of all graph pools of the heap. Begun ones first, the latest before the
                      * others */
    mend_pool *pool; /* for the calls of mend.h. NULL: a graph pool of a capture */
    uint32_t number; /* from 1 */
    bool is_begun;
    mend_watch watch; /* of its stream, or MEND_EVERY_STREAM. While it is begun, until the stream is
                       * unregistered */

    /* Only for a graph pool of a capture, which the pool made (users.c). */
    uint64_t capture;             /* id. 0: the program's own graph pool */
    struct mend_capture_end *end; /* set when the graph has ended */
};

/* Without the lock this may miss a graph pool that another thread begins at this moment. */
static inline bool mend_heap_has_begun_graph_pools(const mend_heap *heap)
{
    return atomic_load_explicit(&heap->graph_pools.begun_count, memory_order_relaxed) > 0;
}

/* The caller allocated the graph pool with malloc. */
void mend_graph_pool_enter(mend_heap *heap, mend_graph_pool *graph_pool, mend_pool *pool);

/* The number of the graph pool that a live block was allocated in. 0: none. A stream of a graph
 * pool that was only declared for the block (mend_record_stream) does not count. */
uint32_t mend_graph_pool_number_of(const mend_heap *heap, const mend_span *span);

/* The program's graph pool with this number. NULL: none, or the graph pool of a capture. */
mend_graph_pool *mend_graph_pool_numbered(const mend_heap *heap, uint32_t number);

/* The caller checked that this changes the state. */
void mend_graph_pool_set_begun(mend_heap *heap, mend_graph_pool *graph_pool, mend_stream stream,
                               bool is_begun);

/* Removes the graph pool from the list. Its memory was released, or is released with the heap. */
void mend_graph_pool_drop(mend_heap *heap, mend_graph_pool *graph_pool);

/* All begun graph pools of the stream watch it, even if an earlier one of its handle ended. */
void mend_graph_pool_watch_again(mend_heap *heap, mend_stream stream);

/* Releases the graph pools whose graphs have ended. Does not call the driver. */
void mend_capture_graph_pools_collect_all(mend_heap *heap);
static inline void mend_capture_graph_pools_collect(mend_heap *heap)
{
    if (heap->graph_pools.capture_count > 0) {
        mend_capture_graph_pools_collect_all(heap);
    }
}

/* Frees all graph pools, of a heap that has ended. Ends of graphs are then ignored. */
void mend_graph_pools_free(mend_heap *heap);

/* Ends a sequence of tries with the first that came to anything. */
#define MEND_TRY_NEXT(step)                                                                        \
    do {                                                                                           \
        const mend_outcome tried = (step);                                                         \
        if (tried != MEND_NOTHING) {                                                               \
            return tried;                                                                          \
        }                                                                                          \
    } while (0)

/* ---- trim.c ---------------------------------------------------------------------------------- */

/* The caller holds both locks. No driver scope is open. Errors as the calls of mend.h. */

/* As mend_trim. `waits`: MEND_TRIM_WAIT. */
mend_result mend_fallback_trim(mend_heap *heap, uint64_t keep_bytes, bool waits,
                               uint64_t *released_bytes);

/* For another pool of the device: releases about so much idle memory, with `waits` also memory that
 * waits for work. `is_captured`: records no event of the context. True if it released any. */
bool mend_fallback_give_back(mend_heap *heap, uint64_t bytes, bool waits, bool is_captured);

/* Releases chunks unused for `unused_ns` (0: none), then idle ones until others got `wants_bytes`
 * and the pool is below its soft limit. `keep_bytes` stay. Waits for nothing. *released_bytes is
 * right even after an error. */
mend_result mend_fallback_collect(mend_heap *heap, uint64_t unused_ns, uint64_t wants_bytes,
                                  uint64_t keep_bytes, uint64_t *released_bytes);

/* A safe point: all work of the context is done, and the program launches none until the call ends.
 * Waits for the context, restores mappings of live blocks, and with `gives_back` releases all
 * memory that waited for the work. The caller holds both locks, and a driver scope is open.
 * MEND_ERROR_CAPTURING: the pool knows of a capture; MEND_ERROR_OUT_OF_HOST_MEMORY,
 * MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_safe_point_begin(mend_heap *heap, bool gives_back);

/* ---- fallback.c ------------------------------------------------------------------------------ */

/* A call that needs memory. */
typedef struct mend_seek {
    mend_heap *heap;
    mend_outcome (*attempt)(struct mend_seek *seek); /* the caller holds `state`, as afterwards */
    uint64_t needed_bytes;  /* the argument of callbacks. An attempt may set this and the next
                             * two */
    uint64_t lacking_bytes; /* others are asked for so much. 0: that would not help. UINT64_MAX:
                             * all */
    bool is_captured;       /* a capture forbids waits */
    bool may_wait;          /* the attempt may stall the CPU */
} mend_seek;

/* Attempts until the call succeeds. `is_helped`: others may release some before CPU stalls. */
mend_outcome mend_seek_room(mend_seek *seek, bool is_helped);

/* The heap does not know pools: these functions of the pool (mend_heap_config.helpers) can give
 * memory back besides. Each is called with `state` alone, and releases it in between. */
typedef struct mend_helpers {
    /* Whether there are callbacks that may be called in this thread. */
    bool (*has_callbacks)(mend_heap *heap);

    /* Other pools of the device, and other processes, release the missing bytes if they can.
     * Whether any did. */
    bool (*trim_others)(const mend_seek *seek);

    /* Calls the callbacks in order, and attempts again after each that freed memory. */
    mend_outcome (*call_back)(mend_seek *seek);
} mend_helpers;

/* Places the request, or commits the pages of a range. Then *span is NULL. The caller holds
 * `state`, which is released if no free mapped memory fits. Afterwards the pointer map has an entry
 * to spare for the block. Fills in the stream and the graph pool of the request. On failure no page
 * is committed that was not. Errors as mend_alloc. */
mend_result mend_fallback_run(mend_heap *heap, mend_request *request, mend_span **span);

/* ---- place.c --------------------------------------------------------------------------------- */

/* The caller holds `state`. Where the driver may be called, also `grow`, a driver scope is open,
 * and `state` is released in between. */

/* Best fit among the free runs that the stream may use now. No driver call unless behind_wait.
 * PLACED, NOTHING, FAILED. With behind_wait also AGAIN. */
mend_outcome mend_place_mapped(mend_heap *heap, const mend_request *request, mend_span **span);

/* Tries all ways, the cheapest first. NOTHING: heap->shortage has the missing bytes. Calls the
 * driver. */
mend_outcome mend_place(mend_heap *heap, const mend_request *request, mend_span **span);

/* If no other plan serves it, the block begins beside memory that the stream may not use. One try,
 * as above. With behind_wait also AGAIN. */
mend_outcome mend_place_behind(mend_heap *heap, const mend_request *request, mend_span **span);

typedef mend_outcome mend_place_try(mend_heap *heap, const mend_request *request, mend_span **span);

/* Takes the first stretch of any run that holds the request, also beside memory that the stream may
 * not use: looks at every free span. No driver call. */
mend_outcome mend_place_in_stretch(mend_heap *heap, const mend_request *request, mend_span **span);

/* ---- report.c -------------------------------------------------------------------------------- */

/* Free memory that captured graphs may still use. The caller holds `state`. */
uint64_t mend_report_graph_pool_bytes(const mend_heap *heap);

/* Whether the request would be above the limit even if all free memory were joined. */
bool mend_report_is_hopeless(const mend_heap *heap, const mend_request *request);

/* Why a request cannot use memory: a wait would end that, or its chunk is pinned. */
enum {
    MEND_BLOCKED_BY_WORK = MEND_BLOCKED_BY_STREAMS | MEND_BLOCKED_UNTIL_WAIT,
    MEND_BLOCKED_BY_PINS = MEND_BLOCKED_BY_ANY + 1
};

/* Whether a request that ran out would succeed without these reasons, as one of this stream. */
bool mend_report_would_fit(const mend_heap *heap, const mend_request *request, uint32_t stream,
                           unsigned holds);

/* Notes the report as the failure, MEND_ERROR_OUT_OF_MEMORY. `is_captured`: a capture in progress
 * forbids waits. The caller holds both locks. No driver call. O(runs + chunks). */
mend_result mend_report_out_of_memory(mend_heap *heap, const mend_request *request,
                                      bool is_captured);

/* As mend_get_available: fills all fields except struct_size. The caller holds both locks. Calls
 * the driver. */
mend_result mend_fallback_get_available(mend_heap *heap, mend_order order,
                                        mend_available *available);

/* ---- streams.c ------------------------------------------------------------------------------- */

/* Records and polls fences of other streams. The caller holds both locks, and a driver scope is
 * open. */
mend_result mend_fallback_ask_others(mend_heap *heap, const mend_request *request);

/* Before memory is released: records fences of all streams, and for memory freed without a stream,
 * unless a known capture forbids it. The next poll finds passed fences. */
mend_result mend_fallback_close_all(mend_heap *heap, bool is_captured);

/* Asks the driver whether the work has ended that keeps memory pending (layout/usage.c). Nothing
 * while another thread holds `grow`. */
void mend_fallback_look_for_ends(mend_heap *heap);

/* Whether much memory waits for an event of the context that is not recorded. */
bool mend_fallback_lacks_context_event(const mend_heap *heap);

/* Whether growth would only delay a necessary wait: too much freed memory waits for the context's
 * event or a CPU stall. */
bool mend_fallback_awaits_much(const mend_heap *heap, const mend_request *request);

/* Whether the host makes that wait: the request has no stream that can wait on the device. */
bool mend_fallback_waits_on_host(const mend_heap *heap, const mend_request *request);

/* Makes the request's stream wait on the device, for fences of others up to this order, and tries
 * memory that they freed. NOTHING if it must not wait. */
mend_outcome mend_fallback_behind_device_waits(mend_heap *heap, const mend_request *request,
                                               uint64_t order, mend_place_try *try_place,
                                               mend_span **span);

/* If the pool would exceed growth_percent, and other streams have freed the missing bytes: places
 * the request in their oldest freed memory, behind waits on the device. NOTHING: it grows. */
mend_outcome mend_fallback_place_before_growth(mend_heap *heap, const mend_request *request,
                                               mend_span **span);

/* Where much freed memory waits: places it in existing memory, behind waits on the device. If the
 * host must wait instead, it does, unless a capture forbids that, and nothing is placed yet. */
mend_outcome mend_fallback_place_without_growth(mend_heap *heap, const mend_request *request,
                                                mend_span **span);

#endif
