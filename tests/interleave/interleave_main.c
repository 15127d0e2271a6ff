/*
 * mend_interleave: programs and schedules from seeds, for as long as one likes.
 *
 *     mend_interleave --seconds N [--scene NAME] [--seed S]    seeds from S on
 *     mend_interleave --seed S --scene NAME [--trace]          that one again
 *     mend_interleave --all-schedules P                        small programs, P preemptions
 *
 * Exit status 0: nothing was found. 1: something was, or it crashed. 2: bad usage.
 */
#include <stdlib.h>

#include "tests/interleave/exhaustive.h"
#include "tests/interleave/scenes.h"
#include "tests/support/search.h"

typedef struct options {
    uint64_t seconds;
    uint64_t seed;
    int scene; /* -1: all, in turn */
    bool has_seed;
    bool trace;
    bool all;
    uint64_t preemptions;
} options;

static bool read_options(int argc, char **argv, options *o)
{
    const mend_test_option known[] = {
        {.name = "--trace", .given = &o->trace},
        {.name = "--seconds", .number = &o->seconds},
        {.name = "--seed", .number = &o->seed, .given = &o->has_seed},
        {.name = "--scene", .index = &o->scene, .find = scene_by_name},
        {.name = "--all-schedules", .number = &o->preemptions, .given = &o->all},
    };
    return mend_test_read_options(argc, argv, known, sizeof(known) / sizeof(known[0])) &&
           (o->all || o->seconds > 0 || (o->has_seed && o->scene >= 0));
}

typedef struct tally {
    uint64_t schedules;
    uint64_t points;
    uint64_t switches;
    uint64_t allocations;
    uint64_t refused;
    uint64_t findings;
} tally;

static int run_for(const options *o)
{
    static program_outcome outcome;
    tally t = {0};
    uint64_t seed = mend_test_first_seed(o->has_seed, o->seed);
    printf("seeds from %llu on\n", (unsigned long long)seed);
    fflush(stdout);
    double begin_s = mend_test_now_s();
    while (mend_test_now_s() - begin_s < (double)o->seconds) {
        for (int i = 0; i < scene_count(); i++) {
            if (o->scene < 0 || o->scene == i) {
                scene_run(i, seed, NULL, &outcome);
                t.schedules++;
                t.points += outcome.schedule.points;
                t.switches += outcome.schedule.switches;
                t.allocations += outcome.allocations;
                t.refused += outcome.refused;
                t.findings += outcome.finding[0] != '\0';
            }
        }
        seed++;
    }
    double passed_s = mend_test_now_s() - begin_s;
    printf("%llu schedules, %.0f a second; %llu points, %llu switches; %llu allocations, %llu "
           "refused; %llu findings\n",
           (unsigned long long)t.schedules, (double)t.schedules / passed_s,
           (unsigned long long)t.points, (unsigned long long)t.switches,
           (unsigned long long)t.allocations, (unsigned long long)t.refused,
           (unsigned long long)t.findings);
    return t.findings == 0 ? 0 : 1;
}

static int run_all(uint64_t preemptions)
{
    bool is_fine = true;
    for (int i = 0; i < exhaustive_count(); i++) {
        exhaustive_report report;
        is_fine = exhaustive_search(exhaustive_program(i), exhaustive_name(i), (int)preemptions,
                                    UINT64_MAX, &report) &&
                  is_fine;
        printf("%-45s %8llu schedules, %10llu points\n", exhaustive_name(i),
               (unsigned long long)report.schedules, (unsigned long long)report.points);
        fflush(stdout);
    }
    return is_fine ? 0 : 1;
}

int main(int argc, char **argv)
{
    static program_outcome outcome;
    options o = {.scene = -1};
    if (!read_options(argc, argv, &o)) {
        fprintf(stderr, "usage: mend_interleave --seconds N [--scene NAME] [--seed S]\n"
                        "       mend_interleave --seed S --scene NAME [--trace]\n"
                        "       mend_interleave --all-schedules P\n");
        return 2;
    }
    if (o.all) {
        return run_all(o.preemptions);
    }
    if (o.seconds > 0) {
        return run_for(&o);
    }
    bool is_fine = scene_run(o.scene, o.seed, o.trace ? stdout : NULL, &outcome);
    printf(
        "%llu points, %llu switches, hash %016llx\n", (unsigned long long)outcome.schedule.points,
        (unsigned long long)outcome.schedule.switches, (unsigned long long)outcome.schedule.hash);
    return is_fine ? 0 : 1;
}
