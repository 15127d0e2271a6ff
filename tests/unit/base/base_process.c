/* The members of the process: found by others of their kind, and never gone under a visit. */
#include "base/process.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/align.h"
#include "tests/support/test.h"
#include "tests/support/threads.h"

static const char cuda, sim; /* only their addresses count */

static mend_process_member member_of(const void *domain, int device)
{
    return (mend_process_member){.domain = domain, .device = device};
}

/* Goes on to the next member of (sim, device 0) and lets go of it at once. */
static mend_process_member *step(uint64_t *cursor)
{
    mend_process_member *met = mend_process_visit_next(&sim, 0, cursor);
    if (met != NULL) {
        mend_process_visit_end(met);
    }
    return met;
}

MEND_TEST(base_process, visits_the_members_of_a_domain_and_device_in_turn)
{
    mend_process_member all[] = {member_of(&sim, 0), member_of(&cuda, 0), member_of(&sim, 1),
                                 member_of(&sim, 0)};
    enum { COUNT = sizeof(all) / sizeof(*all) };
    for (size_t i = 0; i < COUNT; i++) {
        mend_process_join(&all[i]);
    }
    uint64_t cursor = 0;
    EXPECT_PTR_EQ(&all[0], step(&cursor));
    EXPECT_PTR_EQ(&all[3], step(&cursor));
    EXPECT_PTR_EQ(NULL, step(&cursor));
    for (size_t i = 0; i < COUNT; i++) {
        mend_process_leave(&all[i]);
    }
    cursor = 0;
    EXPECT_PTR_EQ(NULL, step(&cursor));
}

MEND_TEST(base_process, members_may_come_and_go_between_visits)
{
    mend_process_member all[5];
    for (size_t i = 0; i < 5; i++) {
        all[i] = member_of(&sim, 0);
    }
    for (size_t i = 0; i < 4; i++) {
        mend_process_join(&all[i]);
    }
    uint64_t cursor = 0;
    EXPECT_PTR_EQ(&all[0], step(&cursor));
    EXPECT_PTR_EQ(&all[1], step(&cursor));
    mend_process_leave(&all[1]); /* where the visitor is, and what comes next */
    mend_process_leave(&all[2]);
    mend_process_join(&all[4]);
    EXPECT_PTR_EQ(&all[3], step(&cursor));
    EXPECT_PTR_EQ(&all[4], step(&cursor));
    EXPECT_PTR_EQ(NULL, step(&cursor));
    mend_process_join(&all[1]); /* comes back as a new one */
    EXPECT_PTR_EQ(&all[1], step(&cursor));
    EXPECT_PTR_EQ(NULL, step(&cursor));
    mend_process_leave(&all[0]);
    mend_process_leave(&all[1]);
    mend_process_leave(&all[3]);
    mend_process_leave(&all[4]);
}

typedef struct leaver {
    mend_process_member member;
    atomic_int *clock;
    int left_at;
} leaver;

static void *leave(void *argument)
{
    leaver *self = argument;
    mend_process_leave(&self->member);
    self->left_at = atomic_fetch_add(self->clock, 1);
    self->member.device = -1; /* a race with a visitor who still reads it */
    return NULL;
}

MEND_TEST(base_process, a_member_cannot_leave_while_it_is_visited)
{
    atomic_int clock = 0;
    leaver self = {.member = member_of(&sim, 0), .clock = &clock};
    mend_process_join(&self.member);
    uint64_t one = 0;
    uint64_t other = 0;
    EXPECT_PTR_EQ(&self.member, mend_process_visit_next(&sim, 0, &one));
    EXPECT_PTR_EQ(&self.member, mend_process_visit_next(&sim, 0, &other));
    pthread_t thread;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, leave, &self));
    for (uint64_t cursor = 0; step(&cursor) != NULL; cursor = 0) {
        sched_yield(); /* it can be found until it is about to leave */
    }
    mend_process_visit_end(&self.member);
    for (int i = 0; i < 100; i++) {
        sched_yield(); /* the leaver's turn, should it think that one visitor was all */
    }
    EXPECT_INT_EQ(0, self.member.device);
    int ended_at = atomic_fetch_add(&clock, 1);
    mend_process_visit_end(&self.member);
    pthread_join(thread, NULL);
    EXPECT_TRUE(ended_at < self.left_at);
}

/* Threads that join, meet each other and leave, while some members stay. */

enum { THREADS = 4, ROUNDS = 150, STAYING = 3 };

typedef struct guest {
    mend_process_member member;
    bool is_here;
} guest;

static guest staying[STAYING];

static void visit_all(uint64_t *mistakes, guest *own)
{
    unsigned met_staying = 0;
    unsigned met_own = 0;
    uint64_t cursor = 0;
    mend_process_member *member;
    while ((member = mend_process_visit_next(&sim, 0, &cursor)) != NULL) {
        guest *met = MEND_CONTAINER_OF(member, guest, member);
        *mistakes += !met->is_here;
        met_own += met == own;
        met_staying += met >= staying && met < staying + STAYING;
        sched_yield(); /* the guest's turn to leave */
        *mistakes += !met->is_here;
        mend_process_visit_end(member);
    }
    *mistakes += met_staying != STAYING || met_own != 1;
}

static void *come_and_go(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        guest own = {.member = member_of(&sim, 0), .is_here = true};
        mend_process_join(&own.member);
        visit_all(argument, &own);
        mend_process_leave(&own.member);
        own.is_here = false;
    }
    return NULL;
}

MEND_TEST(base_process, each_member_that_stays_is_met_once_while_others_come_and_go)
{
    for (size_t i = 0; i < STAYING; i++) {
        staying[i] = (guest){.member = member_of(&sim, 0), .is_here = true};
        mend_process_join(&staying[i].member);
    }
    uint64_t mistakes[THREADS] = {0};
    mend_test_run_threads(come_and_go, mistakes, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        EXPECT_U64_EQ(0, mistakes[i]);
    }
    for (size_t i = 0; i < STAYING; i++) {
        mend_process_leave(&staying[i].member);
    }
}

static void *read_pressing_depth(void *depth)
{
    *(unsigned *)depth = *mend_process_callback_depth();
    return NULL;
}

MEND_TEST(base_process, the_depth_of_pressing_is_each_thread_s_own)
{
    unsigned seen = 7;
    ++*mend_process_callback_depth();
    mend_test_run_thread(read_pressing_depth, &seen);
    EXPECT_U64_EQ(0, seen);
    EXPECT_U64_EQ(1, *mend_process_callback_depth());
    --*mend_process_callback_depth();
}
