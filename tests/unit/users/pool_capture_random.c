/* Random programs that capture on two streams: the second joins the capture of the first. Blocks
 * from before are used, declared and freed there, by whichever stream, while earlier work on them
 * is still under way; graphs are launched or not, on any stream, and destroyed. Every byte is
 * compared. */
#include "tests/support/kit.h"

enum { BLOCKS = 8, ROUNDS = 60, CAPTURED = 2 /* streams 0 and 1 take part in captures */ };

typedef struct held_block {
    void *block;
    uint64_t size_bytes;
    int home; /* number of the stream it is used on, outside of captures */
} held_block;

typedef struct random_program {
    mend_world w;
    mend_test_random random;
    held_block blocks[BLOCKS];
} random_program;

static uint64_t draw(random_program *r, uint64_t below)
{
    return mend_test_random_below(&r->random, below);
}

static void order(random_program *r, int waiter, int before)
{
    if (waiter != before) {
        EXPECT_RESULT(MEND_OK,
                      mend_sim_stream_wait(r->w.sim, r->w.streams[waiter], r->w.streams[before]));
    }
}

static void use_for_a_while(random_program *r, held_block *b, int stream)
{
    kit_use(&r->w, r->w.streams[stream], b->block, b->size_bytes, draw(r, 5000));
}

static void fill(random_program *r)
{
    for (int i = 0; i < BLOCKS; i++) {
        held_block *b = &r->blocks[i];
        if (b->block == NULL && draw(r, 3) > 0) {
            b->size_bytes = (draw(r, 8) + 1) * MEND_MIB / 4;
            b->home = (int)draw(r, MEND_WORLD_STREAMS);
            mend_stream home = r->w.streams[b->home];
            bool has = mend_alloc(r->w.pool, b->size_bytes, home, &b->block) == MEND_OK;
            b->block = has ? b->block : NULL;
        }
        if (b->block != NULL && draw(r, 2) == 0) {
            use_for_a_while(r, b, b->home);
        }
    }
}

static void give(random_program *r, held_block *b)
{
    kit_free(&r->w, b->block, r->w.streams[b->home]);
    b->block = NULL;
}

/* A block of one of the two streams is used by one of them or both, and freed or not. */
static void record(random_program *r, held_block *b)
{
    int user = (int)draw(r, CAPTURED);
    order(r, user, b->home);
    use_for_a_while(r, b, user);
    if (user != b->home) {
        EXPECT_RESULT(MEND_OK, mend_record_stream(r->w.pool, b->block, r->w.streams[user]));
    }
    order(r, 1 - user, user);
    if (draw(r, 2) == 0) {
        give(r, b);
    }
}

static mend_sim_graph *capture(random_program *r)
{
    kit_begin_capture(&r->w, r->w.streams[0]);
    order(r, 1, 0);
    for (int i = 0; i < BLOCKS; i++) {
        held_block *b = &r->blocks[i];
        if (b->block != NULL && b->home < CAPTURED && draw(r, 2) == 0) {
            record(r, b);
        }
    }
    order(r, 0, 1);
    return kit_end_capture(&r->w, r->w.streams[0]);
}

/* Behind all that was queued before, and before all that is queued later. */
static void launch(random_program *r, mend_sim_graph *graph)
{
    int stream = (int)draw(r, MEND_WORLD_STREAMS);
    for (int i = 0; i < MEND_WORLD_STREAMS; i++) {
        order(r, stream, i);
    }
    kit_launch_graph(&r->w, graph, r->w.streams[stream]);
    for (int i = 0; i < MEND_WORLD_STREAMS; i++) {
        order(r, i, stream);
    }
}

static void round_of(random_program *r)
{
    fill(r);
    mend_sim_graph *graph = capture(r);
    for (uint64_t i = draw(r, 3); i > 0; i--) {
        launch(r, graph);
        fill(r);
    }
    mend_sim_graph_destroy(r->w.sim, graph);
    for (int i = 0; i < BLOCKS; i++) {
        if (r->blocks[i].block != NULL && draw(r, 4) == 0) {
            give(r, &r->blocks[i]);
        }
    }
    fill(r);
    mend_sim_advance(r->w.sim, draw(r, 2000));
    mend_world_check(&r->w);
}

MEND_TEST(pool_capture_random, streams_that_join_a_capture_lose_no_byte)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        random_program r = {0};
        mend_test_random_init(&r.random, mend_test_seed() + seed);
        ASSERT_TRUE(kit_open_with(&r.w, 10 * MEND_MIB, NULL));
        for (int round = 0; round < ROUNDS; round++) {
            round_of(&r);
        }
        for (int i = 0; i < BLOCKS; i++) {
            if (r.blocks[i].block != NULL) {
                give(&r, &r.blocks[i]);
            }
        }
        mend_sim_advance(r.w.sim, UINT64_C(1) << 30);
        EXPECT_RESULT(MEND_OK, mend_trim_wait(r.w.pool, 0, NULL));
        EXPECT_U64_EQ(0, mend_world_stats(&r.w).reserved_bytes);
        kit_close(&r.w);
    }
}
