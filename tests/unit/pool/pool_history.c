/* mend_history_start and mend_history_read: the events of a pool. */
#include <string.h>

#include "base/words.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_sleep.h"
#include "tests/support/follower.h"
#include "tests/support/kit.h"

#define QUARTER (256 * MEND_KIB)
enum { ROOM = 4096, MOST = 32 };

typedef struct rig {
    mend_world w;
    mend_stream stream;
    uint64_t cursor;
    mend_follower follower;
    mend_history_event events[MOST];
} rig;

static bool open_rig_of(rig *r, uint64_t memory_bytes, int prices)
{
    *r = (rig){.stream = NULL};
    if (!kit_open_set(&r->w, r->w.sim_config.memory_bytes = memory_bytes,
                      r->w.sim_config.prices_advance_clock = prices)) {
        return false;
    }
    r->stream = r->w.streams[0];
    EXPECT_OK(mend_history_start(r->w.pool, ROOM));
    return mend_follower_begin(&r->follower, r->w.pool);
}

static bool open_rig(rig *r)
{
    return open_rig_of(r, 256 * MEND_MIB, 0); /* low pressure: blocks share chunks of 1 MiB */
}

static void follow(rig *r)
{
    char finding[MEND_FOLLOWER_FINDING_BYTES];
    if (!mend_follower_follow(&r->follower, finding)) {
        mend_test_fail(__FILE__, __LINE__, "%s", finding);
    }
}

static void close_rig(rig *r)
{
    follow(r);
    mend_follower_end(&r->follower);
    kit_close(&r->w);
}

/* Events since the last time, as many as fit. */
static size_t read(rig *r)
{
    size_t count = 0;
    memset(r->events, 0, sizeof(r->events));
    EXPECT_OK(
        mend_history_read(r->w.pool, &r->cursor, r->events, sizeof(*r->events), MOST, &count));
    return count;
}

/* The kinds of the events since the last time. */
static void expect_kinds(rig *r, const mend_event_kind *kinds, size_t count)
{
    EXPECT_U64_EQ(count, read(r));
    for (size_t i = 0; i < count; i++) {
        EXPECT_INT_EQ((int)kinds[i], r->events[i].kind);
    }
}
#define EXPECT_KINDS(r, ...)                                                                       \
    expect_kinds(r, (const mend_event_kind[]){__VA_ARGS__},                                        \
                 sizeof((const mend_event_kind[]){__VA_ARGS__}) / sizeof(mend_event_kind))

/* The cause of all events since the last time. */
static void expect_cause(rig *r, mend_event_cause cause)
{
    for (size_t i = read(r); i-- > 0;) {
        EXPECT_INT_EQ((int)cause, (int)r->events[i].cause);
    }
}

#define RIG_TEST(name, opening) KIT_RIG_TEST(pool_history, name, rig, opening, close_rig(r))

/* Of eight events the last five are held, until the capacity is another one. */
KIT_EACH(pool_history, another_capacity_keeps_the_newest, int, i, 5, kit_open_default(w))
{
    enum { FIRST = 5, EVENTS = 8 };
    static const uint64_t capacities[] = {1, 3, 5, 7, 12};
    const uint64_t held = capacities[i] < FIRST ? capacities[i] : FIRST;
    mend_history_event events[MOST];
    uint64_t cursor = 0;
    size_t count = 0;
    void *block = kit_alloc(w, 512, NULL);
    EXPECT_OK(mend_history_start(w->pool, FIRST));
    for (uint64_t k = 2; k < 2 + EVENTS / 2; k++) {
        kit_free(w, block, NULL);
        block = kit_alloc(w, 512 * k, NULL);
    }
    EXPECT_STATS(w, history_lost, EVENTS - FIRST);
    EXPECT_OK(mend_history_start(w->pool, capacities[i]));
    for (int more = 0; more < 2; more++) {
        const uint64_t first = more ? EVENTS : EVENTS - held;
        EXPECT_OK(mend_history_read(w->pool, &cursor, events, sizeof(*events), MOST, &count));
        EXPECT_U64_EQ(more ? 1 : held, count);
        for (uint64_t n = first; n < first + count; n++) {
            EXPECT_INT_EQ(n % 2 ? MEND_EVENT_ALLOC : MEND_EVENT_FREE, events[n - first].kind);
            EXPECT_U64_EQ(512 * (n / 2 + 1 + n % 2), events[n - first].requested_bytes);
            EXPECT_U64_EQ(cursor - count + n - first, events[n - first].sequence);
        }
        kit_free(w, more ? NULL : block, NULL);
    }
}

/* The front cache keeps blocks while the history is on, and gives them back. */
RIG_TEST(the_front_cache_goes_on_and_its_blocks_are_told, open_rig(r))
{
    void *block = kit_alloc(w, QUARTER, r->stream);
    kit_free(w, block, r->stream);
    EXPECT_OK(mend_history_start(w->pool, 2 * ROOM));
    EXPECT_STATS(w, cached_blocks, 1, cache_hits, 0);
    read(r);
    EXPECT_PTR_EQ(block, kit_alloc(w, QUARTER, r->stream));
    EXPECT_STATS(w, cached_blocks, 0, cache_hits, 1);
    kit_free(w, block, r->stream);
    EXPECT_STATS(w, cached_blocks, 1);
    EXPECT_KINDS(r, MEND_EVENT_ALLOC, MEND_EVENT_FREE);
    EXPECT_FIELDS(r->events[0], cause, MEND_CAUSE_HIT, size_bytes, QUARTER, duration_ns, 0);
    EXPECT_PTR_EQ(r->stream, r->events[1].stream);
    block = kit_alloc(w, QUARTER, r->stream);
    read(r);
    EXPECT_OK(mend_compact(w->pool, NULL, NULL));
    expect_cause(r, MEND_CAUSE_COMPACT);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    follow(r);
    EXPECT_U64_EQ(1, r->follower.seen[MEND_EVENT_COMPACT]);
    EXPECT_U64_EQ(1, r->follower.seen[MEND_EVENT_WAKE]);
    kit_free(w, block, r->stream);
    read(r);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    expect_cause(r, MEND_CAUSE_TRIM);
}

/* Each step of a request says why, in which chunk, and how long it took. The block how it was
 * served, and in which scope. */
RIG_TEST(steps_have_a_cause_a_chunk_and_a_duration, open_rig_of(r, 64 * MEND_MIB, 1))
{
    EXPECT_OK(mend_scope_push("step", 0));
    const uint32_t step = mend_process_own_marks.scope;
    void *block = kit_alloc(w, QUARTER, r->stream);
    EXPECT_OK(mend_scope_pop());
    kit_free(w, block, r->stream);
    EXPECT_KINDS(r, MEND_EVENT_CREATE, MEND_EVENT_MAP, MEND_EVENT_ALLOC, MEND_EVENT_FREE);
    const mend_history_event *created = &r->events[0];
    const mend_history_event *mapped = &r->events[1];
    EXPECT_FIELDS(*created, cause, MEND_CAUSE_REQUEST, chunk, 1, scope, 0);
    EXPECT_FIELDS(*mapped, cause, MEND_CAUSE_REQUEST, chunk, 1);
    EXPECT_FIELDS(r->events[2], cause, MEND_CAUSE_CREATED, chunk, 1, scope, step);
    EXPECT_FIELDS(r->events[3], cause, MEND_CAUSE_NONE, chunk, 1, scope, step, duration_ns, 0);
    EXPECT_TRUE(created->duration_ns > 0);
    EXPECT_TRUE(mapped->duration_ns > 0);
    EXPECT_U64_EQ(created->duration_ns + mapped->duration_ns, r->events[2].duration_ns);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    const size_t count = read(r);
    EXPECT_TRUE(count >= 3);
    EXPECT_FIELDS(r->events[count - 2], kind, MEND_EVENT_RELEASE, cause, MEND_CAUSE_TRIM, chunk, 1);
    EXPECT_TRUE(r->events[count - 2].duration_ns > 0);
    kit_alloc(w, QUARTER, r->stream);
    EXPECT_U64_EQ(3, read(r));
    EXPECT_FIELDS(r->events[0], kind, MEND_EVENT_CREATE, chunk, 2, cause, MEND_CAUSE_REQUEST);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_BY_POLICY, NULL)); /* nothing to tell */
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, MEND_GIB, r->stream, &block));
    EXPECT_KINDS(r, MEND_EVENT_OUT_OF_MEMORY);
    EXPECT_INT_EQ(MEND_CAUSE_LIMIT_REFUSED, r->events[0].cause);
    EXPECT_PTR_EQ(r->stream, r->events[0].stream);
}

RIG_TEST(pins_and_graph_pools_are_told, open_rig(r))
{
    void *block = kit_alloc(w, QUARTER, r->stream);
    read(r);
    EXPECT_OK(mend_pin(w->pool, block, 1024));
    EXPECT_OK(mend_unpin(w->pool, block, 1024));
    EXPECT_INVALID(mend_unpin(w->pool, block, 1024));
    EXPECT_KINDS(r, MEND_EVENT_PIN, MEND_EVENT_UNPIN);
    EXPECT_PTR_EQ(block, r->events[1].address);
    EXPECT_U64_EQ(1024, r->events[1].size_bytes);
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, r->stream);
    kit_free(w, kit_alloc(w, QUARTER, r->stream), r->stream);
    kit_end_graph_pool(graph_pool, r->stream);
    EXPECT_KINDS(r, MEND_EVENT_ALLOC, MEND_EVENT_FREE, MEND_EVENT_GRAPH_POOL_DESTROY);
    for (int i = 0; i < 3; i++) {
        EXPECT_TRUE(r->events[i].graph_pool == graph_pool);
        EXPECT_INT_EQ(i < 2, r->events[i].is_for_graphs);
        EXPECT_PTR_EQ(i < 2 ? r->stream : MEND_NO_STREAM, r->events[i].stream);
    }
    kit_begin_capture(w, r->stream);
    block = kit_alloc(w, QUARTER, r->stream);
    EXPECT_KINDS(r, MEND_EVENT_ALLOC);
    EXPECT_TRUE(r->events[0].graph_pool == NULL);
    EXPECT_INT_EQ(1, r->events[0].is_for_graphs);
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, r->stream));
    kit_free(w, block, r->stream);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, captures, 0);
    EXPECT_KINDS(r, MEND_EVENT_FREE, MEND_EVENT_TRIM); /* not the end of a graph pool */
}

RIG_TEST(a_reader_takes_more_than_the_lock_is_held_for, open_rig(r))
{
    static mend_history_event events[ROOM];
    size_t count = 0;
    for (int i = 0; i < 300; i++) {
        kit_free(w, kit_alloc(w, QUARTER, r->stream), r->stream);
    }
    EXPECT_OK(mend_history_read(w->pool, &r->cursor, events, sizeof(*events), 500, &count));
    EXPECT_U64_EQ(500, count);
    EXPECT_OK(
        mend_history_read(w->pool, &r->cursor, events + 500, sizeof(*events), ROOM - 500, &count));
    EXPECT_U64_EQ(mend_world_stats(w).history_events, 500 + count);
    for (size_t i = 0; i < 500 + count; i++) {
        EXPECT_U64_EQ(i + 1, events[i].sequence);
    }
}

RIG_TEST(programs_of_other_versions_get_the_fields_they_know, open_rig(r))
{
    mend_history_event newer[2][2];
    size_t count = 7;
    kit_alloc(w, QUARTER, r->stream);
    r->cursor = 2;
    memset(newer, 0x5a, sizeof(newer));
    EXPECT_OK(mend_history_read(w->pool, &r->cursor, newer[0], sizeof(*newer), 2, &count));
    EXPECT_U64_EQ(2, count);
    EXPECT_INT_EQ(MEND_EVENT_ALLOC, newer[1][0].kind);
    EXPECT_U64_EQ(0, newer[1][1].sequence);
    r->cursor = 5; /* as of another pool */
    EXPECT_INVALID(mend_history_read(w->pool, &r->cursor, newer[0], sizeof(*newer), 2, &count));
    EXPECT_TRUE(count == 2 && r->cursor == 5);
}
