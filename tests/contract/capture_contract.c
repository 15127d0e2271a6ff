/* Capture: a driver's results for captured streams, and its refusals.
 */
#include "tests/contract/program.h"

static mend_stream_info info_of(contract *c, mend_stream stream)
{
    mend_stream_info info = {0};
    PASS(stream_get_info, stream, &info);
    return info;
}

CONTRACT_TEST(contract_capture, a_captured_stream_says_so)
{
    mend_stream other = contract_stream(c);
    uint64_t last_id = 0;
    for (int round = 0; round < 2; round++) {
        program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
        mend_stream_info captured = info_of(c, c->stream);
        EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, captured.capture);
        EXPECT_TRUE(captured.capture_id != 0 && captured.capture_id != last_id);
        last_id = captured.capture_id;
        EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(c, other).capture);
        EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(c, NULL).capture);
        program_graph graph = program_end_capture(c, c->stream);
        program_destroy_graph(c, &graph);
        EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(c, c->stream).capture);
        EXPECT_U64_EQ(0, info_of(c, c->stream).capture_id);
    }
    PASS(stream_destroy, other);
}

CONTRACT_TEST(contract_capture, captured_work_runs_at_each_launch_of_its_graph)
{
    uint64_t address = contract_reserve(c, c->page);
    contract_map_new(c, address, c->page);
    contract_write(c, c->stream, address, c->page, 1, 0);
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
    contract_write(c, c->stream, address, c->page, 2, 0);
    program_graph graph = program_end_capture(c, c->stream);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, c->page, 1));
    for (uint32_t round = 0; round < 2; round++) {
        program_launch_graph(c, &graph, c->stream);
        EXPECT_U64_EQ(0, contract_mismatches(c, address, c->page, 2));
        contract_write(c, c->stream, address, c->page, 3, 0);
    }
    PASS(stream_synchronize, c->stream);
    program_destroy_graph(c, &graph);
    contract_drop(c, address, c->page, c->page);
}

CONTRACT_TEST(contract_capture, a_capture_has_a_number_as_long_as_it_lasts)
{
    for (int asked = 0; asked < 3; asked++) {
        program_graph graph = {0};
        uint64_t id = 77;
        if (asked == 1) {
            program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
        }
        PASS(stream_get_capture, c->stream, &id);
        EXPECT_INT_EQ(asked == 1, id != 0);
        EXPECT_U64_EQ(info_of(c, c->stream).capture_id, id);
        if (asked == 1) {
            graph = program_end_capture(c, c->stream);
            program_destroy_graph(c, &graph);
        }
    }
}

CONTRACT_TEST(contract_capture, asking_a_captured_stream_spoils_the_capture)
{
    for (int wait = 0; wait < 2; wait++) {
        program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
        EXPECT_REFUSED(c, MEND_DRIVER_CAPTURE_UNSUPPORTED,
                       wait ? c->driver->stream_synchronize(c->driver, c->stream)
                            : c->driver->stream_query(c->driver, c->stream));
        EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, info_of(c, c->stream).capture);
        EXPECT_U64_EQ(0, info_of(c, c->stream).capture_id);
        program_end_spoilt_capture(c, c->stream);
        PASS(stream_query, c->stream);
    }
}

/* Recording there is legal: it marks a place in the graph. */
CONTRACT_TEST(contract_capture, an_event_of_a_capture_cannot_be_asked)
{
    mend_event event = contract_event(c);
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
    PASS(event_record, event, c->stream);
    program_graph graph = program_end_capture(c, c->stream);
    REFUSE(MEND_DRIVER_CAPTURED_EVENT, event_query, event);
    REFUSE(MEND_DRIVER_CAPTURED_EVENT, event_synchronize, event);
    program_destroy_graph(c, &graph);
    REFUSE(MEND_DRIVER_CAPTURED_EVENT, event_query, event);
    REFUSE(MEND_DRIVER_CAPTURED_EVENT, event_synchronize, event);
    REFUSE(MEND_DRIVER_CAPTURED_EVENT, stream_wait, c->stream, event);
    PASS(event_record, event, c->stream);
    PASS(event_synchronize, event);
    PASS(event_destroy, event);
}

/* Whether such a wait spoils the capture, or is refused and harms nothing, is written nowhere. */
CONTRACT_TEST(contract_capture_observed, nothing_outside_is_waited_for)
{
    mend_event event = contract_event(c);
    PASS(event_record, event, c->stream);
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
    REFUSE(MEND_DRIVER_CAPTURE_ISOLATION, stream_wait, c->stream, event);
    program_end_spoilt_capture(c, c->stream);
    PASS(event_destroy, event);
}

/* Nor whether both captures are spoilt, or the waiting one alone. */
CONTRACT_TEST(contract_capture_observed, two_captures_do_not_merge)
{
    mend_stream other = NULL;
    mend_event event = contract_event(c);
    PASS(stream_create, &other);
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
    program_begin_capture(c, other, MEND_CAPTURE_MODE_RELAXED);
    PASS(event_record, event, c->stream);
    REFUSE(MEND_DRIVER_CAPTURE_MERGE, stream_wait, other, event);
    program_end_spoilt_capture(c, other);
    program_end_spoilt_capture(c, c->stream);
    PASS(stream_destroy, other);
    PASS(event_destroy, event);
}

/* As a wait for the context, even if nothing forbids unsafe calls. */
CONTRACT_TEST(contract_capture, an_event_of_the_context_spoils_a_capture)
{
    mend_event event = contract_event(c);
    mend_status before = c->driver->context_record(c->driver, event);
    if (before != MEND_DRIVER_NOT_SUPPORTED) {
        EXPECT_OK(before);
        program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
        EXPECT_REFUSED(c, MEND_DRIVER_CAPTURE_UNSUPPORTED,
                       c->driver->context_record(c->driver, event));
        EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, info_of(c, c->stream).capture);
        program_end_spoilt_capture(c, c->stream);
        EXPECT_OK(c->driver->context_record(c->driver, event));
        EXPECT_OK(c->driver->event_synchronize(c->driver, event));
    }
    EXPECT_OK(c->driver->event_destroy(c->driver, event));
}

CONTRACT_TEST(contract_capture, plain_memory_is_not_made_beside_a_global_one)
{
    uint64_t address = 0;
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_GLOBAL);
    REFUSE(MEND_DRIVER_CAPTURE_UNSUPPORTED, plain_alloc, c->page, &address);
    program_end_spoilt_capture(c, c->stream);
}

/* In every mode of the capture, asked by the thread that captures. */
CONTRACT_TEST(contract_capture, asking_what_a_stream_is_harms_no_capture)
{
    mend_stream_info before = info_of(c, c->stream);
    EXPECT_PTR_EQ(c->info.context, before.home);
    for (int mode = 0; mode < 3; mode++) {
        program_begin_capture(c, c->stream, (mend_capture_mode)mode);
        for (int round = 0; round < 2; round++) {
            mend_stream_info captured = info_of(c, c->stream);
            EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, captured.capture);
            EXPECT_U64_EQ(0, captured.id);
            EXPECT_PTR_EQ(NULL, captured.context);
            EXPECT_PTR_EQ(NULL, captured.home);
        }
        program_graph graph = program_end_capture(c, c->stream);
        program_destroy_graph(c, &graph);
        EXPECT_U64_EQ(before.id, info_of(c, c->stream).id);
    }
}

CONTRACT_TEST(contract_capture, the_stream_of_a_thread_is_known_in_its_capture)
{
    mend_stream_info before = info_of(c, MEND_STREAM_PER_THREAD);
    program_begin_capture(c, MEND_STREAM_PER_THREAD, MEND_CAPTURE_MODE_GLOBAL);
    mend_stream_info captured = info_of(c, MEND_STREAM_PER_THREAD);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, captured.capture);
    EXPECT_U64_EQ(before.id, captured.id);
    EXPECT_PTR_EQ(c->info.context, captured.context);
    program_graph graph = program_end_capture(c, MEND_STREAM_PER_THREAD);
    program_destroy_graph(c, &graph);
}

/* Calls of addresses and chunks have nothing to do with captures. */
CONTRACT_TEST(contract_capture, memory_grows_in_a_thread_that_captures)
{
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_GLOBAL);
    uint64_t address = contract_reserve(c, c->page);
    contract_map_new(c, address, c->page);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info_of(c, c->stream).capture);
    program_graph graph = program_end_capture(c, c->stream);
    program_destroy_graph(c, &graph);
    contract_drop(c, address, c->page, c->page);
}

/* Calls that release memory have been seen in no program that captures. */
CONTRACT_TEST(contract_capture_observed, memory_goes_in_a_thread_that_captures)
{
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_GLOBAL);
    uint64_t address = contract_reserve(c, c->page);
    contract_map_new(c, address, c->page);
    contract_drop(c, address, c->page, c->page);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info_of(c, c->stream).capture);
    program_graph graph = program_end_capture(c, c->stream);
    program_destroy_graph(c, &graph);
}

CONTRACT_TEST(contract_capture, memory_grows_in_a_relaxed_thread)
{
    mend_capture_mode mode = MEND_CAPTURE_MODE_RELAXED;
    mend_event event = contract_event(c);
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_GLOBAL);
    PASS(exchange_capture_mode, &mode);
    uint64_t address = contract_reserve(c, c->page);
    mend_chunk_handle chunk = contract_create(c, c->page);
    PASS(map, address, c->page, 0, chunk);
    contract_allow(c, address, c->page);
    PASS(event_query, event);
    /* New and unused memory may be released again. */
    PASS(unmap, address, c->page);
    PASS(release, chunk);
    PASS(exchange_capture_mode, &mode);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info_of(c, c->stream).capture);
    program_graph graph = program_end_capture(c, c->stream);
    program_destroy_graph(c, &graph);
    PASS(address_free, address, c->page);
    PASS(event_destroy, event);
}

CONTRACT_TEST(contract_capture, the_legacy_stream_is_out_of_use_beside_a_blocking_one)
{
    const uint64_t legacy_id = info_of(c, NULL).id;
    mend_stream blocking = program_make_blocking_stream(c);
    program_begin_capture(c, blocking, MEND_CAPTURE_MODE_RELAXED);
    for (int named = 0; named < 2; named++) {
        const mend_stream_info legacy = info_of(c, named ? MEND_STREAM_LEGACY : NULL);
        EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, legacy.capture);
        EXPECT_U64_EQ(0, legacy.capture_id);
        EXPECT_U64_EQ(legacy_id, legacy.id);
        EXPECT_PTR_EQ(c->info.context, legacy.context);
    }
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info_of(c, blocking).capture);
    EXPECT_TRUE(info_of(c, blocking).capture_id != 0);
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(c, c->stream).capture);
    REFUSE(MEND_DRIVER_CAPTURE_IMPLICIT, stream_query, NULL);
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, info_of(c, blocking).capture);
    program_end_spoilt_capture(c, blocking);
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(c, NULL).capture);
    PASS(stream_destroy, blocking);
}

CONTRACT_TEST(contract_capture, the_legacy_stream_and_a_blocking_one_take_turns)
{
    mend_stream blocking = program_make_blocking_stream(c);
    contract_spin(c, blocking, CONTRACT_LONG_NS / 4);
    contract_spin(c, NULL, 1000);
    PASS(stream_synchronize, NULL);
    PASS(stream_query, blocking);
    contract_spin(c, NULL, CONTRACT_LONG_NS / 4);
    contract_spin(c, blocking, 1000);
    PASS(stream_synchronize, blocking);
    PASS(stream_query, NULL);
    PASS(stream_destroy, blocking);
}
