/* The ordered set, against an array that is searched from one end to the other. */
#include "base/tree.h"

#include "tests/support/test.h"

enum { ITEMS = 300, STEPS = 6000 };

typedef struct item {
    mend_tree_node node;
    uint64_t key;
    bool is_in;
} item;

/* Items by number. Items in the set are the model of it. */
typedef struct world {
    mend_tree tree;
    size_t count;
    item items[ITEMS];
} world;

static item *item_of(const mend_tree_node *node)
{
    return node == NULL ? NULL : MEND_CONTAINER_OF(node, item, node);
}

static int compare(const mend_tree_node *a, const mend_tree_node *b)
{
    uint64_t left = item_of(a)->key;
    uint64_t right = item_of(b)->key;
    return (left > right) - (left < right);
}

static void toggle(world *w, item *chosen)
{
    if (chosen->is_in) {
        mend_tree_remove(&w->tree, &chosen->node);
        w->count--;
    } else {
        mend_tree_insert(&w->tree, &chosen->node);
        w->count++;
    }
    chosen->is_in = !chosen->is_in;
}

/* The first item from `key` on that is in the set, and the last up to it. */
static item *model_at_or_after(world *w, uint64_t key)
{
    for (size_t i = 0; i < ITEMS; i++) {
        if (w->items[i].is_in && w->items[i].key >= key) {
            return &w->items[i];
        }
    }
    return NULL;
}

static item *model_at_or_before(world *w, uint64_t key)
{
    for (size_t i = ITEMS; i > 0; i--) {
        if (w->items[i - 1].is_in && w->items[i - 1].key <= key) {
            return &w->items[i - 1];
        }
    }
    return NULL;
}

static void expect_same(world *w, uint64_t key)
{
    const item probe = {.key = key};
    EXPECT_PTR_EQ(model_at_or_after(w, key), item_of(mend_tree_at_or_after(&w->tree, &probe.node)));
    EXPECT_PTR_EQ(model_at_or_before(w, key),
                  item_of(mend_tree_at_or_before(&w->tree, &probe.node)));
    EXPECT_PTR_EQ(model_at_or_after(w, 0), item_of(mend_tree_first(&w->tree)));
    EXPECT_PTR_EQ(model_at_or_before(w, UINT64_MAX), item_of(mend_tree_last(&w->tree)));
    EXPECT_U64_EQ(w->count, w->tree.count);
    EXPECT_TRUE(mend_tree_is_valid(&w->tree));
}

static void expect_same_walk(world *w)
{
    mend_tree_node *at = mend_tree_first(&w->tree);
    for (size_t i = 0; i < ITEMS; i++) {
        if (w->items[i].is_in) {
            EXPECT_PTR_EQ(&w->items[i], item_of(at));
            at = at == NULL ? NULL : mend_tree_next(at);
        }
    }
    EXPECT_PTR_EQ(NULL, at);
    at = mend_tree_last(&w->tree);
    for (size_t i = ITEMS; i > 0; i--) {
        if (w->items[i - 1].is_in) {
            EXPECT_PTR_EQ(&w->items[i - 1], item_of(at));
            at = at == NULL ? NULL : mend_tree_previous(at);
        }
    }
    EXPECT_PTR_EQ(NULL, at);
}

MEND_TEST(base_tree, answers_as_a_sorted_array_does)
{
    static world w;
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    w = (world){0};
    mend_tree_init(&w.tree, compare);
    for (size_t i = 0; i < ITEMS; i++) {
        w.items[i].key = 2 * i + 1; /* even keys lie between two items */
    }
    expect_same(&w, 1);
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        toggle(&w, &w.items[mend_test_random_below(&random, ITEMS)]);
        expect_same(&w, mend_test_random_below(&random, 2 * ITEMS + 2));
        if (step % 64 == 0) {
            expect_same_walk(&w);
        }
    }
}
