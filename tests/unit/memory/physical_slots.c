/* Slots of streams: ended streams cost nothing, however many there have been. */
#include "memory/stream.h"

#include "pool/pool.h"
#include "tests/support/kit.h"
#include "tests/support/threads.h"
#include "tests/unit/memory/stream_rig.h"

/* They come one after the other, so that more of them show no race. */
#if defined(__SANITIZE_THREAD__)
enum { STREAMS = 500 };
#else
enum { STREAMS = 2000 };
#endif

enum { BETWEEN_TRIMS = 40, MOST_SLOTS = 300, BLOCK_BYTES = 4096 };

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

KIT_SETTING(may_vanish, w->pool_config.detect_destroyed_streams = 1);

/* Also where streams vanish, and where nothing was freed on their streams, so that nothing is ever
 * waited for. */
KIT_EACH(physical_slots, threads_that_ended_cost_nothing, int, i, 3,
         kit_open_with(w, 64 * MEND_MIB, i == 1 ? may_vanish : NULL))
{
    const bool leave_blocks = i == 2;
    for (int k = 0; k < STREAMS; k++) {
        turn t = {.w = w, .leaves_its_block = leave_blocks};
        mend_test_run_thread(take_turn, &t);
        kit_free(w, leave_blocks ? t.block : NULL, NULL);
        if (k % BETWEEN_TRIMS == 0) {
            EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
        }
    }
    EXPECT_TRUE(mend_world_stats(w).streams < MOST_SLOTS);
    EXPECT_TRUE(w->pool->heap.streams.count < MOST_SLOTS);
}

KIT_TEST_IN(physical_slots, streams_destroyed_without_a_word_cost_nothing,
            kit_open_with(w, 64 * MEND_MIB, may_vanish))
{
    static mend_stream streams[STREAMS];
    for (int i = 0; i < STREAMS; i++) { /* all at once, so that no handle is used again */
        EXPECT_OK(mend_sim_stream_create(w->sim, NULL, &streams[i]));
    }
    for (int i = 0; i < STREAMS; i++) {
        kit_free(w, kit_alloc(w, BLOCK_BYTES, streams[i]), streams[i]);
        EXPECT_OK(mend_sim_stream_destroy(w->sim, streams[i]));
        if (i % BETWEEN_TRIMS == 0) {
            EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
        }
    }
    EXPECT_TRUE(w->pool->heap.streams.count < MOST_SLOTS);
}

static void *meet_none(void *context)
{
    stream_rig *r = context;
    EXPECT_U64_EQ(MEND_STREAM_UNKNOWN, mend_slots_first(&r->streams, MEND_STREAM_PER_THREAD));
    return NULL;
}

/* Though its handle is the same, and its thread's number may have the same place in the table. */
KIT_CASE(physical_slots, the_per_thread_stream_of_another_thread_is_not_met, stream_rig, r,
         stream_rig_open(r), stream_rig_close(r))
{
    (void)stream_rig_find(r, MEND_STREAM_PER_THREAD, 0);
    mend_test_run_threads_of(meet_none, r, 0, 8);
}
