/* A pool's share of a limit: what it waits for, as others hear of it, and how long it waits. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "share/share.h"
#include "tests/support/kit.h"

enum { LIMIT = 1000, HELD = 900 };

/* One that holds 900 of 1000 bytes, and says that it gives back; and one that may wait, in up to
 * two threads, for 300 if not said otherwise. */
typedef struct wait {
    mend_ration *of;
    uint64_t bytes;
    pthread_t thread;
    atomic_bool is_over;
    uint64_t end_ms; /* 0: the first wait of the request */
    bool has_room;
} wait;

typedef struct scene {
    char path[64];
    mend_world w;
    mend_ration giver;
    mend_ration waiter;
    wait waits[2];
} scene;

static bool open_scene(scene *s)
{
    *s = (scene){.waits = {{.of = &s->waiter, .bytes = 300}, {.of = &s->waiter, .bytes = 300}}};
    snprintf(s->path, sizeof(s->path), "/tmp/mend-ration-%ld", (long)getpid());
    unlink(s->path);
    if (!kit_open_default(&s->w)) {
        return false;
    }
    EXPECT_OK(mend_ration_open(&s->giver, s->w.driver, 0, s->path, LIMIT));
    EXPECT_OK(mend_ration_open(&s->waiter, s->w.driver, 0, s->path, LIMIT));
    EXPECT_TRUE(mend_limit_file_claim(&s->giver.slot, HELD));
    mend_ration_offer(&s->giver, 0, true, 0); /* as a collector does that begins */
    return !mend_test_has_failed();
}

/* However a wait ends, nobody gives memory back for it any more. */
static void close_scene(scene *s)
{
    uint64_t newest;
    EXPECT_U64_EQ(0, mend_limit_file_wanted_by_others(&s->giver.slot, &newest));
    mend_ration_close(&s->waiter);
    mend_ration_close(&s->giver);
    unlink(s->path);
    kit_close(&s->w);
}

#define SCENE_TEST(suite, name) KIT_BARE_TEST(suite, name, scene, open_scene(r), close_scene(r))

static void *wait_for_room(void *argument)
{
    wait *self = argument;
    self->has_room = mend_ration_wait(self->of, self->bytes, &self->end_ms);
    atomic_store(&self->is_over, true);
    return NULL;
}

/* Begins a wait, and returns when the giver has heard of it: with what it owes then. */
static mend_ration_owed begin_wait(scene *s, int number)
{
    wait *begun = &s->waits[number];
    const mend_ration_owed before = mend_ration_ask_owed(&s->giver);
    mend_ration_owed owed = before;
    pthread_create(&begun->thread, NULL, wait_for_room, begun);
    while (owed.newest == before.newest && !atomic_load(&begun->is_over)) {
        owed = mend_ration_ask_owed(&s->giver);
        sched_yield();
    }
    return owed;
}

static bool end_wait(scene *s, int number)
{
    pthread_join(s->waits[number].thread, NULL);
    return s->waits[number].has_room;
}

SCENE_TEST(share_ration, a_wait_begins_though_nothing_was_idle_when_the_other_last_looked)
{
    const mend_ration_owed owed = begin_wait(r, 0);
    EXPECT_U64_EQ(200, owed.bytes);
    mend_limit_file_give(&r->giver.slot, owed.bytes); /* what became idle since */
    mend_ration_offer(&r->giver, 0, true, owed.newest);
    EXPECT_TRUE(end_wait(r, 0));
}

SCENE_TEST(share_ration, an_answer_without_idle_memory_ends_the_wait)
{
    const mend_ration_owed owed = begin_wait(r, 0);
    mend_ration_offer(&r->giver, 0, true, owed.newest);
    EXPECT_FALSE(end_wait(r, 0));
}

/* A collection that began before the want says nothing about it; nor does one that ends later. */
SCENE_TEST(share_ration, an_answer_to_an_earlier_want_does_not)
{
    const mend_ration_owed owed = begin_wait(r, 0);
    mend_ration_offer(&r->giver, 100, true, owed.newest - 1);
    mend_ration_offer(&r->giver, 0, true, owed.newest - 1);
    EXPECT_U64_EQ(200, mend_ration_ask_owed(&r->giver).bytes);
    mend_ration_offer(&r->giver, 100, true, owed.newest); /* the GPU uses it */
    EXPECT_U64_EQ(200, mend_ration_ask_owed(&r->giver).bytes);
    mend_limit_file_give(&r->giver.slot, 200);
    EXPECT_TRUE(end_wait(r, 0));
}

SCENE_TEST(share_ration, nobody_waits_for_one_whose_collector_has_ended)
{
    begin_wait(r, 0);
    mend_ration_offer(&r->giver, 0, false, 0);
    EXPECT_FALSE(end_wait(r, 0));
    uint64_t end_ms = 0;
    mend_ration_offer(&r->giver, 500, false, 0);
    EXPECT_FALSE(mend_ration_wait(&r->waiter, 300, &end_ms));
}

/* The other gave memory back between the refusal and the wait. */
SCENE_TEST(share_ration, room_that_came_before_the_wait_is_room)
{
    uint64_t end_ms = 0;
    EXPECT_TRUE(mend_ration_wait(&r->waiter, 100, &end_ms));
    EXPECT_FALSE(mend_ration_wait(&r->waiter, 100, &end_ms)); /* it was there all the time */
}

/* Others took the room of an earlier wait. The waiter holds its lock until it sleeps, so it has
 * looked when the lock is free. */
SCENE_TEST(share_ration, a_request_waits_again_when_others_were_quicker)
{
    r->waits[0].end_ms = UINT64_MAX;
    const mend_ration_owed owed = begin_wait(r, 0);
    mend_mutex_lock(&r->waiter.mutex);
    mend_limit_file_give(&r->giver.slot, owed.bytes);
    mend_mutex_unlock(&r->waiter.mutex);
    EXPECT_TRUE(end_wait(r, 0));
}

/* Two threads of a pool want different amounts, and neither hides what the other wants. */
SCENE_TEST(share_ration, threads_that_wait_want_the_sum)
{
    const mend_ration_owed first = begin_wait(r, 0);
    const mend_ration_owed both = begin_wait(r, 1);
    EXPECT_U64_EQ(500, both.bytes);
    EXPECT_TRUE(both.newest > first.newest);
    mend_limit_file_give(&r->giver.slot, 200);
    EXPECT_TRUE(end_wait(r, 0));
    EXPECT_TRUE(end_wait(r, 1));
}

/* Nobody can give more than the limit, and the second want is asked anew all the same. */
SCENE_TEST(share_ration, a_wait_for_the_whole_limit_hides_no_other)
{
    r->waits[0].bytes = LIMIT;
    const mend_ration_owed first = begin_wait(r, 0);
    const mend_ration_owed both = begin_wait(r, 1);
    EXPECT_U64_EQ(LIMIT - 100, first.bytes);
    EXPECT_U64_EQ(LIMIT - 100, both.bytes);
    EXPECT_TRUE(both.newest > first.newest);
    mend_limit_file_give(&r->giver.slot, 500);
    EXPECT_TRUE(end_wait(r, 1));
    mend_ration_offer(&r->giver, 0, true, both.newest);
    EXPECT_FALSE(end_wait(r, 0));
}
