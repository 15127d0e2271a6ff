/*
 * Pressure callbacks: called in order, until there is memory, before a CPU stall. Without a lock,
 * so that they may use the pool freely.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>

#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "tests/support/kit.h"
#include "tests/support/threads.h"

enum { BLOCKS = 4 };

/* A pool that is full of four blocks of a MiB, and the calls of its callbacks. */
typedef struct scene {
    mend_world w;
    void *blocks[BLOCKS];
    char calls[32]; /* the letters of those called */
    uint64_t needed_bytes;
} scene;

typedef struct helper {
    scene *s;
    char letter;
    int frees; /* so many blocks at each call */
    int answer;
    void (*also)(struct helper *h); /* NULL: nothing */
    struct helper *other;
} helper;

static void free_one(scene *s)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (s->blocks[i] != NULL) {
            kit_free(&s->w, s->blocks[i], NULL);
            s->blocks[i] = NULL;
            return;
        }
    }
}

KIT_PRESSURE(help)
{
    helper *h = context;
    size_t used = strlen(h->s->calls);
    EXPECT_TRUE(used + 1 < sizeof(h->s->calls));
    if (used + 1 < sizeof(h->s->calls)) {
        h->s->calls[used] = h->letter;
    }
    EXPECT_PTR_EQ(h->s->w.pool, pool);
    h->s->needed_bytes = needed_bytes;
    for (int i = 0; i < h->frees; i++) {
        free_one(h->s);
    }
    if (h->also != NULL) {
        h->also(h);
    }
    return h->answer;
}

static mend_result add(helper *h)
{
    return mend_add_pressure_callback(h->s->w.pool, help, h);
}

static mend_result drop(helper *h)
{
    return mend_remove_pressure_callback(h->s->w.pool, help, h);
}

static bool open_full(scene *s)
{
    *s = (scene){.needed_bytes = 0};
    mend_world_init(&s->w);
    s->w.pool_config.limit_bytes = BLOCKS * MEND_MIB;
    if (!kit_open(&s->w)) {
        return false;
    }
    kit_alloc_row(&s->w, s->blocks, BLOCKS, MEND_MIB, NULL);
    return !mend_test_has_failed();
}

static mend_result allocate(scene *s, uint64_t size_bytes)
{
    void *pointer;
    return mend_alloc(s->w.pool, size_bytes, NULL, &pointer);
}

/* A request of a MiB ends so, after these callbacks were asked, all since the pool was full. */
static void expect_calls(scene *s, mend_result expected, const char *calls)
{
    EXPECT_RESULT(expected, allocate(s, MEND_MIB));
    EXPECT_STR_EQ(calls, s->calls);
}

#define SCENE_TEST(suite, name) KIT_RIG_TEST(suite, name, scene, open_full(r), kit_close(&r->w))

static void add_other(helper *h)
{
    EXPECT_OK(add(h->other));
}

static void add_itself_again(helper *h)
{
    EXPECT_INVALID(add(h));
    EXPECT_OK(drop(h));
    EXPECT_OK(add(h));
}

SCENE_TEST(pool_pressure, one_that_is_added_in_a_callback_is_asked_from_the_next_time_on)
{
    helper b = {.s = r, .letter = 'b', .frees = 1, .answer = 1};
    helper a = {.s = r, .letter = 'a', .also = add_other, .other = &b};
    EXPECT_OK(add(&a));
    EXPECT_ERROR(OUT_OF_MEMORY, allocate(r, MEND_MIB));
    a.also = NULL;
    expect_calls(r, MEND_OK, "aab");
}

SCENE_TEST(pool_pressure, one_that_adds_itself_again_does_not_go_round_for_ever)
{
    helper a = {.s = r, .letter = 'a', .answer = 1, .also = add_itself_again};
    EXPECT_OK(add(&a));
    EXPECT_ERROR(OUT_OF_MEMORY, allocate(r, MEND_MIB));
    expect_calls(r, MEND_ERROR_OUT_OF_MEMORY, "aa");
}

static void *allocate_too(void *argument)
{
    EXPECT_ERROR(OUT_OF_MEMORY, allocate(argument, MEND_MIB));
    return NULL;
}

static void ask_again_and_end(helper *h)
{
    if (strlen(h->s->calls) == 1) {
        allocate_too(h->s);
        EXPECT_OK(drop(h));
        mend_test_run_thread(allocate_too, h->s);
    }
}

SCENE_TEST(pool_pressure,
           one_that_runs_is_asked_by_no_request_of_its_own_and_none_once_it_is_removed)
{
    helper a = {.s = r, .letter = 'a', .also = ask_again_and_end};
    EXPECT_OK(add(&a));
    expect_calls(r, MEND_ERROR_OUT_OF_MEMORY, "a");
}

static void *break_context(void *world)
{
    kit_break(world, NULL);
    EXPECT_TRUE(mend_trim(((mend_world *)world)->pool, 0, MEND_TRIM_WAIT, NULL) != MEND_OK);
    return NULL;
}

/* Another thread knows of it. */
KIT_PRESSURE(lose_context)
{
    mend_test_run_thread(break_context, context);
    return 1;
}

KIT_RIG_EACH(pool_pressure, a_context_that_is_lost_meanwhile_fails_the_call, int, wakes, 2,
             mend_world, w, kit_open_set(w, w->pool_config.limit_bytes = MEND_MIB),
             mend_sim_destroy(w->sim))
{
    void *none = NULL;
    kit_alloc(w, MEND_MIB, NULL);
    if (wakes) {
        EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
        kit_alloc(w, MEND_MIB, NULL);
    }
    EXPECT_OK(mend_add_pressure_callback(w->pool, lose_context, w));
    EXPECT_ERROR(DEVICE_LOST, wakes ? mend_wake(w->pool, NULL, 0, NULL)
                                    : mend_alloc(w->pool, MEND_MIB, NULL, &none));
    (void)mend_pool_destroy(w->pool);
}

/* The callback of one pool frees memory of another one, on the full device, and may leave it
 * there. */
typedef struct lender {
    mend_pool *pool;
    void *block;
    bool trims;
} lender;

KIT_PRESSURE(lend)
{
    lender *l = context;
    uint64_t released = 0;
    EXPECT_OK(mend_free(l->pool, l->block, NULL));
    if (l->trims) {
        EXPECT_OK(mend_trim(l->pool, 0, MEND_TRIM_IDLE, &released));
        EXPECT_U64_EQ(needed_bytes, released);
    }
    l->block = NULL;
    return 1;
}

KIT_TEST_IN(pool_pressure, a_callback_may_free_memory_of_another_pool,
            kit_open_with(w, 4 * MEND_MIB, NULL))
{
    lender l = {NULL, NULL, true};
    int calls = 0;
    ASSERT_RESULT(MEND_OK, mend_world_create_pool(w, &l.pool));
    EXPECT_OK(mend_add_pressure_callback(w->pool, lend, &l));
    EXPECT_OK(mend_add_pressure_callback(w->pool, kit_count_pressure, &calls));
    for (int i = 0; i < 2; i++, l.trims = false) {
        l.block = kit_alloc_from(l.pool, 3 * MEND_MIB, NULL);
        void *block = kit_alloc(w, 3 * MEND_MIB, NULL);
        EXPECT_INT_EQ(!l.trims, calls); /* the rest there is requested at last */
        kit_free(w, block, NULL);
    }
    l.block = kit_alloc_from(l.pool, 4 * MEND_MIB, NULL);
    EXPECT_OK(mend_remove_pressure_callback(w->pool, lend, &l));
    EXPECT_OK(mend_remove_pressure_callback(w->pool, kit_count_pressure, &calls));
    EXPECT_OK(mend_free(l.pool, l.block, NULL));
    EXPECT_OK(mend_pool_destroy(l.pool));
}

/* ---- beside threads: all order comes from events --------------------------------------------- */

/* A thread whose callback stays until it has been removed. */
typedef struct keeper {
    mend_pool *pool;
    sem_t inside;
    sem_t over;
} keeper;

static void *allocate_beside(void *argument)
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
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, allocate_beside, &k));
    sem_wait(&k.inside);
    EXPECT_OK(mend_remove_pressure_callback(w->pool, stay_until_removed, &k));
    sem_post(&k.over);
    pthread_join(thread, NULL);
    EXPECT_OK(mend_remove_pressure_callback(w->pool, stay_until_removed, &k));
    EXPECT_INVALID(mend_remove_pressure_callback(w->pool, stay_until_removed, &k));
    sem_destroy(&k.inside);
    sem_destroy(&k.over);
}
