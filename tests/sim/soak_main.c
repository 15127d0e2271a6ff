/*
 * mend_soak: seeds without end, or one of them again.
 *
 *     mend_soak --seconds N [--seed S] [--steps M] [--jobs J]    seeds from S on, for so long
 *     mend_soak --seeds N [--seed S] [--steps M] [--jobs J]      so many, from S (1) on
 *     mend_soak --seed S [--steps M] [--verbose]                 that seed, shrunk if it fails
 *     mend_soak --small-worlds [--depth D]                       all of them
 *
 * Exit status 0: nothing was found. 1: something was. 2: bad usage.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/generator.h"
#include "tests/sim/script.h"
#include "tests/sim/shrink.h"
#include "tests/sim/small_worlds.h"
#include "tests/sim/soak.h"
#include "tests/support/search.h"

typedef struct options {
    uint64_t seconds;
    uint64_t seeds;
    uint64_t seed;
    uint64_t steps;
    uint64_t jobs;
    uint64_t depth;
    bool has_seed;
    bool verbose;
    bool small_worlds;
} options;

static bool read_options(int argc, char **argv, options *o)
{
    const mend_test_option known[] = {
        {.name = "--verbose", .given = &o->verbose},
        {.name = "--small-worlds", .given = &o->small_worlds},
        {.name = "--seconds", .number = &o->seconds, .most = UINT32_MAX},
        {.name = "--seeds", .number = &o->seeds},
        {.name = "--seed", .number = &o->seed, .given = &o->has_seed},
        {.name = "--steps", .number = &o->steps, .most = TRIAL_MOST_STEPS},
        {.name = "--depth", .number = &o->depth, .most = SMALL_WORLD_DEEPEST},
        {.name = "--jobs", .number = &o->jobs},
    };
    return mend_test_read_options(argc, argv, known, sizeof(known) / sizeof(known[0])) &&
           o->jobs > 0 && (o->seconds > 0 || o->seeds > 0 || o->has_seed || o->small_worlds);
}

static int replay(const options *o)
{
    static operation ops[TRIAL_MOST_STEPS];
    static trial_outcome outcome;
    trial_config config;
    trial_draw(o->seed, o->steps, &config, ops);
    if (o->verbose) {
        trial_print(stdout, "drawn", &config, ops, o->steps);
    }
    if (!trial_run_apart(&config, ops, o->steps, &outcome)) {
        return 2;
    }
    if (outcome.verdict == TRIAL_HOLDS) {
        printf("%llu steps, no findings\n", (unsigned long long)outcome.tally.steps);
        return 0;
    }
    soak_finding finding = {o->seed, outcome.verdict, outcome.step, ""};
    memcpy(finding.text, outcome.finding, sizeof(finding.text));
    soak_explain(stdout, &finding, (uint32_t)o->steps);
    return 1;
}

static int soak(const options *o)
{
    static soak_report report;
    const bool is_fixed = o->has_seed || o->seeds > 0;
    soak_plan plan = {.first_seed = mend_test_first_seed(is_fixed, o->seed),
                      .seeds = o->seeds,
                      .seconds = (uint32_t)o->seconds,
                      .jobs = (uint32_t)o->jobs,
                      .steps = (uint32_t)o->steps};
    printf("seeds from %llu on, %u steps each, in %u processes\n",
           (unsigned long long)plan.first_seed, plan.steps, plan.jobs);
    if (!soak_run(&plan, &report)) {
        return 2;
    }
    for (uint64_t i = 0; i < report.finding_count && i < SOAK_MOST_FINDINGS; i++) {
        soak_explain(stdout, &report.findings[i], plan.steps);
    }
    soak_print(stdout, &report);
    return report.finding_count == 0 ? 0 : 1;
}

static int all_small_worlds(int depth)
{
    int status = 0;
    for (int i = 0; i < SMALL_WORLDS; i++) {
        static small_world_report report;
        status |= !small_world_search(i, depth, &report);
        small_world_print(stdout, i, &report);
    }
    return status;
}

int main(int argc, char **argv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    options o = {.seed = 1,
                 .steps = SOAK_STEPS,
                 .depth = SMALL_WORLD_DEPTH,
                 .jobs = cores > 0 ? (uint64_t)cores : 1};
    if (!read_options(argc, argv, &o)) {
        fprintf(stderr, "usage: mend_soak --seconds N [--seed S] [--steps M] [--jobs J]\n"
                        "       mend_soak --seeds N [--seed S] [--steps M] [--jobs J]\n"
                        "       mend_soak --seed S [--steps M] [--verbose]\n"
                        "       mend_soak --small-worlds [--depth D]\n");
        return 2;
    }
    int status = o.small_worlds ? all_small_worlds((int)o.depth) : 0;
    if (o.seconds > 0 || o.seeds > 0) {
        status |= soak(&o);
    } else if (o.has_seed) {
        status |= replay(&o);
    }
    return status;
}
