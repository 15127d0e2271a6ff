/* A pass of swaps: on behalf of a program that asks for it (mend_defrag), or of a request that has
 * found no room where the program declared that its allocations are quiet points. */
#include <stdlib.h>

#include "base/error.h"
#include "base/process.h"
#include "heap/attainable.h"
#include "heap/capture_group.h"
#include "heap/door.h"
#include "heap/heap.h"
#include "heap/plan.h"
#include "heap/swap.h"
#include "heap/trim.h"
#include "physical/fence.h"

/* No more than this part of the limit is kept to copy to. */
enum { KEPT_PARTS_OF_LIMIT = 16 };

mend_result mend_swap_begin(mend_heap *heap, uint32_t asking, const mend_swap_limits *limits,
                            mend_swap_pass *pass)
{
    *pass = (mend_swap_pass){.heap = heap, .limits = *limits, .driver_calls = 1};
    pass->begun_ns = heap->driver->clock_ns(heap->driver);
    mend_result result = mend_streams_wait_context(&heap->streams, asking);
    mend_capture_groups_collect(heap);
    if (result == MEND_OK) {
        result = mend_swap_restore(heap);
    }
    if (result == MEND_OK && !mend_swap_find_candidates(pass)) {
        result = mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a pass of swaps");
    }
    return result;
}

void mend_swap_end(mend_swap_pass *pass)
{
    free(pass->candidates);
}

static uint64_t largest_run(const mend_heap *heap)
{
    mend_tree_node *last = mend_tree_last(&heap->zones[MEND_ZONE_LARGE].runs_by_size);
    return last != NULL ? MEND_CONTAINER_OF(last, mend_run, by_size)->size_bytes : 0;
}

/* All that is wholly free, could be created or would be gained, behind the largest run. */
static uint64_t most_room(const mend_swap_pass *pass)
{
    const mend_heap *heap = pass->heap;
    uint64_t limit = mend_attainable_limit(heap);
    uint64_t used = heap->chunks.reserved_bytes - heap->chunks.whole_bytes;
    uint64_t bytes = largest_run(heap) + (limit > used ? limit - used : 0);
    for (size_t i = 0; i < pass->candidate_count; i++) {
        bytes += pass->candidates[i].size.gained_bytes;
    }
    return bytes;
}

mend_result mend_swap_begin_for(mend_heap *heap, const mend_request *request, mend_swap_pass *pass)
{
    *pass = (mend_swap_pass){.heap = heap};
    if (request->group != 0) {
        return MEND_ERROR_OUT_OF_MEMORY; /* of a graph that is captured */
    }
    mend_result result = mend_swap_begin(heap, request->stream, &(mend_swap_limits){0}, pass);
    if (result == MEND_ERROR_CAPTURING) {
        return MEND_ERROR_OUT_OF_MEMORY; /* nothing moves beside a capture */
    }
    bool may_help = result != MEND_OK || most_room(pass) >= request->size_bytes;
    return may_help ? result : MEND_ERROR_OUT_OF_MEMORY;
}

mend_result mend_swap_next(mend_swap_pass *pass, uint64_t need_bytes, bool *swapped)
{
    bool was_refused = false; /* memory, for one chunk or more */
    *swapped = false;
    for (;;) {
        mend_chunk *chunk = mend_swap_choose(pass, need_bytes);
        if (chunk == NULL) {
            bool is_done = pass->stop == MEND_DEFRAG_DONE;
            pass->stop = is_done && was_refused ? MEND_DEFRAG_NO_ROOM : pass->stop;
            return MEND_OK;
        }
        mend_result result = mend_swap_chunk(pass, chunk);
        if (result != MEND_ERROR_OUT_OF_MEMORY) {
            *swapped = result == MEND_OK;
            return result;
        }
        was_refused = true;
    }
}

uint64_t mend_swap_most_kept_bytes(const mend_heap *heap)
{
    uint64_t part = mend_align_down(heap->config.limit_bytes / KEPT_PARTS_OF_LIMIT,
                                    heap->device.granularity_bytes);
    return mend_min_u64(part, mend_plan_usual_chunk(heap, MEND_ZONE_LARGE));
}

void mend_swap_keep_room(mend_heap *heap)
{
    uint64_t released_bytes;
    uint64_t limit = mend_attainable_limit(heap);
    uint64_t kept = mend_swap_kept_bytes(heap);
    uint64_t most_bytes = limit > kept ? limit - kept : 0;
    if (heap->chunks.reserved_bytes > most_bytes) {
        mend_heap_trim_inside(heap, most_bytes, &released_bytes);
    }
}

/* Swaps until enough is gained, or the limits are met. */
static mend_result swap_all(mend_swap_pass *pass, uint64_t gained_bytes)
{
    bool swapped = true;
    mend_result result = MEND_OK;
    while (result == MEND_OK && swapped) {
        if (gained_bytes != 0 && pass->gained_bytes >= gained_bytes) {
            pass->stop = MEND_DEFRAG_GAINED;
            break;
        }
        uint64_t need_bytes = gained_bytes != 0 ? gained_bytes - pass->gained_bytes : UINT64_MAX;
        result = mend_swap_next(pass, need_bytes, &swapped);
    }
    return result;
}

mend_result mend_heap_defrag(mend_heap *heap, const mend_defrag_limits *limits,
                             mend_defrag_report *report)
{
    mend_door door;
    mend_result result = mend_heap_open_door(heap, &door);
    if (result != MEND_OK) {
        return result;
    }
    mend_swap_pass pass;
    mend_thread_error error_before;
    mend_process_keep_error(&error_before);
    mend_swap_limits bounds = {limits->copied_bytes, limits->driver_calls, limits->duration_ns};
    result = mend_swap_begin(heap, MEND_STREAM_UNKNOWN, &bounds, &pass);
    if (result == MEND_OK) {
        result = swap_all(&pass, limits->gained_bytes);
    }
    mend_swap_end(&pass);
    mend_heap_close_door(heap, &door);
    if (result == MEND_OK) {
        mend_process_put_error_back(&error_before); /* a chunk left as it is, for want of memory */
        report->stop = pass.stop;
        report->gained_bytes = pass.gained_bytes;
        report->copied_bytes = pass.copied_bytes;
        report->swaps = pass.swaps;
        report->driver_calls = pass.driver_calls;
        report->free_whole_bytes = heap->chunks.whole_bytes;
    }
    return result;
}
