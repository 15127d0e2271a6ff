/* A pool with blocks of two sleep tags, each in chunks of its own: those with an even number have
 * tag 1, the others 2. All are written, and are verified at the end. */
#ifndef MEND_TESTS_UNIT_SLEEP_RIG_H
#define MEND_TESTS_UNIT_SLEEP_RIG_H

#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "tests/support/kit.h"

#define SLEEP_BLOCK MEND_MIB
#define SLEEP_PAGE  (256 * MEND_KIB)
enum { SLEEP_BLOCKS = 8, SLEEP_PAGES = 4 };

typedef struct sleep_rig {
    mend_world w;
    void *blocks[SLEEP_BLOCKS];
    mend_range *range; /* NULL: none */
    char *pages;       /* where it begins */
} sleep_rig;

bool sleep_rig_open(sleep_rig *r);

/* A range with committed pages beside them, of the two tags in turn, which are written, too. */
bool sleep_rig_add_pages(sleep_rig *r);

/* Wakes all, verifies the remaining blocks and pages, and closes. */
void sleep_rig_close(sleep_rig *r);

/* Options by which one tag sleeps, and maybe more. */
#define SLEEP_TAG(tag, keep, ...)                                                                  \
    KIT_OPTIONS(mend_sleep_options, .rules = &(const mend_sleep_rule){tag, keep}, .rule_count = 1, \
                __VA_ARGS__)

/* Options by which all sleep in a file. */
#define SLEEP_IN_FILE                                                                              \
    KIT_OPTIONS(mend_sleep_options, .others = MEND_BACKUP_FILE, .directory = sleep_rig_directory())

/* Puts the blocks of one tag to sleep. */
void sleep_rig_sleep(sleep_rig *r, uint64_t tag, int keep);

#define SLEEP_TEST(suite, name)                                                                    \
    KIT_RIG_TEST(suite, name, sleep_rig, sleep_rig_open(r), sleep_rig_close(r))

/* Whether a block sleeps. */
bool sleep_rig_sleeps(sleep_rig *r, int number);

/* Writes a page. */
void sleep_rig_write_page(sleep_rig *r, int number);

/* Where tests make files. */
const char *sleep_rig_directory(void);

#endif
