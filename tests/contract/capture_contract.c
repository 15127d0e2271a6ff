/* Capture: what a driver says of captured streams, and what it does not let anybody do with them.
 */
#include "tests/contract/program.h"

static mend_stream_info info_of(contract *c, mend_stream stream)
{
    mend_stream_info info = {0};
    EXPECT_OK(c->driver->stream_get_info(c->driver, stream, &info));
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
    EXPECT_OK(c->driver->stream_destroy(c->driver, other));
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
    EXPECT_OK(c->driver->stream_synchronize(c->driver, c->stream));
    program_destroy_graph(c, &graph);
    contract_drop(c, address, c->page, c->page);
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
        EXPECT_OK(c->driver->stream_query(c->driver, c->stream));
    }
}

/* Recording there is legal: it marks a place in the graph. */
CONTRACT_TEST(contract_capture, an_event_of_a_capture_cannot_be_asked)
{
    mend_event event = contract_event(c);
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
    EXPECT_OK(c->driver->event_record(c->driver, event, c->stream));
    program_graph graph = program_end_capture(c, c->stream);
    program_destroy_graph(c, &graph);
    EXPECT_REFUSED(c, MEND_DRIVER_CAPTURED_EVENT, c->driver->event_query(c->driver, event));
    EXPECT_OK(c->driver->event_record(c->driver, event, c->stream));
    EXPECT_OK(c->driver->event_synchronize(c->driver, event));
    EXPECT_OK(c->driver->event_destroy(c->driver, event));
}

/* Whether such a wait spoils the capture, or is refused and harms nothing, is written nowhere. */
CONTRACT_TEST(contract_capture_observed, nothing_outside_is_waited_for)
{
    mend_event event = contract_event(c);
    EXPECT_OK(c->driver->event_record(c->driver, event, c->stream));
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
    EXPECT_REFUSED(c, MEND_DRIVER_CAPTURE_ISOLATION,
                   c->driver->stream_wait(c->driver, c->stream, event));
    program_end_spoilt_capture(c, c->stream);
    EXPECT_OK(c->driver->event_destroy(c->driver, event));
}

/* Nor whether both captures are spoilt, or the waiting one alone. */
CONTRACT_TEST(contract_capture_observed, two_captures_do_not_merge)
{
    mend_stream other = NULL;
    mend_event event = contract_event(c);
    EXPECT_OK(c->driver->stream_create(c->driver, &other));
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_RELAXED);
    program_begin_capture(c, other, MEND_CAPTURE_MODE_RELAXED);
    EXPECT_OK(c->driver->event_record(c->driver, event, c->stream));
    EXPECT_REFUSED(c, MEND_DRIVER_CAPTURE_MERGE, c->driver->stream_wait(c->driver, other, event));
    program_end_spoilt_capture(c, other);
    program_end_spoilt_capture(c, c->stream);
    EXPECT_OK(c->driver->stream_destroy(c->driver, other));
    EXPECT_OK(c->driver->event_destroy(c->driver, event));
}

CONTRACT_TEST(contract_capture, plain_memory_is_not_made_beside_a_global_one)
{
    uint64_t address = 0;
    program_begin_capture(c, c->stream, MEND_CAPTURE_MODE_GLOBAL);
    EXPECT_REFUSED(c, MEND_DRIVER_CAPTURE_UNSUPPORTED,
                   c->driver->plain_alloc(c->driver, c->page, &address));
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

/* Those that take memory away have been seen in no program that captures. */
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
    EXPECT_OK(c->driver->exchange_capture_mode(c->driver, &mode));
    uint64_t address = contract_reserve(c, c->page);
    mend_chunk_handle chunk = contract_create(c, c->page);
    EXPECT_OK(c->driver->map(c->driver, address, c->page, 0, chunk));
    contract_allow(c, address, c->page);
    EXPECT_OK(c->driver->event_query(c->driver, event));
    /* What was made meanwhile and not used may go again. */
    EXPECT_OK(c->driver->unmap(c->driver, address, c->page));
    EXPECT_OK(c->driver->release(c->driver, chunk));
    EXPECT_OK(c->driver->exchange_capture_mode(c->driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info_of(c, c->stream).capture);
    program_graph graph = program_end_capture(c, c->stream);
    program_destroy_graph(c, &graph);
    EXPECT_OK(c->driver->address_free(c->driver, address, c->page));
    EXPECT_OK(c->driver->event_destroy(c->driver, event));
}

CONTRACT_TEST(contract_capture, the_legacy_stream_is_out_of_use_beside_a_blocking_one)
{
    mend_stream blocking = program_make_blocking_stream(c);
    program_begin_capture(c, blocking, MEND_CAPTURE_MODE_RELAXED);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info_of(c, NULL).capture);
    EXPECT_U64_EQ(0, info_of(c, NULL).capture_id);
    EXPECT_PTR_EQ(c->info.context, info_of(c, NULL).context);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info_of(c, blocking).capture);
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(c, c->stream).capture);
    EXPECT_REFUSED(c, MEND_DRIVER_CAPTURE_IMPLICIT, c->driver->stream_query(c->driver, NULL));
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, info_of(c, blocking).capture);
    program_end_spoilt_capture(c, blocking);
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(c, NULL).capture);
    EXPECT_OK(c->driver->stream_destroy(c->driver, blocking));
}

CONTRACT_TEST(contract_capture, the_legacy_stream_and_a_blocking_one_take_turns)
{
    mend_stream blocking = program_make_blocking_stream(c);
    contract_spin(c, blocking, CONTRACT_LONG_NS / 4);
    contract_spin(c, NULL, 1000);
    EXPECT_OK(c->driver->stream_synchronize(c->driver, NULL));
    EXPECT_OK(c->driver->stream_query(c->driver, blocking));
    contract_spin(c, NULL, CONTRACT_LONG_NS / 4);
    contract_spin(c, blocking, 1000);
    EXPECT_OK(c->driver->stream_synchronize(c->driver, blocking));
    EXPECT_OK(c->driver->stream_query(c->driver, NULL));
    EXPECT_OK(c->driver->stream_destroy(c->driver, blocking));
}
