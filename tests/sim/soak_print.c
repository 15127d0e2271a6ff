/* The report of a soak. */
#include "tests/sim/soak.h"

#define LLU(value) ((unsigned long long)(value))

static void print_operations(FILE *out, const trial_tally *tally)
{
    fprintf(out, "\n%-16s %12s %12s  answers other than OK\n", "operation", "done", "skipped");
    for (int i = 0; i < OP_COUNT; i++) {
        fprintf(out, "%-16s %12llu %12llu ", operation_name((uint8_t)i), LLU(tally->done[i]),
                LLU(tally->skipped[i]));
        for (int k = 1; k < TRIAL_RESULTS; k++) {
            if (tally->answered[i][k] != 0) {
                fprintf(out, " %s %llu", mend_result_name((mend_result)k) + sizeof("MEND_ERROR"),
                        LLU(tally->answered[i][k]));
            }
        }
        fprintf(out, "\n");
    }
}

static void print_faults(FILE *out, const trial_tally *tally)
{
    fprintf(out, "\n%-22s %12s %12s\n", "call of the driver", "faults", "failed");
    for (int i = 0; i <= MEND_DRIVER_CALL_COUNT; i++) {
        uint64_t failed = i < MEND_DRIVER_CALL_COUNT ? tally->failed_calls[i] : 0;
        if (tally->planted[i] + failed != 0) {
            fprintf(out, "%-22s %12llu %12llu\n", trial_driver_calls[i], LLU(tally->planted[i]),
                    LLU(failed));
        }
    }
    fprintf(out, "\n%-40s %12s\n", "in the midst of a call", "times");
    for (int i = 0; i < AMBUSH_ACTIONS; i++) {
        fprintf(out, "%-40s %12llu\n", trial_ambush_name(i), LLU(tally->ambushes[i]));
    }
    fprintf(out, "%-40s %12llu\n", "malloc failed", LLU(tally->failed_mallocs));
    fprintf(out, "%-40s %12llu\n", "blocks unmapped", LLU(tally->unmapped));
    fprintf(out, "%-40s %12llu\n", "blocks that fell asleep", LLU(tally->fell_asleep));
    fprintf(out, "%-40s %12llu\n", "spoilt a capture it could not know of",
            LLU(tally->captures_spoilt));
}

/* Of the first pools, at their ends: only sums of events matter. */
static void print_figures(FILE *out, const mend_stats *stats)
{
    fprintf(out, "\n%-40s %12s\n", "figures of the first pools", "sum");
#define X(field, unit, meaning)                                                                    \
    if (stats->field != 0) {                                                                       \
        fprintf(out, "%-40s %12llu\n", #field, LLU(stats->field));                                 \
    }
    MEND_STATS(X)
#undef X
}

void soak_print(FILE *out, const soak_report *report)
{
    print_operations(out, &report->tally);
    print_faults(out, &report->tally);
    print_figures(out, &report->tally.stats);
    fprintf(out, "\n%llu seeds, %llu steps, %llu findings\n", LLU(report->seeds),
            LLU(report->tally.steps), LLU(report->finding_count));
}
