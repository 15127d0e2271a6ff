/* A pool with blocks of two sleep tags, each in chunks of its own: those with an even number have
 * tag 1, the others 2. All are written, and are verified at the end. */
#ifndef MEND_TESTS_UNIT_SLEEP_RIG_H
#define MEND_TESTS_UNIT_SLEEP_RIG_H

#include "mend/mend_sleep.h"
#include "tests/support/kit.h"

#define SLEEP_BLOCK MEND_MIB
enum { SLEEP_BLOCKS = 8 };

typedef struct sleep_rig {
    mend_world w;
    void *blocks[SLEEP_BLOCKS];
} sleep_rig;

bool sleep_rig_open(sleep_rig *r);

/* The blocks alone, in a world that is open. */
bool sleep_rig_fill(sleep_rig *r);

/* Wakes what sleeps, verifies the blocks that are left, and closes. */
void sleep_rig_close(sleep_rig *r);

/* Puts the blocks of one tag to sleep. */
void sleep_rig_sleep(sleep_rig *r, uint64_t tag, int keep);

/* Whether a block sleeps. */
bool sleep_rig_sleeps(sleep_rig *r, int number);

/* Where tests make files. */
const char *sleep_rig_directory(void);

#endif
