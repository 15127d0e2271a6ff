/* The ring of events by itself, with another capacity. */
#include "base/history.h"

#include <stdlib.h>

#include "tests/support/kit.h"

enum { MOST = 16 };

static uint64_t tick(const void *clock)
{
    return ++*(uint64_t *)(uintptr_t)clock;
}

static void put(mend_history *history, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        mend_history_note(history, MEND_EVENT_MAP, first + i, 512, i);
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
