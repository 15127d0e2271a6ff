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

/* Many runs of one size, many in one class, some at the borders of classes, some of any size. */
static uint64_t draw_size(mend_test_random *random, int i)
{
    uint64_t power = MEND_GRANULE_BYTES << mend_test_random_below(random, 50);
    switch (i % 4) {
    case 0:
        return 4 * MEND_GRANULE_BYTES;
    case 1:
        return MEND_MIB + mend_test_random_below(random, 64) * MEND_GRANULE_BYTES;
    case 2:
        return power > MEND_GRANULE_BYTES && mend_test_random_below(random, 2) == 0
                   ? power - MEND_GRANULE_BYTES
                   : power;
    default:
        return power + mend_align_down(mend_test_random_below(random, power), MEND_GRANULE_BYTES);
    }
}

static bool comes_before(const mend_run *a, const mend_run *b)
{
    return a->size_bytes != b->size_bytes ? a->size_bytes < b->size_bytes : a->address < b->address;
}

/* The first run that is in, not smaller than a size, and behind another one (NULL: any). */
static mend_run *model_next(world *w, uint64_t size_bytes, const mend_run *behind)
{
    mend_run *found = NULL;
    for (int i = 0; i < RUNS; i++) {
        mend_run *run = &w->runs[i];
        if (w->is_in[i] && run->size_bytes >= size_bytes &&
            (behind == NULL || comes_before(behind, run)) &&
            (found == NULL || comes_before(run, found))) {
            found = run;
        }
    }
    return found;
}

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

MEND_TEST(layout_sizes, answers_as_an_array_does)
{
    static world w;
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    w = (world){0};
    mend_sizes_init(&w.sizes);
    for (int i = 0; i < RUNS; i++) {
        w.runs[i].address = MEND_GRANULE_BYTES * (uint64_t)(i + 1);
        w.runs[i].size_bytes = draw_size(&random, i);
    }
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        int i = (int)mend_test_random_below(&random, RUNS);
        toggle(&w, i);
        const mend_run *run = &w.runs[i];
        ASSERT_TRUE(mend_sizes_has(&w.sizes, run) == w.is_in[i]);
        EXPECT_PTR_EQ(model_next(&w, run->size_bytes, NULL),
                      mend_sizes_at_least(&w.sizes, run->size_bytes));
        EXPECT_PTR_EQ(model_next(&w, run->size_bytes + MEND_GRANULE_BYTES, NULL),
                      mend_sizes_at_least(&w.sizes, run->size_bytes + MEND_GRANULE_BYTES));
        if (w.is_in[i]) {
            EXPECT_PTR_EQ(model_next(&w, 0, run), mend_sizes_next(&w.sizes, run));
        }
        EXPECT_U64_EQ(w.count, w.sizes.count);
        ASSERT_TRUE(step % 64 != 0 || mend_sizes_are_valid(&w.sizes));
    }
}

MEND_TEST(layout_sizes, walks_all_runs_and_knows_the_last)
{
    static world w;
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    w = (world){0};
    mend_sizes_init(&w.sizes);
    EXPECT_TRUE(mend_sizes_last(&w.sizes) == NULL);
    EXPECT_TRUE(mend_sizes_at_least(&w.sizes, MEND_GRANULE_BYTES) == NULL);
    for (int i = 0; i < RUNS; i++) {
        w.runs[i].address = MEND_GRANULE_BYTES * (uint64_t)(i + 1);
        w.runs[i].size_bytes = draw_size(&random, i);
        toggle(&w, i);
    }
    size_t walked = 0;
    const mend_run *last = NULL;
    for (const mend_run *at = mend_sizes_at_least(&w.sizes, MEND_GRANULE_BYTES); at != NULL;
         at = mend_sizes_next(&w.sizes, at)) {
        EXPECT_TRUE(last == NULL || comes_before(last, at));
        last = at;
        walked++;
    }
    EXPECT_U64_EQ(RUNS, walked);
    EXPECT_PTR_EQ(last, mend_sizes_last(&w.sizes));
    EXPECT_TRUE(mend_sizes_at_least(&w.sizes, MEND_LARGEST_REQUEST_BYTES) == NULL);
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
