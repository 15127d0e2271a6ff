/* Chunks that move: what waits for streams goes on waiting, at the new place as at the old. */
#include "tests/support/kit.h"

typedef struct rig {
    mend_world w;
    mend_stream first;
    mend_stream second;
} rig;

/* Chunks of 1 MiB on a device of `memory_bytes`, and two streams. */
static bool open_rig(rig *r, uint64_t memory_bytes, int allow_stream_waits)
{
    mend_world_init(&r->w);
    r->w.sim_config.memory_bytes = memory_bytes;
    r->w.pool_config.allow_stream_waits = allow_stream_waits;
    if (!kit_open(&r->w)) {
        return false;
    }
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r->w.sim, &r->first));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r->w.sim, &r->second));
    return true;
}

static void close_rig(rig *r)
{
    mend_sim_advance(r->w.sim, 10000);
    kit_close(&r->w);
}

static void *allocate(rig *r, mend_stream stream, uint64_t size_bytes)
{
    void *pointer = kit_alloc(&r->w, size_bytes, stream);
    return pointer;
}

static void give(rig *r, mend_stream stream, void *pointer)
{
    kit_free(&r->w, pointer, stream);
}

/* Writes the bytes now, and checks them at `finish_ns`, in the order of the stream. */
static void use_until(rig *r, mend_stream stream, void *pointer, uint64_t size_bytes,
                      uint64_t finish_ns)
{
    kit_launch(&r->w, stream, MEND_SIM_WORK_WRITE, pointer, size_bytes, finish_ns, 0);
    kit_launch(&r->w, stream, MEND_SIM_WORK_VERIFY, pointer, size_bytes, finish_ns, finish_ns);
}

/* Blocks of one chunk each, side by side. */
static void allocate_row(rig *r, mend_stream stream, void **blocks, uint64_t count)
{
    void *all = allocate(r, stream, count * MEND_MIB);
    give(r, stream, all);
    for (uint64_t i = 0; i < count; i++) {
        blocks[i] = allocate(r, stream, MEND_MIB);
    }
    EXPECT_U64_EQ((uintptr_t)blocks[0] + (count - 1) * MEND_MIB, (uintptr_t)blocks[count - 1]);
}

/* Records fences, polls them and unmaps what has retired. */
static void refresh(rig *r)
{
    EXPECT_RESULT(MEND_OK, mend_trim(r->w.pool, UINT64_MAX, NULL));
}

MEND_TEST(pool_moves, what_is_left_of_a_moved_chunk_waits_for_its_user)
{
    rig r;
    void *row[4];
    ASSERT_TRUE(open_rig(&r, 16 * MEND_MIB, -1));
    allocate_row(&r, r.first, row, 4);
    for (int i = 0; i < 4; i += 2) {
        use_until(&r, r.first, row[i], MEND_MIB, 1000);
        give(&r, r.first, row[i]);
    }
    (void)allocate(&r, r.first, MEND_MIB + MEND_MIB / 2);
    EXPECT_U64_EQ(2, mend_world_stats(&r.w).chunks_moved);
    void *rest = allocate(&r, r.second, MEND_MIB / 2);
    use_until(&r, r.second, rest, MEND_MIB / 2, 5000); /* longer than whoever is before it */
    close_rig(&r);
}

MEND_TEST(pool_moves, joined_memory_waits_for_the_later_of_two_uses)
{
    rig r;
    void *row[2];
    ASSERT_TRUE(open_rig(&r, 16 * MEND_MIB, -1));
    allocate_row(&r, r.first, row, 2);
    use_until(&r, r.first, row[1], MEND_MIB, 500);
    give(&r, r.first, row[1]);
    refresh(&r);
    use_until(&r, r.first, row[0], MEND_MIB, 2000);
    give(&r, r.first, row[0]);
    mend_sim_advance(r.w.sim, 1000);
    void *both = allocate(&r, r.second, 2 * MEND_MIB);
    use_until(&r, r.second, both, 2 * MEND_MIB, 1500);
    close_rig(&r);
}

MEND_TEST(pool_moves, of_two_old_mappings_side_by_side_only_the_idle_one_is_unmapped)
{
    rig r;
    void *row[3];
    ASSERT_TRUE(open_rig(&r, 4 * MEND_MIB, 1));
    allocate_row(&r, r.first, row, 3);
    use_until(&r, r.first, row[0], MEND_MIB, 500);
    give(&r, r.first, row[0]);
    refresh(&r);
    use_until(&r, r.second, row[1], MEND_MIB, 2000);
    give(&r, r.second, row[1]);
    (void)allocate(&r, r.first, 3 * MEND_MIB);
    EXPECT_U64_EQ(2 * MEND_MIB, mend_world_stats(&r.w).retired_bytes);
    mend_sim_advance(r.w.sim, 1000);
    refresh(&r);
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(&r.w).retired_bytes);
    close_rig(&r);
}

MEND_TEST(pool_moves, a_run_that_grows_is_waited_for)
{
    for (int allow_stream_waits = -1; allow_stream_waits <= 1; allow_stream_waits += 2) {
        rig r;
        ASSERT_TRUE(open_rig(&r, 4 * MEND_MIB, allow_stream_waits));
        void *block = allocate(&r, r.first, 3 * MEND_MIB);
        use_until(&r, r.first, block, 3 * MEND_MIB, 1000);
        give(&r, r.first, block);
        block = allocate(&r, r.second, 4 * MEND_MIB);
        use_until(&r, r.second, block, 4 * MEND_MIB, 0);
        EXPECT_U64_EQ(1, mend_world_stats(&r.w).placed_by_extension);
        close_rig(&r);
    }
}

MEND_TEST(pool_moves, a_run_can_grow_where_a_chunk_behind_it_has_left)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 16 * MEND_MIB, 0));
    give(&r, r.first, allocate(&r, r.first, 3 * MEND_MIB));
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 2 * MEND_MIB, NULL));
    mend_world_check(&r.w);
    (void)allocate(&r, r.first, 3 * MEND_MIB);
    EXPECT_U64_EQ(1, mend_world_stats(&r.w).placed_by_extension);
    close_rig(&r);
}

MEND_TEST(pool_moves, a_plan_that_fails_gives_back_what_it_had_claimed)
{
    rig r;
    void *pointer;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    ASSERT_TRUE(open_rig(&r, 16 * MEND_MIB, 0));
    give(&r, r.first, allocate(&r, r.first, 3 * MEND_MIB));
    fault.call = "create";
    fault.status = 999;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(r.w.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(r.w.pool, 4 * MEND_MIB, r.first, &pointer));
    mend_world_check(&r.w);
    (void)allocate(&r, r.first, 3 * MEND_MIB);
    EXPECT_U64_EQ(3 * MEND_MIB, mend_world_stats(&r.w).reserved_bytes);
    close_rig(&r);
}

MEND_TEST(pool_moves, a_plan_that_fails_gives_back_the_addresses_it_had_reserved)
{
    rig r;
    void *pointer;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    ASSERT_TRUE(open_rig(&r, 16 * MEND_MIB, 0));
    fault.call = "map";
    fault.status = 999;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(r.w.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(r.w.pool, MEND_MIB, r.first, &pointer));
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).address_bytes);
    close_rig(&r);
}
