/*
 * What a pool may take of a device that others use too: a decorator of the driver's table. It
 * leaves a part of the device's memory free, and keeps to a limit that pools of other processes
 * share (share/limit_file.h). A creation beyond either is refused as if the device had no more
 * memory, and memory_info answers accordingly: so everything that a pool does when its device is
 * full works here too.
 */
#ifndef MEND_SHARE_RATION_H
#define MEND_SHARE_RATION_H

#include "base/mutex.h"
#include "base/pointer_map.h"
#include "driver/passing.h"
#include "share/limit_file.h"

typedef struct mend_ration {
    mend_passing pass;        /* first; this structure must not move */
    uint64_t keep_free_bytes; /* of the device's memory; constant */
    bool has_file;            /* constant */
    mend_mutex mutex;         /* guards the rest; never held while the inner table runs */
    mend_limit_slot slot;
    uint64_t wanted_bytes;  /* by all threads that wait */
    mend_pointer_map sizes; /* from a chunk's handle to its bytes */
} mend_ration;

/* `path` NULL: no limit is shared. `limit_bytes`: the limit that is. Results as
 * mend_limit_file_open. */
mend_result mend_ration_open(mend_ration *ration, const mend_driver *inner,
                             uint64_t keep_free_bytes, const char *path, uint64_t limit_bytes);

/* All chunks were released before, or stay with the driver. */
void mend_ration_close(mend_ration *ration);

/* Whether the pool is rationed at all. */
static inline bool mend_ration_is_on(const mend_ration *ration)
{
    return ration->keep_free_bytes > 0 || ration->has_file;
}

/* How much the pool should give back for others: what the device lacks to `keep_free_bytes`, or
 * what other processes wait for; the larger. Needs a current context. */
typedef struct mend_ration_owed {
    uint64_t bytes;
    uint64_t newest; /* the number of the newest want among them */
} mend_ration_owed;
mend_ration_owed mend_ration_ask_owed(mend_ration *ration);

/* Says what the pool could give back after a collection that knew the wants up to `answered`, and
 * whether a thread collects it. */
void mend_ration_offer(mend_ration *ration, uint64_t idle_bytes, bool gives_back,
                       uint64_t answered);

/*
 * Waits until the shared limit has room for so much, at most MEND_RATION_PATIENCE_MS, and only
 * while other processes may give any back: until each that collects has answered, then while one
 * has idle memory. *end_ms is 0 at first, and the same for a request that others were quicker to
 * use the room of: it waits for the rest of the time. False also if such a request need not wait,
 * because it is not this limit that it lacks.
 */
enum { MEND_RATION_PATIENCE_MS = 200 };
bool mend_ration_wait(mend_ration *ration, uint64_t room_bytes, uint64_t *end_ms);

#endif
