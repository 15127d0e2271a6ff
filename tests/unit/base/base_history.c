/* The ring of events by itself, with another capacity. */
#include "record/record.h"

#include <stdlib.h>

#include "tests/support/kit.h"

enum { MOST = 16 };

static uint64_t tick(const void *clock)
{
    return ++*(uint64_t *)(uintptr_t)clock;
}

typedef struct ring {
    mend_events heard;
    mend_history history;
    uint64_t clock;
    uint64_t cursor; /* of a reader */
} ring;

static void put(ring *r, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        mend_events_note(&r->heard, MEND_EVENT_MAP, first + i, 512, i);
    }
}

/* The events that are read next have these numbers, and the same addresses. */
static void expect_events(ring *r, uint64_t first, size_t count)
{
    mend_history_event events[MOST];
    EXPECT_U64_EQ(count, mend_history_copy(&r->history, &r->cursor, events, sizeof(*events), MOST));
    EXPECT_U64_EQ(first + count, r->cursor);
    for (size_t i = 0; i < count; i++) {
        EXPECT_U64_EQ(first + i, events[i].sequence);
        EXPECT_U64_EQ(first + i, (uintptr_t)events[i].address);
        EXPECT_U64_EQ(first + i, events[i].time_ns);
        EXPECT_PTR_EQ(MEND_NO_STREAM, events[i].stream);
    }
}

MEND_TEST(base_history, another_capacity_keeps_the_newest)
{
    static const uint64_t capacities[] = {1, 3, 5, 7, 12};
    for (int i = 0; i < 5; i++) {
        ring r = {.heard = {.clock_ns = tick, .clock = &r.clock}};
        mend_history_init(&r.history, &r.heard);
        EXPECT_PTR_EQ(NULL,
                      mend_history_exchange(&r.history, calloc(5, sizeof(mend_history_event)), 5));
        put(&r, 1, 8); /* 4 to 8 are held */
        mend_history_event *events = calloc(capacities[i], sizeof(mend_history_event));
        free(mend_history_exchange(&r.history, events, capacities[i]));
        uint64_t held = capacities[i] < 5 ? capacities[i] : 5;
        expect_events(&r, 9 - held, held);
        put(&r, 9, 1);
        expect_events(&r, 9, 1);
        free(mend_history_exchange(&r.history, NULL, 0));
    }
}
