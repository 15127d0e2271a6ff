/* The counting decorator and the simulated device under several threads, each with a context stack
 * and a stream of its own: nothing is refused, nothing is lost from their books. */
#include "lab/driver/traced.h"
#include "tests/support/threads.h"
#include "tests/unit/sim/sim_fixture.h"

enum { THREADS = 4, ROUNDS = 300 };

/* One chunk mapped twice, work on it, an event recorded and waited for, all given back. */
static void *work(void *argument)
{
    sim_fixture *f = argument;
    const mend_stream stream = MEND_STREAM_PER_THREAD;
    const mend_chunk_properties plain = {0};
    PASS(context_push, f->info.context);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t address = 0;
        mend_chunk_handle chunk = 0;
        PASS(reserve, 2 * f->page, 0, 0, &address);
        PASS(create, f->page, &plain, &chunk);
        PASS(map, address, f->page, 0, chunk);
        PASS(map, address + f->page, f->page, 0, chunk);
        PASS(release, chunk);
        sim_fixture_allow(f, address, 2 * f->page);
        PASS(fill, address, 1, f->page, stream);
        mend_event event = sim_fixture_event(f);
        PASS(event_record, event, stream);
        PASS(event_synchronize, event);
        PASS(event_destroy, event);
        PASS(unmap, address, 2 * f->page);
        PASS(address_free, address, 2 * f->page);
    }
    PASS(context_pop);
    return NULL;
}

SIM_TEST(driver_threads, nothing_is_lost)
{
    mend_driver *traced = NULL;
    mend_driver_counters counters;
    ASSERT_RESULT(MEND_OK, mend_traced_driver_create(f->driver, &traced));
    f->driver = traced;
    mend_test_run_threads_of(work, f, 0, THREADS);
    mend_sim_ledger left = sim_fixture_ledger(f);
    EXPECT_U64_EQ(0, left.chunks + left.mappings + left.reservations + left.events);
    EXPECT_U64_EQ(0, left.chunk_bytes + left.mapped_bytes + left.address_bytes);
    mend_traced_driver_get(traced, &counters);
    EXPECT_U64_EQ(2 * THREADS * ROUNDS, counters.call[MEND_CALL_map].calls);
    EXPECT_U64_EQ(THREADS * ROUNDS, counters.host_syncs);
    EXPECT_U64_EQ(0, f->heard);
    mend_traced_driver_destroy(traced);
}
