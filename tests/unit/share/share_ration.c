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
