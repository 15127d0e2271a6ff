#include "cli/demo_report.h"

#include "base/align.h"

const mend_demo_allocator mend_demo_allocators[MEND_DEMO_ALLOCATORS] = {
    {"caching", "PyTorch caching", "model of PyTorch's native caching allocator"},
    {"expandable", "PyTorch expandable", "model of PyTorch's expandable segments"},
    {"mend", "Mend", "this library"},
};

size_t mend_demo_completed(const mend_demo_report *report, size_t allocator)
{
    size_t count = 0;
    for (size_t i = 0; i < report->act_count; i++) {
        count += mend_replay_served_all(&report->acts[i].runs[allocator].result);
    }
    return count;
}

uint64_t mend_demo_waits(const mend_demo_report *report, size_t allocator)
{
    uint64_t count = 0;
    for (size_t i = 0; i < report->act_count; i++) {
        count += report->acts[i].runs[allocator].result.host_syncs;
    }
    return count;
}

double mend_demo_times_peak(const mend_demo_act *act)
{
    return (double)act->capacity_bytes / (double)mend_max_u64(act->peak_live_bytes, 1);
}

static void print_head(FILE *out, const mend_demo_act *act)
{
    char capacity[32];
    char peak[32];
    mend_format_bytes(act->capacity_bytes, capacity, sizeof(capacity));
    mend_format_bytes(act->peak_live_bytes, peak, sizeof(peak));
    fprintf(out, "\n%s (%s)\n%s with %s, %.3fx of the %s that are live at the peak\n",
            act->scene->title, act->scene->source, act->on_gpu ? "GPU" : "simulated device",
            capacity, mend_demo_times_peak(act), peak);
    fprintf(out, "  %-18s  %-35s  %8s  %10s  %11s  %11s  %12s  %6s  %8s\n", "allocator", "result",
            "reserved", "CPU stalls", "driver time", "assumed", "driver calls", "copies", "needs");
}

static void format_outcome(const mend_replay_result *result, char *text, size_t size)
{
    if (result->completed && result->failed_again > 0) {
        snprintf(text, size, "completed, %llu failed again",
                 (unsigned long long)result->failed_again);
    } else if (result->completed) {
        snprintf(text, size, "completed");
    } else {
        snprintf(text, size, "out of memory at event %llu, %.0f %%",
                 (unsigned long long)result->failed_at_event, mend_replay_reached_percent(result));
    }
}

static void print_run(FILE *out, const mend_demo_act *act, size_t allocator)
{
    const mend_demo_run *run = &act->runs[allocator];
    const mend_replay_result *result = &run->result;
    char outcome[64];
    char copies[32] = "none";
    char needs[16] = "-";
    char compared[32] = "-";
    format_outcome(result, outcome, sizeof(outcome));
    if (result->bytes_copied > 0) {
        mend_format_bytes(result->bytes_copied, copies, sizeof(copies));
    }
    if (!act->on_gpu) {
        snprintf(compared, sizeof(compared), "%.1f ms", result->compared_time_us / 1000);
    }
    if (run->fit_factor != 0) {
        snprintf(needs, sizeof(needs), "%.3fx", run->fit_factor);
    }
    fprintf(out, "  %-18s  %-35s  %7.3fx  %10llu  %8.1f ms  %11s  %12llu  %6s  %8s\n",
            mend_demo_allocators[allocator].title, outcome,
            (double)result->peak_reserved_bytes / (double)mend_max_u64(act->peak_live_bytes, 1),
            (unsigned long long)result->host_syncs, result->driver_time_us / 1000, compared,
            (unsigned long long)mend_replay_sum_calls(&result->calls), copies, needs);
}

void mend_demo_print(FILE *out, const mend_demo_report *report)
{
    char failures[MEND_TRACE_FAILURES_BYTES] = "";
    if (report->own != NULL) {
        mend_trace_tell_failures(report->own, failures, sizeof(failures));
    }
    if (failures[0] != 0) {
        fprintf(out, "\n%s\n", failures);
    }
    for (size_t i = 0; i < report->act_count; i++) {
        print_head(out, &report->acts[i]);
        for (size_t a = 0; a < MEND_DEMO_ALLOCATORS; a++) {
            print_run(out, &report->acts[i], a);
        }
    }
    fputs("\nThe PyTorch rows are models of its allocators, not PyTorch itself. Figures of a run "
          "that failed\ncount up to there. reserved: the most physical memory held; needs: the "
          "least device memory from\nwhich on the allocator always completes, searched for in "
          "steps of 0.2 %; both as multiples of the\nmost that is live. Driver times of the "
          "simulated device are sums of prices: of the list\n`h200`, measured on an H200, then of "
          "the list `reference`, assumed before.\n",
          out);
}

void mend_demo_report_clear(mend_demo_report *report)
{
    for (size_t i = 0; i < report->act_count; i++) {
        for (size_t a = 0; a < MEND_DEMO_ALLOCATORS; a++) {
            mend_replay_result_clear(&report->acts[i].runs[a].result);
        }
    }
    mend_trace_destroy(report->own);
    *report = (mend_demo_report){0};
}
