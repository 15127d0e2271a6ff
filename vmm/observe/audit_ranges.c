/* The audit of growable ranges: the invariants of layout/ranges.h. */
#include "layout/ranges.h"
#include "observe/audit_parts.h"

#define RANGE_OF(node)       MEND_CONTAINER_OF(node, mend_range, by_address)
#define RESERVATION_OF(node) MEND_CONTAINER_OF(node, mend_reservation, link)
#define CHUNK_OF(node)       MEND_CONTAINER_OF(node, mend_chunk, by_address)

/* Each page of the table is the live span of that page, and what is committed is their sum. */
static bool pages_are_right(const mend_audit_walk *a, const mend_range *range, uint64_t *pages)
{
    uint64_t committed_bytes = 0;
    const size_t count = (size_t)(range->size_bytes / range->page_bytes);
    for (size_t i = 0; i < count; i++) {
        const mend_span *span = range->pages[i];
        if (span == NULL) {
            continue;
        }
        if (!span->live || span->zone != MEND_ZONE_RANGE || span->lent || span->of_group ||
            span->address != mend_range_page_start(range, i) ||
            span->size_bytes != range->page_bytes) {
            return mend_audit_broken(a, "page %zu of the range 0x%llx is not its span", i,
                                     MEND_AUDIT_HEX(range->address));
        }
        committed_bytes += span->size_bytes;
        ++*pages;
    }
    return (committed_bytes == range->committed_bytes &&
            (committed_bytes == 0 || !range->is_closed)) ||
           mend_audit_broken(a, "the committed bytes of the range 0x%llx are wrong",
                             MEND_AUDIT_HEX(range->address));
}

/* What the pages with zeros of a range, or of all ranges, are. */
typedef struct zeros_found {
    uint64_t mapped;
    uint64_t mapped_bytes;
    uint64_t unsettled;
} zeros_found;

/* A page with a mapping of zeros is not committed; a closed range wants none. */
static bool zeros_are_right(const mend_audit_walk *a, const mend_range *range, zeros_found *all)
{
    zeros_found found = {0};
    const size_t count = (size_t)(range->size_bytes / range->page_bytes);
    for (size_t i = 0; i < count && range->zeros != NULL; i++) {
        const unsigned bits = range->zeros[i];
        const bool is_mapped = (bits & MEND_ZEROS_MAPPED) != 0;
        const bool is_right = (bits & ~(unsigned)MEND_ZEROS_ALL) == 0 &&
                              ((bits & MEND_ZEROS_READABLE) == 0 || is_mapped) &&
                              (range->pages[i] == NULL || bits == 0) &&
                              (!range->is_closed || (bits & MEND_ZEROS_WANTED) == 0);
        if (!is_right) {
            return mend_audit_broken(a, "page %zu of the range 0x%llx: its zeros are wrong", i,
                                     MEND_AUDIT_HEX(range->address));
        }
        found.mapped += is_mapped;
        found.mapped_bytes += is_mapped ? range->page_bytes : 0;
        found.unsettled += !range->is_closed && bits != 0 && bits != MEND_ZEROS_ALL;
    }
    all->mapped += found.mapped;
    all->mapped_bytes += found.mapped_bytes;
    all->unsettled += found.unsettled;
    return (found.mapped == range->zeros_mapped && found.unsettled == range->zeros_unsettled) ||
           mend_audit_broken(a, "the counts of zeros of the range 0x%llx are wrong",
                             MEND_AUDIT_HEX(range->address));
}

/* The mappings of each chunk of zeros are the pages of ranges with pages of its size. */
static bool chunks_of_zeros_are_right(const mend_audit_walk *a, const zeros_found *found)
{
    const mend_ranges *ranges = &a->heap->ranges;
    uint64_t bytes = 0;
    uint64_t count = 0;
    uint64_t mappings = 0;
    for (const mend_chunk_of_zeros *chunk = ranges->zeros; chunk != NULL; chunk = chunk->next) {
        uint64_t mapped = 0;
        mend_tree_node *at = mend_tree_first(&ranges->by_address);
        for (; at != NULL; at = mend_tree_next(at)) {
            const mend_range *range = RANGE_OF(at);
            mapped += range->page_bytes == chunk->size_bytes ? range->zeros_mapped : 0;
        }
        if (mapped != chunk->mappings || (mapped > 0 && chunk->handle == 0)) {
            return mend_audit_broken(a, "the mappings of a chunk of zeros are wrong");
        }
        bytes += chunk->size_bytes;
        count++;
        mappings += mapped;
    }
    return (bytes == ranges->zeros_bytes && count == ranges->zeros_chunks &&
            mappings == ranges->zeros_mapped && found->mapped == ranges->zeros_mapped &&
            found->unsettled == ranges->zeros_unsettled &&
            found->mapped_bytes == ranges->zeros_mapped_bytes) ||
           mend_audit_broken(a, "the counts of zeros are wrong");
}

/* Each reservation is that of one range. */
static bool has_range(const mend_audit_walk *a, const mend_reservation *reservation)
{
    const mend_range *range = mend_range_at(a->heap, reservation->address);
    const uint64_t page = a->heap->ranges.space.page_bytes;
    return (range != NULL && range->address == reservation->address &&
            range->size_bytes + page == reservation->size_bytes) ||
           mend_audit_broken(a, "the reservation 0x%llx is that of no range",
                             MEND_AUDIT_HEX(reservation->address));
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
                   chunk->aliases == 0 && !chunk->on_host;
    }
    is_right = is_right && chunk->sums == (is_there ? &range->sums : NULL);
    return is_right || mend_audit_broken(a, "the chunk 0x%llx does not fit its page of a range",
                                         MEND_AUDIT_HEX(chunk->address));
}

/* The sums of each range are those of its chunks, which are neighbours in the tree. What no range
 * with chunks has, none has. */
static bool sums_are_right(const mend_audit_walk *a, uint64_t bytes_of_ranges)
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
        }
        if (sums != NULL && (found.mapped_bytes != sums->mapped_bytes ||
                             found.asleep_live_bytes != sums->asleep_live_bytes)) {
            return mend_audit_broken(a, "the mapped bytes of a range are wrong");
        }
        all_bytes += sums != NULL ? found.mapped_bytes + found.asleep_live_bytes : 0;
    }
    return all_bytes == bytes_of_ranges ||
           mend_audit_broken(a, "a range without chunks has mapped bytes");
}

bool mend_audit_ranges(const mend_audit_walk *a)
{
    const mend_ranges *ranges = &a->heap->ranges;
    uint64_t pages = 0;
    uint64_t closed = 0;
    size_t owed = 0;
    uint64_t bytes = 0;
    zeros_found zeros = {0};
    const mend_tree_node *at = mend_tree_first(&ranges->by_address);
    for (; at != NULL; at = mend_tree_next(at)) {
        closed += RANGE_OF(at)->is_closed;
        owed += RANGE_OF(at)->owed.kind == MEND_OWED_RANGE;
        bytes += RANGE_OF(at)->sums.mapped_bytes + RANGE_OF(at)->sums.asleep_live_bytes;
        if (!pages_are_right(a, RANGE_OF(at), &pages) ||
            !zeros_are_right(a, RANGE_OF(at), &zeros)) {
            return false;
        }
        if ((RANGE_OF(at)->is_closed || RANGE_OF(at)->zeros_unsettled > 0) !=
            (RANGE_OF(at)->owed.kind == MEND_OWED_RANGE)) {
            return mend_audit_broken(a, "what is owed of a range is not noted");
        }
    }
    if (!chunks_of_zeros_are_right(a, &zeros)) {
        return false;
    }
    if (owed != a->heap->chunks.owing.count[MEND_OWED_RANGE]) {
        return mend_audit_broken(a, "what is owed of ranges is wrong");
    }
    const mend_list *end = &ranges->space.reservations;
    for (const mend_list *link = end->next; link != end; link = link->next) {
        if (!has_range(a, RESERVATION_OF(link))) {
            return false;
        }
    }
    at = mend_tree_first(&a->heap->chunks.mapped);
    for (; at != NULL; at = mend_tree_next(at)) {
        if (!chunk_is_right(a, CHUNK_OF(at))) {
            return false;
        }
    }
    if (!sums_are_right(a, bytes)) {
        return false;
    }
    return (mend_tree_is_valid(&ranges->by_address) &&
            ranges->by_address.count == ranges->space.reservation_count &&
            pages == a->live[MEND_ZONE_RANGE].blocks && closed == ranges->closed) ||
           mend_audit_broken(a, "the counts of ranges and of their pages are wrong");
}
