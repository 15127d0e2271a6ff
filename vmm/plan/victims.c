/*
 * Victims: which partly used chunk a compaction empties. The cost of its copy and its gain are
 * computed without the driver. A pass keeps the candidates and its limits.
 */
#include "plan/policy.h"

#include <stdlib.h>

/* Driver calls of a compaction. For each cluster: create, map twice, copy, set_access, and unmap of
 * the scratch mapping and of the old place of its chunk. For all: map, set_access, wait, unmap. */
enum { CALLS_OF_CLUSTER = 7, CALLS_OF_COMPACT = 4 };

static bool belongs_to_graph_pool(const mend_heap *heap, const mend_span *span)
{
    for (const mend_wait *at = span->waits.others; at != NULL; at = at->next) {
        if (at->stamp.epoch == 0 && heap->streams.items[at->stamp.stream].graph_pool != 0) {
            return true;
        }
    }
    return false;
}

void mend_victims_measure(const mend_heap *heap, const mend_chunk *chunk, mend_cluster *clusters,
                          mend_compact_size *size)
{
    uint64_t page = heap->device.granularity_bytes;
    uint64_t end = chunk->address + chunk->size_bytes;
    mend_cluster last = {0};
    *size = (mend_compact_size){0};
    MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
        if (!span->live) {
            continue;
        }
        uint64_t from = mend_max_u64(span->address, chunk->address);
        uint64_t to = mend_min_u64(mend_span_end(span), end);
        assert(to > last.live_end);
        if (mend_align_down(from, page) > last.address + last.size_bytes) {
            last = (mend_cluster){.address = mend_align_down(from, page), .live_address = from};
            size->clusters++;
        } else { /* the last one becomes larger */
            size->used_bytes -= last.size_bytes;
            size->copied_bytes -= last.live_end - last.live_address;
        }
        last.live_end = to;
        last.size_bytes = mend_align_up(to, page) - last.address;
        size->used_bytes += last.size_bytes;
        size->copied_bytes += last.live_end - last.live_address;
        if (clusters != NULL) {
            clusters[size->clusters - 1] = last;
        }
    }
    assert(size->used_bytes <= chunk->size_bytes);
    assert(size->copied_bytes <= size->used_bytes);
    size->gained_bytes = chunk->size_bytes - size->used_bytes;
}

bool mend_victims_may_gain(mend_heap *heap, const mend_chunk *chunk, unsigned holds)
{
    assert(!mend_chunk_misses_mapping(chunk)); /* a pass begins without such chunks, and ends when a
                                                * compaction fails */
    if (chunk->is_frozen || chunk->live_bytes == 0 || chunk->pins > 0 ||
        chunk->size_bytes - chunk->live_bytes < heap->device.granularity_bytes) {
        return false;
    }
    MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
        if (span->live ? belongs_to_graph_pool(heap, span)
                       : (mend_waits_blocked_by(&heap->streams, &span->waits, MEND_STREAM_UNKNOWN) &
                          holds) != 0) {
            return false;
        }
    }
    return true;
}

bool mend_victims_find(mend_compact_pass *pass)
{
    mend_heap *heap = pass->heap;
    pass->candidates = calloc(heap->chunks.mapped.count + 1, sizeof(*pass->candidates));
    if (pass->candidates == NULL) {
        return false;
    }
    MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
        mend_compact_size size = {0};
        if (mend_victims_may_gain(heap, chunk, MEND_BLOCKED_BY_ANY)) {
            mend_victims_measure(heap, chunk, NULL, &size);
        }
        if (size.gained_bytes > 0) {
            assert(pass->candidate_count < heap->chunks.mapped.count);
            pass->candidates[pass->candidate_count++] =
                (mend_compact_candidate){chunk->memory.number, size};
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
static mend_compact_stop obstacle(const mend_compact_pass *pass, const mend_compact_size *size)
{
    const mend_compact_limits *limits = &pass->limits;
    if (is_above(limits->copied_bytes, pass->copied_bytes + size->copied_bytes)) {
        return MEND_COMPACT_BYTES;
    }
    if (is_above(limits->driver_calls,
                 pass->driver_calls + CALLS_OF_COMPACT + CALLS_OF_CLUSTER * size->clusters)) {
        return MEND_COMPACT_CALLS;
    }
    /* Memory for the clusters outside of the chunk. */
    const mend_chunks *chunks = &pass->heap->chunks;
    const uint64_t used_bytes = chunks->reserved_bytes - mend_chunks_empty_bytes(chunks);
    return used_bytes + size->used_bytes <= mend_budget_hard_limit(pass->heap)
               ? MEND_COMPACT_DONE
               : MEND_COMPACT_NO_ROOM;
}

mend_chunk *mend_victims_choose(mend_compact_pass *pass, uint64_t need_bytes, uint64_t elapsed_ns)
{
    mend_heap *heap = pass->heap;
    for (;;) {
        pass->stop = MEND_COMPACT_DONE;
        if (is_above(pass->limits.duration_ns, elapsed_ns)) {
            pass->stop = MEND_COMPACT_TIME;
            return NULL;
        }
        mend_compact_candidate *best = NULL;
        for (size_t i = 0; i < pass->candidate_count; i++) {
            mend_compact_candidate *at = &pass->candidates[i];
            if (at->number == 0) {
                continue;
            }
            const mend_compact_stop stop = obstacle(pass, &at->size);
            if (stop != MEND_COMPACT_DONE) {
                pass->stop = stop;
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
