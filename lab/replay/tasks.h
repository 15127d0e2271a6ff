/* How the rows of a trace are divided among threads that run one after the other. */
#ifndef MEND_LAB_REPLAY_TASKS_H
#define MEND_LAB_REPLAY_TASKS_H

#include "lab/replay/rig.h"

/* Replays one row. false: no further one. */
typedef bool (*mend_replay_row)(void *context, size_t row);

/*
 * Replays rows 0 to `count`, in order: in the calling thread, or with task_events that many at a
 * time in a thread of their own. Such a thread uses its per-thread stream, and ends without notice
 * to the allocator. The next one's stream waits for it. MEND_OK; MEND_ERROR_OUT_OF_HOST_MEMORY: a
 * thread cannot be started; else as the driver fails.
 */
mend_result mend_replay_rows(mend_replay_rig *rig, size_t count, mend_replay_row row,
                             void *context);

#endif
