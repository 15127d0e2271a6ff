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
 *
 * Guarded by the heap's `state` lock; mappings change under both locks.
 */
#ifndef MEND_LAYOUT_ZEROS_H
#define MEND_LAYOUT_ZEROS_H

#include "layout/range.h"

/* The chunk of zeros for pages of a size. */
typedef struct mend_chunk_of_zeros {
    struct mend_chunk_of_zeros *next;
    uint64_t size_bytes; /* that of the pages */
    mend_chunk_handle handle;
    uint64_t mappings;
    bool is_filled;
    bool is_new; /* the present call created it */
} mend_chunk_of_zeros;

/* Bits of range->zeros[page]. */
enum {
    MEND_ZEROS_WANTED = 1, /* the program is to read zeros there */
    MEND_ZEROS_MAPPED = 2,
    MEND_ZEROS_READABLE = 4, /* mapped, and the devices may read */
    MEND_ZEROS_ALL = 7
};

static inline unsigned mend_zeros_of(const mend_range *range, size_t page)
{
    return range->zeros != NULL ? range->zeros[page] : 0;
}

static inline bool mend_zeros_are_mapped(const mend_range *range, size_t page)
{
    return (mend_zeros_of(range, page) & MEND_ZEROS_MAPPED) != 0;
}

/* Sets the bits of a page, and counts. The range has its table. */
void mend_zeros_set(mend_heap *heap, mend_range *range, size_t page, unsigned bits);

/* The page at an address is committed from now on: it reads as zeros no more. */
static inline void mend_zeros_note_commit(mend_heap *heap, mend_range *range, size_t page)
{
    assert(!mend_zeros_are_mapped(range, page));
    if (mend_zeros_of(range, page) != 0) {
        mend_zeros_set(heap, range, page, 0);
    }
}

/* The bytes of the mapping of zeros that begins at an address; 0: none does. */
uint64_t mend_zeros_mapping_at(const mend_heap *heap, uint64_t address);

/* The first page from `page` on, up to `end`, that has a mapping of zeros; `end`: none has. Then
 * *count is the number of such pages from there on. */
size_t mend_zeros_next(const mend_range *range, size_t page, size_t end, size_t *count);

#endif
