/* Arithmetic of sizes at its edges, amounts in words, and the ring of nodes under every change. */
#include "base/align.h"
#include "base/list.h"
#include "base/words.h"

#include <stddef.h>

#include "tests/support/test.h"

MEND_TEST(base_align, rounds_to_multiples_of_any_size)
{
    const uint64_t last = UINT64_MAX - UINT64_MAX % 512;
    const uint64_t rows[][4] = {
        /* value, multiple, up, down */
        {0, 512, 0, 0},        {1, 512, 512, 0},        {512, 512, 512, 512},
        {513, 512, 1024, 512}, {511, 512, 512, 0},      {15, 7, 21, 14},
        {5, 1, 5, 5},          {last, 512, last, last}, {last - 511, 512, last, last - 512}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_U64_EQ(rows[i][2], mend_align_up(rows[i][0], rows[i][1]));
        EXPECT_U64_EQ(rows[i][3], mend_align_down(rows[i][0], rows[i][1]));
    }
    EXPECT_U64_EQ(last, mend_align_down(UINT64_MAX, 512));
}

MEND_TEST(base_align, knows_powers_of_two)
{
    EXPECT_FALSE(mend_is_power_of_two(0));
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t power = UINT64_C(1) << bit;
        EXPECT_TRUE(mend_is_power_of_two(power));
        EXPECT_U64_EQ(power, mend_power_of_two_floor(power));
        EXPECT_U64_EQ(power, mend_power_of_two_floor(power + (power - 1)));
        if (bit > 0) {
            EXPECT_FALSE(mend_is_power_of_two(power | 1));
            EXPECT_U64_EQ(power, mend_power_of_two_floor(power | 1));
        }
    }
}

MEND_TEST(base_align, finds_the_structure_around_a_member)
{
    struct outer {
        int first;
        double second;
    } outer;
    EXPECT_PTR_EQ(&outer, MEND_CONTAINER_OF(&outer.second, struct outer, second));
    EXPECT_PTR_EQ(&outer, MEND_CONTAINER_OF(&outer.first, struct outer, first));
}

MEND_TEST(base_words, amounts_have_the_unit_that_fits)
{
    static const struct {
        uint64_t bytes;
        const char *below;
        const char *above;
    } rows[] = {
        {0, "0 bytes", "0 bytes"},
        {1023, "1023 bytes", "1023 bytes"},
        {1024, "1.00 KiB", "1.00 KiB"},
        {1025, "1.00 KiB", "1.01 KiB"},
        {MEND_MIB - 1, "1023.99 KiB", "1024.00 KiB"},
        {576 * MEND_MIB, "576.00 MiB", "576.00 MiB"},
        {13071548416, "12.17 GiB", "12.18 GiB"},
        {5 * MEND_TIB / 2, "2.50 TiB", "2.50 TiB"},
        {UINT64_MAX, "16777215.99 TiB", "16777216.00 TiB"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mend_amount below = mend_words_amount(rows[i].bytes);
        mend_amount above = mend_words_amount_above(rows[i].bytes);
        EXPECT_STR_EQ(rows[i].below, below.text);
        EXPECT_STR_EQ(rows[i].above, above.text);
    }
}

enum { NODES = 4 };

/* The nodes of a list are those of a text, as "013", in both directions. */
static void expect_order(const mend_list *head, const mend_list *nodes, const char *expected)
{
    const mend_list *at = head;
    for (const char *c = expected; *c != '\0'; c++) {
        EXPECT_PTR_EQ(&nodes[*c - '0'], at->next);
        EXPECT_PTR_EQ(at, at->next->previous);
        at = at->next;
    }
    EXPECT_PTR_EQ(head, at->next);
    EXPECT_PTR_EQ(at, head->previous);
    EXPECT_TRUE(mend_list_is_empty(head) == (expected[0] == '\0'));
}

MEND_TEST(base_list, keeps_its_order_as_nodes_come_and_go)
{
    static const char *const filled[NODES] = {"0", "01", "012", "0123"};
    mend_list head;
    mend_list nodes[NODES] = {0};
    mend_list_init(&head);
    expect_order(&head, nodes, "");
    for (size_t i = 0; i < NODES; i++) {
        mend_list_append(&head, &nodes[i]);
        expect_order(&head, nodes, filled[i]);
    }
    mend_list_remove(&nodes[1]);
    expect_order(&head, nodes, "023");
    mend_list_insert_after(&nodes[2], &nodes[1]);
    expect_order(&head, nodes, "0213");
    mend_list_remove(&nodes[0]);
    mend_list_remove(&nodes[3]);
    mend_list_insert_after(&head, &nodes[0]);
    expect_order(&head, nodes, "021");
    mend_list_remove(&nodes[0]);
    mend_list_remove(&nodes[2]);
    mend_list_remove(&nodes[1]);
    EXPECT_TRUE(mend_list_is_empty(&nodes[1]));
    mend_list_remove(&nodes[1]); /* a ring of one: nothing happens */
    expect_order(&head, nodes, "");
    mend_list_append(&head, &nodes[1]);
    expect_order(&head, nodes, "1");
}
