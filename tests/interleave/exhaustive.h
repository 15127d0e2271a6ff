/*
 * All schedules of small programs: every choice at every point, as long as no more than so many of
 * them preempt a thread that could go on. Most errors of threads need one or two.
 */
#ifndef MEND_TESTS_INTERLEAVE_EXHAUSTIVE_H
#define MEND_TESTS_INTERLEAVE_EXHAUSTIVE_H

#include "tests/interleave/program.h"

typedef struct exhaustive_report {
    uint64_t schedules;
    uint64_t points;
    bool is_complete; /* no schedule was left out */
} exhaustive_report;

/* Up to `most` schedules. False when one finds something, which is printed on stderr. */
bool exhaustive_search(const program *p, const char *name, int preemptions, uint64_t most,
                       exhaustive_report *report);

/* The small programs that are searched. */
int exhaustive_count(void);
const char *exhaustive_name(int number);
const program *exhaustive_program(int number);

#endif
