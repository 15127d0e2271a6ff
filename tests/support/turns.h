/*
 * Real threads that take turns: one runs, all others wait. So a test uses several threads, as the
 * driver sees threads, and repeats exactly.
 */
#ifndef MEND_TESTS_SUPPORT_TURNS_H
#define MEND_TESTS_SUPPORT_TURNS_H

#include <pthread.h>
#include <stdbool.h>

enum { MOST_TURNS = 4 };

typedef void (*turns_job)(void *argument);

typedef struct turns_seat {
    pthread_t thread;
    turns_job job; /* guarded by mutex: the thread's next step. NULL when it has nothing to do */
    void *argument;
    bool ends;
    struct turn_table *table;
} turns_seat;

typedef struct turn_table {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int count;
    turns_seat seats[MOST_TURNS]; /* the first is the caller's own thread */
} turn_table;

/* Starts count - 1 threads. The caller is the first of them. */
bool turns_open(turn_table *table, int count);

/* Runs the job in a thread and returns when it is done. */
void turns_run(turn_table *table, int thread, turns_job job, void *argument);

/* Ends a thread, which is not the caller, and starts another in its seat. */
bool turns_replace(turn_table *table, int thread);

void turns_close(turn_table *table);

#endif
