/* Compaction: joins free memory at a safe point, one chunk after the other. A chunk is measured
 * without the driver. A pass keeps the candidates and its limits. */
#include <stdlib.h>

#include "alloc/heap.h"
#include "exchange/exchange.h"
#include "pool/pool.h"

/* Driver calls of a compaction. For each cluster: create, map twice, copy, set_access, and unmap of
 * the scratch mapping and of the old place of its chunk. For all: map, set_access, wait, unmap. */
enum { CALLS_OF_CLUSTER = 7, CALLS_OF_COMPACT = 4 };

typedef struct candidate {
    uint64_t number; /* number of the chunk. 0: already tried */
    mend_compact_size size;
} candidate;

/* A pass over the heap: the candidates at its beginning, and the work done. */
typedef struct pass {
    mend_heap *heap;
    const mend_compact_limits *limits;
    uint64_t begun_ns;
    candidate *candidates;
    size_t candidate_count;
    mend_compact_report *report; /* stop: why nothing was chosen the last time */
} pass;

/* ---- which chunk is next --------------------------------------------------------------------- */

/* Lists all chunks from which a compaction would gain a page. False if malloc fails. */
static bool find(pass *p)
{
    mend_heap *heap = p->heap;
    p->candidates = calloc(heap->chunks.mapped.count + 1, sizeof(*p->candidates));
    if (p->candidates == NULL) {
        return false;
    }
    MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
        mend_compact_size size = {0};
        if (mend_victims_may_gain(heap, chunk, MEND_BLOCKED_BY_ANY)) {
            mend_victims_measure(heap, chunk, NULL, &size);
        }
        if (size.gained_bytes > 0) {
            assert(p->candidate_count < heap->chunks.mapped.count);
            p->candidates[p->candidate_count++] = (candidate){chunk->memory.number, size};
        }
    }
    return true;
}

/* Whether `a` copies fewer bytes for each byte that is gained and needed. */
static bool is_better(const mend_compact_size *a, const mend_compact_size *b, uint64_t need_bytes)
{
    uint64_t a_gain = mend_min_u64(a->gained_bytes, need_bytes) / MEND_GRANULE_BYTES;
    uint64_t b_gain = mend_min_u64(b->gained_bytes, need_bytes) / MEND_GRANULE_BYTES;
    uint64_t a_cost = a->copied_bytes / MEND_GRANULE_BYTES * b_gain;
    uint64_t b_cost = b->copied_bytes / MEND_GRANULE_BYTES * a_gain;
    return a_cost != b_cost ? a_cost < b_cost : a->gained_bytes > b->gained_bytes;
}

static bool is_above(uint64_t limit, uint64_t value)
{
    return limit != 0 && value > limit;
}

/* The reason against a compaction. DONE: none. */
static mend_compact_stop obstacle(const pass *p, const mend_compact_size *size)
{
    const mend_compact_limits *limits = p->limits;
    if (is_above(limits->copied_bytes, p->report->copied_bytes + size->copied_bytes)) {
        return MEND_COMPACT_BYTES;
    }
    if (is_above(limits->driver_calls,
                 p->report->driver_calls + CALLS_OF_COMPACT + CALLS_OF_CLUSTER * size->clusters)) {
        return MEND_COMPACT_CALLS;
    }
    /* Memory for the clusters outside of the chunk. */
    const mend_chunks *chunks = &p->heap->chunks;
    const uint64_t used_bytes = chunks->reserved_bytes - mend_chunks_empty_bytes(chunks);
    return used_bytes + size->used_bytes <= mend_budget_hard_limit(p->heap) ? MEND_COMPACT_DONE
                                                                            : MEND_COMPACT_NO_ROOM;
}

/* Chooses the best chunk within the limits that may still move, and marks it as tried. NULL: there
 * is none, and p->report->stop says why. */
static mend_chunk *choose(pass *p, uint64_t need_bytes)
{
    mend_heap *heap = p->heap;
    for (;;) {
        p->report->stop = MEND_COMPACT_DONE;
        const mend_driver *driver = heap->driver;
        if (is_above(p->limits->duration_ns, driver->clock_ns(driver) - p->begun_ns)) {
            p->report->stop = MEND_COMPACT_TIME;
            return NULL;
        }
        candidate *best = NULL;
        for (size_t i = 0; i < p->candidate_count; i++) {
            candidate *at = &p->candidates[i];
            if (at->number == 0) {
                continue;
            }
            const mend_compact_stop stop = obstacle(p, &at->size);
            if (stop != MEND_COMPACT_DONE) {
                p->report->stop = stop;
            } else if (best == NULL || is_better(&at->size, &best->size, need_bytes)) {
                best = at;
            }
        }
        if (best == NULL) {
            return NULL;
        }
        mend_chunk *chunk = mend_chunk_numbered(&heap->chunks, best->number);
        best->number = 0;
        if (chunk != NULL && mend_victims_may_gain(heap, chunk, MEND_BLOCKED_BY_ANY)) {
            return chunk; /* otherwise other threads changed the chunk meanwhile */
        }
    }
}

/* ---- a compaction, planned so that there is memory for the clusters -------------------------- */

static bool is_taken(const mend_cluster clusters[], size_t count, const mend_chunk *chunk)
{
    for (size_t i = 0; i < count; i++) {
        if (clusters[i].chunk == chunk) {
            return true;
        }
    }
    return false;
}

/* An idle empty chunk with exactly the size of a cluster that no cluster before it has. */
static mend_chunk *find_fitting(mend_heap *heap, const mend_cluster clusters[], size_t cluster)
{
    uint64_t size_bytes = clusters[cluster].size_bytes;
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, size_bytes, 0);
    for (; at != NULL && at->size_bytes == size_bytes; at = mend_chunk_empty_next(at)) {
        if (!is_taken(clusters, cluster, at) &&
            mend_layout_chunk_is_ready(heap, at, MEND_STREAM_UNKNOWN, 0)) {
            return at;
        }
    }
    return NULL;
}

/* Finds the clusters, and gives each an empty chunk of its size, if there is one. Releases empty
 * chunks if the others could not be created otherwise. */
static mend_result plan(mend_heap *heap, mend_chunk *chunk, mend_cluster clusters[],
                        mend_compact_size *size)
{
    const uint64_t number = chunk->memory.number;
    for (bool has_trimmed = false;; has_trimmed = true) {
        const uint64_t limit = mend_budget_hard_limit(heap);
        uint64_t missing_bytes = 0;
        uint64_t released_bytes;
        mend_victims_measure(heap, chunk, clusters, size);
        for (size_t i = 0; i < size->clusters; i++) {
            clusters[i].chunk = find_fitting(heap, clusters, i);
            missing_bytes += clusters[i].chunk == NULL ? clusters[i].size_bytes : 0;
        }
        if (missing_bytes <= limit - mend_min_u64(heap->chunks.reserved_bytes, limit)) {
            return MEND_OK;
        }
        if (has_trimmed) {
            return MEND_ERROR_OUT_OF_MEMORY;
        }
        const uint64_t keep_bytes = limit - mend_min_u64(size->used_bytes, limit);
        MEND_TRY(mend_trim_to(heap, keep_bytes, true, &released_bytes));
        if (mend_chunk_numbered(&heap->chunks, number) != chunk ||
            !mend_victims_may_gain(heap, chunk, MEND_BLOCKED_BY_ANY)) {
            return MEND_ERROR_OUT_OF_MEMORY; /* other threads changed it meanwhile */
        }
    }
}

/* Compacts one chunk, and counts it in the pass: it becomes the clusters of its live pages, by an
 * exchange of memory. MEND_ERROR_OUT_OF_MEMORY: there is no other memory to copy to. After
 * a failure of the driver some blocks may be unmapped. */
static mend_result compact_chunk(pass *p, mend_chunk *chunk)
{
    mend_heap *heap = p->heap;
    mend_compact_size size;
    mend_exchange_report done = {0};
    const uint64_t pages = chunk->size_bytes / heap->device.granularity_bytes;
    mend_cluster *clusters = calloc((size_t)pages, sizeof(*clusters));
    if (clusters == NULL) {
        return mend_no_host_memory("a compaction");
    }
    mend_result result = plan(heap, chunk, clusters, &size);
    if (result == MEND_OK) {
        result = mend_exchange_memory(heap, chunk, clusters, size.clusters, &done);
        p->report->driver_calls += done.driver_calls;
    }
    free(clusters);
    if (result == MEND_OK) {
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        p->report->compactions++;
        p->report->copied_bytes += done.copied_bytes;
        p->report->gained_bytes += size.gained_bytes;
        heap->counters.compactions++;
        heap->counters.copied_bytes += done.copied_bytes;
    }
    return result;
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* One compaction: of the candidate that copies least for each gained byte. At most `need_bytes` of
 * the gain count. *compacted is false if no candidate is left within the limits. */
static mend_result compact_next(pass *p, uint64_t need_bytes, bool *compacted)
{
    bool was_refused = false; /* memory for a chunk was refused */
    *compacted = false;
    for (;;) {
        mend_chunk *chunk = choose(p, need_bytes);
        if (chunk == NULL) {
            bool is_done = p->report->stop == MEND_COMPACT_DONE;
            p->report->stop = is_done && was_refused ? MEND_COMPACT_NO_ROOM : p->report->stop;
            return MEND_OK;
        }
        assert(chunk->live_bytes > 0);
        mend_result result = compact_chunk(p, chunk);
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
    pass p = {.heap = heap,
              .limits = limits,
              .report = report,
              .begun_ns = heap->driver->clock_ns(heap->driver)};
    report->driver_calls = 1;
    mend_result result = mend_safe_point_begin(heap, false);
    if (result == MEND_OK) {
        mend_effective_limit_forget_refusal(heap);
        result = find(&p) ? MEND_OK : mend_no_host_memory("a pass of compactions");
    }
    const uint64_t wanted_bytes = limits->gained_bytes != 0 ? limits->gained_bytes : UINT64_MAX;
    bool compacted = true;
    while (result == MEND_OK && compacted && report->gained_bytes < wanted_bytes) {
        result = compact_next(&p, wanted_bytes - report->gained_bytes, &compacted);
    }
    if (report->gained_bytes >= wanted_bytes) {
        report->stop = MEND_COMPACT_GAINED;
    }
    free(p.candidates);
    mend_driver_scope_close(heap, &scope);
    report->free_empty_bytes = mend_chunks_empty_bytes(&heap->chunks);
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
