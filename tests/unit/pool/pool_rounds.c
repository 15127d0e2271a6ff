/*
 * Pressure callbacks and threads: who removes a callback waits for those who run it. All order
 * comes from events.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "tests/support/kit.h"

/* A full pool of 4 MiB, and a callback in which the first thread that comes stays until it may go.
 */
typedef struct stage {
    mend_world w;
    pthread_t thread; /* that stays; `keeper` is the same, as it sees itself */
    pthread_t keeper;
    sem_t inside;
    sem_t go_on;
    sem_t over;
    mend_result result;
} stage;

static stage shared;

static bool open_stage(void)
{
    shared = (stage){.result = MEND_OK};
    mend_world_init(&shared.w);
    shared.w.pool_config.limit_bytes = 4 * MEND_MIB;
    sem_init(&shared.inside, 0, 0);
    sem_init(&shared.go_on, 0, 0);
    sem_init(&shared.over, 0, 0);
    return kit_open(&shared.w) && kit_alloc(&shared.w, 4 * MEND_MIB, NULL) != NULL;
}

static void close_stage(void)
{
    kit_close(&shared.w);
    sem_destroy(&shared.inside);
    sem_destroy(&shared.go_on);
    sem_destroy(&shared.over);
}

#define STAGE_TEST(suite, name) KIT_BARE_TEST(suite, name, stage, open_stage(), close_stage())

static mend_result allocate(void)
{
    void *pointer;
    return mend_alloc(shared.w.pool, MEND_MIB, NULL, &pointer);
}

static void *allocate_as_keeper(void *unused)
{
    shared.keeper = pthread_self();
    shared.result = allocate();
    return unused;
}

/* Returns when it is in its callback. */
static void begin_keeper(void)
{
    ASSERT_INT_EQ(0, pthread_create(&shared.thread, NULL, allocate_as_keeper, NULL));
    sem_wait(&shared.inside);
}

/* The keeper stays until its callback, being removed, could be added again: the remover waits. */
KIT_PRESSURE(stay_until_removed)
{
    sem_post(&shared.inside);
    while (mend_add_pressure_callback(pool, stay_until_removed, context) != MEND_OK) {
        sched_yield();
    }
    for (int i = 0; i < 100; i++) {
        sched_yield();
        EXPECT_INT_EQ(-1, sem_trywait(&shared.over));
    }
    return 0;
}

STAGE_TEST(pool_rounds, removing_a_callback_waits_for_those_who_run_it)
{
    mend_pool *pool = shared.w.pool;
    EXPECT_OK(mend_add_pressure_callback(pool, stay_until_removed, &shared));
    begin_keeper();
    EXPECT_OK(mend_remove_pressure_callback(pool, stay_until_removed, &shared));
    sem_post(&shared.over);
    pthread_join(shared.thread, NULL);
    EXPECT_ERROR(OUT_OF_MEMORY, shared.result);
    EXPECT_OK(mend_remove_pressure_callback(pool, stay_until_removed, &shared));
    EXPECT_INVALID(mend_remove_pressure_callback(pool, stay_until_removed, &shared));
}
