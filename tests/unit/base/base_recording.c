/* The file of a recording by itself: events and names come back as they were. Incomplete parts are
 * not read. And the ring before it. */
#include "lab/heap/record_reader.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "record/record.h"
#include "tests/support/kit.h"
#include "tests/support/recording.h"

static mend_record_block block;

/* Events that have little in common, and steps of numbers that wrap around. */
static mend_history_event event_of(uint64_t i)
{
    const uint64_t wild = i * UINT64_C(0x9E3779B97F4A7C15);
    return (mend_history_event){
        .sequence = i + (i > 100 ? 7 : 0),
        .time_ns = wild >> (i % 64),
        .kind = 1 + (int)(i % (MEND_EVENT_KINDS - 1)),
        .is_for_graphs = i % 5 == 0,
        .address = (void *)(uintptr_t)(i % 3 == 0 ? UINT64_MAX - i : i << 9),
        .size_bytes = i % 7 == 0 ? 512 * i : wild,
        .stream = i % 2 == 0 ? MEND_NO_STREAM : NULL,
        .graph_pool = (mend_graph_pool *)(uintptr_t)(i % 11 == 0 ? i : 0),
        .tag = i % 13 == 0 ? UINT64_MAX : wild,
        .requested_bytes = i,
        .chunk = i / 2,
        .duration_ns = i % 17 == 0 ? 0 : wild,
        .scope = (uint32_t)(i % 19),
        .cause = (int)(i % MEND_CAUSES),
        .stack = (uint32_t)(i % 23 == 0 ? i : 0),
    };
}

MEND_TEST(base_recording, events_come_back_as_they_were)
{
    uint64_t end = 1; /* the first that does not fit */
    mend_history_event event = event_of(end);
    mend_record_begin(&block, MEND_RECORD_EVENTS);
    while (mend_record_add_event(&block, &event)) {
        event = event_of(++end);
    }
    const size_t bytes = mend_record_seal(&block, 3, 4);
    mend_record_reader reader;
    EXPECT_TRUE(end > 1000 && end < MEND_RECORD_EVENTS_MOST); /* a block that has no bytes left */
    EXPECT_TRUE(block.head.bytes <= MEND_RECORD_CONTENT_BYTES);
    ASSERT_TRUE(mend_record_open(&reader, (const uint8_t *)&block, bytes));
    EXPECT_U64_EQ(3, reader.head.number);
    EXPECT_U64_EQ(4, reader.head.lost);
    for (uint64_t i = 1; i < end; i++) {
        const mend_history_event was = event_of(i);
        ASSERT_TRUE(mend_record_next_event(&reader, &event));
        ASSERT_TRUE(test_events_are_equal(&was, &event, 1));
    }
    EXPECT_TRUE(!mend_record_next_event(&reader, &event));
}

/* Blocks of the usual kind: one after the other, of few sizes. */
MEND_TEST(base_recording, a_block_holds_four_thousand_usual_events)
{
    mend_record_begin(&block, MEND_RECORD_EVENTS);
    mend_history_event event = {.kind = MEND_EVENT_ALLOC, .cause = MEND_CAUSE_HIT};
    do {
        event.sequence++;
        event.kind = MEND_EVENT_ALLOC + MEND_EVENT_FREE - event.kind;
        event.time_ns += 1500;
        event.address = (void *)((uintptr_t)(event.sequence * 7 % 512) << 21);
        event.size_bytes = event.sequence % 8 << 20;
        event.requested_bytes = event.size_bytes;
        event.chunk = event.sequence % 64;
    } while (mend_record_add_event(&block, &event));
    EXPECT_U64_EQ(MEND_RECORD_EVENTS_MOST, block.head.count);
    EXPECT_TRUE(block.head.bytes < 8 * MEND_RECORD_EVENTS_MOST);
    (void)mend_record_seal(&block, 1, 0);
    EXPECT_U64_EQ(UINT64_C(12050321524113664441), block.head.sum); /* of the format as it is */
}

/* Seven bits a byte, the lowest first. */
static void put_number(uint64_t number)
{
    for (; number >= 0x80; number >>= 7) {
        block.content[block.head.bytes++] = (uint8_t)(number | 0x80);
    }
    block.content[block.head.bytes++] = (uint8_t)number;
}

/* More events than a block may have: the file was made by another program. */
MEND_TEST(base_recording, a_block_of_too_many_events_is_read_without_harm)
{
    mend_record_begin(&block, MEND_RECORD_EVENTS);
    block.head.count = 2 * MEND_RECORD_EVENTS_MOST;
    for (uint32_t i = 0; i < block.head.count; i++) {
        put_number(2 << 1);                        /* the address: */
        put_number(i % 3 == 0 ? 4 * 5000 : 4 + 1); /* of an event that is not there, the next */
    }
    mend_record_reader reader;
    mend_history_event event;
    uint32_t count = 0;
    ASSERT_TRUE(mend_record_open(&reader, (uint8_t *)&block, mend_record_seal(&block, 1, 0)));
    while (mend_record_next_event(&reader, &event)) {
        count++;
    }
    EXPECT_U64_EQ(2 * MEND_RECORD_EVENTS_MOST, count);
}

/* Every byte counts, and so does the end. */
MEND_TEST(base_recording, what_is_not_whole_is_not_read)
{
    mend_record_begin(&block, MEND_RECORD_EVENTS);
    const mend_history_event event = event_of(77);
    EXPECT_TRUE(mend_record_add_event(&block, &event));
    const size_t bytes = mend_record_seal(&block, 1, 0);
    uint8_t *whole = (uint8_t *)&block;
    mend_record_reader reader;
    for (size_t i = 0; i < bytes; i++) {
        EXPECT_TRUE(!mend_record_open(&reader, whole, i));
        whole[i] ^= 0x10;
        EXPECT_TRUE(!mend_record_open(&reader, whole, bytes));
        whole[i] ^= 0x10;
    }
    EXPECT_TRUE(mend_record_open(&reader, whole, bytes));
}

MEND_TEST(base_recording, names_of_scopes_come_back)
{
    static const char *const names[] = {"step", "", "forward, 12"};
    char name[MEND_SCOPE_NAME_BYTES];
    uint32_t around = 0;
    mend_record_begin(&block, MEND_RECORD_SCOPES);
    while (mend_record_add_name(&block, 0, UINT64_MAX, "of a block that is full")) {
    }
    EXPECT_TRUE(block.head.bytes <= MEND_RECORD_CONTENT_BYTES);
    mend_record_begin(&block, MEND_RECORD_SCOPES);
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT_TRUE(mend_record_add_name(&block, 0, i * 1000, names[i]));
    }
    mend_record_reader reader;
    ASSERT_TRUE(mend_record_open(&reader, (uint8_t *)&block, mend_record_seal(&block, 1, 0)));
    for (uint32_t i = 0; i < 3; i++) {
        ASSERT_TRUE(mend_record_next_scope(&reader, &around, name));
        EXPECT_U64_EQ(i * 1000, around);
        EXPECT_STR_EQ(names[i], name);
    }
    EXPECT_TRUE(!mend_record_next_scope(&reader, &around, name));
}

static uint64_t tick(const void *clock)
{
    return ++*(uint64_t *)(uintptr_t)clock;
}

/* The history is off. No reader runs while the ring fills. */
MEND_TEST(base_recording, a_full_ring_loses_events_and_counts_them)
{
    enum { BEYOND = 5 };
    uint64_t now = 0;
    mend_event_ring ring = {.events = calloc(MEND_EVENT_RING_ROOM, sizeof(mend_history_event)),
                            .bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    mend_events heard = {.clock_ns = tick, .clock = &now};
    mend_history history;
    mend_history_init(&history, &heard);
    mend_history_record(&history, &ring);
    for (uint64_t i = 1; i <= MEND_EVENT_RING_ROOM + BEYOND; i++) {
        mend_events_note(&heard, MEND_EVENT_MAP, i, 512, 0);
    }
    EXPECT_U64_EQ(BEYOND, ring.lost);
    eventfd_t rung = 0;
    EXPECT_INT_EQ(0, eventfd_read(ring.bell, &rung)); /* when it was half full */
    EXPECT_U64_EQ(1, rung);
    for (uint64_t i = 1; i <= MEND_EVENT_RING_ROOM; i++) {
        ASSERT_U64_EQ(i, mend_event_ring_next(&ring)->sequence);
        mend_event_ring_pass(&ring);
    }
    EXPECT_TRUE(mend_event_ring_next(&ring) == NULL);
    mend_process_failure()->oom_report.struct_size = 0;
    mend_events_note(&heard, MEND_EVENT_OUT_OF_MEMORY, 0, 512, 0);
    EXPECT_INT_EQ(0, eventfd_read(ring.bell, &rung));
    EXPECT_U64_EQ(MEND_EVENT_RING_ROOM + BEYOND + 1, mend_event_ring_next(&ring)->sequence);
    EXPECT_U64_EQ(0, history.held);
    EXPECT_U64_EQ(0, ring.failures_written); /* the thread has none */
    mend_process_failure()->oom_report.struct_size = sizeof(mend_oom_report);
    for (uint64_t i = 0; i <= MEND_EVENT_RING_FAILURES; i++) {
        mend_events_note(&heard, MEND_EVENT_OUT_OF_MEMORY, 0, 512, 0);
    }
    EXPECT_U64_EQ(MEND_EVENT_RING_FAILURES, ring.failures_written); /* they are whole */
    EXPECT_U64_EQ(MEND_EVENT_RING_ROOM + BEYOND + 2, ring.failures[0].sequence);
    ring.failures_read = 1;
    mend_events_note(&heard, MEND_EVENT_OUT_OF_MEMORY, 0, 512, 0);
    EXPECT_U64_EQ(MEND_EVENT_RING_FAILURES + 1, ring.failures_written);
    mend_process_failure()->oom_report.struct_size = 0;
    close(ring.bell);
    free(ring.events);
}
