/* Threads that allocate and free at the same time, each on a lane of its own, under the clock. */
#ifndef MEND_SPEED_CREW_H
#define MEND_SPEED_CREW_H

#include "speed/contender.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With `low_bytes` and `high_bytes` the same: pairs, allocate and free at once. Else churn: each
 * thread holds up to 256 blocks, picks a place at random, and frees its block or allocates a size
 * from low to high, every power of two equally likely. */
typedef struct speed_work {
    size_t low_bytes;
    size_t high_bytes;
    size_t calls; /* of each thread, allocations and frees together */
} speed_work;

/* Times of single calls include reading the clock. */
typedef struct speed_figures {
    /* Clock not read: from the start of the first thread to the end of the last, and the processor
     * time of a call. */
    double seconds;
    double cpu_ns;
    uint64_t p50_ns;
    uint64_t p99_ns;
    uint64_t p999_ns;
    uint64_t max_ns;
} speed_figures;

/* Does the work twice on `thread_count` lanes of the heap: once as fast as it goes, once looking at
 * the clock around each call. Its blocks are free at the end. False: something failed. */
bool speed_crew_run(const speed_heap *heap, size_t thread_count, const speed_work *work,
                    speed_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
