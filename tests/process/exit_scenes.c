/*
 * Processes that end with a pool in hand: by returning from main, with and without destroying it,
 * with threads under way, from what runs at exit, and after the driver has shut down before them.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mend/mend_frameworks.h"
#include "tests/process/linked_scenes.h"
#include "tests/process/rig.h"

static rig last; /* reachable to the end: what is still there then is no leak */

static void open_last(void)
{
    rig_open(&last);
    rig_fill(&last);
}

void scene_exits_with_live_blocks(void)
{
    open_last();
}

void scene_exits_after_destroying_pools_with_live_blocks(void)
{
    open_last();
    rig_close(&last);
    rig_try_all();
}

/* ---- the driver has shut down -------------------------------------------------------------- */

/* The pool ends as if nothing had happened, and gives the host's memory back: nothing refers to it
 * any more, which a leak checker sees. */
static void destroy_stopped(void)
{
    CHECK(mend_pool_destroy(last.pool) == MEND_OK);
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    CHECK(mend_sim_get_ledger(last.sim, &ledger) == MEND_OK);
    CHECK(ledger.violations == 0);
    mend_sim_destroy(last.sim);
    last = (rig){0};
}

static void check_stopped(void)
{
    mend_stats stats = MEND_STATS_INIT;
    CHECK(mend_get_stats(last.pool, &stats) == MEND_OK);
    CHECK(stats.reserved_bytes == stats.live_bytes + stats.free_bytes);
    CHECK(mend_validate(last.pool) == MEND_OK);
}

void scene_stops_and_exits(void)
{
    open_last();
    mend_sim_stop(last.sim);
}

/* From free memory it may go on. What needs the driver is lost with it. */
static void alloc_stopped(uint64_t size_bytes, mend_stream stream)
{
    char mark;
    void *pointer = &mark;
    mend_result result = mend_alloc(last.pool, size_bytes, stream, &pointer);
    CHECK(result == MEND_OK || result == MEND_ERROR_DEVICE_LOST);
    CHECK((result == MEND_OK) == (pointer != &mark));
    if (result == MEND_OK) {
        CHECK(mend_free(last.pool, pointer, stream) == MEND_OK);
    }
}

void scene_stops_and_allocates(void)
{
    open_last();
    mend_sim_stop(last.sim);
    for (int i = 0; i < RIG_STREAMS; i++) {
        alloc_stopped(512, last.streams[i]);
        alloc_stopped(700 << 10, last.streams[i]);
        alloc_stopped(40 << 20, last.streams[i]); /* no free memory holds as much */
    }
    alloc_stopped(4096, NULL); /* a stream the pool has not seen */
    check_stopped();
    mend_result trimmed = mend_trim(last.pool, 0, MEND_TRIM_IDLE, NULL);
    CHECK(trimmed == MEND_OK || trimmed == MEND_ERROR_DEVICE_LOST);
    CHECK(mend_graph_pool_begin(last.graph_pool, MEND_EVERY_STREAM) != MEND_ERROR_INVALID_ARGUMENT);
    alloc_stopped(4096, last.streams[0]);
    (void)mend_record_stream(last.pool, last.kept, last.streams[1]); /* no more than no crash */
    (void)mend_unregister_stream(last.pool, last.streams[1]);
    (void)mend_set_limit(last.pool, 1 << 20);
    rig_free_blocks(&last);
    CHECK(mend_free(last.pool, NULL, NULL) == MEND_OK);
    check_stopped();
    destroy_stopped();
}

/* ---- threads ------------------------------------------------------------------------------- */

enum { THREADS = 3, HELD = 8 };

typedef struct caller {
    pthread_t thread;
    mend_stream stream;
    sem_t under_way;
} caller;

static caller callers[THREADS]; /* the threads end with the process */
static atomic_bool is_stopped;

static bool is_fine(mend_result result)
{
    return result == MEND_OK || (result == MEND_ERROR_DEVICE_LOST && atomic_load(&is_stopped));
}

static void *call_for_ever(void *argument)
{
    caller *self = argument;
    void *held[HELD] = {NULL};
    for (unsigned i = 0;; i++) {
        void **block = &held[i % HELD];
        CHECK(mend_free(last.pool, *block, self->stream) == MEND_OK);
        *block = NULL;
        CHECK(is_fine(mend_alloc(last.pool, 512u << (i % 11), self->stream, block)));
        if (i % 100 == 99) {
            CHECK(is_fine(mend_trim(last.pool, 0, MEND_TRIM_IDLE, NULL)));
        }
        if (i % 50 == 49) {
            sem_post(&self->under_way);
        }
    }
    return NULL;
}

/* Each thread makes calls that begin after this one has. */
static void wait_until_all_call(void)
{
    for (int i = 0; i < THREADS; i++) {
        while (sem_trywait(&callers[i].under_way) == 0) { /* posted by earlier calls */
        }
        sem_wait(&callers[i].under_way); /* may tell of both */
        sem_wait(&callers[i].under_way);
    }
}

static void start_callers(void)
{
    open_last();
    for (int i = 0; i < THREADS; i++) {
        CHECK(mend_sim_stream_create(last.sim, NULL, &callers[i].stream) == MEND_OK);
        CHECK(sem_init(&callers[i].under_way, 0, 0) == 0);
        CHECK(pthread_create(&callers[i].thread, NULL, call_for_ever, &callers[i]) == 0);
        CHECK(pthread_detach(callers[i].thread) == 0);
    }
    wait_until_all_call();
}

void scene_exits_while_threads_call(void)
{
    start_callers();
}

void scene_stops_while_threads_call(void)
{
    start_callers();
    atomic_store(&is_stopped, true);
    mend_sim_stop(last.sim);
    wait_until_all_call();
}

static sem_t inside_the_driver;

static void stay_inside(void *context, const char *call, int is_after)
{
    (void)is_after;
    if (strcmp(call, context) == 0) {
        sem_post(&inside_the_driver);
        sem_t never;
        sem_init(&never, 0, 0);
        while (sem_wait(&never) != 0) {
        }
    }
}

static void *alloc_for_ever(void *unused)
{
    (void)unused;
    void *pointer = NULL;
    CHECK(mend_alloc(last.pool, 20 << 20, NULL, &pointer) != MEND_OK); /* never comes back */
    return NULL;
}

void scene_exits_while_a_thread_is_inside_the_driver(void)
{
    static char call[] = "set_access";
    open_last();
    CHECK(sem_init(&inside_the_driver, 0, 0) == 0);
    mend_sim_set_call_observer(last.sim, stay_inside, call);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, alloc_for_ever, NULL) == 0);
    CHECK(pthread_detach(thread) == 0);
    sem_wait(&inside_the_driver);
}

/* ---- what runs at exit --------------------------------------------------------------------- */

static void free_and_destroy(void)
{
    rig_check(&last);
    rig_free_blocks(&last);
    rig_close(&last);
    rig_try_all();
}

void scene_destroys_in_an_atexit_handler(void)
{
    open_last();
    CHECK(atexit(free_and_destroy) == 0);
}

static void free_and_destroy_stopped(void)
{
    rig_free_blocks(&last);
    check_stopped();
    destroy_stopped();
}

static void stop(void)
{
    mend_sim_stop(last.sim);
}

/* Handlers run in the opposite order: the driver, loaded later, shuts down first. */
void scene_stops_before_an_atexit_handler(void)
{
    CHECK(atexit(free_and_destroy_stopped) == 0);
    open_last();
    CHECK(atexit(stop) == 0);
}

static void (*in_destructor)(void);

__attribute__((destructor)) static void run_in_destructor(void)
{
    if (in_destructor != NULL) {
        in_destructor();
    }
}

void scene_destroys_in_a_destructor(void)
{
    open_last();
    in_destructor = free_and_destroy;
}

void scene_stops_before_a_destructor(void)
{
    open_last();
    in_destructor = free_and_destroy_stopped;
    CHECK(atexit(stop) == 0);
}
