/*
 * What a request made the pool do while it had the right to make room: the dearest of its steps,
 * and how long it took with the wait for the lock. For the history; nothing is asked while that is
 * off.
 */
#ifndef MEND_LADDER_STEPS_H
#define MEND_LADDER_STEPS_H

#include "layout/state.h"

/* The figures by which steps are told, and when the request came to the lock. */
typedef struct mend_steps {
    uint64_t began_ns; /* or MEND_HISTORY_NO_TIME */
    uint64_t created, moved, aliases, stream_waits, host_waits, compactions, on_host;
} mend_steps;

/* Before the lock is taken; the caller holds `state`. */
uint64_t mend_steps_come(const mend_heap *heap);

/* With both locks, before the first step. */
mend_steps mend_steps_begin(mend_heap *heap, uint64_t began_ns);

/* With both locks, after the last step: says in the request how it was served. */
void mend_steps_end(const mend_heap *heap, const mend_steps *before, mend_request *request);

#endif
