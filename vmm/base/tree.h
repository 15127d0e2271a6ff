/* Nodes inside the caller's structures, in an ordered set, an AVL tree, or in a ring. Nothing is
 * allocated, so no operation can fail. A comparison of two nodes gives the order. A key may change
 * while its node is in a tree only if the order of the nodes stays the same. */
#ifndef MEND_BASE_TREE_H
#define MEND_BASE_TREE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/align.h"

/* Three words, so that two nodes with their keys share a cache line. */
typedef struct mend_tree_node {
    struct mend_tree_node *child[2]; /* 0: less, 1: greater */
    uintptr_t parent_and_balance;    /* the lowest two bits: the balance, plus 1 */
} mend_tree_node;
static_assert(_Alignof(mend_tree_node) >= 4, "the lowest two bits of a parent are free");
static_assert(sizeof(mend_tree_node) == 3 * sizeof(void *), "a node is three words");

static inline mend_tree_node *mend_tree_parent(const mend_tree_node *node)
{
    return (mend_tree_node *)(node->parent_and_balance & ~(uintptr_t)3);
}

/* Height of child[1] minus height of child[0]: -1, 0 or 1. */
static inline int mend_tree_balance(const mend_tree_node *node)
{
    return (int)(node->parent_and_balance & 3) - 1;
}

static inline void mend_tree_set(mend_tree_node *node, const mend_tree_node *parent, int balance)
{
    node->parent_and_balance = (uintptr_t)parent | (uintptr_t)(balance + 1);
}

/* Negative if a comes before b, positive if after. Never 0 for two nodes of one tree. */
typedef int (*mend_tree_compare)(const mend_tree_node *a, const mend_tree_node *b);

/* Defines the order by a number of the structure, and by a second one where the first is the
 * same. */
#define MEND_TREE_ORDER(name, type, member, number)                                                \
    MEND_TREE_ORDER_BY_TWO(name, type, member, number, number)
#define MEND_TREE_ORDER_BY_TWO(name, type, member, first, second)                                  \
    static int name(const mend_tree_node *a, const mend_tree_node *b)                              \
    {                                                                                              \
        const type *one = MEND_CONTAINER_OF(a, const type, member);                                \
        const type *other = MEND_CONTAINER_OF(b, const type, member);                              \
        return one->first != other->first                                                          \
                   ? (one->first < other->first ? -1 : 1)                                          \
                   : (one->second > other->second) - (one->second < other->second);                \
    }                                                                                              \
    static_assert(true, "")

typedef struct mend_tree {
    mend_tree_node *root;
    mend_tree_compare compare;
    size_t count;
} mend_tree;

void mend_tree_init(mend_tree *tree, mend_tree_compare compare);
void mend_tree_insert(mend_tree *tree, mend_tree_node *node);

/* NULL if the tree is empty, or if there is no such node. O(log n). Sides: 0 is less, 1 greater. */
#define mend_tree_next(node)     mend_tree_neighbor(node, 1)
#define mend_tree_previous(node) mend_tree_neighbor(node, 0)
mend_tree_node *mend_tree_neighbor(const mend_tree_node *node, int side);
mend_tree_node *mend_tree_outermost(mend_tree_node *root, int side);
static inline mend_tree_node *mend_tree_first(const mend_tree *tree)
{
    return mend_tree_outermost(tree->root, 0);
}
static inline mend_tree_node *mend_tree_last(const mend_tree *tree)
{
    return mend_tree_outermost(tree->root, 1);
}

/* Visits all nodes of a tree in order, each as the structure that it is a member of. No node leaves
 * the tree meanwhile. */
#define MEND_TREE_EACH(type, item, member, tree)                                                   \
    for (type *item = MEND_CONTAINER_OR_NULL(mend_tree_first(tree), type, member); item != NULL;   \
         item = MEND_CONTAINER_OR_NULL(mend_tree_next(&item->member), type, member))

/* The first node not before `key`, and the last node not after it. `key` is a node outside the tree
 * that has the values compared. NULL if there is none. */
mend_tree_node *mend_tree_at_or_after(const mend_tree *tree, const mend_tree_node *key);
mend_tree_node *mend_tree_at_or_before(const mend_tree *tree, const mend_tree_node *key);

/* The same with a key of any type, for trees that every call searches: the first node not before
 * the key, and the last node not behind it. The test is a macro argument, so that the compiler
 * inlines it into the loop. */
typedef bool (*mend_tree_test)(const mend_tree_node *node, const void *key);

#define mend_tree_first_from(tree, key, is_before) mend_tree_search(tree, key, is_before, 1)
#define mend_tree_last_to(tree, key, is_behind)    mend_tree_search(tree, key, is_behind, 0)
static inline mend_tree_node *mend_tree_search(const mend_tree *tree, const void *key,
                                               mend_tree_test is_past, int side)
{
    mend_tree_node *found = NULL;
    for (mend_tree_node *at = tree->root; at != NULL;) {
        const bool past = is_past(at, key);
        found = past ? found : at;
        at = at->child[past ? side : 1 - side];
    }
    return found;
}

/* The same for a bare root, for many trees with roots side by side: links a node in at the place
 * where a search for it ended, or unlinks one. */
void mend_tree_attach(mend_tree_node **root, mend_tree_node *node, mend_tree_node *parent,
                      int side);
void mend_tree_detach(mend_tree_node **root, mend_tree_node *node);

static inline void mend_tree_insert_at(mend_tree_node **root, mend_tree_node *node,
                                       mend_tree_compare compare)
{
    mend_tree_node *parent = NULL;
    int side = 0;
    for (mend_tree_node *at = *root; at != NULL; at = at->child[side]) {
        int order = compare(node, at);
        assert(order != 0);
        parent = at;
        side = order > 0;
    }
    mend_tree_attach(root, node, parent, side);
}

static inline void mend_tree_insert_by(mend_tree *tree, mend_tree_node *node,
                                       mend_tree_compare compare)
{
    tree->count++;
    mend_tree_insert_at(&tree->root, node, compare);
}

static inline void mend_tree_remove(mend_tree *tree, mend_tree_node *node)
{
    assert(tree->count > 0);
    tree->count--;
    mend_tree_detach(&tree->root, node);
}

/* Whether order, parents, heights and count are right. O(n). */
bool mend_tree_is_valid(const mend_tree *tree);

/* ---- rings ----------------------------------------------------------------------------------- */

/* A doubly linked ring. The head is a node without content. */

typedef struct mend_list {
    struct mend_list *next;
    struct mend_list *previous;
} mend_list;

static inline void mend_list_init(mend_list *head)
{
    head->next = head;
    head->previous = head;
}

static inline bool mend_list_is_empty(const mend_list *head)
{
    return head->next == head;
}

static inline void mend_list_insert_after(mend_list *at, mend_list *node)
{
    assert(node != at);
    assert(at->next->previous == at);
    node->next = at->next;
    node->previous = at;
    at->next->previous = node;
    at->next = node;
}

static inline void mend_list_append(mend_list *head, mend_list *node)
{
    mend_list_insert_after(head->previous, node);
}

static inline void mend_list_remove(mend_list *node)
{
    assert(node->previous->next == node);
    assert(node->next->previous == node);
    node->previous->next = node->next;
    node->next->previous = node->previous;
    mend_list_init(node);
}

/* Visits all nodes of a ring, each as the structure that it is a member of. No node leaves
 * meanwhile. */
#define MEND_LIST_EACH(type, item, member, head)                                                   \
    for (type *item = MEND_CONTAINER_OF((head)->next, type, member); &item->member != (head);      \
         item = MEND_CONTAINER_OF(item->member.next, type, member))

#endif
