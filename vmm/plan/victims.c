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

/* Whether a partly used chunk may move: no graph uses it, and nothing of `holds` keeps its free
 * memory from being idle. */
static bool is_movable(mend_heap *heap, const mend_chunk *chunk, unsigned holds)
{
    MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
        if (span->live ? belongs_to_graph_pool(heap, span)
                       : (mend_waits_blocked_by(&heap->streams, &span->waits, MEND_STREAM_UNKNOWN) &
                          holds) != 0) {
            return false;
        }
    }
    return true;
}

/* Adds a live stretch to the last cluster, or behind it. True if it is a new cluster. */
static bool add_stretch(mend_cluster *last, uint64_t from, uint64_t to, uint64_t page)
{
    assert(from < to);
    assert(to > last->live_end);
    bool is_new = mend_align_down(from, page) > last->address + last->size_bytes;
    if (is_new) {
        *last = (mend_cluster){.address = mend_align_down(from, page), .live_address = from};
    }
    last->live_end = to;
    last->size_bytes = mend_align_up(to, page) - last->address;
    return is_new;
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
        mend_cluster before = last;
        if (add_stretch(&last, from, to, page)) {
            size->clusters++;
        } else {
            size->used_bytes -= before.size_bytes;
            size->copied_bytes -= before.live_end - before.live_address;
        }
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
    return !chunk->is_frozen && chunk->live_bytes > 0 && chunk->pins == 0 &&
           chunk->size_bytes - chunk->live_bytes >= heap->device.granularity_bytes &&
           is_movable(heap, chunk, holds);
}

mend_served_sizes mend_victims_sizes_for(const mend_request *request)
{
    const mend_pages *pages = request->pages;
    mend_served_sizes served = {.most_bytes =
                                    pages != NULL ? pages->largest_page_bytes : UINT64_MAX};
    served.least_bytes = request->in_one_chunk ? request->size_bytes : 0;
    return served;
}

bool mend_victims_would_serve(const mend_chunk *chunk, mend_served_sizes served)
{
    const bool is_of_size = chunk->size_bytes >= served.least_bytes &&
                            (served.most_bytes == 0 || chunk->size_bytes <= served.most_bytes);
    return is_of_size || !chunk->memory.was_exported;
}

bool mend_victims_find(mend_compact_pass *pass)
{
    mend_heap *heap = pass->heap;
    pass->candidates = calloc(heap->chunks.mapped.count + 1, sizeof(*pass->candidates));
    mend_tree_node *at = pass->candidates != NULL ? mend_tree_first(&heap->chunks.mapped) : NULL;
    for (; at != NULL; at = mend_tree_next(at)) {
        mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
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
    return pass->candidates != NULL;
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

/* Whether there is memory for the clusters outside the chunk. */
static bool has_room(const mend_heap *heap, const mend_compact_size *size)
{
    uint64_t limit = mend_budget_hard_limit(heap);
    uint64_t used = heap->chunks.reserved_bytes - mend_chunks_empty_bytes(&heap->chunks);
    return used <= limit && size->used_bytes <= limit - used;
}

static bool is_above(uint64_t limit, uint64_t value)
{
    return limit != 0 && value > limit;
}

/* The reason against a compaction. DONE: none. */
static mend_compact_stop obstacle(const mend_compact_pass *pass, const mend_compact_size *size)
{
    const mend_compact_bounds *limits = &pass->limits;
    if (is_above(limits->copied_bytes, pass->copied_bytes + size->copied_bytes)) {
        return MEND_COMPACT_BYTES;
    }
    if (is_above(limits->driver_calls,
                 pass->driver_calls + CALLS_OF_COMPACT + CALLS_OF_CLUSTER * size->clusters)) {
        return MEND_COMPACT_CALLS;
    }
    return has_room(pass->heap, size) ? MEND_COMPACT_DONE : MEND_COMPACT_NO_ROOM;
}

static mend_compact_candidate *find_best(mend_compact_pass *pass, uint64_t need_bytes)
{
    mend_compact_candidate *best = NULL;
    for (size_t i = 0; i < pass->candidate_count; i++) {
        mend_compact_candidate *at = &pass->candidates[i];
        mend_compact_stop stop = at->number != 0 ? obstacle(pass, &at->size) : MEND_COMPACT_DONE;
        if (stop != MEND_COMPACT_DONE) {
            pass->stop = stop;
        } else if (at->number != 0 &&
                   (best == NULL || is_better(&at->size, &best->size, need_bytes))) {
            best = at;
        }
    }
    return best;
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
        mend_compact_candidate *best = find_best(pass, need_bytes);
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
