#include "tests/sim/soak.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/generator.h"
#include "tests/sim/script.h"
#include "tests/sim/shrink.h"
#include "tests/support/child.h"
#include "tests/support/search.h"

/* Of processor time. A trial takes milliseconds, under a sanitizer a second. */
enum { LONGEST_TRIAL_S = 60 };

/* The result of a worker, which the parent reads at its end. */
typedef struct worker {
    soak_report report;
    uint64_t next_seed; /* or the one under way */
    pid_t process;      /* 0: none */
} worker;

static void add_tally(trial_tally *sum, const trial_tally *part)
{
    enum { COUNTS = sizeof(*sum) / sizeof(uint64_t) };
    uint64_t *to = (uint64_t *)(void *)sum;
    const uint64_t *from = (const uint64_t *)(const void *)part;
    for (size_t i = 0; i < COUNTS; i++) {
        to[i] += from[i];
    }
}

static void add_finding(soak_report *report, const soak_finding *finding)
{
    if (report->finding_count < SOAK_MOST_FINDINGS) {
        report->findings[report->finding_count] = *finding;
    }
    report->finding_count++;
}

static void run_seed(worker *w, const soak_plan *plan)
{
    static operation ops[TRIAL_MOST_STEPS];
    static trial_outcome outcome;
    trial_config config;
    trial_draw(w->next_seed, plan->steps, &config, ops);
    mend_test_limit(LONGEST_TRIAL_S);
    trial_run(&config, ops, plan->steps, &outcome);
    add_tally(&w->report.tally, &outcome.tally);
    w->report.seeds++;
    if (outcome.verdict != TRIAL_HOLDS) {
        soak_finding finding = {w->next_seed, outcome.verdict, outcome.step, ""};
        memcpy(finding.text, outcome.finding, sizeof(finding.text));
        add_finding(&w->report, &finding);
    }
}

static bool has_more(const worker *w, const soak_plan *plan, double end_s)
{
    bool in_range = plan->seeds == 0 || w->next_seed - plan->first_seed < plan->seeds;
    return in_range && (plan->seconds == 0 || mend_test_now_s() < end_s);
}

static void start(worker *w, const soak_plan *plan, double end_s)
{
    fflush(NULL);
    /* The worker is shared: the child must not write over its own number. */
    pid_t process = fork();
    if (process != 0) {
        w->process = process;
        return;
    }
    for (; has_more(w, plan, end_s); w->next_seed += plan->jobs) {
        run_seed(w, plan);
    }
    mend_test_end_child(true);
}

/* A worker that ended in the midst of a seed has found something. Another takes its place. */
static void bury(worker *w, const soak_plan *plan, double end_s, int status)
{
    w->process = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return;
    }
    bool is_late = WIFSIGNALED(status) && mend_test_is_late(WTERMSIG(status));
    soak_finding finding = {w->next_seed, is_late ? TRIAL_HANG : TRIAL_CRASH, plan->steps, ""};
    snprintf(finding.text, sizeof(finding.text), "the process ended with status 0x%x", status);
    add_finding(&w->report, &finding);
    w->report.seeds++;
    w->next_seed += plan->jobs;
    if (has_more(w, plan, end_s)) {
        start(w, plan, end_s);
    }
}

static bool any_runs(const worker *workers, uint32_t jobs)
{
    bool any = false;
    for (uint32_t i = 0; i < jobs; i++) {
        any |= workers[i].process > 0;
    }
    return any;
}

static void gather(const worker *workers, uint32_t jobs, soak_report *report)
{
    *report = (soak_report){0};
    for (uint32_t i = 0; i < jobs; i++) {
        const soak_report *part = &workers[i].report;
        add_tally(&report->tally, &part->tally);
        report->seeds += part->seeds;
        uint64_t kept = part->finding_count;
        for (uint64_t k = 0; k < kept; k++) {
            static const soak_finding unknown;
            add_finding(report, k < SOAK_MOST_FINDINGS ? &part->findings[k] : &unknown);
        }
    }
}

bool soak_run(const soak_plan *plan, soak_report *report)
{
    uint32_t jobs = plan->jobs < SOAK_MOST_JOBS ? plan->jobs : SOAK_MOST_JOBS;
    soak_plan own = *plan;
    own.jobs = jobs;
    size_t bytes = sizeof(worker) * jobs;
    worker *workers = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (workers == MAP_FAILED) {
        return false;
    }
    double end_s = mend_test_now_s() + plan->seconds;
    for (uint32_t i = 0; i < jobs; i++) {
        workers[i].next_seed = plan->first_seed + i;
        start(&workers[i], &own, end_s);
    }
    while (any_runs(workers, jobs)) {
        int status = 0;
        pid_t ended = waitpid(-1, &status, 0);
        for (uint32_t i = 0; i < jobs && ended > 0; i++) {
            if (workers[i].process == ended) {
                bury(&workers[i], &own, end_s, status);
            }
        }
    }
    gather(workers, jobs, report);
    munmap(workers, bytes);
    return true;
}

void soak_explain(FILE *out, const soak_finding *finding, uint32_t steps)
{
    trial_config config;
    operation *ops = calloc(TRIAL_MOST_STEPS, sizeof(*ops));
    trial_outcome *outcome = calloc(1, sizeof(*outcome));
    size_t count = steps;
    if (ops == NULL || outcome == NULL) {
        free(ops);
        free(outcome);
        return;
    }
    trial_draw(finding->seed, steps, &config, ops);
    fprintf(out, "mend_soak --seed %llu --steps %u\n  %s at step %zu: %s\n",
            (unsigned long long)finding->seed, steps, trial_verdict_name(finding->verdict),
            finding->step, finding->text);
    if (!trial_run_apart(&config, ops, count, outcome) || outcome->verdict == TRIAL_HOLDS) {
        fprintf(out, "  it does not repeat\n");
    } else {
        uint64_t trials = trial_shrink(&config, ops, &count, outcome);
        fprintf(out, "  shrunk by %llu trials to %zu operations: %s\n", (unsigned long long)trials,
                count, outcome->finding);
        trial_print(out, "found", &config, ops, count);
    }
    free(ops);
    free(outcome);
}
