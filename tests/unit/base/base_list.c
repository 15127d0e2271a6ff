/* The ring of nodes: its order under every kind of change. */
#include "base/list.h"

#include "tests/support/test.h"

enum { NODES = 4 };

/* The nodes of a list, in order, are those of `expected`, in both directions. */
static void expect_order(const mend_list *head, const mend_list *const *expected, size_t count)
{
    const mend_list *at = head;
    for (size_t i = 0; i < count; i++) {
        EXPECT_PTR_EQ(expected[i], at->next);
        EXPECT_PTR_EQ(at, at->next->previous);
        at = at->next;
    }
    EXPECT_PTR_EQ(head, at->next);
    EXPECT_PTR_EQ(at, head->previous);
    EXPECT_TRUE(mend_list_is_empty(head) == (count == 0));
}

MEND_TEST(base_list, keeps_the_order_of_appending)
{
    mend_list head;
    mend_list nodes[NODES];
    mend_list_init(&head);
    expect_order(&head, NULL, 0);
    const mend_list *expected[NODES];
    for (size_t i = 0; i < NODES; i++) {
        mend_list_append(&head, &nodes[i]);
        expected[i] = &nodes[i];
        expect_order(&head, expected, i + 1);
    }
}

MEND_TEST(base_list, inserts_after_any_node)
{
    mend_list head;
    mend_list nodes[3];
    mend_list_init(&head);
    mend_list_insert_after(&head, &nodes[0]);
    mend_list_insert_after(&nodes[0], &nodes[2]);
    mend_list_insert_after(&nodes[0], &nodes[1]);
    expect_order(&head, (const mend_list *const[]){&nodes[0], &nodes[1], &nodes[2]}, 3);
}

MEND_TEST(base_list, removes_from_anywhere)
{
    mend_list head;
    mend_list nodes[NODES];
    mend_list_init(&head);
    for (size_t i = 0; i < NODES; i++) {
        mend_list_append(&head, &nodes[i]);
    }
    mend_list_remove(&nodes[1]);
    expect_order(&head, (const mend_list *const[]){&nodes[0], &nodes[2], &nodes[3]}, 3);
    mend_list_remove(&nodes[0]);
    mend_list_remove(&nodes[3]);
    expect_order(&head, (const mend_list *const[]){&nodes[2]}, 1);
    mend_list_remove(&nodes[2]);
    expect_order(&head, NULL, 0);
}

MEND_TEST(base_list, forgets_a_node_that_was_removed)
{
    mend_list head;
    mend_list node;
    mend_list_init(&head);
    mend_list_append(&head, &node);
    mend_list_remove(&node);
    EXPECT_TRUE(mend_list_is_empty(&node));
    mend_list_remove(&node); /* a ring of one: nothing happens */
    expect_order(&head, NULL, 0);
    mend_list_append(&head, &node);
    expect_order(&head, (const mend_list *const[]){&node}, 1);
}
