/* Finding records; shared by the two files of the ledger. All need its lock. */
#ifndef MEND_DRIVER_CHECKED_RECORDS_H
#define MEND_DRIVER_CHECKED_RECORDS_H

#include "base/align.h"
#include "driver/checked_ledger.h"

static inline mend_checked_record *mend_checked_record_of(const mend_tree_node *node)
{
    return MEND_CONTAINER_OF(node, mend_checked_record, node);
}

static inline mend_checked_mapping *mend_checked_mapping_of(const mend_tree_node *node)
{
    return MEND_CONTAINER_OF(node, mend_checked_mapping, record.node);
}

static inline mend_checked_chunk *mend_checked_chunk_of(const mend_tree_node *node)
{
    return MEND_CONTAINER_OF(node, mend_checked_chunk, record.node);
}

/* The record of exactly this key, and the one whose range holds the address; NULL for none. */
mend_checked_record *mend_checked_find(const mend_tree *tree, uint64_t key);
mend_checked_record *mend_checked_around(const mend_tree *tree, uint64_t address);

/* NULL when both are multiples of the page and the range is one. */
const char *mend_checked_pages(const mend_checked_books *books, uint64_t address,
                               uint64_t size_bytes);

/* Frees the chunk when nothing holds it any more. */
void mend_checked_chunk_settle(mend_checked_books *books, mend_checked_chunk *chunk);

int mend_checked_compare(const mend_tree_node *a, const mend_tree_node *b);

#endif
