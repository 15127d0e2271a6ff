/* PyTorch's queries about memory in total: fractions, available memory, an empty cache, its text
 * for out of memory. And its statistics. */
#include <math.h>
#include <string.h>

#include "tests/hooks/rig.h"
#include "tests/support/test.h"

static mend_torch_allowed allowed_of(hooks_rig *rig)
{
    mend_torch_allowed allowed = {.bytes = 0};
    HOOKS_OK(mend_torch_get_allowed(0, &allowed));
    return allowed;
}

HOOKS_TEST(torch_figures, a_fraction_is_a_limit_in_bytes, 3 * MIB)
{
    static const struct {
        double fraction;
        uint64_t limit_bytes;
    } rows[] = {{0.1, 314572}, {0.5, 3 * MIB / 2}, {0, 1}, {1, 3 * MIB}, {0.25, 3 * MIB / 4}};
    static const double wrong[] = {-0.01, 1.01, NAN, INFINITY};
    EXPECT_TRUE(allowed_of(rig).fraction == 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        HOOKS_OK(mend_torch_set_fraction(0, rows[i].fraction));
        EXPECT_U64_EQ(rows[i].limit_bytes, hooks_stats(rig).limit_bytes);
        EXPECT_TRUE(allowed_of(rig).fraction == rows[i].fraction);
        /* More than the limit is refused. */
        uint64_t more_bytes = rows[i].limit_bytes + KIB;
        EXPECT_PTR_EQ(NULL, rig->f->mend_torch_alloc_or_null(more_bytes, 0, rig->streams[0]));
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_set_fraction(0, wrong[i]));
        EXPECT_U64_EQ(3 * MIB / 4, hooks_stats(rig).limit_bytes);
    }
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_torch_set_fraction(99, 0.5));
}

HOOKS_TEST(torch_figures, the_largest_request_counts_what_work_in_flight_gives_back, MIB)
{
    uint64_t bytes = 0;
    void *block = rig->f->mend_torch_alloc_or_null(900 * KIB, 0, rig->streams[0]);
    HOOKS_OK(mend_torch_largest(0, rig->streams[0], &bytes));
    EXPECT_U64_EQ(124 * KIB, bytes);
    hooks_write_long(rig, 0, block, 900 * KIB);
    /* Only the CPU can wait for memory freed without a stream. */
    rig->f->mend_torch_free(block, 900 * KIB, 0, MEND_NO_STREAM);
    HOOKS_OK(mend_torch_largest(0, rig->streams[1], &bytes));
    EXPECT_U64_EQ(MIB, bytes);
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_torch_largest(64, rig->streams[1], &bytes));
}

HOOKS_TEST(torch_figures, the_cache_is_emptied_during_a_capture_without_a_wait, MIB)
{
    mend_sim_graph *graph = NULL;
    void *block = rig->f->mend_torch_alloc_or_null(600 * KIB, 0, rig->streams[0]);
    hooks_write_long(rig, 0, block, 600 * KIB);
    rig->f->mend_torch_free(block, 600 * KIB, 0, rig->streams[0]);
    EXPECT_RESULT(MEND_OK,
                  mend_sim_begin_capture(rig->sim, rig->streams[1], MEND_SIM_CAPTURE_RELAXED));
    void *captured = rig->f->mend_torch_alloc_or_null(KIB, 0, rig->streams[1]);
    HOOKS_OK(mend_torch_empty_cache());
    EXPECT_TRUE(mend_sim_now_ns(rig->sim) < UINT64_C(1) << 30);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(rig->sim, rig->streams[1], &graph));
    mend_sim_graph_destroy(rig->sim, graph);
    rig->f->mend_torch_free(captured, KIB, 0, rig->streams[1]);
}

/* Fails to allocate, and returns PyTorch's text of it. */
static const char *text_of(hooks_rig *rig, uint64_t size_bytes)
{
    static char text[2048];
    void *pointer = NULL;
    int is_foreign = 0;
    HOOKS_ANSWER(MEND_ERROR_OUT_OF_MEMORY,
                 mend_torch_block_alloc(0, size_bytes, rig->streams[0], &pointer, &is_foreign));
    rig->f->mend_torch_write_out_of_memory(text, sizeof(text), 0, size_bytes);
    return text;
}

/* PyTorch's text, then Mend's report. Nothing is said twice. */
HOOKS_TEST(torch_figures, out_of_memory_is_told_with_the_report, MIB)
{
    void *held = torch_alloc(rig, 600 * KIB, NULL);
    EXPECT_STR_EQ(
        "CUDA out of memory. Tried to allocate 500.00 KiB. GPU 0 has a total capacity of "
        "1024.00 KiB of which 424.00 KiB is free. Mend has 600.00 KiB memory in use. Of the "
        "allocated memory 600.00 KiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch "
        "but unallocated.\nMend: the limit is 1.00 MiB, in use 600.00 KiB. Free blocks: no "
        "setting would help; a request of 424.00 KiB would fit. Largest owners: blocks of 600.00 "
        "KiB (600.00 KiB in 1 block, 0 allocations old) (MEND_STACKS=1MiB names lines).",
        text_of(rig, 500 * KIB));
    torch_give(rig, held);
}

HOOKS_TEST(torch_figures, out_of_memory_is_said_as_pytorch_says_it, 3 * MIB)
{
    char text[20];
    void *kept = rig->f->mend_torch_alloc_or_null(MIB, 0, rig->streams[0]);
    HOOKS_OK(mend_torch_set_fraction(0, 0.5));
    const char *all = text_of(rig, UINT64_C(5) << 30);
    EXPECT_TRUE(strstr(all, "Tried to allocate 5.00 GiB. ") != NULL);
    EXPECT_TRUE(strstr(all, "1.50 MiB allowed; ") != NULL);
    memset(text, '#', sizeof(text));
    rig->f->mend_torch_write_out_of_memory(text, 10, 0, 3 * MIB);
    EXPECT_STR_EQ("CUDA out ", text);
    EXPECT_TRUE(text[10] == '#');
    rig->f->mend_torch_free(kept, MIB, 0, rig->streams[0]);
}

/* ---- memory of pools that have an allocator of the program's counts with Mend's ----------------
 */

/* Whether Mend serves a request of so many bytes, which is freed again. */
static bool fits(hooks_rig *rig, uint64_t size_bytes)
{
    void *block = rig->f->mend_torch_alloc_or_null(size_bytes, 0, rig->streams[0]);
    if (block != NULL) {
        rig->f->mend_torch_free(block, size_bytes, 0, rig->streams[0]);
    }
    return block != NULL;
}

HOOKS_TEST(torch_fraction, foreign_memory_counts_with_mends, 4 * MIB)
{
    HOOKS_OK(mend_torch_foreign_add(0, 256 * KIB)); /* before there is one */
    EXPECT_U64_EQ(0, allowed_of(rig).foreign_bytes);
    EXPECT_U64_EQ(4 * MIB, hooks_stats(rig).limit_bytes);
    HOOKS_OK(mend_torch_set_fraction(0, 0.5));
    EXPECT_U64_EQ(2 * MIB - 256 * KIB, hooks_stats(rig).limit_bytes);
    HOOKS_ANSWER(MEND_ERROR_OUT_OF_MEMORY, mend_torch_foreign_add(0, 2 * MIB - 256 * KIB + 1));
    EXPECT_U64_EQ(256 * KIB, allowed_of(rig).foreign_bytes);
    HOOKS_OK(mend_torch_foreign_room(0, 768 * KIB));
    HOOKS_OK(mend_torch_foreign_add(0, 768 * KIB));
    EXPECT_U64_EQ(MIB, hooks_stats(rig).limit_bytes);
    EXPECT_U64_EQ(2 * MIB, allowed_of(rig).bytes);
    EXPECT_U64_EQ(MIB, allowed_of(rig).foreign_bytes);
    EXPECT_TRUE(allowed_of(rig).fraction == 0.5);
    EXPECT_TRUE(fits(rig, MIB));
    EXPECT_TRUE(!fits(rig, MIB + 64 * KIB));
    HOOKS_ANSWER(MEND_ERROR_OUT_OF_MEMORY, mend_torch_foreign_room(0, MIB + 1));
    /* Less than foreign memory alone: a limit of 0 would be none. */
    HOOKS_OK(mend_torch_set_fraction(0, 0.125));
    EXPECT_U64_EQ(1, hooks_stats(rig).limit_bytes);
    HOOKS_ANSWER(MEND_ERROR_OUT_OF_MEMORY, mend_torch_foreign_room(0, 1));
    HOOKS_OK(mend_torch_set_fraction(0, 0.5));
    rig->f->mend_torch_foreign_remove(0, 768 * KIB);
    EXPECT_U64_EQ(2 * MIB - 256 * KIB, hooks_stats(rig).limit_bytes);
    rig->f->mend_torch_foreign_remove(0, 256 * KIB);
    HOOKS_OK(mend_torch_set_fraction(0, 1));
    EXPECT_U64_EQ(4 * MIB, hooks_stats(rig).limit_bytes);
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_torch_foreign_room(64, 1));
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE, mend_torch_foreign_add(64, 1));
    rig->f->mend_torch_foreign_remove(64, 1);
}

HOOKS_TEST(torch_fraction, mend_makes_room_and_waits_for_it, 4 * MIB)
{
    HOOKS_OK(mend_torch_set_fraction(0, 0.5));
    void *kept = rig->f->mend_torch_alloc_or_null(MIB, 0, rig->streams[0]);
    void *freed = rig->f->mend_torch_alloc_or_null(MIB, 0, rig->streams[0]);
    hooks_write_long(rig, 0, freed, MIB);
    rig->f->mend_torch_free(freed, MIB, 0, rig->streams[0]);
    HOOKS_OK(mend_torch_foreign_room(0, 512 * KIB));
    EXPECT_TRUE(hooks_stats(rig).reserved_bytes <= 2 * MIB - 512 * KIB);
    /* A thread that allocates meanwhile is faster. */
    void *other = rig->f->mend_torch_alloc_or_null(768 * KIB, 0, rig->streams[0]);
    EXPECT_TRUE(other != NULL);
    HOOKS_ANSWER(MEND_ERROR_OUT_OF_MEMORY, mend_torch_foreign_add(0, 512 * KIB));
    HOOKS_ANSWER(MEND_ERROR_OUT_OF_MEMORY, mend_torch_foreign_room(0, 512 * KIB));
    EXPECT_U64_EQ(2 * MIB, hooks_stats(rig).limit_bytes);
    EXPECT_U64_EQ(0, allowed_of(rig).foreign_bytes);
    rig->f->mend_torch_free(other, 768 * KIB, 0, rig->streams[0]);
    rig->f->mend_torch_free(kept, MIB, 0, rig->streams[0]);
}

HOOKS_TEST(torch_fraction, a_limit_set_by_other_means_is_left_as_it_is, 4 * MIB)
{
    HOOKS_OK(mend_torch_set_fraction(0, 0.5));
    HOOKS_OK(mend_set_limit(hooks_pool(rig), MIB));
    HOOKS_OK(mend_torch_foreign_room(0, 3 * MIB));
    HOOKS_OK(mend_torch_foreign_add(0, 3 * MIB));
    EXPECT_U64_EQ(MIB, hooks_stats(rig).limit_bytes);
    EXPECT_U64_EQ(MIB, allowed_of(rig).bytes);
    EXPECT_TRUE(allowed_of(rig).fraction == 0.25);
    rig->f->mend_torch_foreign_remove(0, 3 * MIB);
    EXPECT_U64_EQ(MIB, hooks_stats(rig).limit_bytes);
}

/* The default pool was destroyed, and the next one cannot be made. */
HOOKS_TEST(torch_fraction, foreign_memory_ends_while_there_is_no_pool, 4 * MIB)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.status = MEND_DRIVER_UNKNOWN;
    fault.count = UINT64_MAX;
    HOOKS_OK(mend_torch_set_fraction(0, 0.5));
    HOOKS_OK(mend_torch_foreign_add(0, 512 * KIB));
    HOOKS_OK(mend_pool_destroy(hooks_pool(rig)));
    EXPECT_OK(mend_sim_fail(rig->sim, &fault));
    rig->f->mend_torch_foreign_remove(0, 512 * KIB);
    mend_sim_clear_faults(rig->sim);
    HOOKS_OK(mend_torch_set_fraction(0, 0.5));
    EXPECT_U64_EQ(2 * MIB, hooks_stats(rig).limit_bytes);
}

HOOKS_TEST(torch_fraction, out_of_memory_names_foreign_memory, 4 * MIB)
{
    HOOKS_OK(mend_torch_set_fraction(0, 0.5));
    HOOKS_OK(mend_torch_foreign_add(0, 512 * KIB));
    const char *text = text_of(rig, 2 * MIB);
    EXPECT_TRUE(strstr(text, "2.00 MiB allowed, of which 512.00 KiB are in memory pools with an "
                             "allocator of the program's; ") != NULL);
    EXPECT_TRUE(strstr(text,
                       " Raise the memory fraction (set_per_process_memory_fraction) from 0.5 "
                       "to 0.626") != NULL);
    rig->f->mend_torch_foreign_remove(0, 512 * KIB);
}

/* ---- sizes that settings round up -------------------------------------------------------------
 */

static const mend_torch_stat *requested(hooks_rig *rig, mend_torch_figures *figures, int which)
{
    HOOKS_OK(mend_torch_get_figures(0, figures));
    return &figures->requested_bytes[which];
}

static int takes_none(void *context, mend_stream stream)
{
    (void)context, (void)stream;
    return 0;
}

/* Also beside a pool of PyTorch's that does not take it. */
HOOKS_TEST(torch_figures, a_size_that_settings_round_up_is_not_counted_as_requested, 64 * MIB)
{
    const mend_torch_pool_id other = {0, 7};
    HOOKS_OK(mend_torch_pool_begin(0, other, takes_none, NULL, NULL));
    mend_torch_figures figures;
    mend_torch_block block;
    void *large = NULL;
    void *small = NULL;
    int is_foreign = 0;
    HOOKS_OK(mend_torch_reset(0, MEND_TORCH_ACCUMULATED));
    HOOKS_OK(mend_torch_block_alloc_rounded(0, 10 * MIB, 12 * MIB, rig->streams[0], &large,
                                            &is_foreign));
    HOOKS_OK(
        mend_torch_block_alloc_rounded(0, 5 * KIB, 6 * KIB, rig->streams[0], &small, &is_foreign));
    const mend_torch_stat *all = requested(rig, &figures, MEND_TORCH_ALL);
    EXPECT_U64_EQ(10 * MIB + 5 * KIB, all->current);
    EXPECT_U64_EQ(10 * MIB + 5 * KIB, all->allocated);
    EXPECT_U64_EQ(0, all->freed);
    int64_t in_small = requested(rig, &figures, MEND_TORCH_SMALL)->current;
    EXPECT_TRUE(in_small == 0 || in_small == 5 * KIB); /* a small block may lie in either zone */
    EXPECT_U64_EQ(10 * MIB + 5 * KIB - (uint64_t)in_small,
                  requested(rig, &figures, MEND_TORCH_LARGE)->current);
    EXPECT_U64_EQ(12 * MIB + 6 * KIB, figures.allocated_bytes[MEND_TORCH_ALL].current);
    block = torch_found(rig, large);
    EXPECT_U64_EQ(10 * MIB, block.requested_bytes);
    EXPECT_U64_EQ(12 * MIB, block.usable_bytes);
    EXPECT_U64_EQ(10 * MIB, rig->f->mend_torch_block_requested(large, 12 * MIB));

    HOOKS_OK(mend_torch_reset(0, MEND_TORCH_ACCUMULATED));
    HOOKS_OK(mend_torch_block_give(large, &block));
    EXPECT_U64_EQ(10 * MIB, block.requested_bytes);
    all = requested(rig, &figures, MEND_TORCH_ALL);
    EXPECT_U64_EQ(5 * KIB, all->current);
    EXPECT_U64_EQ(0, all->allocated);
    EXPECT_U64_EQ(10 * MIB, all->freed);
    torch_give(rig, small);
    EXPECT_U64_EQ(0, requested(rig, &figures, MEND_TORCH_ALL)->current);
    EXPECT_U64_EQ(10 * MIB + 5 * KIB, requested(rig, &figures, MEND_TORCH_ALL)->freed);

    /* The next block there is not rounded. */
    large = torch_alloc(rig, 12 * MIB, rig->streams[0]);
    EXPECT_U64_EQ(12 * MIB, torch_found(rig, large).requested_bytes);
    torch_give(rig, large);
    HOOKS_OK(mend_torch_pool_end(0, other));
    HOOKS_OK(mend_torch_pool_remove(0, other));
}

/* PyTorch's frees cannot fail: the log has told of the damage. */
HOOKS_TEST(torch_figures, a_damaged_block_is_freed, 64 * MIB)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(rig->sim);
    config.address_reservation_bytes = 4 * rig->memory_bytes;
    config.observe = "guard";
    HOOKS_OK(mend_set_default_config(MEND_ALL_DEVICES, &config));
    for (int gives = 0; gives < 2; gives++) {
        mend_torch_block block;
        char *damaged = rig->f->mend_torch_alloc_or_null(512, 0, rig->streams[0]);
        hooks_write_long(rig, 0, damaged + 512, 512);
        HOOKS_OK(mend_torch_block_find(damaged, &block));
        if (gives) {
            HOOKS_OK(mend_torch_block_give(damaged, &block));
        } else {
            HOOKS_OK(mend_torch_block_free(&block));
        }
        EXPECT_U64_EQ(0, hooks_stats(rig).live_blocks);
    }
}

HOOKS_TEST(torch_figures, a_free_that_fails_leaves_what_was_requested, 64 * MIB)
{
    mend_torch_figures figures;
    mend_torch_block block;
    void *pointer = NULL;
    int is_foreign = 0;
    HOOKS_OK(mend_torch_reset(0, MEND_TORCH_ACCUMULATED));
    HOOKS_OK(mend_torch_block_alloc_rounded(0, 10 * MIB, 12 * MIB, rig->streams[0], &pointer,
                                            &is_foreign));
    HOOKS_OK(mend_torch_block_find(pointer, &block));
    block.stream = MEND_EVERY_STREAM;
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_block_free(&block));
    EXPECT_U64_EQ(10 * MIB, requested(rig, &figures, MEND_TORCH_ALL)->current);
    EXPECT_U64_EQ(10 * MIB, requested(rig, &figures, MEND_TORCH_ALL)->allocated);
    HOOKS_OK(mend_torch_block_give(pointer, &block));
    EXPECT_U64_EQ(0, requested(rig, &figures, MEND_TORCH_ALL)->current);
}
