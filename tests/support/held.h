/*
 * A thread that is held inside one driver call of its choice while others go on. Ordered by events:
 * no test waits for time to pass.
 */
#ifndef MEND_TESTS_SUPPORT_HELD_H
#define MEND_TESTS_SUPPORT_HELD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mend/mend_sim.h"

typedef struct mend_held {
    mend_sim *sim;
    void (*act)(void *argument);
    void *argument;
    uint64_t position; /* number of the call it is held in, from 1, among slow calls */
    uint64_t calls;    /* such calls it has begun */
    char call[32];     /* the one it is held in */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t self; /* the rest is guarded by mutex */
    bool is_inside;
    bool may_go_on; /* and no other thread waits for it */
    bool is_done;
} mend_held;

/* Starts a thread that does `act`. Returns when it is inside its call number `position`, or, with
 * false, when it has ended without. The device's observer is taken until mend_held_end. */
bool mend_held_begin(mend_held *held, mend_sim *sim, uint64_t position, void (*act)(void *argument),
                     void *argument);

/* Lets it go on, and waits for its end. */
void mend_held_let_go(mend_held *held);

/* The same, and gives the observer back: no other thread is inside a call any more. */
void mend_held_end(mend_held *held);

#endif
