/* The audit of growable ranges: the invariants of layout/ranges.h. */
#include "layout/ranges.h"
#include "observe/audit_parts.h"

#define CHUNK_OF(node) MEND_CONTAINER_OF(node, mend_chunk, by_address)

/* What the pages of a range, or of all ranges, are. */
typedef struct pages_found {
    uint64_t committed;
    uint64_t zeros_mapped, zeros_mapped_bytes, zeros_unsettled;
} pages_found;

/* Each page of the table is the live span of that page, and what is committed is their sum. A page
 * with a mapping of zeros is not committed; a closed range wants none. */
static bool pages_are_right(const mend_audit_walk *a, const mend_range *range, pages_found *all)
{
    pages_found found = {0};
    const size_t count = (size_t)(range->size_bytes / range->page_bytes);
    for (size_t i = 0; i < count; i++) {
        const mend_span *span = range->pages[i];
        const unsigned bits = mend_zeros_of(range, i);
        MUST(span == NULL || (span->live && span->zone == MEND_ZONE_RANGE && !span->lent &&
                              !span->of_group && span->address == mend_range_page_start(range, i) &&
                              span->size_bytes == range->page_bytes),
             "page %zu of the range 0x%llx is not its span", i, MEND_AUDIT_HEX(range->address));
        MUST((bits & ~(unsigned)MEND_ZEROS_ALL) == 0 &&
                 ((bits & MEND_ZEROS_READABLE) == 0 || (bits & MEND_ZEROS_MAPPED) != 0) &&
                 (span == NULL || bits == 0) &&
                 (!range->is_closed || (bits & MEND_ZEROS_WANTED) == 0),
             "page %zu of the range 0x%llx: its zeros are wrong", i,
             MEND_AUDIT_HEX(range->address));
        found.committed += span != NULL;
        found.zeros_mapped += (bits & MEND_ZEROS_MAPPED) != 0;
        found.zeros_unsettled += !range->is_closed && bits != 0 && bits != MEND_ZEROS_ALL;
    }
    all->committed += found.committed;
    all->zeros_mapped += found.zeros_mapped;
    all->zeros_mapped_bytes += found.zeros_mapped * range->page_bytes;
    MUST(found.committed * range->page_bytes == range->committed_bytes &&
             (found.committed == 0 || !range->is_closed),
         "the committed bytes of the range 0x%llx are wrong", MEND_AUDIT_HEX(range->address));
    MUST(found.zeros_mapped == range->zeros_mapped &&
             found.zeros_unsettled == range->zeros_unsettled,
         "the counts of zeros of the range 0x%llx are wrong", MEND_AUDIT_HEX(range->address));
    MUST(range->owed.kind == (range->is_closed             ? MEND_OWED_RANGE
                              : range->zeros_unsettled > 0 ? MEND_OWED_ZEROS
                                                           : MEND_OWED_NOTHING),
         "what is owed of a range is not noted");
    return true;
}

/* The mappings of each chunk of zeros are the pages of ranges with pages of its size. */
static bool chunks_of_zeros_are_right(const mend_audit_walk *a, const pages_found *found)
{
    const mend_ranges *ranges = &a->heap->ranges;
    uint64_t bytes = 0;
    uint64_t count = 0;
    uint64_t mappings = 0;
    for (const mend_chunk_of_zeros *chunk = a->heap->zeros.first; chunk != NULL;
         chunk = chunk->next) {
        uint64_t mapped = 0;
        MEND_TREE_EACH(const mend_range, range, by_address, &ranges->by_address) {
            mapped += range->page_bytes == chunk->size_bytes ? range->zeros_mapped : 0;
        }
        MUST(mapped == chunk->mappings && (mapped == 0 || chunk->handle != 0) &&
                 chunk->owed.kind == (mapped > 0 ? MEND_OWED_NOTHING : MEND_OWED_ZEROS_CHUNK),
             "the mappings of a chunk of zeros are wrong");
        bytes += chunk->size_bytes;
        count++;
        mappings += mapped;
    }
    MUST(bytes == a->heap->zeros.bytes && count == a->heap->zeros.count &&
             mappings == ranges->zeros_mapped && found->zeros_mapped == ranges->zeros_mapped &&
             found->zeros_mapped_bytes == ranges->zeros_mapped_bytes,
         "the counts of zeros are wrong");
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
        is_right = chunk->address + chunk->size_bytes <= page_end &&
                   chunk->live_bytes == live_bytes && !mend_chunk_is_alias(chunk) &&
                   chunk->aliases == 0;
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
    uint64_t bytes = 0;
    pages_found found = {0};
    MEND_TREE_EACH(const mend_range, range, by_address, &ranges->by_address) {
        owed += range->owed.kind != MEND_OWED_NOTHING;
        bytes += range->sums.mapped_bytes + range->sums.asleep_live_bytes;
        if (!pages_are_right(a, range, &found)) {
            return false;
        }
    }
    if (!chunks_of_zeros_are_right(a, &found)) {
        return false;
    }
    const uint32_t *counts = a->heap->chunks.owing.count;
    MUST(owed == (size_t)counts[MEND_OWED_RANGE] + counts[MEND_OWED_ZEROS],
         "what is owed of ranges is wrong");
    MEND_LIST_EACH(const mend_reservation, reservation, link, &a->heap->range_space.reservations) {
        const mend_range *range = mend_range_at(a->heap, reservation->address);
        MUST(range != NULL && range->address == reservation->address &&
                 range->size_bytes + a->heap->range_space.page_bytes == reservation->size_bytes,
             "the reservation 0x%llx is that of no range", MEND_AUDIT_HEX(reservation->address));
    }
    MUST(mend_tree_is_valid(&ranges->by_address) &&
             ranges->by_address.count == a->heap->range_space.reservations_by_address.count &&
             found.committed == a->live[MEND_ZONE_RANGE].blocks,
         "the counts of ranges and of their pages are wrong");
    return chunks_are_right(a, bytes);
}
