/* A simulated machine of two devices, of which the process's default pools are made. */
#ifndef MEND_TESTS_UNIT_DEVICES_FIXTURE_H
#define MEND_TESTS_UNIT_DEVICES_FIXTURE_H

#include <stdbool.h>

#include "driver/driver.h"
#include "mend/mend_devices.h"
#include "mend/mend_sim.h"
#include "tests/support/kit.h"

enum { DEVICES = 2 };

typedef struct devices_world {
    mend_pool_config config; /* that default pools are made with */
    mend_sim *sim;
    const mend_driver *driver;
    mend_driver of_many;            /* for a test that replaces functions of the device's */
    mend_device_info open[DEVICES]; /* devices that the test has entered */
    mend_stream stream;             /* on device 0 */
} devices_world;

/* 64 MiB each, in pages of 64 KiB and chunks of 1 MiB, with real bytes. */
bool devices_open(devices_world *world);

/* Destroys the default pools, puts Mend's own allocators back, and checks that nothing is left. */
void devices_close(devices_world *world);

/* A device is current in the thread between these. */
void devices_enter(devices_world *world, int device);
void devices_leave(devices_world *world, int device);

mend_sim_ledger devices_ledger(devices_world *world);

/* Work of the GPU on a block, in the order of the stream. */
void devices_launch(devices_world *world, mend_stream stream, mend_sim_work_kind kind,
                    const void *block, uint64_t size_bytes, uint64_t finish_ns);

/* The default pool of a device, and a fault of the next call of this name. */
mend_pool *devices_pool_of(int device);
void devices_fail(devices_world *world, const char *call, int status);

/* A case in such a world, `r`. */
#define DEVICES_TEST(suite, name)                                                                  \
    KIT_BARE_TEST(suite, name, devices_world, devices_open(r), devices_close(r))

#endif
