/*
 * What must pass before a stretch of memory is idle: one stamp almost always, several if several
 * streams used it. Further stamps are nodes of a slab; each function that adds stamps says how many
 * nodes to reserve.
 */
#ifndef MEND_PHYSICAL_WAITS_H
#define MEND_PHYSICAL_WAITS_H

#include "base/slab.h"
#include "physical/stream.h"

typedef struct mend_wait {
    mend_stamp stamp;
    struct mend_wait *next;
} mend_wait;

/* Idle if first.epoch is 0 and there are no others. At most one stamp for each stream. */
typedef struct mend_waits {
    mend_stamp first;
    mend_wait *others;
} mend_waits;

/* What work on stamps needs: the fences, which tell whether a stamp has passed, and the nodes. */
typedef struct mend_wait_env {
    mend_streams *streams;
    mend_slab *nodes;
} mend_wait_env;

/* The number of nodes. */
static inline size_t mend_waits_count_others(const mend_waits *waits)
{
    size_t count = 0;
    for (const mend_wait *at = waits->others; at != NULL; at = at->next) {
        count++;
    }
    return count;
}

/* Adds a stamp, unless it has passed or a later stamp of its stream is there. Needs one node. */
void mend_waits_add_other(mend_wait_env room, mend_waits *waits, mend_stamp stamp);
static inline void mend_waits_add(mend_wait_env room, mend_waits *waits, mend_stamp stamp)
{
    assert(stamp.stream < room.streams->count);
    assert(stamp.epoch <= room.streams->items[stamp.stream].open_epoch);
    if (stamp.epoch == 0 || mend_stamp_has_passed(room.streams, stamp)) {
        return;
    }
    if (waits->first.epoch == 0) {
        waits->first = stamp;
    } else {
        mend_waits_add_other(room, waits, stamp);
    }
}

/* Adds all of `from` to `to`. Needs as many nodes as there are streams. */
static inline void mend_waits_add_all(mend_wait_env room, mend_waits *to, const mend_waits *from)
{
    assert(to != from);
    mend_waits_add(room, to, from->first);
    for (const mend_wait *at = from->others; at != NULL; at = at->next) {
        mend_waits_add(room, to, at->stamp);
    }
}

/* Makes one of the others the first stamp, if the first one is idle. */
void mend_waits_fill_first(mend_wait_env room, mend_waits *waits);

/* Removes stamps that have passed. True if nothing is left. */
bool mend_waits_settle_several(mend_wait_env room, mend_waits *waits);
static inline bool mend_waits_settle(mend_wait_env room, mend_waits *waits)
{
    if (waits->others != NULL) {
        return mend_waits_settle_several(room, waits);
    }
    if (waits->first.epoch != 0 && mend_stamp_has_passed(room.streams, waits->first)) {
        waits->first = (mend_stamp){0};
    }
    return waits->first.epoch == 0;
}

/* Whether all stamps are ready for `stream` or, with behind_wait, can be made so by a wait on the
 * device. */
bool mend_waits_others_are_ready(const mend_streams *streams, const mend_waits *waits,
                                 uint32_t stream, bool behind_wait);
static inline bool mend_waits_stamp_is_ready(const mend_streams *streams, mend_stamp stamp,
                                             uint32_t stream, bool behind_wait)
{
    return stamp.epoch == 0 || mend_stamp_is_ready(streams, stamp, stream) ||
           (behind_wait && mend_stamp_can_be_awaited(streams, stamp));
}
static inline bool mend_waits_are_ready(const mend_streams *streams, const mend_waits *waits,
                                        uint32_t stream, bool behind_wait)
{
    return mend_waits_stamp_is_ready(streams, waits->first, stream, behind_wait) &&
           (waits->others == NULL ||
            mend_waits_others_are_ready(streams, waits, stream, behind_wait));
}

/* One of the stamps that are not ready. */
mend_stamp mend_waits_first_blocking(const mend_streams *streams, const mend_waits *waits,
                                     uint32_t stream, bool behind_wait);

/* What keeps free memory from a stream: bits, several may be set. */
enum {
    MEND_BLOCKED_BY_STREAMS = 1, /* work of streams may still use it */
    MEND_BLOCKED_UNTIL_WAIT =
        2, /* freed without a stream: only a wait for the context makes it idle */
    MEND_BLOCKED_BY_GROUPS = 4 /* graphs may still use it */
};

/* What keeps memory from `stream`; 0: nothing. For MEND_STREAM_UNKNOWN: what keeps it from being
 * idle. */
unsigned mend_waits_blocked_by(const mend_streams *streams, const mend_waits *waits,
                               uint32_t stream);

/* Makes `stream` wait on the device for each stamp that is not ready. Errors as
 * mend_streams_make_wait. */
mend_result mend_waits_make_ready(mend_wait_env room, const mend_waits *waits, uint32_t stream);

/* Closes the epochs of all stamps, so that a poll can find that they have passed. */
mend_result mend_waits_close(mend_wait_env room, const mend_waits *waits);

/* Includes these stamps in the current host waits (mend_streams_begin_chosen_waits). */
void mend_waits_make_due(mend_streams *streams, const mend_waits *waits);

/* Whether two neighbours may be joined: both have the same stream (without a stream: the same
 * epoch), or both are idle. With only one stream in the pool, idle memory joins with any, because
 * the difference affects nobody. */
bool mend_waits_can_join(mend_wait_env room, const mend_waits *a, const mend_waits *b);

/* Returns the nodes to the slab; the waits are idle then. */
static inline void mend_waits_clear(mend_wait_env room, mend_waits *waits)
{
    while (waits->others != NULL) {
        mend_wait *node = waits->others;
        waits->others = node->next;
        mend_slab_give(room.nodes, node);
    }
    waits->first = (mend_stamp){0};
}

#endif
