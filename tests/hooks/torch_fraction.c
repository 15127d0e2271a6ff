/* The memory fraction, and memory of pools that have an allocator of the program's: both count. */
#include <string.h>

#include "tests/hooks/rig.h"
#include "tests/support/test.h"

static mend_torch_allowed allowed_of(hooks_rig *rig)
{
    mend_torch_allowed allowed = {.bytes = 0};
    HOOKS_OK(mend_torch_get_allowed(0, &allowed));
    return allowed;
}

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
    HOOKS_OK(mend_torch_set_fraction(0, 1));
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
    HOOKS_OK(mend_torch_set_fraction(0, 1));
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
    HOOKS_OK(mend_torch_set_fraction(0, 1));
}

HOOKS_TEST(torch_fraction, out_of_memory_names_foreign_memory, 4 * MIB)
{
    char text[2048];
    void *pointer = NULL;
    int is_foreign = 0;
    HOOKS_OK(mend_torch_set_fraction(0, 0.5));
    HOOKS_OK(mend_torch_foreign_add(0, 512 * KIB));
    HOOKS_ANSWER(MEND_ERROR_OUT_OF_MEMORY,
                 mend_torch_block_alloc(0, 2 * MIB, rig->streams[0], &pointer, &is_foreign));
    rig->f->mend_torch_write_out_of_memory(text, sizeof(text), 0, 2 * MIB);
    EXPECT_TRUE(strstr(text, "2.00 MiB allowed, of which 512.00 KiB are in memory pools with an "
                             "allocator of the program's; ") != NULL);
    EXPECT_TRUE(strstr(text,
                       " Raise the memory fraction (set_per_process_memory_fraction) from 0.5 "
                       "to 0.626") != NULL);
    rig->f->mend_torch_foreign_remove(0, 512 * KIB);
    HOOKS_OK(mend_torch_set_fraction(0, 1));
}
