/* Schedules from fixed seeds, all schedules of small programs, and schedules that find a program's
 * omission. */
#include "base/thread.h"
#include "tests/interleave/exhaustive.h"
#include "tests/interleave/scenes.h"
#include "tests/support/test.h"

#if defined(__SANITIZE_ADDRESS__)
enum { FIXED_SEEDS = 20, PREEMPTIONS = 1 };
#else
enum { FIXED_SEEDS = 100, PREEMPTIONS = 1 };
#endif

/* ---- the pool -------------------------------------------------------------------------------- */

static void expect_no_finding(int scene, uint64_t seed)
{
    static program_outcome outcome;
    if (!scene_run(scene, seed, NULL, &outcome)) {
        mend_test_fail(__FILE__, __LINE__, "mend_interleave --scene %s --seed %llu: %s",
                       scene_name(scene), (unsigned long long)seed, outcome.finding);
    }
}

static void run_fixed_seeds(void)
{
    const int scene = scene_by_name(mend_test_name());
    for (uint64_t seed = 1; seed <= FIXED_SEEDS && !mend_test_has_failed(); seed++) {
        expect_no_finding(scene, seed);
    }
}

/* A case for each scene. */
__attribute__((constructor)) static void register_scenes(void)
{
    for (int i = 0; i < scene_count(); i++) {
        mend_test_register("interleave", scene_name(i), __FILE__, __LINE__, run_fixed_seeds);
    }
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

/* ---- the scheduler --------------------------------------------------------------------------- */

typedef struct counter {
    mend_mutex mutex;
    int value;
} counter;

/* Forgets that others come between. */
static void add_carelessly(void *context)
{
    counter *c = context;
    mend_mutex_lock(&c->mutex);
    int value = c->value;
    mend_mutex_unlock(&c->mutex);
    mend_mutex_lock(&c->mutex);
    c->value = value + 1;
    mend_mutex_unlock(&c->mutex);
}

static int sum_of_two(const schedule_plan *plan, schedule_outcome *outcome)
{
    static counter c;
    c.value = 0;
    mend_mutex_init(&c.mutex, MEND_RANK_POOL);
    schedule_thread threads[] = {{add_carelessly, &c}, {add_carelessly, &c}};
    schedule s = {.plan = *plan};
    schedule_run(&s, threads, 2, outcome);
    return c.value;
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
