/*
 * What a pool leaves to others that use its device, and whom it asks about them. A feature that
 * knows others fills it in before the heap begins: it stands between the heap and the driver, and
 * refuses what is for others as if the device had no more memory.
 */
#ifndef MEND_MEMORY_OTHERS_H
#define MEND_MEMORY_OTHERS_H

#include <stdatomic.h>

#include "driver/driver.h"

/* How much a pool should give back for others; the number of the newest want of a process. */
typedef struct mend_wants {
    uint64_t bytes;
    uint64_t newest;
} mend_wants;

/* The caller of a function holds no lock of a heap. */
typedef struct mend_others {
    const mend_driver *driver;    /* the heap's */
    uint64_t min_free_bytes;      /* of the device's memory; constant */
    _Atomic(uint64_t) kept_bytes; /* of these, what was free when the device was asked last */
    bool has_members;    /* processes share the limit: they ask for memory, and give it; constant */
    atomic_bool is_lost; /* no limit is shared any more */

    /* What the device lacks to min_free_bytes, or what other processes wait for; the larger. Needs
     * a current context. */
    mend_wants (*ask)(struct mend_others *others);

    /* Says what the pool could give back after a background trim that knew the wants up to
     * `answered`, and whether a thread collects it. */
    void (*offer)(struct mend_others *others, uint64_t idle_bytes, bool gives_back,
                  uint64_t answered);

    /*
     * Waits until the shared limit has room for so much, at most MEND_OTHERS_PATIENCE_MS, and only
     * while other processes may give any back: until each that collects has answered, then while
     * one has idle memory. True if there is room, or more than before.
     */
    bool (*wait)(struct mend_others *others, uint64_t room_bytes);

    /* Warns, once, that `is_lost`. */
    void (*tell_lost)(struct mend_others *others, int device);
} mend_others;

enum { MEND_OTHERS_PATIENCE_MS = 200 };

#endif
