/* Random programs that capture on two streams: the second joins the capture of the first. Blocks
 * from before are used, declared and freed there, by whichever stream, while earlier work on them
 * is still under way; graphs are launched or not, on any stream, and destroyed. Every byte is
 * compared. */
#include "tests/support/graph_program.h"

#define MIB MEND_MIB

enum { BLOCKS = 8, ROUNDS = 60, CAPTURED = 2 /* streams 0 and 1 take part in captures */ };

typedef struct held_block {
    void *block;
    uint64_t size_bytes;
    int home; /* number of the stream it is used on, outside of captures */
} held_block;

typedef struct random_program {
    graph_program p;
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
        EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(r->p.world.sim, r->p.streams[waiter],
                                                    r->p.streams[before]));
    }
}

static void use_for_a_while(random_program *r, held_block *b, int stream)
{
    graph_program_use(&r->p, r->p.streams[stream], b->block, b->size_bytes, draw(r, 5000));
}

static void fill(random_program *r)
{
    for (int i = 0; i < BLOCKS; i++) {
        held_block *b = &r->blocks[i];
        if (b->block == NULL && draw(r, 3) > 0) {
            b->size_bytes = (draw(r, 8) + 1) * MIB / 4;
            b->home = (int)draw(r, PROGRAM_STREAMS);
            mend_stream home = r->p.streams[b->home];
            bool has = mend_alloc(r->p.world.pool, b->size_bytes, home, &b->block) == MEND_OK;
            b->block = has ? b->block : NULL;
        }
        if (b->block != NULL && draw(r, 2) == 0) {
            use_for_a_while(r, b, b->home);
        }
    }
}

static void give(random_program *r, held_block *b)
{
    graph_program_free(&r->p, b->block, r->p.streams[b->home]);
    b->block = NULL;
}

/* A block of one of the two streams is used by one of them or both, and freed or not. */
static void record(random_program *r, held_block *b)
{
    int user = (int)draw(r, CAPTURED);
    order(r, user, b->home);
    use_for_a_while(r, b, user);
    if (user != b->home) {
        EXPECT_RESULT(MEND_OK, mend_record_stream(r->p.world.pool, b->block, r->p.streams[user]));
    }
    order(r, 1 - user, user);
    if (draw(r, 2) == 0) {
        give(r, b);
    }
}

static mend_sim_graph *capture(random_program *r)
{
    graph_program_begin_capture(&r->p, r->p.streams[0]);
    order(r, 1, 0);
    for (int i = 0; i < BLOCKS; i++) {
        held_block *b = &r->blocks[i];
        if (b->block != NULL && b->home < CAPTURED && draw(r, 2) == 0) {
            record(r, b);
        }
    }
    order(r, 0, 1);
    return graph_program_end_capture(&r->p, r->p.streams[0]);
}

/* Behind all that was queued before, and before all that is queued later. */
static void launch(random_program *r, mend_sim_graph *graph)
{
    int stream = (int)draw(r, PROGRAM_STREAMS);
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
        order(r, stream, i);
    }
    graph_program_launch(&r->p, graph, r->p.streams[stream]);
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
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
    mend_sim_graph_destroy(r->p.world.sim, graph);
    for (int i = 0; i < BLOCKS; i++) {
        if (r->blocks[i].block != NULL && draw(r, 4) == 0) {
            give(r, &r->blocks[i]);
        }
    }
    fill(r);
    mend_sim_advance(r->p.world.sim, draw(r, 2000));
    mend_world_check(&r->p.world);
}

MEND_TEST(pool_capture_random, streams_that_join_a_capture_lose_no_byte)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        random_program r = {0};
        mend_test_random_init(&r.random, mend_test_seed() + seed);
        ASSERT_TRUE(graph_program_open(&r.p, 10 * MIB, NULL));
        for (int round = 0; round < ROUNDS; round++) {
            round_of(&r);
        }
        for (int i = 0; i < BLOCKS; i++) {
            if (r.blocks[i].block != NULL) {
                give(&r, &r.blocks[i]);
            }
        }
        mend_sim_advance(r.p.world.sim, UINT64_C(1) << 30);
        EXPECT_RESULT(MEND_OK, mend_trim_wait(r.p.world.pool, 0, NULL));
        EXPECT_U64_EQ(0, mend_world_stats(&r.p.world).reserved_bytes);
        graph_program_close(&r.p);
    }
}
