/* Compaction: joins free memory at a safe point, one chunk after the other. */
#include <stdlib.h>

#include "alloc/heap.h"
#include "pool/pool.h"

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

static mend_result compact(mend_heap *heap, const mend_compact_limits *limits,
                           mend_compact_report *report)
{
    mend_events_begin_call(&heap->events, MEND_CAUSE_COMPACT);
    mend_driver_scope scope;
    MEND_TRY(mend_enter(heap, &scope));
    mend_compact_pass pass = {.heap = heap,
                              .limits = *limits,
                              .driver_calls = 1,
                              .begun_ns = heap->driver->clock_ns(heap->driver)};
    mend_result result = mend_safe_point_begin(heap, MEND_STREAM_UNKNOWN, false);
    if (result == MEND_OK) {
        mend_effective_limit_forget_refusal(heap);
        result = mend_victims_find(&pass) ? MEND_OK : mend_no_host_memory("a pass of compactions");
    }
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

mend_result mend_compact(mend_pool *pool, const mend_compact_limits *given,
                         mend_compact_report *report)
{
    mend_compact_limits limits = MEND_COMPACT_LIMITS_INIT;
    mend_compact_report all = MEND_COMPACT_REPORT_INIT;
    MEND_TRY(mend_pool_check_struct(report, "MEND_COMPACT_REPORT_INIT"));
    MEND_TRY(mend_pool_read_struct(given, "MEND_COMPACT_LIMITS_INIT", &limits, sizeof(limits)));
    MEND_INVALID_IF(pool == NULL, "mend_compact: pool is NULL");
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all_with(pool, compact(&pool->heap, &limits, &all), report, &all,
                                    sizeof(all));
}
