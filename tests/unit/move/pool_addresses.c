/* A device whose addresses are short: what was given up comes back before a request fails. */
#include "driver/driver.h"
#include "tests/support/kit.h"

typedef struct scene {
    mend_world w;
    mend_stream stream;
    uint64_t next_tag;
} scene;

/* So few addresses that chunks which move leave none behind before their fences. */
static bool open_scene(scene *s, uint64_t address_bytes)
{
    *s = (scene){0};
    mend_world_init(&s->w);
    s->w.sim_config.memory_bytes = 4 * MEND_MIB;
    s->w.sim_config.address_bytes = address_bytes;
    s->w.pool_config.reserve_bytes = 2 * MEND_MIB;
    return kit_open(&s->w) && mend_sim_stream_create(s->w.sim, &s->stream) == MEND_OK;
}

static void close_scene(scene *s)
{
    mend_sim_advance(s->w.sim, 1000000);
    mend_world_check(&s->w);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(s->w.pool, s->stream));
    mend_sim_stream_destroy(s->w.sim, s->stream);
    kit_close(&s->w);
}

/* Writes the block at once, and reads it late. */
static void use(scene *s, void *block, uint64_t size_bytes)
{
    mend_sim_work work = {.kind = MEND_SIM_WORK_WRITE,
                          .address = (uint64_t)(uintptr_t)block,
                          .size_bytes = size_bytes,
                          .tag = ++s->next_tag};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(s->w.sim, s->stream, &work));
    work.kind = MEND_SIM_WORK_VERIFY;
    work.finish_ns = mend_sim_now_ns(s->w.sim) + 1000;
    EXPECT_RESULT(MEND_OK, mend_sim_launch(s->w.sim, s->stream, &work));
}

static void *take(scene *s, uint64_t size_bytes)
{
    void *block = NULL;
    if (mend_alloc(s->w.pool, size_bytes, s->stream, &block) == MEND_OK) {
        use(s, block, size_bytes);
    }
    return block;
}

static void give(scene *s, void *block)
{
    kit_free(&s->w, block, s->stream);
}

/* Four chunks, each at a place of its own, move into one block, whose second quarter then stays:
 * they must move again for a block of three, while their first places may still be in use. */
static void *move_twice(scene *s)
{
    void *quarters[4];
    for (int i = 0; i < 4; i++) {
        quarters[i] = take(s, MEND_MIB);
    }
    for (int i = 0; i < 4; i++) {
        give(s, quarters[i]);
    }
    void *all = take(s, 4 * MEND_MIB);
    if (all == NULL) {
        return NULL;
    }
    give(s, all);
    quarters[0] = take(s, MEND_MIB);
    take(s, MEND_MIB);
    give(s, quarters[0]);
    return take(s, 3 * MEND_MIB);
}

/* The host waits for the fences of mappings that are used no more. */
MEND_TEST(pool_addresses, those_of_moved_chunks_are_waited_for)
{
    uint64_t completed_by_waiting = 0;
    for (uint64_t address_bytes = 8 * MEND_MIB; address_bytes <= 24 * MEND_MIB;
         address_bytes += MEND_MIB / 4) {
        scene s;
        ASSERT_TRUE(open_scene(&s, address_bytes));
        if (move_twice(&s) != NULL && mend_world_stats(&s.w).host_waits > 0) {
            completed_by_waiting++;
        }
        close_scene(&s);
    }
    EXPECT_TRUE(completed_by_waiting > 0);
}

/* A request no reservation can hold names what is missing, and changes nothing. */
MEND_TEST(pool_addresses, too_few_of_them_are_named)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 3 * MEND_MIB));
    void *block = NULL;
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_ADDRESSES,
                  mend_alloc(s.w.pool, 4 * MEND_MIB, s.stream, &block));
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_STR_EQ("cuMemAddressReserve", error.driver_call);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).reserved_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).address_bytes);
    block = kit_alloc(&s.w, MEND_MIB, s.stream);
    use(&s, block, MEND_MIB);
    close_scene(&s);
}

/* A reservation of the small zone, used no more, makes place for a large block. */
MEND_TEST(pool_addresses, what_another_zone_left_is_given_back)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 6 * MEND_MIB));
    void *small = NULL;
    void *large = NULL;
    ASSERT_RESULT(MEND_OK, mend_alloc(s.w.pool, 512, s.stream, &small));
    kit_free(&s.w, small, s.stream);
    EXPECT_RESULT(MEND_OK, mend_trim(s.w.pool, 0, NULL));
    EXPECT_TRUE(mend_world_stats(&s.w).address_bytes > 0);
    large = kit_alloc(&s.w, 4 * MEND_MIB, s.stream);
    use(&s, large, 4 * MEND_MIB);
    close_scene(&s);
}

/* What went back to the driver made place for addresses that the call could not use either. */
MEND_TEST(pool_addresses, a_failed_call_keeps_none_of_its_second_reservation)
{
    scene s;
    void *block = NULL;
    ASSERT_TRUE(open_scene(&s, 6 * MEND_MIB));
    ASSERT_RESULT(MEND_OK, mend_alloc(s.w.pool, MEND_MIB, s.stream, &block));
    kit_free(&s.w, block, s.stream);
    EXPECT_RESULT(MEND_OK, mend_trim(s.w.pool, 0, NULL));
    EXPECT_U64_EQ(1, mend_world_ledger(&s.w).reservations);
    kit_fail(&s.w, "set_access", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(s.w.pool, 4 * MEND_MIB, s.stream, &block));
    EXPECT_U64_EQ(0, mend_world_ledger(&s.w).reservations);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).address_bytes);
    close_scene(&s);
}
