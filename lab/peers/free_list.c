#include "lab/peers/free_list.h"

#include <stddef.h>

#include "base/align.h"

static free_block *at_address(const mend_tree_node *node)
{
    return node == NULL ? NULL : MEND_CONTAINER_OF(node, free_block, by_address);
}

static free_block *at_size(const mend_tree_node *node)
{
    return node == NULL ? NULL : MEND_CONTAINER_OF(node, free_block, by_size);
}

static int compare_addresses(const free_block *a, const free_block *b)
{
    return (a->address > b->address) - (a->address < b->address);
}

static int by_address(const mend_tree_node *a, const mend_tree_node *b)
{
    return compare_addresses(at_address(a), at_address(b));
}

static int by_size(const mend_tree_node *a, const mend_tree_node *b)
{
    const free_block *left = at_size(a);
    const free_block *right = at_size(b);
    if (left->size_bytes != right->size_bytes) {
        return left->size_bytes < right->size_bytes ? -1 : 1;
    }
    return compare_addresses(left, right);
}

void free_list_init(free_list *list)
{
    mend_tree_init(&list->by_address, by_address);
    mend_tree_init(&list->by_size, by_size);
}

static void insert(free_list *list, free_block *block)
{
    mend_tree_insert(&list->by_address, &block->by_address);
    mend_tree_insert(&list->by_size, &block->by_size);
}

static void remove_block(free_list *list, free_block *block)
{
    mend_tree_remove(&list->by_address, &block->by_address);
    mend_tree_remove(&list->by_size, &block->by_size);
}

void free_list_put(free_list *list, mend_slab *slab, uint64_t address, uint64_t size_bytes,
                   bool is_head)
{
    free_block *block = mend_slab_take(slab);
    block->address = address;
    block->size_bytes = size_bytes;
    block->is_head = is_head;
    free_block *next = at_address(mend_tree_at_or_after(&list->by_address, &block->by_address));
    free_block *before = at_address(mend_tree_at_or_before(&list->by_address, &block->by_address));
    if (next != NULL && address + size_bytes == next->address && !next->is_head) {
        remove_block(list, next);
        block->size_bytes += next->size_bytes;
        mend_slab_give(slab, next);
    }
    if (before != NULL && before->address + before->size_bytes == address && !is_head) {
        remove_block(list, before);
        before->size_bytes += block->size_bytes;
        mend_slab_give(slab, block);
        block = before;
    }
    insert(list, block);
}

void free_list_merge(free_list *list, mend_slab *slab, free_list *from)
{
    free_block *block;
    while ((block = at_address(mend_tree_first(&from->by_address))) != NULL) {
        remove_block(from, block);
        const free_block moved = *block;
        mend_slab_give(slab, block);
        free_list_put(list, slab, moved.address, moved.size_bytes, moved.is_head);
    }
}

free_block *free_list_best_fit(const free_list *list, uint64_t size_bytes)
{
    free_block key = {.size_bytes = size_bytes};
    return at_size(mend_tree_at_or_after(&list->by_size, &key.by_size));
}

free_block *free_list_first_fit(const free_list *list, uint64_t size_bytes)
{
    if (free_list_largest_bytes(list) < size_bytes) {
        return NULL;
    }
    free_block *block = at_address(mend_tree_first(&list->by_address));
    while (block->size_bytes < size_bytes) {
        block = at_address(mend_tree_next(&block->by_address));
    }
    return block;
}

uint64_t free_list_take(free_list *list, mend_slab *slab, free_block *block, uint64_t size_bytes)
{
    uint64_t address = block->address;
    remove_block(list, block);
    if (block->size_bytes == size_bytes) {
        mend_slab_give(slab, block);
    } else {
        block->address += size_bytes;
        block->size_bytes -= size_bytes;
        block->is_head = false;
        insert(list, block);
    }
    return address;
}

uint64_t free_list_largest_bytes(const free_list *list)
{
    const free_block *largest = at_size(mend_tree_last(&list->by_size));
    return largest == NULL ? 0 : largest->size_bytes;
}
