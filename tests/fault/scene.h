/* One run of a scenario, shared by the files that run and check it. */
#ifndef MEND_TESTS_FAULT_SCENE_H
#define MEND_TESTS_FAULT_SCENE_H

#include "lab/driver/traced.h"
#include "tests/fault/scenario.h"
#include "tests/support/host_memory.h"

/* An output that a failed call must not write. */
enum { SCENE_UNTOUCHED = 77 };

/* The state of pool and device at one moment. */
typedef struct scene_state {
    mend_stats stats; /* zeros without a pool */
    mend_sim_ledger ledger;
    mend_driver_counters calls;
} scene_state;

typedef struct scene {
    const scenario *given;
    const planned_fault *fault;
    story_run run;
    mend_unwatched_driver unwatched; /* in front of the device's table */
    mend_driver *traced;             /* in front of that */
    mend_pool *created;              /* by SCENARIO_CREATE */
    mend_result result;              /* of the call */
    size_t withheld;                 /* records of the slab that is to be dry */
    scene_state before;
    scene_state after;
} scene;

/* How many calls of a kind failed during the call in question. */
uint64_t scene_failures(const scene *s, mend_driver_call call);

/* After any call: the thread's current context is as before. */
void scene_check_balance(const scene *s);

/* After success, in spite of a fault too: the outputs are true. */
void scene_check_success(const scene *s);

/* Without a fault: the call went the way the scenario is named for. */
void scene_check_way(const scene *s);

/* After a fault: the result is one the header documents for the call. mend_get_last_error explains
 * it, and the pool is as it was. */
void scene_check_failure(const scene *s);

/* After mend_pool_destroy: only refused releases are left. */
void scene_check_remains(const scene *s);

#endif
