/*
 * Steady growth, by the same rule in a recording and in a running pool. Work is divided into
 * stretches of equally many events. The permanent memory of an owner in each of them is its line.
 * Temporary blocks come and go above it. A line that rises, and does not come back, is growth.
 */
#ifndef MEND_RECORD_GROWTH_H
#define MEND_RECORD_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

/* The first stretches, in which programs build up their permanent memory, do not count. Nor does a
 * program of few events. */
enum {
    MEND_GROWTH_STRETCHES = 24,
    MEND_GROWTH_WARM_UP = 4,
    MEND_GROWTH_JUDGED = MEND_GROWTH_STRETCHES - MEND_GROWTH_WARM_UP,
    MEND_GROWTH_LEAST_EVENTS = 240,
    /* So many blocks of one owner are no single pass through the layers of a model. */
    MEND_GROWTH_MANY_BLOCKS = 384
};

/* The growth of a line. 0 if it is below 1 MiB or 0.5 % of `peak_bytes`, or not steady. Steady
 * means: at least half of the steps go up, it never falls by more than a quarter of the growth, and
 * each half has a quarter. A late begin is an unfinished step. */
uint64_t mend_growth_judge(const uint64_t least_bytes[MEND_GROWTH_STRETCHES], uint64_t peak_bytes);

/* Whether growth is a leak: blocks of at least half of the counted stretches (a bit each) are live
 * at the end. Otherwise blocks are replaced by larger ones. */
bool mend_growth_leaks(uint32_t kept_stretches);

#endif
