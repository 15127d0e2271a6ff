/*
 * Changes of committed pages (layout/range.h). Nothing here calls the driver; after the nodes are
 * reserved nothing fails.
 */
#ifndef MEND_LAYOUT_PAGES_H
#define MEND_LAYOUT_PAGES_H

#include "layout/range.h"

/* Reserves nodes to commit those of the pages that are not committed, as far as they are mapped
 * now, and to decommit those that are; `by_all`: for every stream. O(pages, and what their memory
 * waits for). False if malloc fails. */
bool mend_range_reserve_commit(mend_heap *heap, const mend_parts *parts);
bool mend_range_reserve_decommit(mend_heap *heap, const mend_range *range, uint64_t from,
                                 uint64_t end, bool by_all);

/* Neighbouring pages of one range that are committed, or decommitted, together: the history has one
 * event for all of them. Begin with the kind and the stream alone. */
typedef struct mend_page_stretch {
    mend_event_kind kind;
    mend_stream stream;
    uint64_t from;
    uint64_t end;
} mend_page_stretch;

/* The page at `address` is the next one; and there is none any more. */
void mend_range_note_page(mend_heap *heap, const mend_range *range, mend_page_stretch *stretch,
                          uint64_t address);
void mend_range_note_last(mend_heap *heap, const mend_range *range, mend_page_stretch *stretch);

/* Commits a page that is free memory in a run; the span keeps the waits of its memory. */
void mend_range_take_page(mend_heap *heap, mend_range *range, size_t page, mend_stream stream);

/* Makes a committed page free memory again, which is idle after the waits of its span. */
void mend_range_free_page(mend_heap *heap, mend_range *range, size_t page);

#endif
