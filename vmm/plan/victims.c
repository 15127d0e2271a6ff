/* Victims: what a compaction of a partly used chunk copies and gains, without the driver. */
#include "plan/policy.h"

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
