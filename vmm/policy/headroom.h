/*
 * Spare memory: where to create what a request lacks though idle chunks could be moved to it.
 *
 * A program whose sizes never fit what was freed pays for moves for ever, and a little more memory
 * would end them. So unless pressure is critical a little is created, compared to what was live at
 * most. And much, while half of the limit is not reserved and once moving has cost the driver as
 * much as creating everything would.
 *
 * Guarded by the heap's `grow` lock.
 */
#ifndef MEND_POLICY_HEADROOM_H
#define MEND_POLICY_HEADROOM_H

#include "layout/state.h"

/* A large request needs room: notes what will be live, and when a window ends. */
void mend_headroom_note_request(mend_heap *heap, uint64_t size_bytes);

void mend_headroom_note_moves(mend_heap *heap, uint64_t chunk_count);

/* So much may be created to avoid moves. */
bool mend_headroom_allows(const mend_heap *heap, uint64_t create_bytes);

/* It was; or the driver had no memory for it, and is not asked again in this window. */
void mend_headroom_note_creation(mend_heap *heap);
void mend_headroom_note_refusal(mend_heap *heap);

/* Memory was given back: what was live before says nothing any more. */
void mend_headroom_forget(mend_heap *heap);

#endif
