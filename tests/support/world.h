/* A small world for tests: a simulated device, a pool on it, and the conditions at any time. */
#ifndef MEND_TESTS_SUPPORT_WORLD_H
#define MEND_TESTS_SUPPORT_WORLD_H

#include <stdbool.h>

#include "driver/driver.h"
#include "mend/mend.h"
#include "mend/mend_sim.h"
#include "tests/support/options.h"
#include "tests/support/place.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MEND_WORLD_STREAMS = 3 };

typedef struct mend_world {
    mend_sim_config sim_config;
    mend_pool_config pool_config;
    mend_test_sizes placement; /* as mend_test_place takes it */
    mend_sim *sim;
    mend_pool *pool;
    const mend_driver *driver; /* these three by kit_open (support/kit.h), else NULL and 0 */
    mend_device_info info;
    mend_stream streams[MEND_WORLD_STREAMS];
    uint64_t last_tag;               /* of kit_use. Threads of a test may write at once */
    uint64_t violations_meant;       /* that a test commits itself */
    uint64_t captured_records_meant; /* events that are recorded in captures, which is
                                      * unavoidable */
} mend_world;

/*
 * Fills in the configs of a small world: 64 MiB in pages of 64 KiB, chunks of 1 MiB, low pressure
 * while nine tenths are not reserved, real bytes. A test changes settings before mend_world_open.
 */
void mend_world_init(mend_world *world);

/* Creates both. Failures are failures of the test. False then. */
bool mend_world_open(mend_world *world);

/* The same in two steps, for a test that puts a driver of its own in front of the device's. */
bool mend_world_open_device(mend_world *world);
bool mend_world_open_pool(mend_world *world, const mend_driver *driver);

/* Another pool as the world's. */
mend_result mend_world_create_pool(const mend_world *world, mend_pool **pool);

/* The audit holds, the device's ledger equals the pool's statistics, no rule was broken and no byte
 * is wrong. Records a failure and returns false otherwise. */
bool mend_world_check(mend_world *world);

/* Destroys the pool, checks that nothing is left on the device, and destroys that. */
void mend_world_close(mend_world *world);

mend_stats mend_world_stats(mend_world *world);
mend_sim_ledger mend_world_ledger(mend_world *world);

#ifdef __cplusplus
}
#endif

#endif
