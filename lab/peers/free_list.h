/*
 * Free memory by address and by size, with neighbors joined: a part of the models of RMM's pool
 * and arenas. The owner of the list has the slab for the blocks.
 */
#ifndef MEND_LAB_PEERS_FREE_LIST_H
#define MEND_LAB_PEERS_FREE_LIST_H

#include "base/slab.h"
#include "base/tree.h"
#include "lab/peers/peer.h"

typedef struct free_block {
    mend_tree_node by_address;
    mend_tree_node by_size; /* by size, then address */
    uint64_t address;
    uint64_t size_bytes;
    bool is_head; /* the start of a driver allocation: not joined with memory before it */
} free_block;

typedef struct free_list {
    mend_tree by_address;
    mend_tree by_size;
} free_list;

void free_list_init(free_list *list);

/* Joins the range with its neighbors in the list, or adds it. The caller reserved one block in the
 * slab. */
void free_list_put(free_list *list, mend_slab *slab, uint64_t address, uint64_t size_bytes,
                   bool is_head);

/* Moves all blocks of `from` into `list`. Needs no further blocks. */
void free_list_merge(free_list *list, mend_slab *slab, free_list *from);

/* The smallest block that is large enough. Of equal ones the lowest. NULL: none. */
free_block *free_list_best_fit(const free_list *list, uint64_t size_bytes);

/* The lowest block that is large enough. NULL: none. */
free_block *free_list_first_fit(const free_list *list, uint64_t size_bytes);

/* Takes the first bytes of a block out of the list, and returns their address. */
uint64_t free_list_take(free_list *list, mend_slab *slab, free_block *block, uint64_t size_bytes);

uint64_t free_list_largest_bytes(const free_list *list);

#endif
