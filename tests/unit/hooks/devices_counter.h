/* An allocator to put in the place of Mend's pools: on host addresses that are never touched, it
 * counts, and answers as the test says. */
#ifndef MEND_TESTS_UNIT_DEVICES_COUNTER_H
#define MEND_TESTS_UNIT_DEVICES_COUNTER_H

#include <stdbool.h>

#include "mend/mend_devices.h"

enum { BLOCK = 1 << 20, LOGGED = 16 };

typedef struct counter {
    int allocs, frees, records, trims, infos, retirements;
    int answer;                         /* of every call */
    uint64_t next;                      /* address */
    bool gives_null, gives_one_address; /* with success */
    mend_stream streams[LOGGED];        /* of allocations */
    size_t freed_bytes;                 /* in all */
    void *freed;                        /* last */
} counter;

/* With every function. Its blocks stand behind the address, a page apart. */
mend_allocator counter_allocator(counter *c, uint64_t first_address);

int counter_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream);

/* The same, and it serves a device. */
void counter_serve(counter *c, int device, uint64_t first_address);

/* BLOCK bytes by the call of a device, which must succeed. */
void *counter_allocate(int device);
void counter_give(int device, void *pointer);

#endif
