/* A doubly linked ring of nodes inside the caller's structures. The head is a node without
 * content. */
#ifndef MEND_BASE_LIST_H
#define MEND_BASE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/align.h"

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
