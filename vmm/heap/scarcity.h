/*
 * How scarce memory is, which decides what counts: time while it is ample, bytes when the limit is
 * near.
 *
 * In use are the bytes of partly used chunks: live ones, and those trapped beside them. What was in
 * use a while ago will be again, so the most of the last one or two windows counts; a window lasts
 * until so many bytes were allocated.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_HEAP_SCARCITY_H
#define MEND_HEAP_SCARCITY_H

#include "heap/state.h"

typedef enum mend_scarcity {
    MEND_AMPLE,  /* most of the limit is not even reserved: large chunks, few calls */
    MEND_SCARCE, /* chunks of the size that is needed */
    MEND_TIGHT,  /* nearly all was in use, or little was left beside much that was trapped: wholly
                    free chunks are not broken without need */
} mend_scarcity;

mend_scarcity mend_heap_scarcity(const mend_heap *heap);

/* At least half of the limit is not reserved. */
bool mend_heap_is_roomy(const mend_heap *heap);

/* Notes what is in use, by whoever makes room: then memory is needed. */
void mend_scarcity_note(mend_heap *heap);

/* What of the limit is not reserved, less what is kept for swaps. */
uint64_t mend_heap_room_bytes(const mend_heap *heap);

/* What must be given back before so many bytes, more than there is room for, can be created. More
 * than is to be created where
 * more is reserved than the limit allows by now. */
uint64_t mend_heap_lacking_bytes(const mend_heap *heap, uint64_t create_bytes);

#endif
