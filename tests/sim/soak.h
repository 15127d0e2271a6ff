/*
 * Many seeds, one after the other, in several processes at once, so that crashes and hangs are
 * findings like others, and the report about them.
 */
#ifndef MEND_TESTS_SIM_SOAK_H
#define MEND_TESTS_SIM_SOAK_H

#include "tests/sim/executor.h"

enum { SOAK_MOST_FINDINGS = 16, SOAK_MOST_JOBS = 64, SOAK_STEPS = 400 };

typedef struct soak_plan {
    uint64_t first_seed;
    uint64_t seeds; /* 0: until the time is up */
    uint32_t seconds;
    uint32_t jobs;  /* processes */
    uint32_t steps; /* of a seed */
} soak_plan;

typedef struct soak_finding {
    uint64_t seed;
    trial_verdict verdict;
    size_t step;
    char text[600];
} soak_finding;

typedef struct soak_report {
    trial_tally tally; /* sums */
    uint64_t seeds;
    uint64_t finding_count; /* found. As many as there is room for are kept */
    soak_finding findings[SOAK_MOST_FINDINGS];
} soak_report;

/* False when there can be no processes. */
bool soak_run(const soak_plan *plan, soak_report *report);

/* Steps, seeds, operations by kind and by answer, faults by kind. */
void soak_print(FILE *out, const soak_report *report);

/* Runs the seed of a finding again, shrinks it, and prints it with all that is needed to repeat
 * it. */
void soak_explain(FILE *out, const soak_finding *finding, uint32_t steps);

#endif
