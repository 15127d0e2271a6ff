/*
 * mend_interleave: programs and schedules from seeds, for as long as one likes.
 *
 *     mend_interleave --seconds N [--scene NAME] [--seed S]    seeds from S on
 *     mend_interleave --seed S --scene NAME [--trace]          that one again
 *     mend_interleave --all-schedules P                        small programs, P preemptions
 *
 * Exit status 0: nothing was found; 1: something was, or it crashed; 2: bad usage.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/interleave/exhaustive.h"
#include "tests/interleave/scenes.h"
#include "tests/support/arguments.h"

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
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool is_fine = true;
        if (strcmp(argv[i], "--trace") == 0) {
            o->trace = true;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            is_fine = mend_test_read_number(value, &o->seconds) && ++i;
        } else if (strcmp(argv[i], "--seed") == 0) {
            is_fine = mend_test_read_number(value, &o->seed) && ++i;
            o->has_seed = is_fine;
        } else if (strcmp(argv[i], "--scene") == 0) {
            o->scene = value != NULL ? scene_by_name(value) : -1;
            is_fine = o->scene >= 0 && ++i;
        } else if (strcmp(argv[i], "--all-schedules") == 0) {
            is_fine = mend_test_read_number(value, &o->preemptions) && ++i;
            o->all = is_fine;
        } else {
            is_fine = false;
        }
        if (!is_fine) {
            return false;
        }
    }
    return o->all || o->seconds > 0 || (o->has_seed && o->scene >= 0);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

typedef struct tally {
    uint64_t schedules;
    uint64_t points;
    uint64_t switches;
    uint64_t allocations;
    uint64_t refused;
    uint64_t findings;
} tally;

static void count(tally *t, const program_outcome *outcome)
{
    t->schedules++;
    t->points += outcome->schedule.points;
    t->switches += outcome->schedule.switches;
    t->allocations += outcome->allocations;
    t->refused += outcome->refused;
    t->findings += outcome->finding[0] != '\0';
}

static int run_for(const options *o)
{
    static program_outcome outcome;
    tally t = {0};
    uint64_t seed = o->has_seed ? o->seed : (uint64_t)time(NULL) << 24;
    printf("seeds from %llu on\n", (unsigned long long)seed);
    fflush(stdout);
    double begin_s = now_s();
    while (now_s() - begin_s < (double)o->seconds) {
        for (int i = 0; i < scene_count(); i++) {
            if (o->scene < 0 || o->scene == i) {
                scene_run(i, seed, NULL, &outcome);
                count(&t, &outcome);
            }
        }
        seed++;
    }
    double passed_s = now_s() - begin_s;
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
