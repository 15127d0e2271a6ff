/*
 * What must pass before a stretch of memory is idle: one stamp almost always, a few when several
 * streams used it. The further stamps are nodes of a slab; what adds one says how many to reserve.
 */
#ifndef MEND_PHYSICAL_WAITS_H
#define MEND_PHYSICAL_WAITS_H

#include "base/slab.h"
#include "physical/stream.h"

typedef struct mend_wait {
    mend_stamp stamp;
    struct mend_wait *next;
} mend_wait;

/* Idle when first.epoch is 0 and there are no others. At most one stamp a stream. */
typedef struct mend_waits {
    mend_stamp first;
    mend_wait *others;
} mend_waits;

/* The rooms a stamp needs: the fences that tell whether it has passed, and nodes. */
typedef struct mend_wait_env {
    mend_streams *streams;
    mend_slab *nodes;
} mend_wait_env;

/* Adds a stamp, unless it has passed or a later one of its stream stands there. One node. */
void mend_waits_add_other(mend_wait_env room, mend_waits *waits, mend_stamp stamp);
static inline void mend_waits_add(mend_wait_env room, mend_waits *waits, mend_stamp stamp)
{
    if (stamp.epoch == 0 || mend_stamp_has_passed(room.streams, stamp)) {
        return;
    }
    if (waits->first.epoch == 0) {
        waits->first = stamp;
    } else {
        mend_waits_add_other(room, waits, stamp);
    }
}

/* Adds all of `from` to `to`. As many nodes as there are streams. */
static inline void mend_waits_add_all(mend_wait_env room, mend_waits *to, const mend_waits *from)
{
    mend_waits_add(room, to, from->first);
    for (const mend_wait *at = from->others; at != NULL; at = at->next) {
        mend_waits_add(room, to, at->stamp);
    }
}

/* Drops what has passed; true when nothing is left. */
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

/* All stamps are ready for `stream`, or (behind_wait) can be made so by a wait on the device. */
bool mend_waits_others_are_ready(const mend_streams *streams, const mend_waits *waits,
                                 uint32_t stream, bool behind_wait);
static inline bool mend_waits_are_ready(const mend_streams *streams, const mend_waits *waits,
                                        uint32_t stream, bool behind_wait)
{
    mend_stamp first = waits->first;
    bool is_ready = first.epoch == 0 || mend_stamp_is_ready(streams, first, stream) ||
                    (behind_wait && mend_stamp_can_be_awaited(streams, first));
    return is_ready && (waits->others == NULL ||
                        mend_waits_others_are_ready(streams, waits, stream, behind_wait));
}

/* What keeps free memory from a stream: bits, several at once. */
enum {
    MEND_BLOCKED_BY_STREAMS = 1, /* work of streams may still use it */
    MEND_BLOCKED_UNTIL_WAIT =
        2, /* freed without a stream: only a wait for the context makes it idle */
    MEND_BLOCKED_BY_GROUPS = 4 /* graphs may still use it */
};

/* What keeps memory from `stream`: 0 when nothing does. For MEND_STREAM_UNKNOWN: what keeps it from
 * being idle. */
unsigned mend_waits_blocked_by(const mend_streams *streams, const mend_waits *waits,
                               uint32_t stream);

/* Makes `stream` wait on the device for whatever is not ready. Errors of mend_streams_make_wait. */
mend_result mend_waits_make_ready(mend_wait_env room, const mend_waits *waits, uint32_t stream);

/* Closes the epochs of all stamps, so that polling can see them pass. */
mend_result mend_waits_close(mend_wait_env room, const mend_waits *waits);

/* The host waits that were begun are for these stamps too (mend_streams_begin_chosen_waits). */
void mend_waits_make_due(mend_streams *streams, const mend_waits *waits);

/* Two neighbours may be joined into one stretch: the same stream, or both idle. With only one
 * stream in the pool idle memory joins with any, for there is nobody to whom it would make a
 * difference. */
bool mend_waits_can_join(mend_wait_env room, const mend_waits *a, const mend_waits *b);

/* Gives the nodes back and leaves the waits idle. */
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
