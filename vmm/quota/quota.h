/* A limit that processes share, and memory that a pool leaves to others. */
#ifndef MEND_QUOTA_QUOTA_H
#define MEND_QUOTA_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pointer_map.h"
#include "base/thread.h"
#include "driver/forward.h"
#include "layout/feature.h"
#include "memory/others.h"
#include "mend/mend_results.h"

/* ---- shared_limit_file.c --------------------------------------------------------------------- */

/*
 * The file has a slot for each pool: the bytes that it has claimed, those it waits for, and whether
 * it gives memory back when others wait. A want has a number, and a slot names the last want that
 * its background trim knew: its idle memory then is no answer to a later want.
 *
 * No lock is held while the file is read and changed, so a process that is stopped (SIGSTOP, a
 * freezer, a debugger) blocks no other process. Invariants:
 * - the claims of all living slots, without pending requests, are never above the limit.
 * - a slot is written by its owner alone, or by a process that found its owner dead.
 * - the owner of a slot holds a lock of the system on one byte of the file, which ends with the
 * last process that has the file open. So a pool that died releases its claim, and a child of fork
 * keeps the claim of its parent alive, as it does the parent's memory on the device.
 *
 * The first holds because a claim is written before it is checked. First the slot writes its
 * request, then it reads all slots, and the claim stands if all claims and requests are within the
 * limit. Of two requests at once, the last writer sees the other. All others count the request of a
 * slot that is stopped in between. When it continues, it reads their new claims. Two that see each
 * other may both be refused where one would fit. So the slot of the lower number goes on looking
 * for a while, and others withdraw first.
 *
 * The functions of one slot are for one thread at a time. If the file is damaged from outside, all
 * that the slot asks for is granted from then on, and its `is_broken` is set.
 */

/* A slot in the file. */
typedef struct mend_limit_claim {
    uint64_t limit_bytes; /* all living slots name the same */
    uint64_t claimed_bytes;
    uint64_t asked_bytes; /* of these: not known yet to be within the limit */
    uint64_t wanted_bytes;
    uint64_t want;       /* the number of its newest want */
    uint64_t idle_bytes; /* at its last background trim */
    uint64_t gives_back;
    uint64_t answered; /* the newest want that its last background trim knew */
} mend_limit_claim;

typedef struct mend_limit_slot {
    int file;
    int number;
    mend_limit_claim own; /* but that it may want more than the limit */
    bool is_broken;
} mend_limit_slot;

/* Opens the file, or creates it for the user alone, and takes a slot. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (the path is that of something else, others could change the file, or
 * living pools share another limit); MEND_ERROR_SYSTEM (the system refuses the file or its locks,
 * or all slots are taken). */
mend_result mend_shared_limit_file_open(const char *path, uint64_t limit_bytes,
                                        mend_limit_slot *slot);

/* Releases all claims and the slot. The file stays. */
void mend_shared_limit_file_close(mend_limit_slot *slot);

/* Claims bytes, and gives them back. False: the limit does not allow it now. */
bool mend_shared_limit_file_claim(mend_limit_slot *slot, uint64_t bytes);
void mend_shared_limit_file_give(mend_limit_slot *slot, uint64_t bytes);

/* Writes the bytes that the slot waits for. 0: none. Others hear of the limit at most. Returns the
 * number of the want, which is new if it is for more than before. 0: all slots know it. */
uint64_t mend_shared_limit_file_want(mend_limit_slot *slot, uint64_t bytes);

/* The bytes that are free to claim, and bytes that others may still release: their idle memory once
 * they have answered the want, all their memory before. Of one moment: a slot releases memory
 * before it answers. */
typedef struct mend_limit_view {
    uint64_t room_bytes;
    uint64_t offered_bytes;
} mend_limit_view;
mend_limit_view mend_shared_limit_file_look(mend_limit_slot *slot, uint64_t want);

/* The bytes that other slots wait for, beyond the rest of the limit. *newest: the number of the
 * newest want among them. */
uint64_t mend_shared_limit_file_wanted_by_others(mend_limit_slot *slot, uint64_t *newest);

/* Writes the bytes that the slot could release at the end of a background trim that knew the wants
 * up to `answered`, and whether it does so when others wait. */
void mend_shared_limit_file_offer(mend_limit_slot *slot, uint64_t idle_bytes, bool gives_back,
                                  uint64_t answered);

/* ---- quota.c --------------------------------------------------------------------------------- */

typedef struct mend_quota {
    mend_passing pass; /* first. This structure must not move */
    mend_others others;
    mend_mutex mutex;             /* guards the rest. Never held while the inner table runs */
    mend_limit_slot slot;         /* if others.has_members */
    uint64_t wanted_bytes;        /* by all threads that wait */
    mend_pointer_map sizes;       /* from a chunk's handle to its bytes */
    mend_pointer_map plain_sizes; /* from the address of memory of the driver's own */
    atomic_bool is_told; /* the log has said that all is granted since the file is damaged */
} mend_quota;

/* `path` NULL: no limit is shared. `limit_bytes`: the limit that is. Results as
 * mend_shared_limit_file_open. It is closed in any case. */
mend_result mend_quota_open(mend_quota *quota, const mend_driver *inner, uint64_t min_free_bytes,
                            const char *path, uint64_t limit_bytes);

/* All chunks were released before, or stay with the driver. */
void mend_quota_close(mend_quota *quota);

/* For the table of features. */
mend_result mend_quota_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config);
void mend_quota_statistics(const mend_heap *heap, mend_stats *stats);

#endif
