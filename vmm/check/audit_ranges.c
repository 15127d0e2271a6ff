/* The audit of growable ranges: the invariants of ranges/ranges.h. */
#include "check/audit_parts.h"
#include "ranges/ranges.h"

#define CHUNK_OF(node) MEND_CONTAINER_OF(node, mend_chunk, by_address)

/* Each page of the table is the live span of that page, and what is committed is their sum. */
static bool pages_are_right(const mend_audit_walk *a, const mend_range *range)
{
    uint64_t committed = 0;
    const size_t count = (size_t)(range->size_bytes / range->page_bytes);
    for (size_t i = 0; i < count; i++) {
        const mend_span *span = range->pages[i];
        MUST(span == NULL || (span->live && span->zone == MEND_ZONE_RANGE && !span->of_group &&
                              span->address == mend_range_page_start(range, i) &&
                              span->size_bytes == range->page_bytes),
             "page %zu of the range 0x%llx is not its span", i, MEND_AUDIT_HEX(range->address));
        committed += span != NULL;
    }
    MUST(committed * range->page_bytes == range->committed_bytes &&
             (committed == 0 || !range->is_closed),
         "the committed bytes of the range 0x%llx are wrong", MEND_AUDIT_HEX(range->address));
    MUST(range->owed.kind == (range->is_closed ? MEND_OWED_RANGE : MEND_OWED_NOTHING),
         "what is owed of a range is not noted");
    return true;
}

/* A chunk of the zone lies inside a page, is live as a whole or not at all, and is on the device;
 * others lie in no range. */
static bool chunk_is_right(const mend_audit_walk *a, const mend_chunk *chunk)
{
    const mend_range *range = mend_range_at(a->heap, chunk->address);
    bool is_there = chunk->zone == MEND_ZONE_RANGE;
    bool is_right = (range != NULL) == is_there;
    if (is_right && is_there) {
        const size_t page = mend_range_page_of(range, chunk->address);
        const uint64_t page_end = mend_range_page_start(range, page + 1);
        const uint64_t live_bytes = range->pages[page] != NULL ? chunk->size_bytes : 0;
        is_right =
            chunk->address + chunk->size_bytes <= page_end && chunk->live_bytes == live_bytes;
    }
    MUST(is_right && chunk->sums == (is_there ? &range->sums : NULL),
         "the chunk 0x%llx does not fit its page of a range", MEND_AUDIT_HEX(chunk->address));
    return true;
}

/* Each chunk is right, and the sums of each range are those of its chunks, which are neighbours in
 * the tree. What no range with chunks has, none has. */
static bool chunks_are_right(const mend_audit_walk *a, uint64_t bytes_of_ranges)
{
    uint64_t all_bytes = 0;
    const mend_tree_node *at = mend_tree_first(&a->heap->chunks.mapped);
    while (at != NULL) {
        const mend_chunk_sums *sums = CHUNK_OF(at)->sums;
        mend_chunk_sums found = {0};
        for (; at != NULL && CHUNK_OF(at)->sums == sums; at = mend_tree_next(at)) {
            const bool sleeps = mend_chunk_sleeps(CHUNK_OF(at));
            found.mapped_bytes += sleeps ? 0 : CHUNK_OF(at)->size_bytes;
            found.asleep_live_bytes += sleeps ? CHUNK_OF(at)->live_bytes : 0;
            if (!chunk_is_right(a, CHUNK_OF(at))) {
                return false;
            }
        }
        MUST(sums == NULL || (found.mapped_bytes == sums->mapped_bytes &&
                              found.asleep_live_bytes == sums->asleep_live_bytes),
             "the mapped bytes of a range are wrong");
        all_bytes += sums != NULL ? found.mapped_bytes + found.asleep_live_bytes : 0;
    }
    MUST(all_bytes == bytes_of_ranges, "a range without chunks has mapped bytes");
    return true;
}

bool mend_audit_ranges(const mend_audit_walk *a)
{
    const mend_ranges *ranges = &a->heap->ranges;
    size_t owed = 0;
    uint64_t committed = 0;
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_range, range, by_address, &ranges->by_address) {
        owed += range->owed.kind != MEND_OWED_NOTHING;
        bytes += range->sums.mapped_bytes + range->sums.asleep_live_bytes;
        committed += range->committed_bytes / range->page_bytes;
        if (!pages_are_right(a, range)) {
            return false;
        }
    }
    MUST(owed == a->heap->chunks.owing.count[MEND_OWED_RANGE], "what is owed of ranges is wrong");
    MEND_LIST_EACH(const mend_reservation, reservation, link, &a->heap->range_space.reservations) {
        const mend_range *range = mend_range_at(a->heap, reservation->address);
        MUST(range != NULL && range->address == reservation->address &&
                 range->size_bytes + a->heap->range_space.page_bytes == reservation->size_bytes,
             "the reservation 0x%llx is that of no range", MEND_AUDIT_HEX(reservation->address));
    }
    MUST(mend_tree_is_valid(&ranges->by_address) &&
             ranges->by_address.count == a->heap->range_space.reservations_by_address.count &&
             committed == a->live[MEND_ZONE_RANGE].blocks,
         "the counts of ranges and of their pages are wrong");
    return chunks_are_right(a, bytes);
}
