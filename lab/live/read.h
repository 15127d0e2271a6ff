/*
 * Pages of pools that another process publishes (record/live_page.h), read without a word to it.
 */
#ifndef MEND_LAB_LIVE_READ_H
#define MEND_LAB_LIVE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "record/live_page.h"

enum { MEND_LIVE_MOST_POOLS = 32, MEND_LIVE_PROBLEM_BYTES = 200, MEND_LIVE_PROGRAM_BYTES = 128 };

typedef struct mend_live_pools {
    mend_live_page pages[MEND_LIVE_MOST_POOLS];
    size_t count;
    size_t left_out;                                              /* pools that do not fit */
    uint64_t age_ns[MEND_LIVE_MOST_POOLS];                        /* of each page */
    char programs[MEND_LIVE_MOST_POOLS][MEND_LIVE_PROGRAM_BYTES]; /* "python train.py": as they were
                                                                   * started, cut. Any bytes */
    char problem[MEND_LIVE_PROBLEM_BYTES];                        /* in words, if there is none */
} mend_live_pools;

/* Copies the pages of all pools that the process publishes. False, and `problem`: there is no such
 * process, it is another user's, it publishes nothing, or a page is unusable (cut, of another
 * version of Mend, or half written). Waits up to a second for a page that is being written. */
bool mend_live_read(pid_t process, mend_live_pools *pools);

/* The same of all processes that may be looked into, without those whose pages cannot be used.
 * False, and `problem`: none publishes. */
bool mend_live_read_every(mend_live_pools *pools);

/* A figure's growth per second since the page before. 0: there is none. */
double mend_live_rate(const mend_live_page *page, uint64_t now, uint64_t before);

#endif
