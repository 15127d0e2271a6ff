#include "lab/support/stretches.h"

#include <stdlib.h>

static mend_stretch *of(const mend_tree_node *node)
{
    return (mend_stretch *)((char *)(uintptr_t)node - offsetof(mend_stretch, in_set));
}

static int compare(const mend_tree_node *a, const mend_tree_node *b)
{
    uint64_t one = of(a)->address;
    uint64_t other = of(b)->address;
    return (one > other) - (one < other);
}

void mend_stretches_init(mend_stretches *set)
{
    *set = (mend_stretches){0};
    mend_tree_init(&set->tree, compare);
}

static void drop(mend_stretches *set, mend_stretch *stretch)
{
    mend_tree_remove(&set->tree, &stretch->in_set);
    set->bytes -= stretch->size_bytes;
    free(stretch);
}

void mend_stretches_clear(mend_stretches *set)
{
    for (mend_tree_node *first; (first = mend_tree_first(&set->tree)) != NULL;) {
        drop(set, of(first));
    }
}

static void insert(mend_stretches *set, uint64_t address, uint64_t size_bytes, uint64_t owner)
{
    mend_stretch *stretch = calloc(1, sizeof(*stretch));
    if (stretch == NULL) {
        set->lacks_memory = true;
        return;
    }
    stretch->address = address;
    stretch->size_bytes = size_bytes;
    stretch->owner = owner;
    mend_tree_insert(&set->tree, &stretch->in_set);
    set->bytes += size_bytes;
}

static bool is_no_stretch(uint64_t address, uint64_t size_bytes)
{
    return size_bytes == 0 || address > UINT64_MAX - size_bytes;
}

/* The first stretch that ends behind an address. */
static mend_stretch *first_behind(const mend_stretches *set, uint64_t address)
{
    mend_stretch key = {.address = address};
    mend_tree_node *node = mend_tree_at_or_before(&set->tree, &key.in_set);
    if (node != NULL && of(node)->address + of(node)->size_bytes > address) {
        return of(node);
    }
    node = mend_tree_at_or_after(&set->tree, &key.in_set);
    return node == NULL ? NULL : of(node);
}

void mend_stretches_remove(mend_stretches *set, uint64_t address, uint64_t size_bytes)
{
    if (is_no_stretch(address, size_bytes)) {
        return;
    }
    uint64_t end = address + size_bytes;
    mend_stretch *reached = first_behind(set, address);
    while (reached != NULL && reached->address < end) {
        uint64_t begins_at = reached->address;
        uint64_t ends_at = begins_at + reached->size_bytes;
        uint64_t owner = reached->owner;
        mend_stretch *next = mend_stretches_next(reached);
        drop(set, reached);
        if (begins_at < address) {
            insert(set, begins_at, address - begins_at, owner);
        }
        if (ends_at > end) {
            insert(set, end, ends_at - end, owner);
        }
        reached = next;
    }
}

void mend_stretches_add(mend_stretches *set, uint64_t address, uint64_t size_bytes, uint64_t owner)
{
    if (!is_no_stretch(address, size_bytes)) {
        mend_stretches_remove(set, address, size_bytes);
        insert(set, address, size_bytes, owner);
    }
}

mend_stretch *mend_stretches_first(const mend_stretches *set)
{
    mend_tree_node *node = mend_tree_first(&set->tree);
    return node == NULL ? NULL : of(node);
}

mend_stretch *mend_stretches_next(const mend_stretch *stretch)
{
    mend_tree_node *node = mend_tree_next(&stretch->in_set);
    return node == NULL ? NULL : of(node);
}
