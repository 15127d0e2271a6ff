/*
 * The owners of a heap's memory: its live blocks and pages summed by scope and tag, or else by
 * size, the age of the oldest, and suspected leaks. Found by a walk over all of them on request:
 * only the number of each block's birth is recorded before.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_RECORD_OWNERS_H
#define MEND_RECORD_OWNERS_H

#include "layout/state.h"

/* How many there can be: those by scope, tag and size, and the classes of
 * size that the rest counts for. */
enum { MEND_OWNERS_OWN = 1024, MEND_OWNERS_MOST = MEND_OWNERS_OWN + 64 };

/* The default keys of owners. */
enum {
    MEND_BY_DEFAULT = MEND_BY_SCOPE | MEND_BY_TAG | MEND_BY_STACK,
    MEND_BY_ANY = MEND_BY_DEFAULT | MEND_BY_STREAM
};

/*
 * A sum of all live blocks, which may be made in steps: the caller holds `state` in each, and not
 * in between, so that other threads wait only briefly. Of blocks that come, go or move meanwhile
 * some count twice or not.
 *
 * Begins one, told apart `by` (MEND_BY_..., not 0), without a lock. NULL: no host memory.
 */
typedef struct mend_owners_sum mend_owners_sum;
mend_owners_sum *mend_owners_begin(unsigned by);

/* Adds some `spans` more. False: all are summed. */
bool mend_owners_add(mend_owners_sum *of, const mend_heap *heap, size_t spans);

/* Writes the same as mend_owners_find, and ends the sum. */
void mend_owners_end(mend_owners_sum *of, const mend_heap *heap, mend_owner *largest,
                     size_t capacity, mend_owner *suspect, size_t *total);

/* So many at a time take some 50 us. */
enum { MEND_SPANS_OF_A_STEP = 2048 };

/*
 * Writes the owners with most bytes, told apart `by` (MEND_BY_..., not 0), up to `capacity`, in
 * falling order of bytes, and to `suspect` the one that grew most, or one of 0 bytes. `total`: how
 * many there are. False: the host has no memory for the sums, and nothing is written. O(blocks).
 * The caller holds `state`.
 */
bool mend_owners_find(const mend_heap *heap, unsigned by, mend_owner *largest, size_t capacity,
                      mend_owner *suspect, size_t *total);

/* The hook of the table: the three largest, and the suspect, with these sentences: " Possible leak:
 * step/cache +1.20 GiB. Largest owners: step/forward (3.20 GiB in 12 blocks, up to 340 allocations
 * old), ...". */
void mend_owners_tell(const mend_heap *heap, mend_owner owners[MEND_OWNERS_TOLD], char *text,
                      size_t text_bytes);

#endif
