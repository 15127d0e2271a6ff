/* The counting decorator and the simulated device under several threads: nothing is refused,
 * nothing is lost from their books. */

#include "base/align.h"
#include "driver/traced.h"
#include "mend/mend_sim.h"
#include "tests/support/test.h"
#include "tests/support/threads.h"

enum { THREADS = 4, ROUNDS = 50 };

typedef struct worker {
    const mend_driver *driver;
    mend_context context;
    uint64_t page;
    unsigned failures;
} worker;

/* One chunk mapped twice, an event recorded and waited for, all given back. */
static void work_once(worker *self)
{
    const mend_driver *driver = self->driver;
    const mend_chunk_properties plain = {0};
    const int device = 0;
    uint64_t address = 0;
    mend_chunk_handle chunk = 0;
    mend_event event = NULL;
#define TRY(call) self->failures += (call) != MEND_DRIVER_OK
    TRY(driver->reserve(driver, 2 * self->page, 0, 0, &address));
    TRY(driver->create(driver, self->page, &plain, &chunk));
    TRY(driver->map(driver, address, self->page, 0, chunk));
    TRY(driver->map(driver, address + self->page, self->page, 0, chunk));
    TRY(driver->release(driver, chunk));
    TRY(driver->set_access(driver, address, 2 * self->page, &device, 1, MEND_ACCESS_READ_WRITE));
    TRY(driver->event_create(driver, &event));
    TRY(driver->event_record(driver, event, NULL));
    TRY(driver->event_synchronize(driver, event));
    TRY(driver->event_destroy(driver, event));
    TRY(driver->unmap(driver, address, 2 * self->page));
    TRY(driver->address_free(driver, address, 2 * self->page));
#undef TRY
}

static void *run_worker(void *argument)
{
    worker *self = argument;
    self->failures += self->driver->context_push(self->driver, self->context) != MEND_DRIVER_OK;
    for (int i = 0; i < ROUNDS; i++) {
        work_once(self);
    }
    self->failures += self->driver->context_pop(self->driver) != MEND_DRIVER_OK;
    return NULL;
}

MEND_TEST(driver_threads, nothing_is_lost)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    mend_sim *sim = NULL;
    mend_driver *traced = NULL;
    mend_device_info info;
    worker workers[THREADS];
    ASSERT_RESULT(MEND_OK, mend_sim_create(&config, &sim));
    ASSERT_RESULT(MEND_OK, mend_traced_driver_create(mend_sim_driver(sim), &traced));
    ASSERT_INT_EQ(MEND_DRIVER_OK, traced->device_open(traced, 0, &info));
    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (worker){.driver = traced, .context = info.context, .page = info.granularity_bytes};
    }
    mend_test_run_threads(run_worker, workers, THREADS);
    for (int i = 0; i < THREADS; i++) {
        EXPECT_U64_EQ(0, workers[i].failures);
    }
    EXPECT_INT_EQ(MEND_DRIVER_OK, traced->device_close(traced, 0));
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_driver_counters counters;
    mend_sim_get_ledger(sim, &ledger);
    mend_traced_driver_get(traced, &counters);
    EXPECT_U64_EQ(0, ledger.chunks + ledger.mappings + ledger.reservations + ledger.events);
    EXPECT_U64_EQ(0, ledger.chunk_bytes + ledger.mapped_bytes + ledger.address_bytes);
    EXPECT_U64_EQ(0, ledger.violations);
    EXPECT_U64_EQ(2 * THREADS * ROUNDS, counters.call[MEND_CALL_map].calls);
    EXPECT_U64_EQ(THREADS * ROUNDS, counters.host_syncs);
    mend_traced_driver_destroy(traced);
    mend_sim_destroy(sim);
}
