/* The hash table, against an array with a place for every key. */
#include "base/pointer_map.h"

#include "base/align.h"
#include "tests/support/test.h"

enum { KEYS = 2000, STEPS = 40000 };

static char values[KEYS]; /* only their addresses count */

typedef struct world {
    mend_pointer_map map;
    void *model[KEYS]; /* NULL: not in the map */
    size_t count;
} world;

/* Keys as the heap uses them: addresses in rows, with a few far away. */
static uint64_t key_of(size_t number)
{
    uint64_t row = number % 7 == 0 ? UINT64_C(1) << 46 : UINT64_C(0x7f0000000000);
    return row + number * MEND_GRANULE_BYTES;
}

static void put(world *w, size_t number)
{
    ASSERT_TRUE(mend_pointer_map_reserve(&w->map));
    mend_pointer_map_insert(&w->map, key_of(number), &values[number]);
    w->model[number] = &values[number];
    w->count++;
}

static void drop(world *w, size_t number)
{
    EXPECT_PTR_EQ(w->model[number], mend_pointer_map_remove(&w->map, key_of(number)));
    w->count -= w->model[number] != NULL;
    w->model[number] = NULL;
}

static void expect_same(const world *w)
{
    EXPECT_U64_EQ(w->count, w->map.count);
    for (size_t i = 0; i < KEYS; i++) {
        EXPECT_PTR_EQ(w->model[i], mend_pointer_map_find(&w->map, key_of(i)));
    }
}

MEND_TEST(base_pointer_map, answers_as_an_array_does)
{
    static world w;
    w = (world){0};
    mend_pointer_map_init(&w.map);
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        /* Fills up, then empties again, so that long clusters are met both ways. */
        bool filling = step / (STEPS / 4) % 2 == 0;
        size_t number = (size_t)mend_test_random_below(&random, KEYS);
        if (w.model[number] == NULL && (filling || mend_test_random_below(&random, 3) == 0)) {
            put(&w, number);
        } else if (!filling || mend_test_random_below(&random, 3) == 0) {
            drop(&w, number);
        }
        EXPECT_PTR_EQ(w.model[number], mend_pointer_map_find(&w.map, key_of(number)));
        if (step % 1000 == 0) {
            expect_same(&w);
        }
    }
    expect_same(&w);
    mend_pointer_map_clear(&w.map);
    EXPECT_U64_EQ(0, w.map.count);
    EXPECT_PTR_EQ(NULL, mend_pointer_map_find(&w.map, key_of(1)));
}

MEND_TEST(base_pointer_map, what_is_promised_is_left_when_others_inserted_theirs)
{
    mend_pointer_map map;
    mend_pointer_map_init(&map);
    ASSERT_TRUE(mend_pointer_map_promise(&map));
    for (uint64_t i = 1; i < 2000; i++) {
        ASSERT_TRUE(mend_pointer_map_reserve(&map));
        mend_pointer_map_insert(&map, i * 512, &map);
        EXPECT_TRUE((map.count + 1) * 2 <= map.capacity);
    }
    mend_pointer_map_end_promise(&map);
    mend_pointer_map_clear(&map);
}
