/*
 * Pressure callbacks and threads: who is short of memory waits for the round of another thread;
 * who removes a callback waits for those who run it. All order comes from events.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>

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

/* While the keeper is inside, the other thread comes by and gets nothing. */
KIT_PRESSURE(stay_then_raise_the_limit)
{
    if (!pthread_equal(pthread_self(), shared.keeper)) {
        return 0;
    }
    sem_post(&shared.inside);
    sem_wait(&shared.go_on);
    /* Waits for the right to make room, and so for the end of the other thread's search. */
    EXPECT_OK(mend_set_limit(pool, 8 * MEND_MIB));
    return 1;
}

/* The other thread's search has failed when it asks what the device has left. */
static void go_on_when_asked(KIT_UNUSED void *context, const char *call, int is_after)
{
    if (is_after && strcmp(call, "memory_info") == 0) {
        sem_post(&shared.go_on);
    }
}

STAGE_TEST(pool_rounds, out_of_memory_is_not_answered_while_another_thread_is_in_its_callbacks)
{
    EXPECT_OK(mend_add_pressure_callback(shared.w.pool, stay_then_raise_the_limit, &shared));
    begin_keeper();
    mend_sim_set_call_observer(shared.w.sim, go_on_when_asked, NULL);
    EXPECT_INVALID(mend_trim(NULL, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_OK(allocate());
    kit_expect_error(MEND_ERROR_INVALID_ARGUMENT);
    pthread_join(shared.thread, NULL);
    EXPECT_OK(shared.result);
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

KIT_PRESSURE(stay)
{
    sem_post(&shared.inside);
    sem_wait(&shared.go_on);
    return 0;
}

STAGE_TEST(pool_rounds, what_is_removed_between_two_callbacks_is_not_called)
{
    mend_pool *pool = shared.w.pool;
    int calls[2] = {0, 0};
    EXPECT_OK(mend_add_pressure_callback(pool, kit_count_pressure, &calls[0]));
    EXPECT_OK(mend_add_pressure_callback(pool, stay, NULL));
    EXPECT_OK(mend_add_pressure_callback(pool, kit_count_pressure, &calls[1]));
    begin_keeper();
    EXPECT_OK(mend_remove_pressure_callback(pool, kit_count_pressure, &calls[0]));
    EXPECT_OK(mend_remove_pressure_callback(pool, kit_count_pressure, &calls[1]));
    sem_post(&shared.go_on);
    pthread_join(shared.thread, NULL);
    EXPECT_INT_EQ(1, calls[0]);
    EXPECT_INT_EQ(0, calls[1]);
}

static pthread_barrier_t both;

KIT_PRESSURE(meet)
{
    pthread_barrier_wait(&both);
    kit_stats(pool);
    return 1;
}

STAGE_TEST(pool_rounds, several_threads_may_be_in_one_callback)
{
    pthread_t other;
    pthread_barrier_init(&both, NULL, 2);
    EXPECT_OK(mend_add_pressure_callback(shared.w.pool, meet, NULL));
    ASSERT_INT_EQ(0, pthread_create(&other, NULL, allocate_as_keeper, NULL));
    EXPECT_ERROR(OUT_OF_MEMORY, allocate());
    pthread_join(other, NULL);
    EXPECT_ERROR(OUT_OF_MEMORY, shared.result);
    EXPECT_STATS(&shared.w, pressure_calls, 2, out_of_memory, 2);
    pthread_barrier_destroy(&both);
}

static int calls_of_leaver;

static void *allocate_as_other(void *unused)
{
    EXPECT_ERROR(OUT_OF_MEMORY, allocate());
    return unused;
}

/* Removes itself, and stays until the other's round has come past it. */
KIT_PRESSURE(leave)
{
    calls_of_leaver++;
    EXPECT_OK(mend_remove_pressure_callback(pool, leave, context));
    EXPECT_INT_EQ(0, pthread_create(context, NULL, allocate_as_other, NULL));
    sem_wait(&shared.inside);
    return 0;
}

/* The next one. */
KIT_PRESSURE(let_it_go)
{
    sem_post(&shared.inside);
    return 0;
}

STAGE_TEST(pool_rounds, one_that_was_removed_is_passed_by_though_a_thread_is_in_it)
{
    pthread_t other;
    mend_pool *pool = shared.w.pool;
    calls_of_leaver = 0;
    ASSERT_RESULT(MEND_OK, mend_add_pressure_callback(pool, leave, &other));
    ASSERT_RESULT(MEND_OK, mend_add_pressure_callback(pool, let_it_go, NULL));
    EXPECT_ERROR(OUT_OF_MEMORY, allocate());
    pthread_join(other, NULL);
    EXPECT_INT_EQ(1, calls_of_leaver);
    EXPECT_INVALID(mend_remove_pressure_callback(pool, leave, &other));
    EXPECT_OK(mend_remove_pressure_callback(pool, let_it_go, NULL));
}
