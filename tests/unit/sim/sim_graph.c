/* Graphs: captured work runs at each replay, in its order, and is checked then. */
#include "tests/unit/sim/sim_fixture.h"

/* With real bytes, so that writes of a replay can be read. */
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

/* Recorded work is not checked yet, and a program may unmap memory of a graph on purpose. */
SIM_TEST(sim_graph, a_replay_is_checked_when_it_runs)
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
