/* Other allocators below every hook: one that records, one that limits, one that fails. */
#include <string.h>

#include "tests/hooks/hook.h"
#include "tests/support/test.h"

enum { BLOCK = 10000, LOGGED = 8 };

/* Wraps the allocator that was set. */
typedef struct wrapper {
    hooks_below below;
    int allocs;
    int frees;
    size_t sizes[LOGGED];        /* of allocations */
    mend_stream streams[LOGGED]; /* of allocations, then of frees */
    size_t freed_size;
    uint64_t live_blocks;
    uint64_t most_blocks; /* live at a time */
    int answer;           /* of an allocation that is refused, and of every free that fails */
    bool fails;           /* all calls */
    int retired;
} wrapper;

static int wrapper_alloc(void *ctx, void **pointer, size_t size, mend_stream stream)
{
    wrapper *w = ctx;
    w->sizes[w->allocs % LOGGED] = size;
    w->streams[w->allocs % LOGGED] = stream;
    w->allocs++;
    if (w->fails || w->live_blocks == w->most_blocks) {
        return w->answer;
    }
    w->live_blocks++;
    return hooks_below_alloc(ctx, pointer, size, stream);
}

static int wrapper_free(void *ctx, void *pointer, size_t size, mend_stream stream)
{
    wrapper *w = ctx;
    w->streams[w->allocs % LOGGED] = stream;
    w->freed_size = size;
    w->frees++;
    if (w->fails) {
        return w->answer;
    }
    w->live_blocks--;
    return hooks_below_free(ctx, pointer, size, stream);
}

static void wrapper_end(void *ctx)
{
    wrapper *w = ctx;
    w->retired++;
}

static void put_wrapper(hooks_rig *rig, wrapper *w)
{
    *w = (wrapper){.most_blocks = UINT64_MAX, .answer = 2};
    mend_allocator allocator = hooks_below_allocator(rig, &w->below);
    allocator.handler.alloc = wrapper_alloc;
    allocator.handler.free = wrapper_free;
    allocator.block_info = NULL;
    allocator.record_stream = NULL;
    allocator.retired = wrapper_end;
    HOOKS_OK(mend_set_allocator(0, &allocator));
}

/* Runs a test over every hook, each on a device of its own. */
static void for_each_hook(void (*body)(hooks_rig *rig, const hook *h, wrapper *w))
{
    for (int i = 0; i < HOOKS && !mend_test_has_failed(); i++) {
        hooks_rig rig;
        wrapper w;
        ASSERT_TRUE(hooks_open(&rig, MIB));
        put_wrapper(&rig, &w);
        body(&rig, &hooks[i], &w);
        hooks_close(&rig);
        EXPECT_INT_EQ(1, w.retired);
        if (mend_test_has_failed()) {
            mend_test_fail(__FILE__, __LINE__, "with the hook of %s", hooks[i].name);
        }
    }
}

static void record(hooks_rig *rig, const hook *h, wrapper *w)
{
    void *block = h->alloc(rig, BLOCK, rig->streams[1]);
    EXPECT_TRUE(block != NULL);
    EXPECT_PTR_EQ(NULL, h->alloc(rig, 0, rig->streams[1]));
    h->free(rig, NULL, 0, rig->streams[1]);
    EXPECT_INT_EQ(1, w->allocs);
    EXPECT_U64_EQ(BLOCK, w->sizes[0]);
    EXPECT_PTR_EQ(h->names_streams ? rig->streams[1] : MEND_NO_STREAM, w->streams[0]);
    h->free(rig, block, BLOCK, rig->streams[1]);
    EXPECT_INT_EQ(1, w->frees);
    EXPECT_PTR_EQ(h->names_streams ? rig->streams[1] : MEND_NO_STREAM, w->streams[1]);
    EXPECT_U64_EQ(h->names_sizes ? BLOCK : 0, w->freed_size);
    EXPECT_U64_EQ(0, hooks_stats(rig).live_blocks);
}

MEND_TEST(wrapper, a_recorder_sees_what_each_hook_is_asked_for)
{
    for_each_hook(record);
}

static void limit(hooks_rig *rig, const hook *h, wrapper *w)
{
    w->most_blocks = 2;
    void *first = h->alloc(rig, BLOCK, NULL);
    void *second = h->alloc(rig, BLOCK, NULL);
    EXPECT_TRUE(first != NULL && second != NULL);
    EXPECT_PTR_EQ(NULL, h->alloc(rig, BLOCK, NULL));
    EXPECT_U64_EQ(2, hooks_stats(rig).live_blocks);
    h->free(rig, first, BLOCK, NULL);
    first = h->alloc(rig, BLOCK, NULL);
    EXPECT_TRUE(first != NULL);
    h->free(rig, first, BLOCK, NULL);
    h->free(rig, second, BLOCK, NULL);
}

MEND_TEST(wrapper, a_limiter_is_obeyed_by_each_hook)
{
    for_each_hook(limit);
}

/* A failure is reported, or counted if it cannot be. The block stays, and can be freed later.
 */
static void fail(hooks_rig *rig, const hook *h, wrapper *w)
{
    uint64_t failures = hooks_failures(rig);
    void *block = h->alloc(rig, BLOCK, NULL);
    w->fails = true;
    w->answer = 719; /* the answer of a foreign allocator, which is no mend_result */
    EXPECT_PTR_EQ(NULL, h->alloc(rig, BLOCK, NULL));
    EXPECT_U64_EQ(failures, hooks_failures(rig));
    h->free(rig, block, BLOCK, NULL);
    EXPECT_INT_EQ(1, w->frees);
    EXPECT_U64_EQ(1, hooks_stats(rig).live_blocks);
    bool is_told =
        strcmp(h->name, "foreign functions") == 0 || strcmp(h->name, "cuStateVec's handler") == 0;
    EXPECT_U64_EQ(failures + !is_told, hooks_failures(rig));
    w->fails = false;
    h->free(rig, block, BLOCK, NULL);
    EXPECT_U64_EQ(failures + !is_told, hooks_failures(rig));
}

MEND_TEST(wrapper, one_that_fails_makes_each_hook_say_so)
{
    for_each_hook(fail);
}

/* Replaced while blocks of the hook live: each is freed where it came from. */
static void replace(hooks_rig *rig, const hook *h, wrapper *w)
{
    void *block = h->alloc(rig, BLOCK, NULL);
    HOOKS_OK(mend_set_allocator(0, NULL));
    void *own = h->alloc(rig, BLOCK, NULL);
    h->free(rig, own, BLOCK, NULL);
    EXPECT_INT_EQ(0, w->frees);
    EXPECT_INT_EQ(0, w->retired);
    h->free(rig, block, BLOCK, NULL);
    EXPECT_INT_EQ(1, w->frees);
    EXPECT_INT_EQ(1, w->retired);
}

MEND_TEST(wrapper, a_hook_outlives_what_was_below_it)
{
    for_each_hook(replace);
}
