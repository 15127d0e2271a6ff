/*
 * Headroom: memory that is created for a request although idle chunks could be moved.
 *
 * A program whose sizes never fit the freed memory would move chunks for ever; a little more memory
 * ends that. So unless pressure is critical, a little more than the peak of live bytes may be
 * created. While a quarter of the limit is not reserved, each chunk that was moved in this window
 * pays for a part of a chunk: moves that go on cost a few times what creation costs, not more, and
 * no single request takes more than was paid for.
 *
 * Guarded by the heap's `grow` lock.
 */
#ifndef MEND_POLICY_HEADROOM_H
#define MEND_POLICY_HEADROOM_H

#include "layout/state.h"

/* Called when a large request needs room: updates the peak of live bytes, and ends the window. */
void mend_headroom_note_request(mend_heap *heap, uint64_t size_bytes);

/* Called for each chunk that was moved. */
void mend_headroom_note_move(mend_heap *heap);

/* Whether this much may be created to avoid moves. */
bool mend_headroom_allows(const mend_heap *heap, uint64_t create_bytes);

/* Called after the driver refused to create it: then it is not asked again in this window. */
void mend_headroom_note_refusal(mend_heap *heap);

/* Called after a trim: the old peak of live bytes no longer counts. */
void mend_headroom_forget(mend_heap *heap);

#endif
