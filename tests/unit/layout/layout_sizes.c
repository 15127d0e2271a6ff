/* The index of runs by size, against an array that is searched from one end to the other. */
#include "layout/sizes.h"

#include "layout/state.h"
#include "tests/support/test.h"

enum { RUNS = 400, STEPS = 8000 };

typedef struct world {
    mend_sizes sizes;
    size_t count;
    mend_run runs[RUNS];
    bool is_in[RUNS];
} world;

static void toggle(world *w, int i)
{
    if (w->is_in[i]) {
        mend_sizes_remove(&w->sizes, &w->runs[i]);
        w->count--;
    } else {
        mend_sizes_insert(&w->sizes, &w->runs[i]);
        w->count++;
    }
    w->is_in[i] = !w->is_in[i];
}

MEND_TEST(layout_sizes, a_wrong_class_bit_or_count_is_found)
{
    static world w;
    w = (world){.runs[0] = {.address = MEND_GRANULE_BYTES, .size_bytes = MEND_MIB}};
    mend_sizes_init(&w.sizes);
    toggle(&w, 0);
    EXPECT_TRUE(mend_sizes_are_valid(&w.sizes));
    w.runs[0].size_bytes *= 2;
    EXPECT_FALSE(mend_sizes_are_valid(&w.sizes));
    w.runs[0].size_bytes /= 2;
    w.sizes.words[0] ^= 1;
    EXPECT_FALSE(mend_sizes_are_valid(&w.sizes));
    w.sizes.words[0] ^= 1;
    w.sizes.count++;
    EXPECT_FALSE(mend_sizes_are_valid(&w.sizes));
}
