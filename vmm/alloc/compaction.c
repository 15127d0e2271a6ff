/*
 * A safe point: all work of the context is done, and the program launches none until the call ends.
 * Sleeps and moves of memory begin with one, and a pass of compactions (mend_compact).
 */
#include "alloc/fallback.h"

#include <stdlib.h>

#include "alloc/users.h"
#include "map/map.h"

mend_result mend_safe_point_begin(mend_heap *heap, uint32_t asking, bool gives_back)
{
    mend_result result = mend_streams_wait_context(&heap->streams, asking);
    mend_capture_graph_pools_collect(heap);
    MEND_TRY(result);
    MEND_TRY(mend_retry_restores(heap));
    if (gives_back) {
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        mend_retry(heap, MEND_DEFERRED_GRAPHS, MEND_STREAM_UNKNOWN);
    }
    return MEND_OK;
}

static mend_result begin(mend_heap *heap, uint32_t asking, const mend_compact_bounds *limits,
                         mend_compact_pass *pass)
{
    *pass = (mend_compact_pass){.heap = heap, .limits = *limits, .driver_calls = 1};
    pass->begun_ns = heap->driver->clock_ns(heap->driver);
    MEND_TRY(mend_safe_point_begin(heap, asking, false));
    mend_effective_limit_forget_refusal(heap);
    return mend_victims_find(pass) ? MEND_OK : mend_no_host_memory("a pass of compactions");
}

/* The gain of all compactions that fit into so much free memory, once the GPU is done. */
static uint64_t gained_within(mend_heap *heap, const mend_request *request, uint64_t room_bytes)
{
    const uint64_t least_bytes = request->in_one_chunk ? request->size_bytes : 0;
    const uint64_t most_bytes =
        request->pages != NULL ? request->pages->largest_page_bytes : UINT64_MAX;
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
        mend_compact_size size = {0};
        /* One of another size is released and created again, but not if others may still hold it.
         */
        if (((chunk->size_bytes >= least_bytes && chunk->size_bytes <= most_bytes) ||
             !chunk->memory.was_exported) &&
            mend_victims_may_gain(heap, chunk, MEND_BLOCKED_BY_GRAPH_POOLS)) {
            mend_victims_measure(heap, chunk, NULL, &size);
        }
        bytes += size.used_bytes <= room_bytes ? size.gained_bytes : 0;
    }
    return bytes;
}

bool mend_compact_would_serve(mend_heap *heap, const mend_request *request, uint64_t empty_bytes)
{
    const uint64_t limit_bytes = mend_budget_limit_of_chunks(heap);
    const uint64_t reserved_bytes = heap->chunks.reserved_bytes;
    if (request->graph_pool != 0 || heap->chunks.missing_count > 0 ||
        limit_bytes < reserved_bytes) {
        return false;
    }
    const uint64_t now_bytes =
        empty_bytes + mend_align_down(limit_bytes - reserved_bytes, heap->device.granularity_bytes);
    uint64_t gained_bytes = 0;
    uint64_t before_bytes;
    do {
        before_bytes = gained_bytes;
        gained_bytes = gained_within(heap, request, now_bytes + before_bytes);
    } while (gained_bytes > before_bytes && now_bytes + gained_bytes < request->size_bytes);
    return now_bytes + gained_bytes >= request->size_bytes;
}

/* One compaction: of the candidate that copies least for each gained byte. At most `need_bytes` of
 * the gain count. *compacted is false if no candidate is left within the limits. */
static mend_result compact_next(mend_compact_pass *pass, uint64_t need_bytes, bool *compacted)
{
    const mend_driver *driver = pass->heap->driver;
    bool was_refused = false; /* memory for a chunk was refused */
    *compacted = false;
    for (;;) {
        mend_chunk *chunk =
            mend_victims_choose(pass, need_bytes, driver->clock_ns(driver) - pass->begun_ns);
        if (chunk == NULL) {
            bool is_done = pass->stop == MEND_COMPACT_DONE;
            pass->stop = is_done && was_refused ? MEND_COMPACT_NO_ROOM : pass->stop;
            return MEND_OK;
        }
        assert(chunk->live_bytes > 0);
        mend_result result = mend_compact_chunk(pass, chunk);
        if (result != MEND_ERROR_OUT_OF_MEMORY) {
            *compacted = result == MEND_OK;
            return result;
        }
        was_refused = true;
    }
}

mend_result mend_fallback_compact(mend_heap *heap, const mend_compact_limits *limits,
                                  mend_compact_report *report)
{
    mend_events_begin_call(&heap->events, MEND_CAUSE_COMPACT);
    mend_driver_scope scope;
    MEND_TRY(mend_enter(heap, &scope));
    mend_compact_pass pass;
    mend_compact_bounds bounds = {.copied_bytes = limits->copied_bytes,
                                  .driver_calls = limits->driver_calls,
                                  .duration_ns = limits->duration_ns};
    mend_result result = begin(heap, MEND_STREAM_UNKNOWN, &bounds, &pass);
    const uint64_t wanted_bytes = limits->gained_bytes != 0 ? limits->gained_bytes : UINT64_MAX;
    bool compacted = true;
    while (result == MEND_OK && compacted && pass.gained_bytes < wanted_bytes) {
        result = compact_next(&pass, wanted_bytes - pass.gained_bytes, &compacted);
    }
    if (pass.gained_bytes >= wanted_bytes) {
        pass.stop = MEND_COMPACT_GAINED;
    }
    free(pass.candidates);
    mend_driver_scope_close(heap, &scope);
    if (result == MEND_OK) {
        report->stop = pass.stop;
        report->gained_bytes = pass.gained_bytes;
        report->copied_bytes = pass.copied_bytes;
        report->compactions = pass.compactions;
        report->driver_calls = pass.driver_calls;
        report->free_empty_bytes = mend_chunks_empty_bytes(&heap->chunks);
    }
    return result;
}
