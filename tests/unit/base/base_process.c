/* The members of the process are never gone under a visit. */
#include "base/process.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/support/test.h"

static const char sim; /* only its address counts */

/* Goes on to the next member of (sim, device 0) and lets go of it at once. */
static mend_process_member *step(uint64_t *cursor)
{
    mend_process_member *met = mend_process_visit_next(&mend_process_pools, &sim, 0, cursor);
    if (met != NULL) {
        mend_process_visit_end(&mend_process_pools, met);
    }
    return met;
}

typedef struct leaver {
    mend_process_member member;
    atomic_int *clock;
    int left_at;
} leaver;

static void *leave(void *argument)
{
    leaver *self = argument;
    mend_process_leave(&mend_process_pools, &self->member);
    self->left_at = atomic_fetch_add(self->clock, 1);
    self->member.device = -1; /* a race with a visitor that still reads it */
    return NULL;
}

MEND_TEST(base_process, a_member_cannot_leave_while_it_is_visited)
{
    atomic_int clock = 0;
    leaver self = {.member = {.domain = &sim, .device = 0}, .clock = &clock};
    mend_process_join(&mend_process_pools, &self.member);
    uint64_t one = 0;
    uint64_t other = 0;
    EXPECT_PTR_EQ(&self.member, mend_process_visit_next(&mend_process_pools, &sim, 0, &one));
    EXPECT_PTR_EQ(&self.member, mend_process_visit_next(&mend_process_pools, &sim, 0, &other));
    pthread_t thread;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, leave, &self));
    for (uint64_t cursor = 0; step(&cursor) != NULL; cursor = 0) {
        sched_yield(); /* it can be found until it is about to leave */
    }
    mend_process_visit_end(&mend_process_pools, &self.member);
    for (int i = 0; i < 100; i++) {
        sched_yield(); /* the leaver's turn, should it think that one visitor was all */
    }
    EXPECT_INT_EQ(0, self.member.device);
    int ended_at = atomic_fetch_add(&clock, 1);
    mend_process_visit_end(&mend_process_pools, &self.member);
    pthread_join(thread, NULL);
    EXPECT_TRUE(ended_at < self.left_at);
}
