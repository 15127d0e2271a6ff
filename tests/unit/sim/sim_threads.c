/* Several threads on one simulated device: each with a context stack and a stream of its own. */

#include "tests/support/threads.h"
#include "tests/unit/sim/sim_fixture.h"

enum { THREADS = 4, ROUNDS = 300 };

static void *live(void *argument)
{
    sim_fixture *f = argument;
    mend_event event = NULL;
    EXPECT_OK(f->driver->context_push(f->driver, f->info.context));
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t address = sim_fixture_map(f, 2 * f->page, 4 * f->page);
        EXPECT_OK(f->driver->fill(f->driver, address, 1, f->page, MEND_STREAM_PER_THREAD));
        EXPECT_OK(f->driver->event_record(f->driver, event, MEND_STREAM_PER_THREAD));
        EXPECT_OK(f->driver->event_synchronize(f->driver, event));
        EXPECT_OK(f->driver->unmap(f->driver, address, 2 * f->page));
        EXPECT_OK(f->driver->address_free(f->driver, address, 4 * f->page));
    }
    EXPECT_OK(f->driver->event_destroy(f->driver, event));
    EXPECT_OK(f->driver->context_pop(f->driver));
    return NULL;
}

SIM_TEST(sim_threads, share_a_device)
{
    mend_test_run_threads_of(live, f, 0, THREADS);
    mend_sim_ledger left = sim_fixture_ledger(f);
    EXPECT_U64_EQ(0, left.chunks + left.mappings + left.reservations + left.events);
    EXPECT_U64_EQ(0, f->heard);
}
