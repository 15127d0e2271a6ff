/*
 * Memory that a pool leaves to other users of its device, and the feature that knows them. A
 * feature that knows others fills it in before the heap begins. It stands between the heap and the
 * driver, and refuses memory for others as if the device were full.
 */
#ifndef MEND_MEMORY_OTHERS_H
#define MEND_MEMORY_OTHERS_H

#include <stdatomic.h>

#include "driver/driver.h"

/* The bytes that a pool should release for others. The number of the newest want of a process. */
typedef struct mend_wants {
    uint64_t bytes;
    uint64_t newest;
} mend_wants;

/* The caller of a function holds no lock of a heap. */
typedef struct mend_others {
    const mend_driver *driver;    /* the heap's */
    uint64_t min_free_bytes;      /* of the device's memory. Constant */
    _Atomic(uint64_t) kept_bytes; /* of these, the free part when the device was asked last */
    bool has_members;    /* processes share the limit: they ask for memory, and give it. Constant */
    atomic_bool is_lost; /* no limit is shared any more */

    /* The device's missing bytes to min_free_bytes, or the wants of other processes. The larger.
     * Needs a current context. */
    mend_wants (*ask)(struct mend_others *others);

    /* Writes the bytes that the pool could release after a background trim that knew the wants up
     * to `answered`, and whether a thread collects them. */
    void (*offer)(struct mend_others *others, uint64_t idle_bytes, bool gives_back,
                  uint64_t answered);

    /*
     * Waits until the shared limit allows so much, at most MEND_OTHERS_PATIENCE_MS, and only while
     * other processes may release any: until each with a background thread has answered, then while
     * one has idle memory. True if it allows it, or more than before.
     */
    bool (*wait)(struct mend_others *others, uint64_t room_bytes);

    /* Warns, once, that `is_lost`. */
    void (*tell_lost)(struct mend_others *others, int device);
} mend_others;

enum { MEND_OTHERS_PATIENCE_MS = 200 };

#endif
