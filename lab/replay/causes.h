/*
 * Why each driver call was made: a decorator in front of the simulated device that follows chunks
 * and mappings, and sorts the price of every call by cause. It does not ask the policy: a chunk
 * that gets access for the first time is growth, one that had access elsewhere is a move, and so
 * on.
 */
#ifndef MEND_LAB_REPLAY_CAUSES_H
#define MEND_LAB_REPLAY_CAUSES_H

#include "driver/driver.h"
#include "mend/mend_sim.h"

/* X(name, meaning) */
#define MEND_REPLAY_CAUSES(X)                                                                      \
    X(growing, "create, and map for the first time")                                               \
    X(moving, "map chunks that were mapped elsewhere")                                             \
    X(retiring, "unmap chunks that stay mapped elsewhere")                                         \
    X(giving_back, "unmap the last mapping, release")                                              \
    X(undoing, "unmap and release chunks without access")                                          \
    X(addresses, "reserve and free addresses")                                                     \
    X(fences, "record and query events, waits on the device")                                      \
    X(host_waits, "waits of the host for the device")                                              \
    X(copying, "copy and fill")                                                                    \
    X(asking, "all other calls")

typedef enum mend_replay_cause {
#define X(name, meaning) MEND_CAUSE_##name,
    MEND_REPLAY_CAUSES(X)
#undef X
        MEND_CAUSE_COUNT
} mend_replay_cause;

/* A map or set_access call with several causes shares its price equally among its mappings, and
 * counts for its first cause in the list. */
typedef struct mend_replay_cost {
    uint64_t calls;
    uint64_t time_ns;
} mend_replay_cost;

/* Classes of chunk sizes: class 0 is up to 2 MiB, each next one up to twice as much. The last has
 * no bound. */
enum { MEND_CAUSE_CLASSES = 9 };

typedef struct mend_replay_costs {
    mend_replay_cost by_cause[MEND_CAUSE_COUNT];
    /* The part of this that is about chunks, by their size, for the causes up to `undoing`: chunks
     * created, mapped again, unmapped while mapped elsewhere, released, undone. */
    struct {
        uint64_t chunks;
        uint64_t time_ns;
    } by_size[MEND_CAUSE_undoing + 1][MEND_CAUSE_CLASSES];
    bool is_complete; /* false: malloc failed, so causes may be wrong */
} mend_replay_costs;

/* The class of a chunk's size, and the largest size of a class (UINT64_MAX: no bound). */
size_t mend_cause_class(uint64_t chunk_bytes);
uint64_t mend_cause_class_bytes(size_t size_class);

void mend_replay_costs_subtract(mend_replay_costs *from, const mend_replay_costs *costs);

/* `inner` is the table of `sim`, or a decorator of it. Both are borrowed. Only one thread calls the
 * decorator at a time. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_causes_driver_create(mend_sim *sim, const mend_driver *inner,
                                      mend_driver **causes);
void mend_causes_driver_get(const mend_driver *causes, mend_replay_costs *costs);
void mend_causes_driver_destroy(mend_driver *causes);

#endif
