#include "tests/interleave/exhaustive.h"

#include <string.h>

/* Depth first: the last decision that can be taken otherwise is, all before stay. */
static bool advance_prefix(const schedule_outcome *o, int preemptions, uint8_t *prefix,
                           size_t *count)
{
    int used = 0;
    size_t kept = 0;
    bool is_found = false;
    for (size_t i = 0; i < o->decision_count && i < SCHEDULE_DECISIONS; i++) {
        schedule_decision d = o->decisions[i];
        prefix[i] = d.chosen;
        if (d.chosen + 1 < d.choices && used + d.preempts <= preemptions) {
            kept = i;
            is_found = true;
        }
        used += d.preempts && d.chosen > 0;
    }
    if (is_found) {
        prefix[kept]++;
        *count = kept + 1;
    }
    return is_found;
}

static void tell_prefix(const char *name, const uint8_t *prefix, size_t count, char *text,
                        size_t bytes)
{
    int written = snprintf(text, bytes, "%s, schedule of non-zero choices", name);
    for (size_t i = 0; i < count && written >= 0 && (size_t)written < bytes; i++) {
        if (prefix[i] != 0) {
            written += snprintf(text + written, bytes - (size_t)written, " %zu:%u", i, prefix[i]);
        }
    }
}

bool exhaustive_search(const program *p, const char *name, int preemptions, uint64_t most,
                       exhaustive_report *report)
{
    static program_outcome outcome;
    static uint8_t prefix[SCHEDULE_DECISIONS];
    size_t count = 0;
    bool is_fine = true;
    bool has_more = true;
    *report = (exhaustive_report){0};
    while (has_more && is_fine && report->schedules < most) {
        schedule_plan plan = {.policy = SCHEDULE_PREFIX, .prefix = prefix, .prefix_count = count};
        char banner[512];
        tell_prefix(name, prefix, count, banner, sizeof(banner));
        is_fine = program_run(p, &plan, banner, NULL, &outcome);
        if (!is_fine) {
            static program_outcome again;
            program_run(p, &plan, banner, stderr, &again);
            fprintf(stderr, "%s\n%s\n", outcome.finding, banner);
            program_print(stderr, p);
        }
        report->schedules++;
        report->points += outcome.schedule.points;
        has_more = advance_prefix(&outcome.schedule, preemptions, prefix, &count);
    }
    report->is_complete = !has_more;
    return is_fine;
}
