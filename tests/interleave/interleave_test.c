/* Schedules from fixed seeds, all schedules of small programs, and the scheduler itself.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mutex.h"
#include "tests/interleave/exhaustive.h"
#include "tests/interleave/scenes.h"
#include "tests/support/test.h"

#if defined(__SANITIZE_ADDRESS__)
enum { FIXED_SEEDS = 20, PREEMPTIONS = 1 };
#else
enum { FIXED_SEEDS = 100, PREEMPTIONS = 1 };
#endif

/* ---- the pool -----------------------------------------------------------------------------------
 */

static void expect_no_finding(int scene, uint64_t seed)
{
    static program_outcome outcome;
    if (!scene_run(scene, seed, NULL, &outcome)) {
        mend_test_fail(__FILE__, __LINE__, "mend_interleave --scene %s --seed %llu: %s",
                       scene_name(scene), (unsigned long long)seed, outcome.finding);
    }
}

static void run_fixed_seeds(const char *name)
{
    for (uint64_t seed = 1; seed <= FIXED_SEEDS && !mend_test_has_failed(); seed++) {
        expect_no_finding(scene_by_name(name), seed);
    }
}

#define FIXED_SEEDS_OF(name)                                                                       \
    MEND_TEST(interleave, name)                                                                    \
    {                                                                                              \
        run_fixed_seeds(#name);                                                                    \
    }
FIXED_SEEDS_OF(handover)
FIXED_SEEDS_OF(short_of_room)
FIXED_SEEDS_OF(trims_and_limits)
FIXED_SEEDS_OF(streams_go)
FIXED_SEEDS_OF(groups)
FIXED_SEEDS_OF(callbacks)
FIXED_SEEDS_OF(peer_pools)
FIXED_SEEDS_OF(limits_of_peer_pools)
FIXED_SEEDS_OF(failing_calls)
FIXED_SEEDS_OF(context_breaks)
FIXED_SEEDS_OF(everything)
FIXED_SEEDS_OF(compactions)
FIXED_SEEDS_OF(histories)

/* Another thread raises a limit or frees a block while a peer pool is asked, which gives nothing.
 */
MEND_TEST(interleave, room_left_while_a_peer_pool_is_asked)
{
    expect_no_finding(scene_by_name("limits_of_peer_pools"), 541);
}

static void try_all_schedules(int number, int preemptions)
{
    exhaustive_report report;
    bool is_fine = exhaustive_search(exhaustive_program(number), exhaustive_name(number),
                                     preemptions, UINT64_MAX, &report);
    if (!is_fine) {
        mend_test_fail(__FILE__, __LINE__, "%s: see above", exhaustive_name(number));
    }
    EXPECT_TRUE(report.is_complete || !is_fine);
    EXPECT_TRUE(report.schedules > 1);
}

MEND_TEST(interleave, all_schedules_of_small_programs)
{
    for (int i = 0; i < exhaustive_count(); i++) {
        try_all_schedules(i, PREEMPTIONS);
    }
}

MEND_TEST(interleave, a_seed_repeats)
{
    static program_outcome first;
    static program_outcome second;
    uint64_t seed = mend_test_seed();
    for (int scene = 0; scene < scene_count(); scene++) {
        scene_run(scene, seed, NULL, &first);
        scene_run(scene, seed, NULL, &second);
        EXPECT_U64_EQ(first.schedule.points, second.schedule.points);
        EXPECT_U64_EQ(first.schedule.hash, second.schedule.hash);
    }
}

/* ---- the scheduler ------------------------------------------------------------------------------
 */

typedef struct counter {
    mend_mutex outer;
    mend_mutex inner;
    mend_condition changed;
    int value;
    int seen;
} counter;

static counter *make_counter(void)
{
    static counter c;
    c.value = c.seen = 0;
    mend_mutex_init(&c.outer, MEND_RANK_GROW);
    mend_mutex_init(&c.inner, MEND_RANK_POOL);
    mend_condition_init(&c.changed);
    return &c;
}

/* Forgets that others come between. */
static void add_carelessly(void *context)
{
    counter *c = context;
    mend_mutex_lock(&c->inner);
    int value = c->value;
    mend_mutex_unlock(&c->inner);
    mend_mutex_lock(&c->inner);
    c->value = value + 1;
    mend_mutex_unlock(&c->inner);
}

static int sum_of_two(const schedule_plan *plan, schedule_outcome *outcome)
{
    counter *c = make_counter();
    schedule_thread threads[] = {{add_carelessly, c}, {add_carelessly, c}};
    schedule s = {.plan = *plan};
    schedule_run(&s, threads, 2, outcome);
    return c->value;
}

MEND_TEST(schedule, a_lost_update_is_found_by_chance_and_by_priorities)
{
    static schedule_outcome outcome;
    int lost_by[2] = {0};
    for (uint64_t i = 0; i < 200; i++) {
        schedule_plan plan = {.policy = i % 2 == 0 ? SCHEDULE_RANDOM : SCHEDULE_PRIORITIES,
                              .seed = mend_test_seed() + i,
                              .stay = 8,
                              .changes = 1,
                              .horizon = 8};
        lost_by[i % 2] += sum_of_two(&plan, &outcome) == 1;
    }
    EXPECT_TRUE(lost_by[0] > 0 && lost_by[0] < 100);
    EXPECT_TRUE(lost_by[1] > 0 && lost_by[1] < 100);
}

MEND_TEST(schedule, nobody_is_preempted_without_a_choice)
{
    static schedule_outcome outcome;
    schedule_plan plan = {.policy = SCHEDULE_PREFIX};
    EXPECT_INT_EQ(2, sum_of_two(&plan, &outcome));
    EXPECT_U64_EQ(2, outcome.switches); /* to the first, and when it ends */
}

static void await_change(void *context)
{
    counter *c = context;
    mend_mutex_lock(&c->inner);
    while (c->value == 0) {
        mend_condition_wait(&c->changed, &c->inner);
    }
    c->seen = c->value;
    mend_mutex_unlock(&c->inner);
}

static void change(void *context)
{
    counter *c = context;
    mend_mutex_lock(&c->inner);
    c->value = 7;
    mend_condition_wake_all(&c->changed);
    mend_mutex_unlock(&c->inner);
}

MEND_TEST(schedule, a_thread_that_waits_is_woken)
{
    static schedule_outcome outcome;
    for (uint64_t i = 0; i < 50; i++) {
        counter *c = make_counter();
        schedule_thread threads[] = {{await_change, c}, {change, c}};
        schedule s = {.plan = {.seed = mend_test_seed() + i, .wakes_for_none = i % 2 == 0}};
        schedule_run(&s, threads, 2, &outcome);
        EXPECT_INT_EQ(7, c->seen);
    }
}

/* A program of its own that ends by SIGABRT; what it said. */
static void run_until_abort(void (*run)(void), char *said, size_t bytes)
{
    int ends[2];
    said[0] = '\0';
    ASSERT_INT_EQ(0, pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], said + length, bytes - 1 - length)) > 0) {
        length += (size_t)got;
    }
    said[length] = '\0';
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void wait_alone(void)
{
    static schedule_outcome outcome;
    counter *c = make_counter();
    schedule_thread threads[] = {{await_change, c}, {await_change, c}};
    schedule s = {.banner = "how to run it again"};
    schedule_run(&s, threads, 2, &outcome);
}

static void hold_and_wait(void *context)
{
    counter *c = context;
    mend_mutex_lock(&c->outer);
    await_change(c);
    mend_mutex_unlock(&c->outer);
}

static void change_inside(void *context)
{
    counter *c = context;
    mend_mutex_lock(&c->outer);
    change(c);
    mend_mutex_unlock(&c->outer);
}

static void wait_for_each_other(void)
{
    static schedule_outcome outcome;
    counter *c = make_counter();
    schedule_thread threads[] = {{hold_and_wait, c}, {change_inside, c}};
    schedule s = {.plan = {.policy = SCHEDULE_PREFIX}};
    schedule_run(&s, threads, 2, &outcome);
}

MEND_TEST(schedule, a_deadlock_says_who_holds_what)
{
    char said[2048];
    run_until_abort(wait_alone, said, sizeof(said));
    EXPECT_TRUE(strstr(said, "Deadlock") != NULL && strstr(said, "waits to be woken") != NULL);
    EXPECT_TRUE(strstr(said, "how to run it again") != NULL);
    run_until_abort(wait_for_each_other, said, sizeof(said));
    EXPECT_TRUE(strstr(said, "holds `grow`") != NULL);
    EXPECT_TRUE(strstr(said, "wants `grow`") != NULL && strstr(said, "of thread 0") != NULL);
}

#ifndef NDEBUG
static void lock_in_the_wrong_order(void)
{
    counter *c = make_counter();
    mend_mutex_lock(&c->inner);
    mend_mutex_lock(&c->outer);
}

MEND_TEST(schedule, ranks_are_asserted_as_ever)
{
    char said[2048];
    run_until_abort(lock_in_the_wrong_order, said, sizeof(said));
    EXPECT_TRUE(strstr(said, "rising order of rank") != NULL);
}
#endif
