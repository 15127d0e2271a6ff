/*
 * Waits before growth: before the pool exceeds the program's growth limit, a stream waits for the
 * oldest frees of others. And the effect on kernels that wait for each other: two ranks with a
 * device each, whose collectives end when both ranks are at them.
 */
#include <string.h>

#include "driver/forward.h"
#include "tests/support/kit.h"

#define BLOCK_BYTES (4 * MEND_MIB)
#define LONG_NS     UINT64_C(1000000000)

/* ---- how much is held ------------------------------------------------------------------------ */

/* The CPU is ahead: blocks of one stream are freed while another one copies them, as for an
 * offload, and no work ends. */
static uint64_t held_after_an_offload(mend_world *w, int growth_percent)
{
    uint64_t held_bytes = 0;
    mend_world_init(w);
    w->pool_config.growth_percent = growth_percent;
    if (kit_open(w)) {
        for (int i = 0; i < 12; i++) {
            void *block = kit_alloc(w, BLOCK_BYTES, S(0));
            EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
            kit_use(w, S(1), block, BLOCK_BYTES, LONG_NS);
            kit_free(w, block, S(0));
        }
        held_bytes = mend_world_stats(w).reserved_bytes;
        EXPECT_U64_EQ(0, mend_world_stats(w).host_waits);
        kit_close(w);
    }
    return held_bytes;
}

MEND_TEST(pool_growth, ends_at_the_bound_by_waits_on_the_device)
{
    mend_world w;
    EXPECT_U64_EQ(12 * BLOCK_BYTES, held_after_an_offload(&w, 0));
    EXPECT_U64_EQ(2 * BLOCK_BYTES, held_after_an_offload(&w, 250));
    EXPECT_U64_EQ(4 * BLOCK_BYTES, held_after_an_offload(&w, 400));
}

/* The last one was freed last, and best fit would take it. */
KIT_SET_TEST(pool_growth, a_stream_waits_for_what_was_freed_longest_ago,
             w->pool_config.growth_percent = 100)
{
    void *first = kit_alloc(w, BLOCK_BYTES + MEND_MIB, S(0));
    void *last = kit_alloc(w, BLOCK_BYTES, S(1));
    kit_use(w, S(0), first, BLOCK_BYTES, 1000);
    kit_free(w, first, S(0));
    kit_use(w, S(1), last, BLOCK_BYTES, LONG_NS);
    kit_free(w, last, S(1));
    void *block = kit_alloc(w, BLOCK_BYTES, S(2));
    EXPECT_PTR_EQ(first, block);
    kit_expect_waits(w, 1, 0);
}

/* ---- kernels that wait for each other -------------------------------------------------------- */

enum { GATHERS, SCATTERS, COMPUTES, STREAMS, RANKS = 2, STEPS = 512, EVENTS = 256 };
static_assert(STREAMS == (int)MEND_WORLD_STREAMS, "each has a stream");

/* The next step of a stream: a collective, or a wait for a step of another stream. */
typedef struct step {
    bool meets;
    int stream;
    int number; /* of the collective, or of the step */
} step;

typedef struct rank {
    mend_passing pass; /* first: its table writes steps */
    mend_world w;
    step steps[STREAMS][STEPS];
    int count[STREAMS];
    int at[STREAMS]; /* while the steps are run */
    struct {
        mend_event event;
        int stream;
        int count; /* of the steps behind which it was recorded */
    } events[EVENTS];
    int event_count;
} rank;

static int index_of(const rank *r, mend_stream stream)
{
    int i = 0;
    while (i + 1 < STREAMS && r->w.streams[i] != stream) {
        i++;
    }
    EXPECT_PTR_EQ(stream, r->w.streams[i]);
    return i;
}

static void add(rank *r, int stream, step next)
{
    EXPECT_TRUE(r->count[stream] < STEPS);
    r->steps[stream][r->count[stream]++] = next;
}

static mend_status record(const mend_driver *driver, mend_event event, mend_stream stream)
{
    rank *r = driver->state;
    int i = 0;
    while (i < r->event_count && r->events[i].event != event) {
        i++;
    }
    EXPECT_TRUE(i < EVENTS);
    r->event_count += i == r->event_count;
    r->events[i].event = event;
    r->events[i].stream = index_of(r, stream);
    r->events[i].count = r->count[r->events[i].stream];
    return r->pass.inner->event_record(r->pass.inner, event, stream);
}

static mend_status make_wait(const mend_driver *driver, mend_stream stream, mend_event event)
{
    rank *r = driver->state;
    for (int i = 0; i < r->event_count; i++) {
        if (r->events[i].event == event) {
            add(r, index_of(r, stream),
                (step){.stream = r->events[i].stream, .number = r->events[i].count});
        }
    }
    return r->pass.inner->stream_wait(r->pass.inner, stream, event);
}

static bool open_rank(rank *r, int growth_percent)
{
    memset(r, 0, sizeof(*r));
    mend_world_init(&r->w);
    r->w.sim_config.memory_bytes = MEND_GIB;
    r->w.pool_config.growth_percent = growth_percent;
    if (!mend_world_open_device(&r->w)) {
        return false;
    }
    mend_passing_init(&r->pass, mend_sim_driver(r->w.sim));
    r->pass.table.event_record = record;
    r->pass.table.stream_wait = make_wait;
    return kit_open_on(&r->w, &r->pass.table);
}

/* The program orders a stream behind all that another one has so far. */
static void order(rank *r, int stream, int other)
{
    EXPECT_OK(mend_sim_stream_wait(r->w.sim, r->w.streams[stream], r->w.streams[other]));
    add(r, stream, (step){.stream = other, .number = r->count[other]});
}

/* A collective on a block of its own. */
static void *collect(rank *r, int stream, int number, uint64_t size_bytes)
{
    void *block = kit_alloc_used(&r->w, size_bytes, r->w.streams[stream], LONG_NS);
    add(r, stream, (step){.meets = true, .number = number});
    return block;
}

static bool may_go_on(const rank *r, const rank *other, int stream)
{
    const step *next = &r->steps[stream][r->at[stream]];
    bool is_met = false;
    for (int i = 0; next->meets && i < STREAMS; i++) {
        const step *there = &other->steps[i][other->at[i]];
        const step *passed = there - 1;
        is_met |= other->at[i] < other->count[i] && there->meets && there->number == next->number;
        is_met |= other->at[i] > 0 && passed->meets && passed->number == next->number;
    }
    return next->meets ? is_met : r->at[next->stream] >= next->number;
}

/* Runs the steps of all streams. False if they wait for each other for ever. */
static bool run(rank ranks[RANKS])
{
    bool has_moved = true;
    bool has_ended = true;
    while (has_moved) {
        has_moved = false;
        has_ended = true;
        for (int i = 0; i < RANKS * STREAMS; i++) {
            rank *r = &ranks[i / STREAMS];
            const int stream = i % STREAMS;
            const bool has_more = r->at[stream] < r->count[stream];
            const bool goes_on = has_more && may_go_on(r, &ranks[1 - i / STREAMS], stream);
            r->at[stream] += goes_on;
            has_moved |= goes_on;
            has_ended &= !has_more;
        }
    }
    return has_ended;
}

/* Steps as of FSDP: a layer's weights are gathered, used on the stream that computes, and freed.
 * Its gradients are scattered from a block of their own. */
static void train(rank *r, int layers, uint64_t size_bytes)
{
    for (int i = 0; i < layers; i++) {
        const uint64_t layer_bytes = size_bytes + (uint64_t)(i % 3) * MEND_MIB;
        void *weights = collect(r, GATHERS, 2 * i, layer_bytes);
        order(r, COMPUTES, GATHERS);
        void *gradients = kit_alloc_used(&r->w, layer_bytes, r->w.streams[COMPUTES], LONG_NS);
        EXPECT_OK(mend_record_stream(r->w.pool, weights, r->w.streams[COMPUTES]));
        kit_free(&r->w, weights, r->w.streams[GATHERS]);
        order(r, SCATTERS, COMPUTES);
        add(r, SCATTERS, (step){.meets = true, .number = 2 * i + 1});
        EXPECT_OK(mend_record_stream(r->w.pool, gradients, r->w.streams[SCATTERS]));
        kit_free(&r->w, gradients, r->w.streams[COMPUTES]);
    }
}

/* As NCCL wants it: each rank issues its collectives in the same order. The ranks need different
 * memory, so that other streams wait in each. */
MEND_TEST(pool_growth, two_ranks_whose_kernels_wait_for_each_other_do_not_hang)
{
    static rank ranks[RANKS];
    for (int percent = 100; percent <= 400; percent += 50) {
        ASSERT_TRUE(open_rank(&ranks[0], percent) && open_rank(&ranks[1], percent));
        train(&ranks[0], 40, 4 * MEND_MIB);
        train(&ranks[1], 40, 9 * MEND_MIB);
        EXPECT_TRUE(mend_world_stats(&ranks[0].w).stream_waits > 0 &&
                    mend_world_stats(&ranks[1].w).stream_waits > 0);
        EXPECT_TRUE(run(ranks));
        kit_close(&ranks[1].w);
        kit_close(&ranks[0].w);
    }
}

/* Two ranks that issue two collectives, each on a stream of its own, in opposite orders: that ends
 * where no stream waits for another, and so it does unless the program asks for such waits. */
static bool meets_in_opposite_orders(int growth_percent)
{
    static rank ranks[RANKS];
    bool has_ended = false;
    if (open_rank(&ranks[0], growth_percent) && open_rank(&ranks[1], growth_percent)) {
        for (int i = 0; i < RANKS; i++) {
            rank *r = &ranks[i];
            kit_free(&r->w, collect(r, i, i, BLOCK_BYTES), r->w.streams[i]);
            kit_free(&r->w, collect(r, 1 - i, 1 - i, BLOCK_BYTES), r->w.streams[1 - i]);
        }
        has_ended = run(ranks);
        kit_close(&ranks[1].w);
        kit_close(&ranks[0].w);
    }
    return has_ended;
}

MEND_TEST(pool_growth, kernels_that_meet_in_opposite_orders_end_where_the_pool_grows)
{
    EXPECT_TRUE(meets_in_opposite_orders(0));
    EXPECT_FALSE(meets_in_opposite_orders(100));
}

/* ---- the soft limit: steps without growth, callbacks, and then it grows all the same --------- */

/* A device of 16 MiB, and a callback that frees nothing. */
typedef struct scene {
    mend_world w;
    int calls;
} scene;

KIT_PRESSURE(hear)
{
    scene *s = context;
    s->calls++;
    return 0;
}

static bool open_scene(scene *s)
{
    mend_world *w = &s->w;
    *s = (scene){.calls = 0};
    return kit_open_set(w, w->sim_config.memory_bytes = 16 * MEND_MIB,
                        w->pool_config.soft_limit_bytes = 4 * MEND_MIB) &&
           mend_add_pressure_callback(w->pool, hear, s) == MEND_OK;
}

#define SOFT_LIMIT_TEST(suite, name)                                                               \
    KIT_CASE(suite, name, scene, s, open_scene(s), kit_close(&s->w))

SOFT_LIMIT_TEST(pool_soft_limit, only_growth_is_counted)
{
    mend_stream busy = s->w.streams[0];
    void *used = kit_alloc_used(&s->w, 12 * MEND_MIB, busy, 1000000);
    kit_alloc(&s->w, 4 * MEND_MIB, NULL); /* the device is full */
    kit_free(&s->w, used, busy);
    EXPECT_STATS(&s->w, reserved_bytes, 16 * MEND_MIB, soft_limit_passed, 2);
    kit_alloc(&s->w, 8 * MEND_MIB, MEND_NO_STREAM);
    EXPECT_STATS(&s->w, host_waits, 1, reserved_bytes, 16 * MEND_MIB, soft_limit_passed, 2,
                 waited_requests, 1, out_of_memory, 0);
    EXPECT_RESULT(MEND_OK, mend_trim(s->w.pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_STATS(&s->w, waited_requests, 1);
}

KIT_SET_TEST(pool_soft_limit, has_no_effect_at_the_limit,
             w->sim_config.memory_bytes = 16 * MEND_MIB,
             w->pool_config.soft_limit_bytes = 16 * MEND_MIB)
{
    int calls = 0;
    EXPECT_OK(mend_add_pressure_callback(w->pool, kit_count_pressure, &calls));
    kit_expect_none(w, 17 * MEND_MIB, NULL, "");
    EXPECT_INT_EQ(1, calls); /* for the limit */
}
