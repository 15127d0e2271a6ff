#include "lab/replay/print.h"

#include "base/align.h"
#include "lab/replay/explain_text.h"
#include "lab/support/capacity.h"

void mend_replay_print_table_head(FILE *out, const mend_trace *trace,
                                  const mend_replay_options *options)
{
    bool simulated = options->device == MEND_REPLAY_SIM;
    char name[128];
    char peak[32];
    mend_trace_short_name(trace, name, sizeof(name));
    mend_format_bytes(trace->peak_live_bytes, peak, sizeof(peak));
    fprintf(out, "\n%s: %zu events, peak live %s\n", name, trace->event_count, peak);
    char failures[MEND_TRACE_FAILURES_BYTES];
    mend_trace_tell_failures(trace, failures, sizeof(failures));
    if (failures[0] != 0) {
        fprintf(out, "%s\n", failures);
    }
    if (options->explain && trace->failure[0] != 0) {
        fprintf(out, "then the last request that failed said: %s\n", trace->failure);
    }
    if (simulated) {
        fprintf(out, "driver ms by the cost tables %s (with the second half) and %s\n",
                mend_replay_chosen_costs(options), mend_replay_compared_costs(options));
    }
    fprintf(out, "%-21s %11s %9s %14s %12s %7s %9s %10s %11s %8s %9s %9s %11s %8s %6s %6s %6s\n",
            "policy", "capacity", "factor", "outcome", "reserved", "x live", "driver ms",
            "2nd half", simulated ? mend_replay_compared_costs(options) : "-", "calls", "host wait",
            "alloc p50", "longest ms", "p99.9 ms", "> 5 ms", "+ GPU", "+ host");
}

static void format_capacity(const mend_replay_result *result, char *capacity, size_t size,
                            char *factor, size_t factor_size)
{
    snprintf(capacity, size, "unlimited");
    snprintf(factor, factor_size, "-");
    if (!result->limited) {
        return;
    }
    mend_format_bytes(result->capacity_bytes, capacity, size);
    double peak_bytes = (double)mend_max_u64(result->peak_live_bytes, 1);
    if (result->fitted) {
        snprintf(factor, factor_size, "fit %.3f", result->fit_factor);
    } else {
        snprintf(factor, factor_size, "%.3f", (double)result->capacity_bytes / peak_bytes);
    }
}

static void format_outcome(const mend_replay_result *result, char *outcome, size_t size)
{
    if (result->problem[0] != 0) {
        snprintf(outcome, size, "broken");
    } else if (result->content_errors > 0) {
        snprintf(outcome, size, "wrong content");
    } else if (result->completed && result->failed_again > 0) {
        snprintf(outcome, size, "%llu fail%s again", (unsigned long long)result->failed_again,
                 result->failed_again == 1 ? "s" : "");
    } else if (result->completed) {
        snprintf(outcome, size, "completes");
    } else {
        snprintf(outcome, size, "out at %.0f %%", mend_replay_reached_percent(result));
    }
}

void mend_replay_print_table_row(FILE *out, const mend_replay_row *row)
{
    const mend_replay_result *result = row->result;
    char capacity[32];
    char factor[32];
    char outcome[40];
    char reserved[32];
    format_capacity(result, capacity, sizeof(capacity), factor, sizeof(factor));
    format_outcome(result, outcome, sizeof(outcome));
    mend_format_bytes(result->peak_reserved_bytes, reserved, sizeof(reserved));
    double peak_bytes = (double)mend_max_u64(result->peak_live_bytes, 1);
    char compared[32] = "-";
    if (row->options->device == MEND_REPLAY_SIM) {
        snprintf(compared, sizeof(compared), "%.1f", result->compared_time_us / 1000);
    }
    fprintf(out, "%-21s %11s %9s %14s %12s %7.3f %9.1f %10.1f %11s %8llu %9llu %6llu ns",
            row->policy, capacity, factor, outcome, reserved,
            (double)result->peak_reserved_bytes / peak_bytes, result->driver_time_us / 1000,
            result->driver_time_second_half_us / 1000, compared,
            (unsigned long long)mend_replay_sum_calls(&result->calls),
            (unsigned long long)result->host_syncs, (unsigned long long)result->alloc_ns.p50_ns);
    if (result->is_felt) {
        fprintf(out, " %11.1f %8.2f %6llu %5.1f%% %5.1f%%", result->felt.longest_us / 1000,
                result->felt.p999_us / 1000, (unsigned long long)result->felt.above_5_ms,
                result->felt.gpu_bound_percent, result->felt.host_bound_percent);
    }
    fputc('\n', out);
    if (result->explanation != NULL) {
        mend_replay_explain_text(out, result);
    }
    fflush(out);
}
