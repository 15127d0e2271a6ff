/* Other allocators below every hook: one that records, one that fails. */
#include <string.h>

#include "tests/hooks/hook.h"
#include "tests/support/test.h"

enum { BLOCK = 10000 };

/* Wraps the allocator that was set. */
typedef struct wrapper {
    hooks_below below;
    int allocs;
    int frees;
    size_t size; /* last, and the stream */
    mend_stream stream;
    int answer; /* of all calls, if it fails */
    bool fails;
    int retired;
} wrapper;

static int wrapper_alloc(void *ctx, void **pointer, size_t size, mend_stream stream)
{
    wrapper *w = ctx;
    w->size = size;
    w->stream = stream;
    w->allocs++;
    return w->fails ? w->answer : hooks_below_alloc(ctx, pointer, size, stream);
}

static int wrapper_free(void *ctx, void *pointer, size_t size, mend_stream stream)
{
    wrapper *w = ctx;
    w->size = size;
    w->stream = stream;
    w->frees++;
    return w->fails ? w->answer : hooks_below_free(ctx, pointer, size, stream);
}

static void wrapper_end(void *ctx)
{
    wrapper *w = ctx;
    w->retired++;
}

static void put_wrapper(hooks_rig *rig, wrapper *w)
{
    *w = (wrapper){.fails = false};
    mend_allocator allocator = hooks_below_allocator(rig, &w->below);
    allocator.handler.alloc = wrapper_alloc;
    allocator.handler.free = wrapper_free;
    allocator.block_info = NULL;
    allocator.record_stream = NULL;
    allocator.retired = wrapper_end;
    HOOKS_OK(mend_set_allocator(0, &allocator));
}

/* A device below a hook, `h`, each on its own. */
typedef struct wrapped {
    hooks_rig rig;
    wrapper w;
} wrapped;

static bool open_wrapped(wrapped *r)
{
    const bool is_open = hooks_open(&r->rig, MIB);
    put_wrapper(&r->rig, &r->w);
    return is_open;
}

static void close_wrapped(wrapped *r)
{
    hooks_close(&r->rig);
    EXPECT_INT_EQ(1, r->w.retired);
}

#define WRAPPED_TEST(name)                                                                         \
    static void name##_by(hooks_rig *rig, wrapper *w, const hook *h);                              \
    KIT_RIG_EACH(wrapper, name, int, i, HOOKS, wrapped, r, open_wrapped(r), close_wrapped(r))      \
    {                                                                                              \
        name##_by(&r->rig, &r->w, &hooks[i]);                                                      \
    }                                                                                              \
    static void name##_by(hooks_rig *rig, wrapper *w, const hook *h)

WRAPPED_TEST(a_recorder_sees_what_each_hook_is_asked_for)
{
    void *block = h->alloc(rig, BLOCK, rig->streams[1]);
    EXPECT_TRUE(block != NULL);
    EXPECT_PTR_EQ(NULL, h->alloc(rig, 0, rig->streams[1]));
    h->free(rig, NULL, 0, rig->streams[1]);
    EXPECT_INT_EQ(1, w->allocs);
    EXPECT_U64_EQ(BLOCK, w->size);
    EXPECT_PTR_EQ(h->names_streams ? rig->streams[1] : MEND_NO_STREAM, w->stream);
    h->free(rig, block, BLOCK, rig->streams[1]);
    EXPECT_INT_EQ(1, w->frees);
    EXPECT_PTR_EQ(h->names_streams ? rig->streams[1] : MEND_NO_STREAM, w->stream);
    EXPECT_U64_EQ(h->names_sizes ? BLOCK : 0, w->size);
    EXPECT_U64_EQ(0, hooks_stats(rig).live_blocks);
}

/* A failure is reported, or counted if it cannot be. The block stays, and can be freed later.
 */
WRAPPED_TEST(one_that_fails_makes_each_hook_say_so)
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
