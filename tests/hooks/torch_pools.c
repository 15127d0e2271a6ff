/* PyTorch's memory pools: their requests, their memory, and PyTorch's statistics. */
#include <stdlib.h>
#include <string.h>

#include "tests/hooks/rig.h"
#include "tests/support/test.h"

static const mend_torch_pool_id FIRST = {1, 0};
static const mend_torch_pool_id SECOND = {0, 7};

/* The filter of a pool: one stream, captured or not. */
typedef struct filter {
    mend_stream stream;
    int answer;
    int dropped;
} filter;

static int takes(void *context, mend_stream stream)
{
    const filter *f = context;
    return stream == f->stream ? f->answer : 0;
}

static void drop(void *context)
{
    filter *f = context;
    f->dropped++;
}

static filter filter_for(hooks_rig *rig, int stream, int answer)
{
    return (filter){.stream = rig->streams[stream], .answer = answer};
}

static mend_torch_pool_info pool_info(hooks_rig *rig, int device, mend_torch_pool_id id)
{
    mend_torch_pool_info info = MEND_TORCH_POOL_INFO_INIT;
    HOOKS_OK(mend_torch_pool_get_info(device, id, &info));
    return info;
}

static mend_torch_pool_id pool_of(hooks_rig *rig, const void *pointer)
{
    return rig->f->mend_torch_pool_of_tag(torch_found(rig, pointer).tag);
}

/* The end of a pool that has one user, or `users`. */
static void end(hooks_rig *rig, mend_torch_pool_id id, int users)
{
    HOOKS_OK(mend_torch_pool_end(0, id));
    for (int i = 0; i < users; i++) {
        HOOKS_OK(mend_torch_pool_remove(0, id));
    }
}

HOOKS_TEST(torch_pools, a_pool_takes_what_its_filter_says, MIB)
{
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES);
    HOOKS_OK(mend_torch_pool_begin(0, FIRST, takes, drop, &f));
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_pool_begin(0, FIRST, takes, drop, &f));
    void *in = torch_alloc(rig, 10 * KIB, rig->streams[0]);
    void *out = torch_alloc(rig, 10 * KIB, rig->streams[1]);
    EXPECT_U64_EQ(1, pool_of(rig, in).first);
    EXPECT_U64_EQ(0, pool_of(rig, out).first);
    HOOKS_OK(mend_torch_pool_end(0, FIRST));
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_pool_end(0, FIRST));
    EXPECT_INT_EQ(1, f.dropped);
    void *after = torch_alloc(rig, 10 * KIB, rig->streams[0]);
    EXPECT_U64_EQ(0, pool_of(rig, after).first);
    torch_give(rig, in);
    torch_give(rig, out);
    torch_give(rig, after);
    HOOKS_OK(mend_torch_pool_remove(0, FIRST));
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_pool_remove(0, FIRST));
}

HOOKS_TEST(torch_pools, the_pool_begun_last_is_asked_first, MIB)
{
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES);
    HOOKS_OK(mend_torch_pool_begin(0, FIRST, takes, NULL, &f));
    HOOKS_OK(mend_torch_pool_begin(0, SECOND, takes, NULL, &f));
    void *inner = torch_alloc(rig, KIB, rig->streams[0]);
    EXPECT_U64_EQ(7, pool_of(rig, inner).second);
    HOOKS_OK(mend_torch_pool_end(0, SECOND));
    void *outer = torch_alloc(rig, KIB, rig->streams[0]);
    EXPECT_U64_EQ(1, pool_of(rig, outer).first);
    HOOKS_OK(mend_torch_pool_end(0, FIRST));
    torch_give(rig, inner);
    torch_give(rig, outer);
    HOOKS_OK(mend_torch_pool_remove(0, FIRST));
    HOOKS_OK(mend_torch_pool_remove(0, SECOND));
}

/* Graphs use it between two launches. */
HOOKS_TEST(torch_pools, memory_stays_with_a_pool_of_graphs_until_its_last_user_goes, MIB)
{
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES_CAPTURED);
    HOOKS_OK(mend_torch_pool_begin(0, FIRST, takes, NULL, &f));
    HOOKS_OK(mend_torch_pool_add(0, FIRST, 0));
    EXPECT_INT_EQ(2, pool_info(rig, 0, FIRST).users);
    void *block = torch_alloc(rig, 600 * KIB, rig->streams[0]);
    mend_graph_pool *graph_pool = pool_info(rig, 0, FIRST).graph_pool;
    EXPECT_TRUE(graph_pool != NULL);
    EXPECT_U64_EQ(1, rig->f->mend_torch_pool_of_graph_pool(graph_pool).first);
    HOOKS_OK(mend_torch_pool_end(0, FIRST));
    torch_give(rig, block);
    /* Too little is left for others. */
    EXPECT_PTR_EQ(NULL, rig->f->mend_torch_alloc_or_null(600 * KIB, 0, rig->streams[0]));
    HOOKS_OK(mend_torch_pool_remove(0, FIRST));
    EXPECT_PTR_EQ(NULL, rig->f->mend_torch_alloc_or_null(600 * KIB, 0, rig->streams[0]));
    HOOKS_OK(mend_torch_pool_remove(0, FIRST));
    EXPECT_INT_EQ(0, pool_info(rig, 0, FIRST).users);
    void *free_again = torch_alloc(rig, 600 * KIB, rig->streams[0]);
    EXPECT_TRUE(free_again != NULL);
    torch_give(rig, free_again);
}

/* Without a capture nothing uses memory after its free. */
HOOKS_TEST(torch_pools, a_pool_of_the_programs_shares_its_memory_until_a_capture, MIB)
{
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES);
    HOOKS_OK(mend_torch_pool_add(0, FIRST, 0));
    HOOKS_OK(mend_torch_pool_begin(0, FIRST, takes, NULL, &f));
    void *block = torch_alloc(rig, 600 * KIB, rig->streams[0]);
    EXPECT_PTR_EQ(NULL, pool_info(rig, 0, FIRST).graph_pool);
    torch_give(rig, block);
    void *other = torch_alloc(rig, 600 * KIB, rig->streams[1]);
    EXPECT_TRUE(other != NULL);
    torch_give(rig, other);
    /* A block from before the capture, freed after it: the graph may use it. */
    void *early = torch_alloc(rig, 600 * KIB, rig->streams[0]);
    f.answer = MEND_TORCH_TAKES_CAPTURED;
    void *captured = torch_alloc(rig, KIB, rig->streams[0]);
    EXPECT_TRUE(pool_info(rig, 0, FIRST).graph_pool != NULL);
    torch_give(rig, early);
    EXPECT_PTR_EQ(NULL, rig->f->mend_torch_alloc_or_null(600 * KIB, 0, rig->streams[1]));
    end(rig, FIRST, 2);
    torch_give(rig, captured); /* outlives its pool */
}

HOOKS_TEST(torch_pools, a_pool_that_pytorch_keeps_is_named_and_nothing_is_allocated, MIB)
{
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES);
    int is_foreign = 0;
    void *pointer = rig;
    HOOKS_OK(mend_torch_pool_add(0, SECOND, 1));
    HOOKS_OK(mend_torch_pool_begin(0, SECOND, takes, NULL, &f));
    EXPECT_PTR_EQ(NULL, pool_info(rig, 0, SECOND).graph_pool);
    EXPECT_INT_EQ(1, pool_info(rig, 0, SECOND).is_foreign);
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_pool_get_info(0, SECOND, NULL));
    is_foreign = 0;
    HOOKS_OK(mend_torch_block_alloc(0, KIB, rig->streams[0], &pointer, &is_foreign));
    EXPECT_INT_EQ(1, is_foreign);
    EXPECT_U64_EQ(0, hooks_stats(rig).allocations);
    end(rig, SECOND, 2);
}

HOOKS_TEST(torch_pools, graphs_have_pytorch_s_memory_where_the_environment_says_so, MIB)
{
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES_CAPTURED);
    int is_foreign = 0;
    void *pointer = rig;
    HOOKS_OK(mend_torch_pool_add(0, FIRST, 0)); /* made before: no pool of a graph */
    EXPECT_INT_EQ(0, rig->f->mend_torch_pool_begins_native(0, SECOND));
    setenv("MEND_TORCH_GRAPHS", "native", 1);
    EXPECT_INT_EQ(1, rig->f->mend_torch_pool_begins_native(0, SECOND));
    EXPECT_INT_EQ(0, rig->f->mend_torch_pool_begins_native(0, FIRST));
    HOOKS_OK(mend_torch_pool_begin(0, SECOND, takes, NULL, &f));
    unsetenv("MEND_TORCH_GRAPHS");
    EXPECT_INT_EQ(1, rig->f->mend_torch_pool_begins_native(0, SECOND)); /* it stays */
    HOOKS_OK(mend_torch_block_alloc(0, KIB, rig->streams[0], &pointer, &is_foreign));
    EXPECT_INT_EQ(1, is_foreign);
    EXPECT_U64_EQ(0, hooks_stats(rig).allocations);
    end(rig, SECOND, 1);
    HOOKS_OK(mend_torch_pool_remove(0, FIRST));
}

HOOKS_TEST(torch_pools, a_block_is_made_at_an_address, MIB)
{
    char *outside = torch_alloc(rig, 32 * KIB, rig->streams[0]);
    torch_give(rig, outside);
    HOOKS_OK(mend_torch_block_alloc_at(0, 8 * KIB, rig->streams[0], outside + 16 * KIB));
    EXPECT_U64_EQ(8 * KIB, torch_found(rig, outside + 16 * KIB).requested_bytes);
    torch_give(rig, outside + 16 * KIB);
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES_CAPTURED);
    HOOKS_OK(mend_torch_pool_begin(0, FIRST, takes, NULL, &f));
    char *block = torch_alloc(rig, 8 * KIB, rig->streams[0]);
    torch_give(rig, block);
    HOOKS_OK(mend_torch_block_alloc_at(0, KIB, rig->streams[0], block + 4 * KIB));
    EXPECT_U64_EQ(1, pool_of(rig, block + 4 * KIB).first);
    EXPECT_TRUE(rig->f->mend_torch_block_alloc_at(0, KIB, rig->streams[0], block + 4 * KIB) !=
                MEND_OK);
    torch_give(rig, block + 4 * KIB);
    end(rig, FIRST, 1);
}

HOOKS_TEST(torch_pools, pools_are_told_apart_by_both_numbers_and_by_device, MIB)
{
    const mend_torch_pool_id other = {1, 5};
    HOOKS_OK(mend_torch_pool_add(0, FIRST, 0));
    EXPECT_INT_EQ(1, pool_info(rig, 0, FIRST).users);
    EXPECT_INT_EQ(0, pool_info(rig, 1, FIRST).users);
    EXPECT_INT_EQ(0, pool_info(rig, 0, other).users);
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_pool_remove(0, other));
    HOOKS_OK(mend_torch_pool_remove(0, FIRST));
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES);
    HOOKS_OK(mend_torch_pool_begin(1, FIRST, takes, drop, &f));
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_pool_end(0, FIRST));
    /* The last user of one that takes requests stays. */
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_pool_remove(1, FIRST));
    HOOKS_OK(mend_torch_pool_end(1, FIRST));
    HOOKS_OK(mend_torch_pool_remove(1, FIRST));
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_torch_pool_begin(64, FIRST, takes, NULL, &f));
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_torch_pool_add(-1, FIRST, 0));
}

/* Between the filter and the end of the allocation another thread takes the last user away: here a
 * log sink that the allocation calls. */
static hooks_rig *releasing;

static void release_inside(void *context, mend_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
    if (releasing != NULL) {
        hooks_rig *rig = releasing;
        releasing = NULL;
        HOOKS_OK(mend_torch_pool_end(0, FIRST));
        HOOKS_OK(mend_torch_pool_remove(0, FIRST));
        EXPECT_INT_EQ(0, pool_info(rig, 0, FIRST).users);
    }
}

HOOKS_TEST(torch_pools, a_pool_that_ends_inside_a_call_goes_with_the_last_call, MIB)
{
    void *pointer = NULL;
    int is_foreign = 0;
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES_CAPTURED);
    HOOKS_OK(mend_torch_pool_begin(0, FIRST, takes, NULL, &f));
    torch_give(rig, torch_alloc(rig, KIB, rig->streams[0]));
    EXPECT_U64_EQ(1, hooks_stats(rig).graph_pools);
    rig->f->mend_log_set_sink(release_inside, NULL);
    releasing = rig;
    HOOKS_ANSWER(MEND_ERROR_OUT_OF_MEMORY,
                 mend_torch_block_alloc(0, 4 * MIB, rig->streams[0], &pointer, &is_foreign));
    EXPECT_TRUE(releasing == NULL);
    rig->f->mend_log_set_sink(NULL, NULL);
    EXPECT_U64_EQ(0, hooks_stats(rig).graph_pools);
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_pool_remove(0, FIRST));
}

/* ---- a block found and freed in one ---------------------------------------------------------- */

HOOKS_TEST(torch_pools, a_block_is_given_back_by_its_pointer, MIB)
{
    mend_torch_block block = {.base = NULL};
    char *pointer = torch_alloc(rig, 700, rig->streams[0]);
    HOOKS_OK(mend_torch_block_give(pointer, &block));
    EXPECT_PTR_EQ(pointer, block.base);
    EXPECT_U64_EQ(700, block.requested_bytes);
    EXPECT_U64_EQ(1024, block.usable_bytes);
    EXPECT_TRUE(block.stream == rig->streams[0]);
    EXPECT_INT_EQ(0, block.device);
    EXPECT_U64_EQ(0, block.tag);
    EXPECT_U64_EQ(0, hooks_stats(rig).live_blocks);
    block.base = rig;
    HOOKS_ANSWER(MEND_ERROR_DOUBLE_FREE, mend_torch_block_give(pointer, &block));
    HOOKS_ANSWER(MEND_ERROR_FOREIGN_POINTER, mend_torch_block_give(rig, &block));
    EXPECT_PTR_EQ(rig, block.base);
}

HOOKS_TEST(torch_pools, a_block_that_is_given_back_stays_with_its_pool_of_graphs, MIB)
{
    mend_torch_block block;
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES_CAPTURED);
    HOOKS_OK(mend_torch_pool_begin(0, FIRST, takes, NULL, &f));
    void *pointer = torch_alloc(rig, 600 * KIB, rig->streams[0]);
    HOOKS_OK(mend_torch_block_give(pointer, &block));
    EXPECT_PTR_EQ(pointer, block.base);
    EXPECT_U64_EQ(1, rig->f->mend_torch_pool_of_tag(block.tag).first);
    EXPECT_INT_EQ(0, block.device);
    EXPECT_PTR_EQ(NULL, rig->f->mend_torch_alloc_or_null(600 * KIB, 0, rig->streams[1]));
    end(rig, FIRST, 1);
    /* A block of a pool that has ended, or shares its memory, serves all requests. */
    f.answer = MEND_TORCH_TAKES;
    HOOKS_OK(mend_torch_pool_add(0, SECOND, 0));
    HOOKS_OK(mend_torch_pool_begin(0, SECOND, takes, NULL, &f));
    pointer = torch_alloc(rig, 600 * KIB, rig->streams[0]);
    HOOKS_OK(mend_torch_block_give(pointer, &block));
    EXPECT_U64_EQ(7, rig->f->mend_torch_pool_of_tag(block.tag).second);
    pointer = rig->f->mend_torch_alloc_or_null(600 * KIB, 0, rig->streams[0]);
    EXPECT_TRUE(pointer != NULL);
    rig->f->mend_torch_free(pointer, 600 * KIB, 0, rig->streams[0]);
    end(rig, SECOND, 2);
}

HOOKS_TEST(torch_pools, the_memory_of_a_pool_serves_others_by_its_name, MIB)
{
    mend_torch_block block;
    mend_torch_pool_id ids[2] = {{0, 0}, {0, 0}};
    void *pointer = NULL;
    filter f = filter_for(rig, 0, MEND_TORCH_TAKES_CAPTURED);
    rig->f->mend_torch_pool_mark(0, FIRST, 1); /* there is none yet */
    HOOKS_OK(mend_torch_pool_add(0, FIRST, 0));
    HOOKS_OK(mend_torch_pool_add(0, SECOND, 1));
    HOOKS_OK(mend_torch_pool_add(1, FIRST, 0));
    EXPECT_U64_EQ(0, rig->f->mend_torch_pools_marked(0, ids, 2));
    rig->f->mend_torch_pool_mark(0, FIRST, 1);
    rig->f->mend_torch_pool_mark(0, SECOND, 1);
    rig->f->mend_torch_pool_mark(1, FIRST, 1);
    EXPECT_U64_EQ(2, rig->f->mend_torch_pools_marked(0, ids, 1));
    EXPECT_U64_EQ(0, ids[1].second);
    rig->f->mend_torch_pool_mark(0, SECOND, 0);
    EXPECT_U64_EQ(1, rig->f->mend_torch_pools_marked(0, ids, 2));
    EXPECT_U64_EQ(1, ids[0].first);

    HOOKS_OK(mend_torch_pool_begin(0, FIRST, takes, NULL, &f));
    EXPECT_INT_EQ(1, pool_info(rig, 0, FIRST).is_begun);
    EXPECT_INT_EQ(0, pool_info(rig, 0, SECOND).is_begun);
    EXPECT_INT_EQ(0, pool_info(rig, 64, FIRST).is_begun);
    EXPECT_INT_EQ(1, rig->f->mend_torch_pool_takes(0, rig->streams[0]));
    EXPECT_INT_EQ(0, rig->f->mend_torch_pool_takes(0, rig->streams[1]));
    HOOKS_ANSWER(MEND_ERROR_OUT_OF_MEMORY,
                 mend_torch_block_alloc_in(0, FIRST, KIB, rig->streams[0], &pointer));
    pointer = torch_alloc(rig, 600 * KIB, rig->streams[0]);
    HOOKS_OK(mend_torch_block_give(pointer, &block));
    HOOKS_OK(mend_torch_pool_end(0, FIRST));
    EXPECT_INT_EQ(0, pool_info(rig, 0, FIRST).is_begun);
    EXPECT_INT_EQ(0, rig->f->mend_torch_pool_takes(0, rig->streams[0]));
    EXPECT_PTR_EQ(NULL, rig->f->mend_torch_alloc_or_null(600 * KIB, 0, rig->streams[0]));
    HOOKS_OK(mend_torch_block_alloc_in(0, FIRST, 600 * KIB, rig->streams[0], &pointer));
    EXPECT_U64_EQ(1, pool_of(rig, pointer).first);
    HOOKS_OK(mend_torch_block_give(pointer, &block));
    EXPECT_PTR_EQ(NULL, rig->f->mend_torch_alloc_or_null(600 * KIB, 0, rig->streams[0]));
    HOOKS_OK(mend_torch_pool_remove(0, FIRST));
    HOOKS_OK(mend_torch_pool_remove(0, FIRST));
    EXPECT_U64_EQ(0, rig->f->mend_torch_pools_marked(0, ids, 2));
    HOOKS_OK(mend_torch_pool_remove(0, SECOND));
    HOOKS_OK(mend_torch_pool_remove(1, FIRST));
}

/* An allocator of the program's in the place of Mend's pools, which has one block. */
static char its_block;
static int its_frees;

static int its_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream)
{
    (void)ctx;
    (void)size_bytes;
    (void)stream;
    *pointer = &its_block;
    return MEND_OK;
}

static int its_free(void *ctx, void *pointer, size_t size_bytes, mend_stream stream)
{
    (void)ctx;
    its_frees += pointer == &its_block && size_bytes == 0 && stream == MEND_NO_STREAM;
    return MEND_OK;
}

HOOKS_TEST(torch_pools, a_block_that_nobody_describes_is_given_back, MIB)
{
    mend_torch_block block;
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    allocator.handler.alloc = its_alloc;
    allocator.handler.free = its_free;
    HOOKS_OK(mend_set_allocator(0, &allocator));
    its_frees = 0;
    EXPECT_PTR_EQ(&its_block, torch_alloc(rig, KIB, rig->streams[0]));
    HOOKS_OK(mend_torch_block_give(&its_block, &block));
    EXPECT_INT_EQ(1, its_frees);
    EXPECT_PTR_EQ(&its_block, block.base);
    EXPECT_U64_EQ(0, block.usable_bytes);
    EXPECT_INT_EQ(MEND_ALL_DEVICES, block.device);
}

/* ---- figures --------------------------------------------------------------------------------- */

static mend_torch_figures figures_of(hooks_rig *rig)
{
    mend_torch_figures figures;
    memset(&figures, 0, sizeof(figures));
    HOOKS_OK(mend_torch_get_figures(0, &figures));
    return figures;
}

HOOKS_TEST(torch_pools, figures_are_pytorchs, MIB)
{
    HOOKS_OK(mend_torch_reset(0, MEND_TORCH_ACCUMULATED)); /* of a test before */
    HOOKS_OK(mend_torch_use_device(0));
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_torch_use_device(99));
    void *kept = torch_alloc(rig, 700, rig->streams[0]);
    EXPECT_INT_EQ(0, torch_found(rig, kept).device);
    torch_give(rig, torch_alloc(rig, 64 * KIB, rig->streams[0]));
    mend_torch_figures f = figures_of(rig);
    const mend_torch_stat *bytes = &f.allocated_bytes[MEND_TORCH_ALL];
    EXPECT_TRUE(1024 == bytes->current);
    EXPECT_TRUE(1024 + 64 * KIB == bytes->peak);
    EXPECT_TRUE(1024 + 64 * KIB == bytes->allocated);
    EXPECT_TRUE(64 * KIB == bytes->freed);
    EXPECT_TRUE(700 == f.requested_bytes[MEND_TORCH_ALL].current);
    EXPECT_TRUE(2 == f.allocation[MEND_TORCH_ALL].allocated);
    EXPECT_TRUE((int64_t)hooks_stats(rig).reserved_bytes ==
                f.reserved_bytes[MEND_TORCH_ALL].current);
    rig->f->mend_torch_note(0, MEND_TORCH_OUT_OF_MEMORY);
    rig->f->mend_torch_note(0, MEND_TORCH_RETRY);
    f = figures_of(rig);
    EXPECT_TRUE(1 == f.num_ooms);
    EXPECT_TRUE(1 == f.num_alloc_retries);
    HOOKS_OK(mend_torch_reset(0, MEND_TORCH_PEAKS));
    HOOKS_OK(mend_torch_reset(0, MEND_TORCH_ACCUMULATED));
    f = figures_of(rig);
    EXPECT_TRUE(1024 == f.allocated_bytes[MEND_TORCH_ALL].peak);
    EXPECT_TRUE(0 == f.allocated_bytes[MEND_TORCH_ALL].allocated);
    EXPECT_TRUE(0 == f.num_ooms + f.num_alloc_retries);
    torch_give(rig, kept);
    f = figures_of(rig);
    EXPECT_TRUE(1024 == f.allocated_bytes[MEND_TORCH_ALL].freed);
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_torch_get_figures(99, &f));
}
