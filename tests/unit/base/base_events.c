/* Events by themselves: who hears which kind, with which time, cause and duration. */
#include "base/events.h"

#include "tests/support/test.h"

typedef struct hearer {
    mend_listener listener;
    uint64_t count;
    mend_history_event last;
} hearer;

static void hear(mend_listener *listener, mend_history_event *event)
{
    hearer *h = MEND_CONTAINER_OF(listener, hearer, listener);
    h->count++;
    h->last = *event;
}

static void hear_scopes(mend_listener *listener, mend_history_event *event)
{
    hear(listener, event);
    event->scope--;
}

static uint64_t tick(const void *clock)
{
    return ++*(uint64_t *)(uintptr_t)clock;
}

#define BIT(kind) (1u << (kind))

MEND_TEST(base_events, each_listener_hears_its_kinds_alone)
{
    uint64_t now = 100;
    mend_events events = {.clock_ns = tick, .clock = &now};
    hearer maps = {.listener.hear = hear};
    hearer scopes = {.listener.hear = hear_scopes};
    mend_events_note(&events, MEND_EVENT_MAP, 1, 512, 1);
    EXPECT_U64_EQ(100, now); /* for whom the clock would be read is not there */
    EXPECT_U64_EQ(MEND_EVENTS_NO_TIME, mend_events_now_ns(&events));
    EXPECT_TRUE(!mend_events_has(NULL, MEND_EVENT_MAP));
    mend_events_listen(&events, &scopes.listener, BIT(MEND_TOLD_MARKED));
    EXPECT_U64_EQ(MEND_EVENTS_NO_TIME, mend_events_now_ns(&events));
    mend_events_listen(&events, &maps.listener, BIT(MEND_EVENT_MAP) | BIT(MEND_EVENT_UNMAP));
    mend_history_event marked = {.kind = MEND_TOLD_MARKED, .scope = 7};
    mend_events_put(&events, &marked);
    EXPECT_U64_EQ(6, marked.scope);
    EXPECT_U64_EQ(0, marked.time_ns);
    EXPECT_TRUE(scopes.count == 1 && maps.count == 0);
    mend_events_note(&events, MEND_EVENT_MAP, 1, 512, 1);
    EXPECT_TRUE(scopes.count == 1 && maps.count == 1);
    EXPECT_U64_EQ(101, maps.last.time_ns);
    EXPECT_TRUE(!mend_events_has(&events, MEND_EVENT_CREATE));
    mend_events_listen(&events, &maps.listener, BIT(MEND_EVENT_CREATE)); /* instead */
    mend_events_note(&events, MEND_EVENT_MAP, 1, 512, 1);
    EXPECT_U64_EQ(1, maps.count);
    EXPECT_TRUE(mend_events_has(&events, MEND_TOLD_MARKED));
    mend_events_listen(&events, &scopes.listener, 0);
    EXPECT_TRUE(!mend_events_has(&events, MEND_TOLD_MARKED));
    EXPECT_TRUE(mend_events_has(&events, MEND_EVENT_CREATE));
}

MEND_TEST(base_events, a_step_has_the_outer_cause_and_the_slow_time)
{
    uint64_t now = 0;
    mend_events events = {.clock_ns = tick, .clock = &now};
    hearer all = {.listener.hear = hear};
    mend_events_listen(&events, &all.listener, MEND_EVENTS_ALL);
    const uint64_t then_ns = mend_events_now_ns(&events);
    mend_events_begin_call(&events, MEND_CAUSE_REQUEST);
    mend_events_begin_call(&events, MEND_CAUSE_TRIM); /* inside */
    events.slow_ns = 30;
    mend_events_note(&events, MEND_EVENT_TRIM, 0, 512, 0);
    EXPECT_TRUE(all.last.cause == MEND_CAUSE_REQUEST && all.last.duration_ns == 30);
    mend_events_end_call(&events);
    mend_events_end_call(&events);
    mend_events_note(&events, MEND_EVENT_TRIM, 0, 512, 0);
    EXPECT_TRUE(all.last.cause == MEND_CAUSE_NONE && all.last.duration_ns == 0);
    EXPECT_U64_EQ(3, mend_events_since_ns(&events, then_ns));
    EXPECT_U64_EQ(0, mend_events_since_ns(&events, MEND_EVENTS_NO_TIME));
    mend_events_listen(&events, &all.listener, 0);
    EXPECT_U64_EQ(0, mend_events_since_ns(&events, then_ns));
}
