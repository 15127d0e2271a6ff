/* What PyTorch asks about memory in total: fractions, room, an empty cache, its text for out of
 * memory. */
#include <math.h>
#include <string.h>

#include "tests/hooks/rig.h"
#include "tests/support/test.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static double fraction_of(hooks_rig *rig)
{
    double fraction = -1;
    EXPECT_RESULT(MEND_OK, rig->f->mend_torch_get_fraction(0, &fraction));
    return fraction;
}

MEND_TEST(torch_figures, a_fraction_is_a_limit_in_bytes)
{
    hooks_rig rig;
    ASSERT_TRUE(hooks_open(&rig, 3 * MIB));
    EXPECT_TRUE(fraction_of(&rig) == 1);
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_set_fraction(0, 0.1));
    EXPECT_U64_EQ((uint64_t)(0.1 * (double)(3 * MIB)), hooks_stats(&rig).limit_bytes);
    EXPECT_TRUE(fraction_of(&rig) == 0.1);
    const double wrong[] = {-0.01, 1.01, NAN, INFINITY};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, rig.f->mend_torch_set_fraction(0, wrong[i]));
    }
    EXPECT_TRUE(fraction_of(&rig) == 0.1);
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_set_fraction(0, 0));
    EXPECT_TRUE(fraction_of(&rig) == 0);
    EXPECT_U64_EQ(1, hooks_stats(&rig).limit_bytes);
    EXPECT_PTR_EQ(NULL, rig.f->mend_torch_alloc_or_null(KIB, 0, rig.streams[0]));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_set_fraction(0, 1));
    EXPECT_U64_EQ(3 * MIB, hooks_stats(&rig).limit_bytes);
    hooks_close(&rig);
}

MEND_TEST(torch_figures, the_largest_request_counts_what_work_in_flight_gives_back)
{
    hooks_rig rig;
    uint64_t bytes = 0;
    ASSERT_TRUE(hooks_open(&rig, MIB));
    void *block = rig.f->mend_torch_alloc_or_null(900 * KIB, 0, rig.streams[0]);
    ASSERT_TRUE(block != NULL);
    EXPECT_RESULT(MEND_OK, hooks_launch(&rig, rig.streams[0], MEND_SIM_WORK_WRITE, block, 900 * KIB,
                                        1, UINT64_C(1) << 30));
    /* Only the host can wait for what was freed without a stream. */
    rig.f->mend_torch_free(block, 900 * KIB, 0, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_largest(0, rig.streams[1], &bytes));
    EXPECT_U64_EQ(MIB, bytes);
    EXPECT_RESULT(MEND_ERROR_NO_DEVICE, rig.f->mend_torch_largest(64, rig.streams[1], &bytes));
    hooks_close(&rig);
}

MEND_TEST(torch_figures, the_cache_is_emptied_during_a_capture_without_a_wait)
{
    hooks_rig rig;
    mend_sim_graph *graph = NULL;
    ASSERT_TRUE(hooks_open(&rig, MIB));
    void *block = rig.f->mend_torch_alloc_or_null(600 * KIB, 0, rig.streams[0]);
    EXPECT_RESULT(MEND_OK, hooks_launch(&rig, rig.streams[0], MEND_SIM_WORK_WRITE, block, 600 * KIB,
                                        1, UINT64_C(1) << 30));
    rig.f->mend_torch_free(block, 600 * KIB, 0, rig.streams[0]);
    EXPECT_RESULT(MEND_OK,
                  mend_sim_begin_capture(rig.sim, rig.streams[1], MEND_SIM_CAPTURE_RELAXED));
    void *captured = rig.f->mend_torch_alloc_or_null(KIB, 0, rig.streams[1]);
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_empty_cache());
    EXPECT_TRUE(mend_sim_now_ns(rig.sim) < UINT64_C(1) << 30);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(rig.sim, rig.streams[1], &graph));
    mend_sim_graph_destroy(rig.sim, graph);
    rig.f->mend_torch_free(captured, KIB, 0, rig.streams[1]);
    hooks_close(&rig);
}

/* Fails to allocate, and returns PyTorch's text of it. */
static const char *text_of(hooks_rig *rig, uint64_t size_bytes)
{
    static char text[2048];
    void *pointer = NULL;
    int is_foreign = 0;
    EXPECT_RESULT(
        MEND_ERROR_OUT_OF_MEMORY,
        rig->f->mend_torch_block_alloc(0, size_bytes, rig->streams[0], &pointer, &is_foreign));
    rig->f->mend_torch_write_out_of_memory(text, sizeof(text), 0, size_bytes);
    return text;
}

MEND_TEST(torch_figures, out_of_memory_is_said_as_pytorch_says_it)
{
    hooks_rig rig;
    char text[20];
    ASSERT_TRUE(hooks_open(&rig, 3 * MIB));
    void *kept = rig.f->mend_torch_alloc_or_null(MIB, 0, rig.streams[0]);
    const char *all = text_of(&rig, UINT64_C(5) << 30);
    const char first[] = "CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0 has a total "
                         "capacity of 3.00 MiB of which 2.00 MiB is free. ";
    EXPECT_TRUE(strncmp(all, first, strlen(first)) == 0);
    EXPECT_TRUE(strstr(all, "1024.00 KiB is allocated by PyTorch, and 0 bytes is reserved") !=
                NULL);
    EXPECT_TRUE(strstr(all, " allowed; ") == NULL);
    EXPECT_TRUE(strstr(all, " Mend: ") != NULL);
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_set_fraction(0, 0.5));
    all = text_of(&rig, 3 * MIB);
    EXPECT_TRUE(strstr(all, "Tried to allocate 3.00 MiB. ") != NULL);
    EXPECT_TRUE(strstr(all, "1.50 MiB allowed; ") != NULL);
    memset(text, '#', sizeof(text));
    rig.f->mend_torch_write_out_of_memory(text, 10, 0, 3 * MIB);
    EXPECT_STR_EQ("CUDA out ", text);
    EXPECT_TRUE(text[10] == '#');
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_set_fraction(0, 1));
    rig.f->mend_torch_free(kept, MIB, 0, rig.streams[0]);
    hooks_close(&rig);
}

static const mend_torch_stat *requested(hooks_rig *rig, mend_torch_figures *figures, int which)
{
    EXPECT_RESULT(MEND_OK, rig->f->mend_torch_get_figures(0, figures));
    return &figures->requested_bytes[which];
}

MEND_TEST(torch_figures, a_size_that_settings_round_up_is_not_counted_as_requested)
{
    hooks_rig rig;
    mend_torch_figures figures;
    mend_torch_block block;
    void *large = NULL;
    void *small = NULL;
    int is_foreign = 0;
    ASSERT_TRUE(hooks_open(&rig, 64 * MIB));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_reset_accumulated(0));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_alloc_rounded(
                               0, 10 * MIB, 12 * MIB, rig.streams[0], &large, &is_foreign));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_alloc_rounded(
                               0, 5 * KIB, 6 * KIB, rig.streams[0], &small, &is_foreign));
    const mend_torch_stat *all = requested(&rig, &figures, MEND_TORCH_ALL);
    EXPECT_U64_EQ(10 * MIB + 5 * KIB, all->current);
    EXPECT_U64_EQ(10 * MIB + 5 * KIB, all->allocated);
    EXPECT_U64_EQ(0, all->freed);
    int64_t in_small = requested(&rig, &figures, MEND_TORCH_SMALL)->current;
    EXPECT_TRUE(in_small == 0 || in_small == 5 * KIB); /* a small block may lie in either zone */
    EXPECT_U64_EQ(10 * MIB + 5 * KIB - (uint64_t)in_small,
                  requested(&rig, &figures, MEND_TORCH_LARGE)->current);
    EXPECT_U64_EQ(12 * MIB + 6 * KIB, figures.allocated_bytes[MEND_TORCH_ALL].current);
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_find(large, &block));
    EXPECT_U64_EQ(10 * MIB, block.requested_bytes);
    EXPECT_U64_EQ(12 * MIB, block.usable_bytes);
    EXPECT_U64_EQ(10 * MIB, rig.f->mend_torch_block_requested(large, 12 * MIB));

    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_reset_accumulated(0));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_give(large, &block));
    EXPECT_U64_EQ(10 * MIB, block.requested_bytes);
    all = requested(&rig, &figures, MEND_TORCH_ALL);
    EXPECT_U64_EQ(5 * KIB, all->current);
    EXPECT_U64_EQ(0, all->allocated);
    EXPECT_U64_EQ(10 * MIB, all->freed);
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_find(small, &block));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_free(&block));
    EXPECT_U64_EQ(0, requested(&rig, &figures, MEND_TORCH_ALL)->current);
    EXPECT_U64_EQ(10 * MIB + 5 * KIB, requested(&rig, &figures, MEND_TORCH_ALL)->freed);

    /* The next block there is not rounded. */
    EXPECT_RESULT(MEND_OK,
                  rig.f->mend_torch_block_alloc(0, 12 * MIB, rig.streams[0], &large, &is_foreign));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_find(large, &block));
    EXPECT_U64_EQ(12 * MIB, block.requested_bytes);
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_free(&block));
    hooks_close(&rig);
}

MEND_TEST(torch_figures, a_free_that_fails_leaves_what_was_requested)
{
    hooks_rig rig;
    mend_torch_figures figures;
    mend_torch_block block;
    void *pointer = NULL;
    int is_foreign = 0;
    ASSERT_TRUE(hooks_open(&rig, 64 * MIB));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_reset_accumulated(0));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_alloc_rounded(
                               0, 10 * MIB, 12 * MIB, rig.streams[0], &pointer, &is_foreign));
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_find(pointer, &block));
    block.stream = MEND_EVERY_STREAM;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, rig.f->mend_torch_block_free(&block));
    EXPECT_U64_EQ(10 * MIB, requested(&rig, &figures, MEND_TORCH_ALL)->current);
    EXPECT_U64_EQ(10 * MIB, requested(&rig, &figures, MEND_TORCH_ALL)->allocated);
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_give(pointer, &block));
    EXPECT_U64_EQ(0, requested(&rig, &figures, MEND_TORCH_ALL)->current);
    hooks_close(&rig);
}
