/* The ring of events by itself: numbers, overwriting, readers, other capacities. */
#include "base/history.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/rig.h"

enum { MOST = 16 };

static uint64_t tick(const void *clock)
{
    return ++*(uint64_t *)(uintptr_t)clock;
}

static void put(mend_history *history, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        mend_history_note(history, MEND_EVENT_MAP, first + i, 512);
    }
}

/* Reads from *cursor; the events are those of these numbers, and their addresses are the same. */
static void expect_events(const mend_history *history, uint64_t *cursor, uint64_t first,
                          size_t count)
{
    mend_history_event events[MOST];
    EXPECT_U64_EQ(count, mend_history_copy(history, cursor, events, sizeof(*events), MOST));
    EXPECT_U64_EQ(first + count, *cursor);
    for (size_t i = 0; i < count; i++) {
        EXPECT_U64_EQ(first + i, events[i].sequence);
        EXPECT_U64_EQ(first + i, (uintptr_t)events[i].address);
        EXPECT_U64_EQ(first + i, events[i].time_ns);
        EXPECT_PTR_EQ(MEND_NO_STREAM, events[i].stream);
    }
}

typedef struct ring {
    mend_history history;
    uint64_t clock;
    uint64_t cursor; /* of a reader */
} ring;

static bool open_ring(ring *r, uint64_t capacity)
{
    *r = (ring){.clock = 0};
    mend_history_init(&r->history, tick, &r->clock);
    if (capacity > 0) {
        mend_history_event *events = mend_history_make(capacity);
        EXPECT_TRUE(mend_history_exchange(&r->history, events, capacity) == NULL);
    }
    return true;
}

static void clear(ring *r)
{
    free(mend_history_exchange(&r->history, NULL, 0));
}

#define RING_TEST(suite, name, capacity)                                                           \
    RIG_TEST(suite, name, ring, r, open_ring(r, capacity), clear(r))

RING_TEST(base_history, is_off_until_it_has_room, 0)
{
    put(&r->history, 1, 5);
    put(NULL, 1, 5);
    EXPECT_U64_EQ(0, r->clock);
    expect_events(&r->history, &r->cursor, 1, 0);
}

RING_TEST(base_history, readers_have_their_own_places, 8)
{
    uint64_t second = 0;
    put(&r->history, 1, 3);
    expect_events(&r->history, &r->cursor, 1, 3);
    put(&r->history, 4, 2);
    expect_events(&r->history, &r->cursor, 4, 2);
    expect_events(&r->history, &second, 1, 5);
    expect_events(&r->history, &r->cursor, 6, 0);
    EXPECT_U64_EQ(0, mend_history_lost(&r->history));
}

RING_TEST(base_history, a_reader_takes_as_many_as_it_has_room_for, 8)
{
    mend_history_event events[2];
    put(&r->history, 1, 5);
    EXPECT_U64_EQ(2, mend_history_copy(&r->history, &r->cursor, events, sizeof(*events), 2));
    EXPECT_U64_EQ(3, r->cursor);
    EXPECT_U64_EQ(0, mend_history_copy(&r->history, &r->cursor, NULL, sizeof(*events), 0));
    expect_events(&r->history, &r->cursor, 3, 3);
}

RING_TEST(base_history, what_is_overwritten_is_a_gap, 4)
{
    put(&r->history, 1, 2);
    expect_events(&r->history, &r->cursor, 1, 2);
    put(&r->history, 3, 7);
    expect_events(&r->history, &r->cursor, 6, 4);
    EXPECT_U64_EQ(5, mend_history_lost(&r->history));
}

MEND_TEST(base_history, another_capacity_keeps_the_newest)
{
    static const uint64_t capacities[] = {1, 3, 5, 7, 12};
    for (int i = 0; i < 5; i++) {
        ring r;
        open_ring(&r, 5);
        put(&r.history, 1, 8); /* 4 to 8 are held */
        mend_history_event *events = mend_history_make(capacities[i]);
        free(mend_history_exchange(&r.history, events, capacities[i]));
        uint64_t held = capacities[i] < 5 ? capacities[i] : 5;
        expect_events(&r.history, &r.cursor, 9 - held, held);
        put(&r.history, 9, 1);
        expect_events(&r.history, &r.cursor, 9, 1);
        clear(&r);
    }
}

RING_TEST(base_history, numbers_go_on_over_a_stop, 4)
{
    put(&r->history, 1, 3);
    clear(r);
    EXPECT_U64_EQ(3, mend_history_lost(&r->history));
    expect_events(&r->history, &r->cursor, 4, 0);
    r->cursor = 2;
    free(mend_history_exchange(&r->history, mend_history_make(4), 4));
    put(&r->history, 4, 2);
    expect_events(&r->history, &r->cursor, 4, 2);
}

MEND_TEST(base_history, more_than_there_can_be_is_refused)
{
    EXPECT_TRUE(mend_history_make(UINT64_MAX) == NULL);
    EXPECT_TRUE(mend_history_make(UINT64_MAX / sizeof(mend_history_event) + 1) == NULL);
}
