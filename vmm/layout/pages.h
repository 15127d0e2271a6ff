/*
 * Changes of committed pages (layout/range.h). Nothing here calls the driver; after the nodes are
 * reserved nothing fails.
 */
#ifndef MEND_LAYOUT_PAGES_H
#define MEND_LAYOUT_PAGES_H

#include "layout/range.h"

/* Reserves nodes to commit, or to decommit, this many pages. False if malloc fails. */
bool mend_range_reserve_nodes(mend_heap *heap, size_t page_count);

/* Commits a page that is free memory in a run; the span keeps the waits of its memory. */
void mend_range_take_page(mend_heap *heap, mend_range *range, size_t page, mend_stream stream);

/* Makes a committed page free memory again, which is idle after the waits of its span. */
void mend_range_free_page(mend_heap *heap, mend_range *range, size_t page);

#endif
