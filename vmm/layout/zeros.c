/*
 * Pages of ranges that read as zeros: pages that are not committed, behind which one chunk of zeros
 * is mapped for reading. All ranges with pages of a size share the chunk. Invariants, checked by
 * the audit:
 *  - a page with such a mapping is not committed, and no chunk of the pool lies there;
 *  - a page that is to read as zeros has the mapping, which devices may read. One that lacks any of
 *    that is lost, and waits for the next call that can map it; one with a mapping that nobody
 * wants is extra, and waits for the next call that can unmap it: the driver refused, or a capture
 *    forbids it. Both are unsettled. A closed range wants none;
 *  - the chunk of zeros is private, in no set of chunks and not in reserved_bytes. Its bytes are
 *    taken off the limit. It exists while there is a mapping of it.
 */
#include "layout/ranges.h"

#include <assert.h>

static bool is_unsettled(const mend_range *range, unsigned bits)
{
    return bits != 0 && bits != MEND_ZEROS_ALL && !range->is_closed;
}

void mend_zeros_set(mend_heap *heap, mend_range *range, size_t page, unsigned bits)
{
    mend_ranges *ranges = &heap->ranges;
    assert(range->zeros != NULL);
    assert((bits & MEND_ZEROS_MAPPED) == 0 || range->pages[page] == NULL);
    const unsigned before = range->zeros[page];
    const uint64_t was_mapped = (before & MEND_ZEROS_MAPPED) != 0;
    const uint64_t is_mapped = (bits & MEND_ZEROS_MAPPED) != 0;
    range->zeros[page] = (unsigned char)bits;
    range->zeros_mapped += is_mapped - was_mapped;
    const uint64_t was_unsettled = is_unsettled(range, before);
    const uint64_t is_now = is_unsettled(range, bits);
    range->zeros_unsettled += is_now - was_unsettled;
    ranges->zeros_unsettled += is_now - was_unsettled;
    mend_range_note_settling(heap, range);
    ranges->zeros_mapped += is_mapped - was_mapped;
    ranges->zeros_mapped_bytes += (is_mapped - was_mapped) * range->page_bytes;
}

uint64_t mend_zeros_mapping_at(const mend_heap *heap, uint64_t address)
{
    const mend_range *range = mend_range_at(heap, address);
    if (range == NULL || (address - range->address) % range->page_bytes != 0 ||
        !mend_zeros_are_mapped(range, mend_range_page_of(range, address))) {
        return 0;
    }
    return range->page_bytes;
}

size_t mend_zeros_next(const mend_range *range, size_t page, size_t end, size_t *count)
{
    while (page < end && !mend_zeros_are_mapped(range, page)) {
        page++;
    }
    *count = 0;
    while (page + *count < end && mend_zeros_are_mapped(range, page + *count)) {
        ++*count;
    }
    return page;
}
