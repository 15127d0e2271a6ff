/*
 * A limit that pools of several processes share, through a small file and without a daemon.
 *
 * The file has a slot for each pool: the bytes that it has claimed, those it waits for, and whether
 * it gives memory back when others wait. A claim succeeds only if the claims of all slots stay
 * within the limit. A want has a number, and a slot that gives back says up to which one its last
 * collection knew them: what it had idle then is no answer to a later want. Invariants:
 * - the claims of all living slots are never above the limit of the file;
 * - a slot is written by its owner alone, or by who has found its owner dead;
 * - the owner of a slot holds a lock of the system on one byte of the file, which ends with the
 * last process that has the file open. So a pool that died gives back its claim, and a child of
 * fork keeps the claim of its parent alive, as it does the parent's memory on the device.
 *
 * The functions of one slot are for one thread at a time. Any of them may wait for a moment while
 * another process has the file. If the file is damaged from outside, all that the slot asks for is
 * granted from then on, and its `is_broken` is set.
 */
#ifndef MEND_SHARE_LIMIT_FILE_H
#define MEND_SHARE_LIMIT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "mend/mend_results.h"

typedef struct mend_limit_slot {
    int file;
    int number;
    uint64_t limit_bytes;
    uint64_t claimed_bytes;
    uint64_t wanted_bytes; /* may be more than the limit */
    uint64_t idle_bytes;
    uint64_t answered;
    bool gives_back;
    bool is_broken;
} mend_limit_slot;

/*
 * Opens the file, or creates it for the user alone, and takes a slot. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (the path is that of something else, or living pools share another
 * limit); MEND_ERROR_SYSTEM (the system refuses the file or its locks, or all slots are taken).
 */
mend_result mend_limit_file_open(const char *path, uint64_t limit_bytes, mend_limit_slot *slot);

/* Gives back all claims and the slot. The file stays. */
void mend_limit_file_close(mend_limit_slot *slot);

/* Claims bytes, and gives them back. False: the limit does not allow it now. */
bool mend_limit_file_claim(mend_limit_slot *slot, uint64_t bytes);
void mend_limit_file_give(mend_limit_slot *slot, uint64_t bytes);

/* Says how much the slot waits for; 0: for nothing. Others hear of the limit at most. Returns the
 * number of the want, which is new if it is for more than before; 0: all slots know it. */
uint64_t mend_limit_file_want(mend_limit_slot *slot, uint64_t bytes);

/* What the limit leaves to claim. */
uint64_t mend_limit_file_room(mend_limit_slot *slot);

/* The room, and what others may still give back: what they had idle when they answered the want,
 * all that they have before. Of one moment: who gives memory back does so before it answers. */
typedef struct mend_limit_view {
    uint64_t room_bytes;
    uint64_t offered_bytes;
} mend_limit_view;
mend_limit_view mend_limit_file_look(mend_limit_slot *slot, uint64_t want);

/* What other slots wait for, beyond what the limit leaves; *newest: the number of the newest want
 * among them. */
uint64_t mend_limit_file_wanted_by_others(mend_limit_slot *slot, uint64_t *newest);

/* Says how much the slot could give back at the end of a collection that knew the wants up to
 * `answered`, and whether it does so when others wait. */
void mend_limit_file_offer(mend_limit_slot *slot, uint64_t idle_bytes, bool gives_back,
                           uint64_t answered);

#endif
