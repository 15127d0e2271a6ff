/*
 * The fallback chain: the steps that a request tries, from the cheapest to the most expensive,
 * until it is placed. All steps are in fallback.c, in order.
 *
 * The heap does not know pools: it has *helpers*, which can give memory back besides the heap
 * itself.
 */
#ifndef MEND_ALLOC_FALLBACK_H
#define MEND_ALLOC_FALLBACK_H

#include "layout/state.h"
#include "map/map.h"
#include "mend/mend.h"
#include "plan/policy.h"

/* ---- trim.c ---------------------------------------------------------------------------------- */

/* The caller holds both locks. No driver scope is open. Errors as the calls of mend.h. */

/* As mend_trim. `waits`: MEND_TRIM_WAIT. */
mend_result mend_fallback_trim(mend_heap *heap, uint64_t keep_bytes, bool waits,
                               uint64_t *released_bytes);

/* For another pool of the device: releases about so much idle memory, and with `waits` also memory
 * that waits for work. While `is_captured`, a pool of the device knows of a capture: records no
 * event of the context. True if it released any. */
bool mend_fallback_give_back(mend_heap *heap, uint64_t bytes, bool waits, bool is_captured);

/* Releases unused addresses, of destroyed ranges and of the pool. True if it released any. A driver
 * scope is open. */
bool mend_fallback_trim_addresses(mend_heap *heap, uint32_t asking);

/* As mend_set_limit. */
mend_result mend_fallback_set_limit(mend_heap *heap, uint64_t limit_bytes);

/* Releases chunks unused for `unused_ns` (0: none), then idle ones until others got `wants_bytes`
 * and the pool is below its soft limit. `keep_bytes` stay. Waits for nothing. The caller holds both
 * locks. Errors as mend_trim. *released_bytes is right even then. */
mend_result mend_fallback_collect(mend_heap *heap, uint64_t unused_ns, uint64_t wants_bytes,
                                  uint64_t keep_bytes, uint64_t *released_bytes);

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

/* ---- fallback.c ------------------------------------------------------------------------------ */

/* Functions of the pool for the fallback chain (mend_heap_config.helpers). Each function is called
 * with `state` held and the grow lock free, and releases `state` in between. */
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
 * is committed that was not. MEND_ERROR_OUT_OF_MEMORY (with a report),
 * MEND_ERROR_OUT_OF_ADDRESS_SPACE, MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_UNKNOWN_STREAM,
 * MEND_ERROR_CAPTURING, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_fallback_run(mend_heap *heap, mend_request *request, mend_span **span);

/* ---- compaction.c ---------------------------------------------------------------------------- */

/* The caller holds both locks. A driver scope is open, except for mend_fallback_compact. */

/* Waits for the context (`asking` is the stream of the current call), restores mappings of live
 * blocks, and with `gives_back` releases all memory that waited for the work. MEND_ERROR_CAPTURING:
 * the pool knows of a capture; MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST. */
mend_result mend_safe_point_begin(mend_heap *heap, uint32_t asking, bool gives_back);

/* Whether mend_compact would join enough for the request, once the GPU is done: `empty_bytes` of
 * empty chunks are there besides. Each compaction frees more than it needs, so their order does not
 * matter. No driver call. O(chunks + spans), a few times. */
bool mend_compact_would_serve(mend_heap *heap, const mend_request *request, uint64_t empty_bytes);

/* As mend_compact. */
mend_result mend_fallback_compact(mend_heap *heap, const mend_compact_limits *limits,
                                  mend_compact_report *report);

/* ---- place.c --------------------------------------------------------------------------------- */

/*
 * The caller holds `state`. If the driver may be called, the caller holds both locks, a driver
 * scope is open, and `state` is released in between.
 */

/* Best fit among the free runs that the stream may use now. No driver call unless behind_wait.
 * PLACED, NOTHING, FAILED. With behind_wait also AGAIN. */
mend_outcome mend_place_mapped(mend_heap *heap, const mend_request *request, mend_span **span);

/* Tries all ways, the cheapest first. Memory of other streams only as far as the request allows.
 * NOTHING: heap->shortage has the missing bytes. Calls the driver. */
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

/* Notes the report as the failure, from heap->shortage and the heap. `is_captured`: a capture in
 * progress forbids waits. The caller holds both locks. No driver call. O(runs + chunks).
 * MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_out_of_memory(mend_heap *heap, const mend_request *request,
                                      bool is_captured);

/* The same if there was memory, but no addresses to map it: old mappings may use the addresses of a
 * range. MEND_ERROR_OUT_OF_ADDRESS_SPACE. */
mend_result mend_report_out_of_addresses(const mend_heap *heap, const mend_request *request);

/* Fills all fields except struct_size, as an allocation on the stream would find the heap. The
 * caller holds both locks. Calls the driver. MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM),
 * MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST: *room is untouched. */
mend_result mend_fallback_get_available(mend_heap *heap, mend_order order,
                                        mend_available *available);

/* ---- streams.c ------------------------------------------------------------------------------- */

/* Records and polls fences of other streams, where there are several. As mend_fallback_refresh. */
mend_result mend_fallback_ask_others(mend_heap *heap, const mend_request *request);

/* Unmaps retired mappings, records and polls fences, as every run of the chain under the grow lock.
 * The caller holds both locks, and a driver scope is open. */
static inline mend_result mend_fallback_refresh(mend_heap *heap, const mend_request *request)
{
    mend_retire_flush(heap, request->stream);
    return mend_streams_are_several(&heap->streams) ? mend_fallback_ask_others(heap, request)
                                                    : MEND_OK;
}

/* Before memory is released: records fences of all streams, and for memory freed without a stream,
 * unless a known capture forbids it. The next poll finds passed fences. */
mend_result mend_fallback_close_all(mend_heap *heap, bool is_captured);

/* Asks the driver whether the work has ended that keeps memory pending (layout/usage.c). Nothing
 * while another thread holds `grow`. */
void mend_fallback_look_for_ends(mend_heap *heap);

/* Before a graph pool is begun, during which no event of the context may be recorded: records one
 * if much memory was freed without a stream. No request needs it, so nothing fails. The caller
 * holds `state` alone, which a driver call releases. */
void mend_fallback_close_before_graph_pool(mend_heap *heap);

/* Whether growth would only delay a necessary wait: too much freed memory waits for the context's
 * event or a CPU stall. */
bool mend_fallback_awaits_much(const mend_heap *heap, const mend_request *request);

/* Whether the host makes that wait: the request has no stream that can wait on the device. */
bool mend_fallback_waits_on_host(const mend_heap *heap, const mend_request *request);

/* Makes the request's stream wait for others, on the device, for fences up to this order, and tries
 * memory that they freed. NOTHING if it must not wait. Calls the driver. */
mend_outcome mend_fallback_behind_device_waits(mend_heap *heap, const mend_request *request,
                                               uint64_t order, mend_place_try *try_place,
                                               mend_span **span);

/* If the pool would exceed growth_percent, and other streams have freed the missing bytes: places
 * the request in their oldest freed memory, behind waits on the device. NOTHING: it grows. */
mend_outcome mend_fallback_place_before_growth(mend_heap *heap, const mend_request *request,
                                               mend_span **span);

/* Where much freed memory waits: places it in existing memory, behind waits on the device. If the
 * host must wait instead, it waits, unless a capture forbids it or the request cannot be served,
 * and nothing is placed yet. */
mend_outcome mend_fallback_place_without_growth(mend_heap *heap, const mend_request *request,
                                                mend_span **span);

/* ---- tell.c ---------------------------------------------------------------------------------- */

typedef struct mend_sentence {
    char text[MEND_MESSAGE_BYTES];
    size_t used;
} mend_sentence;

__attribute__((format(printf, 2, 3))) void mend_sentence_add(mend_sentence *s, const char *format,
                                                             ...);

/* Parts, which begin with a capital letter, are joined by semicolons. */
void mend_sentence_join(mend_sentence *s, const char *part);

/* Notes the out-of-memory report as the failure, with a message that is never cut off: numbers,
 * remedies, owners. `advice` follows the limit that would help. It may be "". `pages` may be NULL.
 * The owners are cut off before the rest is. MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_fail(const mend_heap *heap, const mend_oom_report *oom_report,
                             const char *advice, const mend_pages *pages);

#endif
