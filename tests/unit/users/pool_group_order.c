/* Captures of three streams that wait for each other at random: no kernel of a graph meets memory
 * that an unordered one uses, and memory goes from stream to stream where the graph orders them. */
#include <string.h>

#include "pool/pool.h"
#include "tests/support/kit.h"

enum { STREAMS = 3, MOST_BLOCKS = 12, STEPS = 120, PROGRAMS = 60 };

typedef struct user_block {
    char *data;
    uint64_t size_bytes;
    int home;
    bool read_by[STREAMS]; /* since the last write */
} user_block;

typedef struct captured_program {
    mend_world w;
    mend_test_random random;
    user_block blocks[MOST_BLOCKS];
    int count;
    int passed_on;     /* allocations of memory that another stream freed last */
    int freed_on[256]; /* by MiB of the first address: the stream; -1: none */
    char *first;
    mend_group *named; /* named by each call, not begun; NULL: begun */
} captured_program;

static uint64_t draw(captured_program *p, uint64_t bound)
{
    return mend_test_random_below(&p->random, bound);
}

static void wait_for(captured_program *p, int stream, int other)
{
    mend_world *w = &p->w;
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(stream), S(other)));
}

/* Where a block begins, counted from the first one of the program. */
static int *freed_at(captured_program *p, const char *data)
{
    size_t at = (size_t)(data - p->first) / (MEND_MIB / 4) + 128;
    return &p->freed_on[at % 256];
}

static void alloc(captured_program *p, int stream)
{
    mend_world *w = &p->w;
    user_block made = {.size_bytes = (draw(p, 4) + 1) * MEND_MIB / 4, .home = stream};
    void *data = NULL;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.group = p->named;
    mend_result result = mend_alloc_with(w->pool, made.size_bytes, S(stream), &options, &data);
    EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
    if (result != MEND_OK) {
        return;
    }
    made.data = data;
    p->first = p->first != NULL ? p->first : data;
    p->passed_on += *freed_at(p, data) >= 0 && *freed_at(p, data) != stream;
    *freed_at(p, data) = -1;
    kit_use(w, S(stream), data, made.size_bytes, draw(p, 100));
    p->blocks[p->count++] = made;
}

/* Another stream reads it, behind its last write, as record_stream declares. */
static void read(captured_program *p, user_block *block, int reader)
{
    mend_world *w = &p->w;
    wait_for(p, reader, block->home);
    EXPECT_OK(p->named != NULL ? mend_group_record_stream(p->named, block->data, S(reader))
                               : mend_record_stream(w->pool, block->data, S(reader)));
    kit_verify(w, S(reader), block->data, block->size_bytes);
    block->read_by[reader] = true;
}

static void write(captured_program *p, user_block *block)
{
    mend_world *w = &p->w;
    for (int i = 0; i < STREAMS; i++) {
        if (block->read_by[i]) {
            wait_for(p, block->home, i);
        }
        block->read_by[i] = false;
    }
    kit_write(w, S(block->home), block->data, block->size_bytes);
}

static void free_on(captured_program *p, user_block *block, int stream)
{
    mend_world *w = &p->w;
    if (stream != block->home) {
        wait_for(p, stream, block->home);
    }
    EXPECT_OK(p->named != NULL ? mend_group_free(p->named, block->data, S(stream))
                               : mend_free(w->pool, block->data, S(stream)));
    *freed_at(p, block->data) = stream;
    *block = p->blocks[--p->count];
}

static void take_step(captured_program *p)
{
    const int stream = (int)draw(p, STREAMS);
    user_block *block = p->count > 0 ? &p->blocks[draw(p, (uint64_t)p->count)] : NULL;
    switch (draw(p, 8)) {
    case 0:
        wait_for(p, stream, (int)draw(p, STREAMS));
        break;
    case 1:
    case 2:
        if (block != NULL && stream != block->home) {
            write(p, block); /* so that what is compared is known */
            read(p, block, stream);
        }
        break;
    case 3:
        if (block != NULL) {
            write(p, block);
        }
        break;
    case 4:
    case 5:
        if (block != NULL) {
            free_on(p, block, draw(p, 4) == 0 ? stream : block->home);
        }
        break;
    default:
        if (p->count < MOST_BLOCKS) {
            alloc(p, stream);
        }
    }
}

static mend_sim_graph *capture(captured_program *p, mend_group *group)
{
    mend_world *w = &p->w;
    kit_begin_capture(w, S(0));
    for (int i = 1; i < STREAMS; i++) {
        wait_for(p, i, 0);
    }
    for (int step = 0; step < STEPS; step++) {
        take_step(p);
        mend_world_check(w);
    }
    while (p->count > 0) {
        free_on(p, &p->blocks[p->count - 1], p->blocks[p->count - 1].home);
    }
    for (int i = 1; i < STREAMS; i++) {
        wait_for(p, 0, i);
    }
    if (p->named == NULL) {
        EXPECT_OK(mend_group_end(group));
    }
    return kit_end_capture(w, S(0));
}

static int run_programs(bool is_named)
{
    int passed_on = 0;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        captured_program p = {0};
        mend_world *w = &p.w;
        mend_group *group = NULL;
        mend_test_random_init(&p.random, mend_test_seed() + seed);
        if (!kit_open_with(w, 6 * MEND_MIB, NULL)) {
            return 0;
        }
        EXPECT_OK(mend_group_create(w->pool, &group));
        if (is_named) {
            p.named = group;
        } else {
            EXPECT_OK(mend_group_begin(group, MEND_EVERY_STREAM));
        }
        memset(p.freed_on, -1, sizeof(p.freed_on));
        mend_sim_graph *graph = capture(&p, group);
        for (int i = 0; i < 2; i++) {
            kit_launch_graph(w, graph, S(2));
        }
        mend_sim_advance(w->sim, UINT64_C(1) << 30);
        EXPECT_LEDGER(w, content_errors, 0, violations, 0);
        mend_sim_graph_destroy(w->sim, graph);
        passed_on += p.passed_on;
        kit_close(w);
    }
    return passed_on;
}

/* In a group that is begun, and in one that each call names. */
MEND_TEST(pool_group_order, random_captures_are_right_in_every_launch)
{
    EXPECT_TRUE(run_programs(false) > PROGRAMS);
    EXPECT_TRUE(run_programs(true) > PROGRAMS);
}

/* Of a block of the group that a branch used: as frameworks do that name it. */
KIT_TEST_IN(pool_group_order, a_joined_branch_leaves_a_block_of_a_named_group,
            kit_open_with(w, 8 * MEND_MIB, NULL))
{
    mend_group *group = NULL;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    void *blocks[2] = {NULL, NULL};
    EXPECT_OK(mend_group_create(w->pool, &group));
    options.group = group;
    kit_begin_capture(w, S(0));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_alloc_with(w->pool, 5 * MEND_MIB, S(0), &options, &blocks[i]));
        EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
        EXPECT_OK(mend_group_record_stream(group, blocks[i], S(1)));
        kit_use(w, S(1), blocks[i], 5 * MEND_MIB, 100);
        EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
        EXPECT_OK(mend_group_free(group, blocks[i], S(0)));
    }
    EXPECT_PTR_EQ(blocks[0], blocks[1]);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_group_record_stream(group, NULL, S(1)));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    kit_launch_graph(w, graph, S(2));
    mend_sim_graph_destroy(w->sim, graph);
}
