/*
 * Giving memory back: at once, after host waits, to a peer pool, or because of a lower limit.
 *
 * The caller holds both locks; no driver scope is open. Errors as the calls of mend.h.
 */
#ifndef MEND_LADDER_TRIM_H
#define MEND_LADDER_TRIM_H

#include "layout/state.h"

/* As mend_trim. */
mend_result mend_ladder_trim(mend_heap *heap, uint64_t keep_bytes, uint64_t *released_bytes);

/* As mend_trim_wait. */
mend_result mend_ladder_trim_wait(mend_heap *heap, uint64_t keep_bytes, uint64_t *released_bytes);

/* What a pool asks another pool of the device for. */
typedef struct mend_need {
    uint64_t bytes;       /* about as many; UINT64_MAX: all, for addresses */
    uint64_t whole_bytes; /* what must be free for the request: `bytes` of it are lacking, or were
                           * when it was refused */
    bool may_wait; /* for the context: no capture that the asking pool knows forbids it. The asked
                    * pool may not know the stream of that capture */
} mend_need;

/* For another pool of the device: gives memory, and all empty reservations. Zeros of destroyed
 * ranges, which take a wait, only if the rest is not enough. True if anything went back. */
bool mend_ladder_give_back(mend_heap *heap, mend_need need);

/* Gives back addresses that nothing needs: those of destroyed ranges, and the pool's own. True if
 * any went back. A driver scope is open. */
bool mend_ladder_trim_addresses(mend_heap *heap, uint32_t asking);

/* As mend_set_limit. */
mend_result mend_ladder_set_limit(mend_heap *heap, uint64_t limit_bytes);

/* Gives back for others what nothing needs now: chunks unused for `unused_ns` (0: none), then idle
 * ones until `owed_bytes` are given and the pool is below its soft limit. Waits for nothing. The
 * caller holds both locks. Errors as mend_trim; *released_bytes is right even then. */
mend_result mend_ladder_collect(mend_heap *heap, uint64_t unused_ns, uint64_t owed_bytes,
                                uint64_t *released_bytes);

#endif
