/* A simulated machine of two devices, of which the process's default pools are made, and an
 * allocator to put in their place: on host addresses that are never touched, it counts, and answers
 * as the test says. */
#ifndef MEND_TESTS_UNIT_DEVICES_FIXTURE_H
#define MEND_TESTS_UNIT_DEVICES_FIXTURE_H

#include <stdbool.h>

#include "driver/driver.h"
#include "mend/mend_devices.h"
#include "mend/mend_sim.h"
#include "tests/support/kit.h"

enum { DEVICES = 2, BLOCK = 1 << 20 };

typedef struct counter {
    int allocs, frees, records, trims, infos, retirements;
    int answer;                         /* of every call */
    uint64_t next;                      /* address */
    bool gives_null, gives_one_address; /* with success */
    mend_stream stream;                 /* of the last allocation */
    size_t freed_bytes;                 /* in all */
    void *freed;                        /* last */
} counter;

/* The world has no pool. Its config is that of the default pools, and one stream on device 0. */
typedef struct devices_world {
    mend_world w;
    mend_driver of_many;            /* for a test that replaces functions of the device's */
    mend_device_info open[DEVICES]; /* devices that the test has entered */
    counter c;                      /* of the test, until the devices end */
} devices_world;

/* As mend_world_init has them. The second: the counter serves device 0. */
bool devices_open(devices_world *r);
bool devices_open_counted(devices_world *r);

/* Destroys the default pools, puts Mend's own allocators back, and checks that nothing is left. */
void devices_close(devices_world *r);

/* A device is current in the thread between these. */
void devices_enter(devices_world *r, int device);
void devices_leave(devices_world *r, int device);

/* The default pool of a device. */
mend_pool *devices_pool_of(int device);

/* With every function. Its blocks stand behind the address, a page apart. */
mend_allocator counter_allocator(counter *c, uint64_t first_address);

int counter_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream);

/* The same, and it serves a device. */
void counter_serve(counter *c, int device, uint64_t first_address);

/* BLOCK bytes by the call of a device, which must succeed. */
void *counter_allocate(int device);
void counter_give(int device, void *pointer);

/* A case in such a world, `r` and `w`. */
#define DEVICES_TEST(suite, name)                                                                  \
    KIT_RIG_TEST(suite, name, devices_world, devices_open(r), devices_close(r))

#endif
