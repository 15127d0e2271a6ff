/* Sleep and wake in a trial: see asleep.c. */
#ifndef MEND_TESTS_SIM_ASLEEP_H
#define MEND_TESTS_SIM_ASLEEP_H

#include "tests/sim/trial.h"

typedef enum asleep_figure {
    ASLEEP_SIZE,
    ASLEEP_LIVE,
    ASLEEP_SMALL_LIVE,
    ASLEEP_AWAY,
    ASLEEP_HOST,
    ASLEEP_FILE,
    ASLEEP_PAGES_LIVE, /* of ranges: of committed pages */
    ASLEEP_PAGES_HELD, /* ... and chunks whose memory the driver did not take back */
    ASLEEP_FIGURES
} asleep_figure;
uint64_t trial_asleep(const trial_pool *pool, asleep_figure figure);
uint64_t trial_sleep_tag(const trial_call *call);
void trial_mark_call(const trial_call *call);
uint32_t trial_stack_of(const operation *op, uint64_t size_bytes); /* of a block, after that */
mend_result trial_call_sleep(trial_call *call, mend_pool *pool);
bool trial_may_answer_asleep(const trial *t, const trial_call *call);
bool trial_sleeps(const trial *t, int pool);         /* anything does */
bool trial_lacks_mappings(const trial *t, int pool); /* that the driver refused to restore */
bool trial_graph_sleeps(const trial *t, const trial_graph *graph); /* memory that it may use does */
bool trial_may_remap(const trial_call *call);                      /* unmap blocks, and map them */
void trial_note_asleep(trial *t);
/* The sleeping part of a block now, by a call with a backup of so much. It was asleep before, and
 * says that it was dropped. */
void trial_note_kept(trial *t, trial_block *block, int keep, bool was_asleep, bool says);
void trial_wake_all(trial *t);

#endif
