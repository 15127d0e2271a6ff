/*
 * Pressure callbacks and threads: the removal of a callback waits for threads that run it. All
 * order comes from events.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "tests/support/kit.h"

/* A thread whose callback stays until it has been removed. */
typedef struct keeper {
    mend_pool *pool;
    sem_t inside;
    sem_t over;
} keeper;

static void *allocate(void *argument)
{
    void *pointer;
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(((keeper *)argument)->pool, MEND_MIB, NULL, &pointer));
    return NULL;
}

/* Stays until it could be added again: the remover waits meanwhile. */
KIT_PRESSURE(stay_until_removed)
{
    keeper *k = context;
    sem_post(&k->inside);
    while (mend_add_pressure_callback(pool, stay_until_removed, context) != MEND_OK) {
        sched_yield();
    }
    for (int i = 0; i < 100; i++) {
        sched_yield();
        EXPECT_INT_EQ(-1, sem_trywait(&k->over));
    }
    return 0;
}

KIT_SET_TEST(pool_rounds, removing_a_callback_waits_for_those_who_run_it,
             w->pool_config.limit_bytes = 4 * MEND_MIB)
{
    pthread_t thread;
    keeper k = {.pool = w->pool};
    kit_alloc(w, 4 * MEND_MIB, NULL);
    sem_init(&k.inside, 0, 0);
    sem_init(&k.over, 0, 0);
    EXPECT_OK(mend_add_pressure_callback(w->pool, stay_until_removed, &k));
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, allocate, &k));
    sem_wait(&k.inside);
    EXPECT_OK(mend_remove_pressure_callback(w->pool, stay_until_removed, &k));
    sem_post(&k.over);
    pthread_join(thread, NULL);
    EXPECT_OK(mend_remove_pressure_callback(w->pool, stay_until_removed, &k));
    EXPECT_INVALID(mend_remove_pressure_callback(w->pool, stay_until_removed, &k));
    sem_destroy(&k.inside);
    sem_destroy(&k.over);
}
