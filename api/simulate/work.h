/* Work on streams of the simulated device: how long it takes, which memory it touches, and its
 * effect. */
#ifndef MEND_SIMULATE_WORK_H
#define MEND_SIMULATE_WORK_H

#include "simulate/effect.h"
#include "simulate/machine.h"

/* Times on the virtual clock. The host needs less for a launch than the device for a kernel, so
 * work is pending as in a real program. A query that returns "not ready" costs time too, so that a
 * program that polls makes progress. */
enum { SIMULATE_LAUNCH_NS = 5000, SIMULATE_QUESTION_NS = 1000 };

/* The time of a kernel: 20 us, or MEND_SIMULATE_KERNEL_NS in the environment. */
uint64_t simulate_kernel_ns(void);

/* Queues work that takes so long and touches nothing: a kernel. */
int simulate_work_kernel(mend_stream stream, uint64_t duration_ns);

/* Queues a copy, a fill or a function of the host, and carries its effect out, or records it if the
 * stream is captured. The memory must be the stream's device's to touch, or plain memory of another
 * device. */
int simulate_work_effect(mend_stream stream, const simulate_effect *effect);

/* Passes on the answer of a question. Time passes where it is NOT_READY. */
int simulate_work_asked(int status);

#endif
