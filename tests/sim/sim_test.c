/* Seeds, and that a finding is found again, and shrunk. */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/sim/generator.h"
#include "tests/sim/shrink.h"
#include "tests/sim/soak.h"
#include "tests/support/test.h"

/* The program's threads take turns: races are those with the threads that pools start. */
#if defined(__SANITIZE_THREAD__)
enum { SEEDS = 8, JOBS = 1 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 24, JOBS = 1 };
#else
enum { SEEDS = 600, JOBS = 2 };
#endif

static void expect_no_findings(const soak_plan *plan)
{
    static soak_report report;
    ASSERT_TRUE(soak_run(plan, &report));
    for (uint64_t i = 0; i < report.finding_count && i < SOAK_MOST_FINDINGS; i++) {
        soak_explain(stdout, &report.findings[i], plan->steps);
        mend_test_fail(__FILE__, __LINE__, "seed %llu: %s: %s",
                       (unsigned long long)report.findings[i].seed,
                       trial_verdict_name(report.findings[i].verdict), report.findings[i].text);
    }
    EXPECT_U64_EQ(0, report.finding_count);
    EXPECT_TRUE(report.seeds > 0);
}

MEND_TEST(simulation, fixed_seeds)
{
    expect_no_findings(
        &(soak_plan){.first_seed = 1, .seeds = SEEDS, .jobs = JOBS, .steps = SOAK_STEPS});
}

/* The tally is the same, to the last failed driver call, though the system gives other
 * addresses. */
MEND_TEST(simulation, a_seed_repeats)
{
    enum { REPEATED = 12, IN_THE_WAY_BYTES = 3 * 4096 };
    static void *in_the_way[REPEATED];
    static operation ops[TRIAL_MOST_STEPS];
    static trial_outcome first;
    static trial_outcome second;
    trial_config config;
    uint64_t seed = mend_test_seed();
    for (uint64_t i = 0; i < REPEATED; i++) {
        trial_draw(seed + i, SOAK_STEPS, &config, ops);
        trial_run(&config, ops, SOAK_STEPS, &first);
        in_the_way[i] = mmap(NULL, IN_THE_WAY_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        trial_run(&config, ops, SOAK_STEPS, &second);
        EXPECT_TRUE(memcmp(&first.tally, &second.tally, sizeof(first.tally)) == 0);
    }
    for (int i = 0; i < REPEATED; i++) {
        munmap(in_the_way[i], IN_THE_WAY_BYTES);
    }
}

/* A program that does wrong is found, among the other operations of its seed, and little is left of
 * them. */
MEND_TEST(simulation, a_finding_is_shrunk)
{
    static operation ops[TRIAL_MOST_STEPS];
    static trial_outcome outcome;
    trial_config config;
    size_t count = SOAK_STEPS;
    uint64_t seed = mend_test_seed();
    outcome.verdict = TRIAL_HOLDS;
    for (int i = 0; i < 100 && outcome.verdict == TRIAL_HOLDS; i++) {
        trial_draw(seed + (uint64_t)i, count, &config, ops);
        config.sin = 1;
        ASSERT_TRUE(trial_run_apart(&config, ops, count, &outcome));
    }
    /* It reads writes of others, or unmapped memory, perhaps after the pools' end. */
    const trial_verdict found = outcome.verdict;
    EXPECT_TRUE(found == TRIAL_CONTENT || found == TRIAL_RESULT || found == TRIAL_RULE);
    trial_shrink(&config, ops, &count, &outcome);
    EXPECT_INT_EQ((int)found, (int)outcome.verdict);
    EXPECT_TRUE(count <= 10);
}

/* Each rule of figures.c can be broken: each number in turn is far too large, and a growing one is
 * less than before. */
MEND_TEST(simulation, every_wrong_figure_is_seen)
{
    static operation ops[TRIAL_MOST_STEPS];
    trial_config config;
    trial_outcome outcome;
    trial_draw(mend_test_seed(), SOAK_STEPS, &config, ops);
    config = trial_config_default;
    trial *t = trial_begin(&config, &outcome);
    ASSERT_TRUE(t != NULL);
    for (int i = 0; i < SOAK_STEPS; i++) {
        trial_step(t, &ops[i]);
    }
    ASSERT_INT_EQ(TRIAL_HOLDS, outcome.verdict);
#define X(field, unit, meaning)                                                                    \
    EXPECT_STR_EQ("", trial_wrong_figure(t, offsetof(mend_stats, field), 0));                      \
    EXPECT_TRUE(trial_wrong_figure(t, offsetof(mend_stats, field), UINT64_C(1) << 50)[0] != 0);
    MEND_STATS(X)
#undef X
    trial_end(t);
}
