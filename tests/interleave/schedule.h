/*
 * A cooperative scheduler for tests. The threads are real, but only one runs at a time, and only at
 * a *point* another may go on in its place: before a lock is taken, after it is let go, at a
 * try_lock, when a condition is waited for or woken, and before and after each driver call. A plan
 * decides which thread goes on, so that a plan repeats the run.
 *
 * Locks of the rank of the driver and inside of it are held shortly and never at a point. They are
 * none themselves. A thread that no schedule started (the test's own) uses plain locks.
 */
#ifndef MEND_TESTS_INTERLEAVE_SCHEDULE_H
#define MEND_TESTS_INTERLEAVE_SCHEDULE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/support/test.h"

enum { SCHEDULE_THREADS = 4, SCHEDULE_CHANGES = 4, SCHEDULE_DECISIONS = 1 << 14 };

typedef enum schedule_policy {
    /* At each point the thread goes on with a chance of stay / 16, else any does. */
    SCHEDULE_RANDOM,
    /* Probabilistic concurrency testing: the threads have priorities, drawn once, and the first
     * that can go on does. At each of a few points, drawn among the first `horizon`, the running
     * thread falls behind all others. A bug that takes d orderings is found with a chance of at
     * least 1 / (threads * horizon^(d-1)), where d - 1 is the number of changes. */
    SCHEDULE_PRIORITIES,
    /* The choices of a prefix, one for each decision. Then no thread is preempted. */
    SCHEDULE_PREFIX
} schedule_policy;

typedef struct schedule_plan {
    schedule_policy policy;
    uint64_t seed;       /* RANDOM, PRIORITIES: of all choices */
    uint32_t stay;       /* RANDOM: 0 to 15 */
    uint32_t changes;    /* PRIORITIES: up to SCHEDULE_CHANGES */
    uint32_t horizon;    /* PRIORITIES: in points, not 0 */
    bool wakes_for_none; /* RANDOM, PRIORITIES: waits end at times without a wake */
    const uint8_t *prefix;
    size_t prefix_count;
} schedule_plan;

/* One choice among several threads that could go on. Choice 0 is the thread that runs, where it can
 * go on, and the others follow by number. */
typedef struct schedule_decision {
    uint8_t choices;
    uint8_t chosen;
    bool preempts; /* any choice but 0 would preempt the thread that runs */
} schedule_decision;

typedef struct schedule_thread {
    void (*run)(void *context);
    void *context;
} schedule_thread;

typedef struct schedule_outcome {
    uint64_t points;
    uint64_t switches;
    uint64_t hash;         /* of the thread that went on at each point, and its place */
    size_t decision_count; /* those beyond SCHEDULE_DECISIONS are counted, not kept */
    schedule_decision decisions[SCHEDULE_DECISIONS];
} schedule_outcome;

typedef struct schedule {
    schedule_plan plan;
    void (*watch)(void *context, int thread); /* at each point, by the thread that comes to it */
    void *watch_context;
    FILE *trace;        /* a line for each point, or NULL */
    const char *banner; /* how to repeat the run. Printed when it cannot go on */
} schedule;

/* Runs up to SCHEDULE_THREADS threads until all have ended. When none can go on, or there is no end
 * in sight, prints all held locks and waits, and aborts. */
void schedule_run(const schedule *s, const schedule_thread *threads, int count,
                  schedule_outcome *outcome);

/* A point of the test's own, named in words that live as long as the run. */
void schedule_point(const char *what, const char *which);

/* The number of the calling thread in its schedule. -1 outside. */
int schedule_self(void);

/* A thread of the schedule holds the mutex. For a watch. */
bool schedule_is_held(const pthread_mutex_t *mutex);

#endif
