/* Streams, events, and the order they keep. */
#include <string.h>

#include "tests/contract/contract.h"
#include "tests/support/threads.h"

CONTRACT_TEST(contract_stream, an_event_never_recorded_is_complete)
{
    mend_event event = contract_event(c);
    PASS(event_query, event);
    PASS(event_synchronize, event);
    PASS(stream_wait, c->stream, event);
    PASS(stream_query, c->stream);
    PASS(event_destroy, event);
}

CONTRACT_TEST(contract_stream, an_event_completes_with_the_work_before_it)
{
    mend_event event = contract_event(c);
    contract_spin(c, c->stream, CONTRACT_LONG_NS);
    PASS(event_record, event, c->stream);
    ANSWER(MEND_DRIVER_NOT_READY, event_query, event);
    ANSWER(MEND_DRIVER_NOT_READY, stream_query, c->stream);
    PASS(event_synchronize, event);
    PASS(event_query, event);
    PASS(stream_query, c->stream);
    PASS(event_destroy, event);
}

CONTRACT_TEST(contract_stream, an_event_does_not_cover_later_work)
{
    mend_event event = contract_event(c);
    PASS(event_record, event, c->stream);
    contract_spin(c, c->stream, CONTRACT_LONG_NS);
    PASS(event_synchronize, event);
    PASS(event_query, event);
    ANSWER(MEND_DRIVER_NOT_READY, stream_query, c->stream);
    PASS(stream_synchronize, c->stream);
    PASS(event_destroy, event);
}

CONTRACT_TEST(contract_stream, recording_again_moves_the_mark)
{
    mend_event event = contract_event(c);
    PASS(event_record, event, c->stream);
    contract_spin(c, c->stream, CONTRACT_LONG_NS);
    PASS(event_record, event, c->stream);
    ANSWER(MEND_DRIVER_NOT_READY, event_query, event);
    PASS(event_synchronize, event);
    PASS(stream_query, c->stream);
    PASS(event_destroy, event);
}

CONTRACT_TEST(contract_stream, streams_run_beside_each_other)
{
    mend_stream other = contract_stream(c);
    contract_spin(c, c->stream, CONTRACT_LONG_NS);
    PASS(stream_synchronize, other);
    PASS(stream_query, other);
    ANSWER(MEND_DRIVER_NOT_READY, stream_query, c->stream);
    PASS(stream_destroy, other);
}

CONTRACT_TEST(contract_stream, a_stream_waits_for_an_event_of_another)
{
    uint64_t address = contract_reserve(c, c->page);
    contract_map_new(c, address, c->page);
    mend_stream writer = contract_stream(c);
    mend_event written = contract_event(c);
    contract_write(c, c->stream, address, c->page, 1, 0);
    PASS(stream_synchronize, c->stream);
    contract_spin(c, writer, CONTRACT_LONG_NS / 4);
    contract_write(c, writer, address, c->page, 2, 0);
    PASS(event_record, written, writer);
    PASS(stream_wait, c->stream, written);
    ANSWER(MEND_DRIVER_NOT_READY, event_query, written);
    /* The mark is taken at the call: the event may go. */
    PASS(event_destroy, written);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, c->page, 2));
    PASS(stream_destroy, writer);
    contract_drop(c, address, c->page, c->page);
}

CONTRACT_TEST(contract_stream, the_context_waits_for_all_its_streams)
{
    mend_stream other = contract_stream(c);
    contract_spin(c, c->stream, CONTRACT_LONG_NS / 4);
    contract_spin(c, other, CONTRACT_LONG_NS / 8);
    PASS(context_synchronize);
    PASS(stream_query, c->stream);
    PASS(stream_query, other);
    PASS(stream_destroy, other);
}

/* Since CUDA 12.5. */
static bool has_context_events(contract *c)
{
    mend_event event = contract_event(c);
    mend_status status = c->driver->context_record(c->driver, event);
    EXPECT_TRUE(status == MEND_DRIVER_OK || status == MEND_DRIVER_NOT_SUPPORTED);
    EXPECT_OK(c->driver->event_destroy(c->driver, event));
    return status == MEND_DRIVER_OK;
}

CONTRACT_TEST(contract_stream, an_event_of_the_context_covers_all_its_streams)
{
    mend_event event = contract_event(c);
    mend_stream other = contract_stream(c);
    if (has_context_events(c)) {
        contract_spin(c, c->stream, CONTRACT_LONG_NS / 4);
        contract_spin(c, other, CONTRACT_LONG_NS / 8);
        EXPECT_OK(c->driver->context_record(c->driver, event));
        EXPECT_STATUS(MEND_DRIVER_NOT_READY, c->driver->event_query(c->driver, event));
        EXPECT_OK(c->driver->event_synchronize(c->driver, event));
        EXPECT_OK(c->driver->event_query(c->driver, event));
        EXPECT_OK(c->driver->stream_query(c->driver, c->stream));
        EXPECT_OK(c->driver->stream_query(c->driver, other));
    }
    EXPECT_OK(c->driver->stream_destroy(c->driver, other));
    EXPECT_OK(c->driver->event_destroy(c->driver, event));
}

CONTRACT_TEST(contract_stream, an_event_of_the_context_covers_no_later_work)
{
    mend_event event = contract_event(c);
    if (has_context_events(c)) {
        EXPECT_OK(c->driver->context_record(c->driver, event));
        contract_spin(c, c->stream, CONTRACT_LONG_NS);
        EXPECT_OK(c->driver->event_synchronize(c->driver, event));
        EXPECT_STATUS(MEND_DRIVER_NOT_READY, c->driver->stream_query(c->driver, c->stream));
        EXPECT_OK(c->driver->stream_synchronize(c->driver, c->stream));
    }
    EXPECT_OK(c->driver->event_destroy(c->driver, event));
}

CONTRACT_TEST(contract_stream, a_stream_waits_for_an_event_of_the_context)
{
    mend_event event = contract_event(c);
    mend_stream other = contract_stream(c);
    if (has_context_events(c)) {
        contract_spin(c, other, CONTRACT_LONG_NS / 4);
        EXPECT_OK(c->driver->context_record(c->driver, event));
        EXPECT_OK(c->driver->stream_wait(c->driver, c->stream, event));
        EXPECT_STATUS(MEND_DRIVER_NOT_READY, c->driver->stream_query(c->driver, c->stream));
        EXPECT_OK(c->driver->stream_synchronize(c->driver, c->stream));
        EXPECT_OK(c->driver->stream_query(c->driver, other));
    }
    EXPECT_OK(c->driver->stream_destroy(c->driver, other));
    EXPECT_OK(c->driver->event_destroy(c->driver, event));
}

/* Documents say that cuMemFree may wait: a driver that frees later need not. */
CONTRACT_TEST(contract_stream_observed, freeing_plain_memory_waits_for_the_device)
{
    uint64_t address = 0;
    PASS(plain_alloc, c->page, &address);
    contract_write(c, c->stream, address, c->page, 1, CONTRACT_LONG_NS / 4);
    PASS(plain_free, address);
    PASS(stream_query, c->stream);
}

CONTRACT_TEST(contract_stream, a_destroyed_stream_finishes_its_work)
{
    uint64_t address = contract_reserve(c, c->page);
    contract_map_new(c, address, c->page);
    mend_stream gone = contract_stream(c);
    contract_write(c, gone, address, c->page, 6, CONTRACT_LONG_NS / 4);
    PASS(stream_destroy, gone);
    PASS(context_synchronize);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, c->page, 6));
    contract_drop(c, address, c->page, c->page);
}

CONTRACT_TEST(contract_stream, ids_are_never_used_again)
{
    enum { ROUNDS = 16 };
    uint64_t seen[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        mend_stream stream = contract_stream(c);
        mend_stream_info info = {0};
        PASS(stream_get_info, stream, &info);
        EXPECT_PTR_EQ(c->info.context, info.context);
        EXPECT_INT_EQ(MEND_CAPTURE_NONE, info.capture);
        EXPECT_U64_EQ(0, info.capture_id);
        for (int j = 0; j < i; j++) {
            EXPECT_TRUE(info.id != seen[j]);
        }
        seen[i] = info.id;
        PASS(stream_destroy, stream);
    }
}

typedef struct thread_stream {
    contract *c;
    uint64_t legacy_id;
    uint64_t own_id;
    mend_context own_context;
} thread_stream;

static void *ask_ids(void *argument)
{
    thread_stream *asked = argument;
    const mend_driver *driver = asked->c->driver;
    mend_stream_info info = {0};
    EXPECT_OK(driver->context_push(driver, asked->c->info.context));
    EXPECT_OK(driver->stream_get_info(driver, MEND_STREAM_LEGACY, &info));
    asked->legacy_id = info.id;
    EXPECT_OK(driver->stream_get_info(driver, MEND_STREAM_PER_THREAD, &info));
    asked->own_id = info.id;
    asked->own_context = info.context;
    EXPECT_OK(driver->context_pop(driver));
    return NULL;
}

CONTRACT_TEST(contract_stream, default_streams_are_one_a_process_and_one_a_thread)
{
    thread_stream here = {.c = c};
    thread_stream there = {.c = c};
    mend_stream_info null_info = {0};
    mend_stream_info made = {0};
    ask_ids(&here);
    mend_test_run_thread(ask_ids, &there);
    PASS(stream_get_info, NULL, &null_info);
    EXPECT_U64_EQ(here.legacy_id, null_info.id);
    EXPECT_U64_EQ(here.legacy_id, there.legacy_id);
    EXPECT_TRUE(here.own_id != there.own_id);
    EXPECT_TRUE(here.own_id != here.legacy_id);
    EXPECT_PTR_EQ(c->info.context, here.own_context);
    PASS(stream_get_info, c->stream, &made);
    EXPECT_TRUE(made.id != here.legacy_id && made.id != here.own_id);
}

CONTRACT_TEST(contract_stream, copies_and_fills_keep_stream_order)
{
    enum { COUNT = 4096 };
    static uint8_t sent[COUNT];
    static uint8_t received[COUNT];
    uint64_t address = contract_reserve(c, 2 * c->page);
    contract_map_new(c, address, c->page);
    contract_map_new(c, address + c->page, c->page);
    for (int i = 0; i < COUNT; i++) {
        sent[i] = (uint8_t)(i * 7 + i / 256);
    }
    /* Across the seam of two chunks, then back to the host in pieces. */
    uint64_t seam = address + c->page - COUNT / 2;
    PASS(fill, address, 0x5A, 2 * c->page, c->stream);
    PASS(copy, seam, (uint64_t)(uintptr_t)sent, COUNT, c->stream);
    PASS(copy, address, seam, COUNT, c->stream);
    PASS(fill, seam, 0x5A, COUNT, c->stream);
    PASS(copy, (uint64_t)(uintptr_t)received, address, COUNT, c->stream);
    PASS(stream_synchronize, c->stream);
    EXPECT_TRUE(memcmp(sent, received, COUNT) == 0);
    EXPECT_U64_EQ(
        0, contract_mismatches(c, address + COUNT, 2 * c->page - COUNT, UINT32_C(0x5A5A5A5A)));
    contract_drop(c, address, 2 * c->page, 2 * c->page);
}
