/*
 * Pressure callbacks and threads: who is short of memory waits for the round of another thread;
 * who removes a callback waits for those who run it. All order comes from events.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>

#include "tests/support/kit.h"
#include "tests/support/threads.h"

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
static int stay_then_raise_the_limit(void *context, mend_pool *pool, uint64_t needed_bytes,
                                     uint64_t missing_bytes)
{
    (void)missing_bytes;
    (void)context;
    (void)needed_bytes;
    if (!pthread_equal(pthread_self(), shared.keeper)) {
        return 0;
    }
    sem_post(&shared.inside);
    sem_wait(&shared.go_on);
    /* Waits for the right to make room, and so for the end of the other thread's search. */
    EXPECT_RESULT(MEND_OK, mend_set_limit(pool, 8 * MEND_MIB));
    return 1;
}

/* The other thread's search has failed when it asks what the device has left. */
static void go_on_when_asked(void *context, const char *call, int is_after)
{
    (void)context;
    if (is_after && strcmp(call, "memory_info") == 0) {
        sem_post(&shared.go_on);
    }
}

MEND_TEST(pool_rounds, out_of_memory_is_not_answered_while_another_thread_is_in_its_callbacks)
{
    ASSERT_TRUE(open_stage());
    EXPECT_RESULT(MEND_OK,
                  mend_add_pressure_callback(shared.w.pool, stay_then_raise_the_limit, &shared));
    begin_keeper();
    mend_sim_set_call_observer(shared.w.sim, go_on_when_asked, NULL);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trim(NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, allocate());
    kit_expect_error(MEND_ERROR_INVALID_ARGUMENT);
    pthread_join(shared.thread, NULL);
    EXPECT_RESULT(MEND_OK, shared.result);
    close_stage();
}

/* The keeper stays until its callback, being removed, could be added again: the remover waits. */
static int stay_until_removed(void *context, mend_pool *pool, uint64_t needed_bytes,
                              uint64_t missing_bytes)
{
    (void)missing_bytes;
    (void)needed_bytes;
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

MEND_TEST(pool_rounds, removing_a_callback_waits_for_those_who_run_it)
{
    ASSERT_TRUE(open_stage());
    mend_pool *pool = shared.w.pool;
    EXPECT_RESULT(MEND_OK, mend_add_pressure_callback(pool, stay_until_removed, &shared));
    begin_keeper();
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(pool, stay_until_removed, &shared));
    sem_post(&shared.over);
    pthread_join(shared.thread, NULL);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, shared.result);
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(pool, stay_until_removed, &shared));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_remove_pressure_callback(pool, stay_until_removed, &shared));
    close_stage();
}

static int stay(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    (void)missing_bytes;
    (void)context;
    (void)pool;
    (void)needed_bytes;
    sem_post(&shared.inside);
    sem_wait(&shared.go_on);
    return 0;
}

MEND_TEST(pool_rounds, what_is_removed_between_two_callbacks_is_not_called)
{
    ASSERT_TRUE(open_stage());
    mend_pool *pool = shared.w.pool;
    int calls[2] = {0, 0};
    EXPECT_RESULT(MEND_OK, mend_add_pressure_callback(pool, kit_count_pressure, &calls[0]));
    EXPECT_RESULT(MEND_OK, mend_add_pressure_callback(pool, stay, NULL));
    EXPECT_RESULT(MEND_OK, mend_add_pressure_callback(pool, kit_count_pressure, &calls[1]));
    begin_keeper();
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(pool, kit_count_pressure, &calls[0]));
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(pool, kit_count_pressure, &calls[1]));
    sem_post(&shared.go_on);
    pthread_join(shared.thread, NULL);
    EXPECT_INT_EQ(1, calls[0]);
    EXPECT_INT_EQ(0, calls[1]);
    close_stage();
}

static pthread_barrier_t both;

static int meet(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    (void)missing_bytes;
    (void)context;
    (void)needed_bytes;
    pthread_barrier_wait(&both);
    kit_stats(pool);
    return 1;
}

MEND_TEST(pool_rounds, several_threads_may_be_in_one_callback)
{
    ASSERT_TRUE(open_stage());
    pthread_t other;
    pthread_barrier_init(&both, NULL, 2);
    EXPECT_RESULT(MEND_OK, mend_add_pressure_callback(shared.w.pool, meet, NULL));
    ASSERT_INT_EQ(0, pthread_create(&other, NULL, allocate_as_keeper, NULL));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, allocate());
    pthread_join(other, NULL);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, shared.result);
    EXPECT_U64_EQ(2, mend_world_stats(&shared.w).pressure_calls);
    EXPECT_U64_EQ(2, mend_world_stats(&shared.w).out_of_memory);
    pthread_barrier_destroy(&both);
    close_stage();
}

enum { CROWD = 4, ROUNDS = 60 };

typedef struct member {
    uint64_t seed;
    mend_stream stream;
    void *kept; /* freed under pressure, by the thread that is pressed */
} member;

static member crowd[CROWD];
static pthread_mutex_t crowd_mutex = PTHREAD_MUTEX_INITIALIZER; /* of `kept` */

static void *exchange_kept(member *m, void *pointer)
{
    pthread_mutex_lock(&crowd_mutex);
    void *before = m->kept;
    m->kept = pointer;
    pthread_mutex_unlock(&crowd_mutex);
    return before;
}

static int free_kept(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    (void)missing_bytes;
    member *m = context;
    void *pointer = exchange_kept(m, NULL);
    (void)needed_bytes;
    EXPECT_RESULT(MEND_OK, mend_free(pool, pointer, m->stream));
    return pointer != NULL;
}

static void *press(void *argument)
{
    member *m = argument;
    mend_pool *pool = shared.w.pool;
    mend_test_random random;
    mend_test_random_init(&random, m->seed);
    for (int i = 0; i < ROUNDS; i++) {
        mend_result added = mend_add_pressure_callback(pool, free_kept, m);
        void *pointer = NULL;
        uint64_t size_bytes = 512 * (1 + mend_test_random_below(&random, 4096));
        mend_result result = mend_alloc(pool, size_bytes, m->stream, &pointer);
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
        EXPECT_RESULT(MEND_OK, mend_free(pool, exchange_kept(m, pointer), m->stream));
        if (mend_test_random_below(&random, 4) == 0) {
            EXPECT_RESULT(MEND_OK, mend_set_limit(pool, MEND_MIB * (2 + (uint64_t)i % 4)));
        }
        if (mend_test_random_below(&random, 2) == 0 && i + 1 < ROUNDS) {
            continue;
        }
        EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(pool, free_kept, m));
        EXPECT_TRUE(added == MEND_OK || added == MEND_ERROR_INVALID_ARGUMENT);
    }
    return NULL;
}

MEND_TEST(pool_rounds, a_crowd_under_pressure_loses_nothing)
{
    ASSERT_TRUE(open_stage());
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = (member){.seed = mend_test_seed() + (uint64_t)i};
        ASSERT_RESULT(MEND_OK, mend_sim_stream_create(shared.w.sim, &crowd[i].stream));
    }
    EXPECT_RESULT(MEND_OK, mend_set_limit(shared.w.pool, 5 * MEND_MIB));
    mend_test_run_threads(press, crowd, CROWD);
    for (int i = 0; i < CROWD; i++) {
        kit_free(&shared.w, crowd[i].kept, crowd[i].stream);
        EXPECT_RESULT(MEND_OK, mend_forget_stream(shared.w.pool, crowd[i].stream));
        mend_sim_stream_destroy(shared.w.sim, crowd[i].stream);
    }
    EXPECT_U64_EQ(1, mend_world_stats(&shared.w).live_blocks);
    close_stage();
}

static int calls_of_leaver;

static void *allocate_as_other(void *unused)
{
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, allocate());
    return unused;
}

/* Removes itself, and stays until the other's round has come past it. */
static int leave(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    (void)missing_bytes;
    (void)needed_bytes;
    calls_of_leaver++;
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(pool, leave, context));
    EXPECT_INT_EQ(0, pthread_create(context, NULL, allocate_as_other, NULL));
    sem_wait(&shared.inside);
    return 0;
}

/* The next one. */
static int let_it_go(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    (void)missing_bytes;
    (void)context;
    (void)pool;
    (void)needed_bytes;
    sem_post(&shared.inside);
    return 0;
}

MEND_TEST(pool_rounds, one_that_was_removed_is_passed_by_though_a_thread_is_in_it)
{
    pthread_t other;
    ASSERT_TRUE(open_stage());
    mend_pool *pool = shared.w.pool;
    calls_of_leaver = 0;
    ASSERT_RESULT(MEND_OK, mend_add_pressure_callback(pool, leave, &other));
    ASSERT_RESULT(MEND_OK, mend_add_pressure_callback(pool, let_it_go, NULL));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, allocate());
    pthread_join(other, NULL);
    EXPECT_INT_EQ(1, calls_of_leaver);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_remove_pressure_callback(pool, leave, &other));
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(pool, let_it_go, NULL));
    close_stage();
}
