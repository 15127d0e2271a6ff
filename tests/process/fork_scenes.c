/* Processes that fork with a pool in hand. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tests/process/linked_scenes.h"
#include "tests/process/refused.h"

static rig parent; /* of the process that forks. Where a child of it forks, its own is local */

static void open_parent(void)
{
    rig_open(&parent);
    rig_fill(&parent);
}

static void close_parent(void)
{
    rig_check(&parent);
    rig_free_blocks(&parent);
    rig_check(&parent);
    rig_close(&parent);
}

static void refuse_parent_and_try_all(void)
{
    refused_check(&parent);
    rig_try_all();
    refused_check(&parent);
}

void scene_parent_goes_on_unharmed(void)
{
    open_parent();
    for (int i = 0; i < 3; i++) {
        scene_in_a_child(refuse_parent_and_try_all);
        rig_check(&parent);
        rig_free_blocks(&parent);
        rig_fill(&parent);
    }
    close_parent();
}

static rig of_child;

static void refuse_both(void)
{
    refused_check(&of_child);
    refused_check(&parent);
    rig_try_all();
}

static void make_one_and_fork(void)
{
    rig_open(&of_child);
    rig_fill(&of_child);
    scene_in_a_child(refuse_both);
    rig_check(&of_child);
    rig_close(&of_child);
}

void scene_grandchild_refuses_what_its_parent_made(void)
{
    open_parent();
    scene_in_a_child(make_one_and_fork);
    close_parent();
}

/* ---- log ----------------------------------------------------------------------------------- */

static int lines;

static void count_line(void *context, mend_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
    lines++;
}

static void hear_nothing_of_the_parent_s(void)
{
    lines = 0;
    rig_try_all();
    CHECK(lines == 0);
    mend_log_set_sink(count_line, NULL);
    rig_try_all();
    CHECK(lines > 0);
}

void scene_child_is_silent(void)
{
    mend_log_set_sink(count_line, NULL);
    open_parent();
    CHECK(lines > 0);
    scene_in_a_child(hear_nothing_of_the_parent_s);
    lines = 0;
    rig_try_all();
    CHECK(lines > 0);
    close_parent();
}

/* ---- pressure ------------------------------------------------------------------------------ */

static int presses;

static int fork_once(void *context, mend_pool *pool, uint64_t needed_bytes)
{
    (void)context;
    (void)pool;
    (void)needed_bytes;
    presses++;
    scene_in_a_child(refuse_parent_and_try_all);
    return 0;
}

void scene_forks_inside_a_pressure_callback(void)
{
    open_parent();
    CHECK(mend_add_pressure_callback(parent.pool, fork_once, NULL) == MEND_OK);
    void *pointer = NULL;
    CHECK(mend_alloc(parent.pool, UINT64_C(1) << 40, parent.streams[0], &pointer) ==
          MEND_ERROR_OUT_OF_MEMORY);
    CHECK(presses > 0);
    CHECK(mend_remove_pressure_callback(parent.pool, fork_once, NULL) == MEND_OK);
    close_parent();
}

/* ---- threads ------------------------------------------------------------------------------- */

enum { THREADS = 3, FORKS = 30, HELD = 8 };

typedef struct hammer {
    pthread_t thread;
    mend_stream stream;
    sem_t under_way;
    atomic_bool *goes_on;
} hammer;

static void *hammer_the_pool(void *argument)
{
    hammer *self = argument;
    void *held[HELD] = {NULL};
    for (unsigned i = 0; atomic_load(self->goes_on); i++) {
        void **block = &held[i % HELD];
        CHECK(mend_free(parent.pool, *block, self->stream) == MEND_OK);
        *block = NULL;
        CHECK(mend_alloc(parent.pool, 512u << (i % 11), self->stream, block) == MEND_OK);
        if (i % 100 == 99) {
            CHECK(mend_trim(parent.pool, 0, MEND_TRIM_IDLE, NULL) == MEND_OK);
        }
        if (i == 2 * HELD) {
            sem_post(&self->under_way);
        }
    }
    for (int i = 0; i < HELD; i++) {
        CHECK(mend_free(parent.pool, held[i], self->stream) == MEND_OK);
    }
    return NULL;
}

void scene_forks_while_threads_hammer_the_pool(void)
{
    open_parent();
    atomic_bool goes_on = true;
    hammer hammers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        hammers[i].goes_on = &goes_on;
        CHECK(mend_sim_stream_create(parent.sim, NULL, &hammers[i].stream) == MEND_OK);
        CHECK(sem_init(&hammers[i].under_way, 0, 0) == 0);
        CHECK(pthread_create(&hammers[i].thread, NULL, hammer_the_pool, &hammers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        sem_wait(&hammers[i].under_way);
    }
    for (int i = 0; i < FORKS; i++) {
        scene_in_a_child_of_threads(refuse_parent_and_try_all);
    }
    atomic_store(&goes_on, false);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(hammers[i].thread, NULL);
        sem_destroy(&hammers[i].under_way);
    }
    close_parent();
}

/* A thread that stops before its n-th driver call, whatever locks it holds there. */
typedef struct stopper {
    pthread_t thread;
    unsigned calls_left; /* until it stops. The stopped thread's own */
    bool has_ended;      /* without a stop */
    sem_t stopped;
    sem_t may_go_on;
} stopper;

static void stop_at_the_call(void *context, const char *call, int is_after)
{
    (void)call;
    stopper *self = context;
    if (is_after || !pthread_equal(self->thread, pthread_self()) || self->calls_left == 0) {
        return;
    }
    self->calls_left--;
    if (self->calls_left == 0) {
        sem_post(&self->stopped);
        sem_wait(&self->may_go_on);
    }
}

/* Meets driver calls of every kind that a pool makes. */
static void *use_the_pool(void *argument)
{
    stopper *self = argument;
    self->thread = pthread_self();
    mend_sim_set_call_observer(parent.sim, stop_at_the_call, self);
    rig_free_blocks(&parent);
    rig_fill(&parent);
    rig_free_blocks(&parent);
    CHECK(mend_trim(parent.pool, 0, MEND_TRIM_IDLE, NULL) == MEND_OK);
    rig_fill(&parent);
    CHECK(mend_unregister_stream(parent.pool, parent.streams[1]) == MEND_OK);
    void *pointer = NULL;
    CHECK(mend_alloc(parent.pool, 20 << 20, NULL, &pointer) == MEND_OK);
    CHECK(mend_free(parent.pool, pointer, MEND_NO_STREAM) == MEND_OK);
    CHECK(mend_alloc(parent.pool, UINT64_C(1) << 40, NULL, &pointer) == MEND_ERROR_OUT_OF_MEMORY);
    CHECK(mend_trim(parent.pool, 0, MEND_TRIM_IDLE, NULL) == MEND_OK);
    mend_sim_set_call_observer(parent.sim, NULL, NULL);
    self->has_ended = self->calls_left > 0;
    sem_post(&self->stopped);
    return NULL;
}

static void refuse_parent_and_open_another(void)
{
    refused_check(&parent);
    rig own;
    rig_open(&own);
    rig_close(&own);
}

/* Whether the thread got as far as its n-th driver call. The work of the call before has ended: the
 * pool waits for none of it, and would ask about more and more. */
static bool forks_at_call(unsigned number)
{
    mend_sim_advance(parent.sim, 1000000);
    stopper self = {.calls_left = number};
    CHECK(sem_init(&self.stopped, 0, 0) == 0);
    CHECK(sem_init(&self.may_go_on, 0, 0) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_the_pool, &self) == 0);
    sem_wait(&self.stopped);
    bool has_stopped = !self.has_ended;
    if (has_stopped) {
        scene_in_a_child_of_threads(refuse_parent_and_open_another);
        sem_post(&self.may_go_on);
    }
    pthread_join(thread, NULL);
    sem_destroy(&self.stopped);
    sem_destroy(&self.may_go_on);
    return has_stopped;
}

/* A fork under a sanitizer takes a second: there, each seventh call. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CALLS_APART = 7 };
#else
enum { CALLS_APART = 1 };
#endif

void scene_forks_at_each_driver_call_of_another_thread(void)
{
    open_parent();
    unsigned number = 1;
    while (forks_at_call(number)) {
        number += CALLS_APART;
    }
    CHECK(number > 200);
    close_parent();
}
