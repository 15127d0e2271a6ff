/* Many live blocks: the crowd among which allocators have to find their way. */
#ifndef MEND_SPEED_CROWD_H
#define MEND_SPEED_CROWD_H

#include "speed/contender.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks of 512 B to 2 KiB, in no order: so host allocators fit a million as well. */
typedef struct speed_crowd {
    const speed_lane *lane;
    void **blocks;
    size_t count;
} speed_crowd;

/* The processor time of each call, on average, and the bookkeeping bytes for each block. */
typedef struct speed_crowd_figures {
    double fill_ns;    /* an allocation, while the crowd grows */
    double churn_ns;   /* a free of a random block and an allocation, while it is whole */
    double drain_ns;   /* a free, in no order */
    double host_bytes; /* taken from malloc for each block, by the contender. 0: by none of them */
} speed_crowd_figures;

/* Makes `count` live blocks, with one hole for every four of them. False: it cannot be made. Then
 * nothing is live. */
bool speed_crowd_create(speed_crowd *crowd, const speed_lane *lane, size_t count);
void speed_crowd_destroy(speed_crowd *crowd);

/* Fills, churns and drains a crowd of `count` under the clock. False: something failed. */
bool speed_crowd_measure(const speed_lane *lane, size_t count, speed_crowd_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
