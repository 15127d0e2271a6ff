/*
 * A compaction is an exchange of memory (map/map.h): planned here, so that there is memory for
 * the clusters.
 */
#include "map/map.h"

#include <stdlib.h>

typedef struct compaction {
    mend_heap *heap;
    mend_chunk *chunk;
    mend_cluster *clusters;
    mend_compact_size size;
} compaction;

/* Includes the reserve that requests leave free for this. */
static uint64_t room_under_limit(const mend_heap *heap)
{
    const uint64_t limit = mend_budget_hard_limit(heap);
    return limit - mend_min_u64(heap->chunks.reserved_bytes, limit);
}

static bool is_taken(const compaction *s, size_t cluster_count, const mend_chunk *chunk)
{
    assert(cluster_count <= s->size.clusters);
    for (size_t i = 0; i < cluster_count; i++) {
        if (s->clusters[i].chunk == chunk) {
            return true;
        }
    }
    return false;
}

/* An idle empty chunk with exactly the size of a cluster that no other cluster has. */
static mend_chunk *find_fitting(compaction *s, size_t cluster)
{
    mend_heap *heap = s->heap;
    uint64_t size_bytes = s->clusters[cluster].size_bytes;
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, size_bytes, 0);
    for (; at != NULL && at->size_bytes == size_bytes; at = mend_chunk_empty_next(at)) {
        if (!is_taken(s, cluster, at) &&
            mend_layout_chunk_is_ready(heap, at, MEND_STREAM_UNKNOWN, 0)) {
            return at;
        }
    }
    return NULL;
}

/* Gives each cluster an empty chunk of its size, if there is one. Returns the bytes to create. */
static uint64_t pick_chunks(compaction *s)
{
    uint64_t missing_bytes = 0;
    for (size_t i = 0; i < s->size.clusters; i++) {
        s->clusters[i].chunk = find_fitting(s, i);
        missing_bytes += s->clusters[i].chunk == NULL ? s->clusters[i].size_bytes : 0;
    }
    return missing_bytes;
}

static mend_result measure(compaction *s)
{
    mend_heap *heap = s->heap;
    const uint64_t pages = s->chunk->size_bytes / heap->device.granularity_bytes;
    free(s->clusters);
    s->clusters = calloc((size_t)pages, sizeof(*s->clusters));
    if (s->clusters == NULL) {
        return mend_no_host_memory("a compaction");
    }
    mend_victims_measure(heap, s->chunk, s->clusters, &s->size);
    return MEND_OK;
}

/* Releases empty chunks if the clusters could not be created otherwise. */
static mend_result plan(compaction *s)
{
    mend_heap *heap = s->heap;
    MEND_TRY(measure(s));
    if (pick_chunks(s) <= room_under_limit(heap)) {
        return MEND_OK;
    }
    uint64_t released_bytes;
    uint64_t number = s->chunk->memory.number;
    uint64_t limit = mend_budget_hard_limit(heap);
    uint64_t used = s->size.used_bytes;
    MEND_TRY(mend_trim_to(heap, limit > used ? limit - used : 0, true, &released_bytes));
    if (mend_chunk_numbered(&heap->chunks, number) != s->chunk ||
        !mend_victims_may_gain(heap, s->chunk, MEND_BLOCKED_BY_ANY)) {
        return MEND_ERROR_OUT_OF_MEMORY; /* other threads changed it meanwhile */
    }
    MEND_TRY(measure(s));
    return pick_chunks(s) <= room_under_limit(heap) ? MEND_OK : MEND_ERROR_OUT_OF_MEMORY;
}

mend_result mend_compact_chunk(mend_compact_pass *pass, mend_chunk *chunk)
{
    mend_heap *heap = pass->heap;
    compaction s = {.heap = heap, .chunk = chunk};
    mend_exchange_report done = {0};
    mend_result result = plan(&s);
    if (result == MEND_OK) {
        result = mend_exchange_memory(heap, chunk, s.clusters, s.size.clusters, &done);
        pass->driver_calls += done.driver_calls;
    }
    free(s.clusters);
    if (result == MEND_OK) {
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        pass->compactions++;
        pass->copied_bytes += done.copied_bytes;
        pass->gained_bytes += s.size.gained_bytes;
        heap->counters.compactions++;
        heap->counters.copied_bytes += done.copied_bytes;
    }
    return result;
}
