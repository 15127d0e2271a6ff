/* Slots of streams: those that ended cost nothing, however many there have been. */
#include "physical/stream.h"

#include <pthread.h>

#include "pool/pool.h"
#include "tests/support/kit.h"
#include "tests/support/threads.h"
#include "tests/unit/physical/stream_rig.h"

enum { STREAMS = 2000, BETWEEN_TRIMS = 40, MOST_SLOTS = 300, BLOCK_BYTES = 4096 };

typedef struct turn {
    mend_world *w;
    bool leaves_its_block; /* which the main thread frees */
    void *block;
} turn;

static void *take_turn(void *context)
{
    turn *t = context;
    mend_pool *pool = t->w->pool;
    EXPECT_RESULT(MEND_OK, mend_alloc(pool, BLOCK_BYTES, MEND_STREAM_PER_THREAD, &t->block));
    if (!t->leaves_its_block) {
        EXPECT_RESULT(MEND_OK, mend_free(pool, t->block, MEND_STREAM_PER_THREAD));
    }
    return NULL;
}

/* Also where streams vanish, and where nothing was freed on their streams, so that nothing is ever
 * waited for. */
MEND_TEST(physical_slots, threads_that_ended_cost_nothing)
{
    for (int i = 0; i < 3; i++) {
        const bool leave_blocks = i == 2;
        mend_world w;
        mend_world_init(&w);
        w.pool_config.streams_may_vanish = i == 1;
        ASSERT_TRUE(kit_open(&w));
        for (int k = 0; k < STREAMS; k++) {
            turn t = {.w = &w, .leaves_its_block = leave_blocks};
            mend_test_run_thread(take_turn, &t);
            kit_free(&w, leave_blocks ? t.block : NULL, NULL);
            if (k % BETWEEN_TRIMS == 0) {
                EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, MEND_TRIM_WAIT, NULL));
            }
        }
        EXPECT_TRUE(mend_world_stats(&w).streams < MOST_SLOTS);
        EXPECT_TRUE(w.pool->heap.streams.count < MOST_SLOTS);
        kit_close(&w);
    }
}

MEND_TEST(physical_slots, streams_destroyed_without_a_word_cost_nothing)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.streams_may_vanish = 1;
    ASSERT_TRUE(kit_open(&w));
    static mend_stream streams[STREAMS];
    for (int i = 0; i < STREAMS; i++) { /* all at once, so that no handle is used again */
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, NULL, &streams[i]));
    }
    for (int i = 0; i < STREAMS; i++) {
        void *block = kit_alloc(&w, BLOCK_BYTES, streams[i]);
        kit_free(&w, block, streams[i]);
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, streams[i]));
        if (i % BETWEEN_TRIMS == 0) {
            EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, MEND_TRIM_WAIT, NULL));
        }
    }
    EXPECT_TRUE(w.pool->heap.streams.count < MOST_SLOTS);
    kit_close(&w);
}

/* ---- one by one ---------------------------------------------------------------------------------
 */

MEND_TEST(physical_slots, each_stream_is_found_in_its_slot_among_many)
{
    enum { MANY = 500 };
    stream_rig r;
    static mend_stream handles[MANY];
    static uint32_t slots[MANY];
    ASSERT_TRUE(stream_rig_open_unmet(&r, false));
    for (uint32_t i = 0; i < MANY; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r.sim, NULL, &handles[i]));
        slots[i] = stream_rig_find(&r, handles[i], i % 3);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        EXPECT_U64_EQ(slots[i], mend_streams_lookup_other(&r.streams, handles[i], i % 3));
        EXPECT_U64_EQ(MEND_STREAM_UNKNOWN,
                      mend_streams_lookup_other(&r.streams, handles[i], i % 3 + 1));
    }
    for (uint32_t i = 0; i < MANY; i += 2) {
        mend_slots_lose(&r.streams, slots[i]);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        EXPECT_U64_EQ(i % 2 == 0 ? MEND_STREAM_UNKNOWN : slots[i],
                      mend_streams_lookup_other(&r.streams, handles[i], i % 3));
    }
    for (uint32_t i = 0; i < MANY; i++) {
        slots[i] = stream_rig_find(&r, handles[i], i % 3);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        EXPECT_U64_EQ(slots[i], mend_streams_lookup_other(&r.streams, handles[i], i % 3));
    }
    stream_rig_close(&r);
}

#define SLOTS_TEST(suite, name)                                                                    \
    KIT_CASE(suite, name, stream_rig, r, stream_rig_open_unmet(r, true), stream_rig_close(r))

/* What keeps a slot where slots are collected; a stream that is not kept is met again. */
SLOTS_TEST(physical_slots, one_that_is_of_use_is_kept)
{
    mend_stream handle = r->handles[0];
    uint32_t slot = stream_rig_find(r, handle, 0);
    mend_stream_state *state = &r->streams.items[slot];
    mend_slots_collect(&r->streams); /* it was found since the last time, which was never */
#define EXPECT_KEPT(field, value)                                                                  \
    do {                                                                                           \
        state->field = (value);                                                                    \
        mend_slots_collect(&r->streams);                                                           \
        EXPECT_TRUE(state->known);                                                                 \
        state->field = 0;                                                                          \
    } while (0)
    EXPECT_KEPT(open, true);
    EXPECT_KEPT(users, 1);
    EXPECT_KEPT(calls, 1);
    EXPECT_KEPT(recordings, 1);
    EXPECT_KEPT(awaited[0].epoch, 1);
    EXPECT_KEPT(group, 1);
    EXPECT_KEPT(seen_captured, true);
    EXPECT_KEPT(was_found, true);
    r->streams.verify = false; /* streams are forgotten by name */
    mend_slots_collect(&r->streams);
    EXPECT_TRUE(state->known);
    r->streams.verify = true;
    mend_slots_collect(&r->streams);
    EXPECT_FALSE(state->known);
    EXPECT_U64_EQ(slot, stream_rig_find(r, handle, 0));
    EXPECT_TRUE(state->known);
}

/* ---- threads ------------------------------------------------------------------------------------
 */

static void *find_own(void *context)
{
    stream_rig *r = context;
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->context_push(r->device, r->info.context));
    EXPECT_U64_EQ(2, stream_rig_find(r, MEND_STREAM_PER_THREAD, 0));
    EXPECT_U64_EQ(2, stream_rig_find(r, MEND_STREAM_PER_THREAD, 0));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->context_pop(r->device));
    return NULL;
}

SLOTS_TEST(physical_slots, each_thread_has_its_own)
{
    EXPECT_U64_EQ(1, stream_rig_find(r, MEND_STREAM_PER_THREAD, 0));
    mend_test_run_thread(find_own, r);
    EXPECT_U64_EQ(1, stream_rig_find(r, MEND_STREAM_PER_THREAD, 0));
    EXPECT_TRUE(r->streams.items[1].thread != r->streams.items[2].thread);
}
