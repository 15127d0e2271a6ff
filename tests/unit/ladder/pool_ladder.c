/* Other threads that go on while one makes room: it has its answer all the same. And a plan behind
 * what the driver refuses. */
#include <string.h>

#include "tests/support/kit.h"

/* A thread that goes on allocating and freeing, as seen by one that makes room: at each wait of the
 * host it has freed a block more. */
typedef struct busy {
    mend_world *w;
    uint64_t waits;
    uint64_t time_ns;
} busy;

static void release(mend_world *w, void *pointer, uint64_t size_bytes, uint64_t finish_ns)
{
    kit_launch(w, S(1), MEND_SIM_WORK_TOUCH, pointer, size_bytes, 0, finish_ns);
    kit_free(w, pointer, S(1));
}

static void free_one_more(void *context, const char *call, int is_after)
{
    busy *b = context;
    if (is_after && strcmp(call, "event_synchronize") == 0 && ++b->waits <= 200) {
        b->time_ns += 1000;
        release(b->w, kit_alloc(b->w, 512, b->w->streams[1]), 512, b->time_ns);
    }
}

KIT_SET_TEST(pool_ladder, others_who_go_on_do_not_keep_a_request_from_its_answer,
             (w->sim_config.memory_bytes = 8 * MEND_MIB, w->pool_config.limit_bytes = 4 * MEND_MIB,
              w->pool_config.allow_stream_waits = -1))
{
    void *blocks[8];
    busy b = {.w = w, .time_ns = 1000};
    kit_free(w, kit_alloc(w, 4 * MEND_MIB, S(0)), S(0));
    kit_alloc_row(w, blocks, 8, 512 * MEND_KIB, S(1));
    for (int i = 0; i < 8; i += 2) {
        release(w, blocks[i], 512 * MEND_KIB, 1000);
    }
    mend_sim_set_call_observer(w->sim, free_one_more, &b);
    kit_expect_none(w, MEND_MIB, S(0), "");
    mend_sim_set_call_observer(w->sim, NULL, NULL);
    EXPECT_TRUE(b.waits > 0 && b.waits < 50);
}

static void *take_in_one_chunk(mend_world *w, uint64_t size_bytes)
{
    void *block = NULL;
    EXPECT_OK(mend_alloc_with(w->pool, size_bytes, S(0),
                              KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1), &block));
    return block;
}

/* Of three runs the largest lacks more than the limit allows, and the next what the driver refuses.
 * Now the pool knows what the device has, and that the last one lacks nothing. */
KIT_SET_TEST(pool_ladder, behind_a_refusal_what_creates_nothing_is_found,
             w->placement.low_pressure_percent = 100)
{
    enum { DEVICE = 1024, RESERVED = 72 };
    const uint64_t page = 64 * MEND_KIB;
    kit_free(w, take_in_one_chunk(w, 16 * page), S(0));
    kit_alloc(w, 12 * page, S(0));
    void *behind = kit_alloc(w, 20 * page, S(0));
    kit_free(w, take_in_one_chunk(w, 16 * page), S(0));
    kit_alloc(w, 8 * page, S(0));
    void *large = take_in_one_chunk(w, 24 * page);
    kit_free(w, behind, S(0));
    kit_free(w, large, S(0));
    EXPECT_STATS(w, reserved_bytes, RESERVED * page);
    EXPECT_OK(mend_set_limit(w->pool, (RESERVED + 6) * page));
    mend_sim_set_foreign_bytes(w->sim, 0, (DEVICE - RESERVED - 2) * page);
    kit_alloc_used(w, 48 * page, S(0), 10);
    EXPECT_STATS(w, reserved_bytes, RESERVED * page, placed_by_alias, 0, driver_failures, 1);
}
