/*
 * What keeps growing: judged alike in a recording and in a running pool. Work is divided into
 * stretches of equally many events. What an owner of memory keeps in each of them is its line;
 * temporary blocks come and go above it. A line that rises, and does not come back, is growth.
 */
#ifndef MEND_RECORD_GROWTH_H
#define MEND_RECORD_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

/* The first stretches, in which programs build up what they keep, are not judged; nor is a program
 * of few events. */
enum {
    MEND_GROWTH_STRETCHES = 24,
    MEND_GROWTH_WARM_UP = 4,
    MEND_GROWTH_JUDGED = MEND_GROWTH_STRETCHES - MEND_GROWTH_WARM_UP,
    MEND_GROWTH_LEAST_EVENTS = 240,
    /* So many blocks of one owner are no single pass through the layers of a model. */
    MEND_GROWTH_MANY_BLOCKS = 384
};

/* The growth of a line. 0 if it is below 1 MiB or 0.5 % of `peak_bytes`, or not that of something
 * that keeps growing: at least half of the steps go up, it never falls by more than a quarter of
 * the growth, and a quarter of the growth is in each half: what was begun late is a step that is
 * not over. */
uint64_t mend_growth_judge(const uint64_t least_bytes[MEND_GROWTH_STRETCHES], uint64_t peak_bytes);

/* Whether what grows is a leak: blocks of at least half of the judged stretches (a bit each) are
 * there at the end. Otherwise blocks are replaced by larger ones. */
bool mend_growth_leaks(uint32_t kept_stretches);

#endif
