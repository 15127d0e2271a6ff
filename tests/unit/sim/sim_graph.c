/* Graphs: captured work runs at each replay, in its order, and is judged then. */
#include <string.h>

#include "tests/support/host_memory.h"
#include "tests/unit/sim/sim_fixture.h"

/* With real bytes, so that what a replay wrote can be read. */
#define BYTES_TEST(suite, name) SIM_TEST_AS(suite, name, .content = MEND_SIM_CONTENT_BYTES)

/* Two branches of 100 and 300 ns side by side, after 50 ns, and 10 ns after both. */
SIM_TEST(sim_graph, branches_run_beside_each_other)
{
    mend_stream other = sim_fixture_stream(f);
    sim_fixture_begin_capture(f, f->stream);
    sim_fixture_spin(f, f->stream, 50);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(f->sim, other, f->stream));
    sim_fixture_spin(f, f->stream, 100);
    sim_fixture_spin(f, other, 300);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(f->sim, f->stream, other));
    sim_fixture_spin(f, f->stream, 10);
    mend_sim_graph *graph = sim_fixture_end_capture(f, f->stream);
    sim_fixture_launch(f, graph, 0);
    mend_sim_graph_destroy(f->sim, graph);
    mend_sim_advance(f->sim, 359);
    ANSWER(NOT_READY, stream_query, f->stream);
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).pending_work);
    mend_sim_advance(f->sim, 1);
    PASS(stream_query, f->stream);
    PASS(stream_query, other);
}

/* Nothing is judged when it is recorded, and who unmaps what a graph touches may know best. */
SIM_TEST(sim_graph, a_replay_is_judged_when_it_runs)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    sim_fixture_begin_capture(f, f->stream);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, f->page, 0, 0);
    mend_sim_graph *graph = sim_fixture_end_capture(f, f->stream);
    sim_fixture_launch(f, graph, 0);
    PASS(unmap, address, f->page);
    EXPECT_U64_EQ(0, f->heard);
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST,
                  mend_sim_graph_launch(f->sim, graph, f->stream, mend_sim_now_ns(f->sim)));
    EXPECT_HEARD(f, 1, "is not mapped");
    mend_sim_graph_destroy(f->sim, graph);
}

BYTES_TEST(sim_graph, copies_from_the_host_are_made_again)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    uint64_t number = 1;
    sim_fixture_begin_capture(f, f->stream);
    EXPECT_PASS(f->driver->copy(f->driver, address, (uint64_t)(uintptr_t)&number, sizeof(number),
                                f->stream));
    mend_sim_graph *graph = sim_fixture_end_capture(f, f->stream);
    for (number = 2; number < 4; number++) {
        sim_fixture_launch(f, graph, 0);
        EXPECT_U64_EQ(number, *(const uint64_t *)(uintptr_t)address);
    }
    mend_sim_graph_destroy(f->sim, graph);
}

SIM_TEST(sim_graph, is_not_launched_where_it_cannot_run)
{
    sim_fixture_begin_capture(f, f->stream);
    mend_sim_graph *graph = sim_fixture_end_capture(f, f->stream);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_graph_launch(f->sim, NULL, f->stream, 0));
    sim_fixture_begin_capture(f, f->stream);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_graph_launch(f->sim, graph, f->stream, 0));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
    sim_fixture_launch(f, graph, 0);
    mend_sim_graph_destroy(f->sim, graph);
    mend_sim_graph_destroy(f->sim, NULL);
    EXPECT_U64_EQ(0, f->heard);
}

/* Captures a write on two streams and launches it, as far as it comes; ends and destroys all. */
static mend_result live(sim_fixture *f, mend_stream other, uint64_t address)
{
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = MEND_SIM_WORK_TOUCH,
                                .address = address,
                                .size_bytes = 512};
    mend_sim_graph *graph = NULL;
    mend_result result = mend_sim_begin_capture(f->sim, f->stream, MEND_SIM_CAPTURE_GLOBAL);
    if (result != MEND_OK) {
        return result;
    }
    result = mend_sim_launch(f->sim, f->stream, &work);
    result = result == MEND_OK ? mend_sim_stream_wait(f->sim, other, f->stream) : result;
    result = result == MEND_OK ? mend_sim_launch(f->sim, f->stream, &work) : result;
    result = result == MEND_OK ? mend_sim_launch(f->sim, other, &work) : result;
    result = result == MEND_OK ? mend_sim_stream_wait(f->sim, f->stream, other) : result;
    mend_result ended = mend_sim_end_capture(f->sim, f->stream, &graph);
    EXPECT_TRUE(result != MEND_OK || ended == MEND_OK);
    if (graph != NULL && result == MEND_OK) {
        result = mend_sim_graph_launch(f->sim, graph, f->stream, 0);
    }
    mend_sim_graph_destroy(f->sim, graph);
    return result;
}

MEND_TEST(sim_graph, lacks_host_memory_and_lives_on)
{
    enum { MOST_ALLOCATIONS = 100 };
    uint64_t failed = 1;
    uint64_t position = 0;
    for (; failed != 0 && position < MOST_ALLOCATIONS; position++) {
        sim_fixture f;
        mend_stream other = NULL;
        ASSERT_TRUE(sim_fixture_open(&f, NULL));
        uint64_t address = sim_fixture_map(&f, f.page, f.page);
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(f.sim, NULL, &other));
        mend_test_watch_host_memory(true);
        mend_test_fail_host_memory_after(position, 1);
        mend_result result = live(&f, other, address);
        failed = mend_test_failed_host_allocations();
        mend_test_heal_host_memory();
        mend_test_watch_host_memory(false);
        EXPECT_RESULT(failed != 0 ? MEND_ERROR_OUT_OF_HOST_MEMORY : MEND_OK, result);
        EXPECT_RESULT(MEND_OK, live(&f, other, address));
        EXPECT_U64_EQ(0, f.heard);
        sim_fixture_close(&f);
    }
    EXPECT_TRUE(position > 1 && failed == 0);
}
