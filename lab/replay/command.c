#include "lab/replay/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/replay/arguments.h"
#include "lab/replay/gpu.h"
#include "lab/replay/json.h"
#include "lab/replay/print.h"
#include "lab/replay/replay.h"
#include "lab/replay/timeline.h"
#include "lab/support/output.h"
#include "lab/trace/read.h"
#include "lab/workloads/workload.h"

enum { STATUS_COMPLETED = 0, STATUS_OUT_OF_MEMORY = 1, STATUS_BAD_INPUT = 2, STATUS_BROKEN = 3 };

/* The line of progress on standard error. */
typedef struct progress_line {
    const char *policy;
    bool is_terminal;
} progress_line;

static void show_progress(void *context, const char *phase, uint64_t done_events,
                          uint64_t all_events)
{
    const progress_line *line = context;
    if (line->is_terminal) {
        fprintf(stderr, "\r%-12s %-14s %3.0f %%\033[K", line->policy, phase,
                100 * (double)done_events / (double)all_events);
    }
}

static void end_progress(const progress_line *line)
{
    if (line->is_terminal) {
        fputs("\r\033[K", stderr);
    }
}

static mend_result load(const mend_replay_arguments *arguments, const char *input,
                        mend_trace **trace)
{
    mend_result result = mend_workload_is_spec(input)
                             ? mend_workload_generate(input, arguments->seed, trace)
                             : mend_trace_read(input, trace);
    if (result == MEND_OK && (*trace)->note[0] != 0) {
        fprintf(stderr, "libmend replay: %s: %s\n", input, (*trace)->note);
    }
    if (result == MEND_OK && arguments->scale_fits) {
        double factor = 1;
        result = mend_replay_scale_to_gpu(*trace, &factor);
        if (result == MEND_OK && factor > 1) {
            fprintf(stderr, "libmend replay: %s: sizes divided by %.0f to fit the GPU\n", input,
                    factor);
        }
    } else if (result == MEND_OK && arguments->scale != 1) {
        result = mend_trace_scale(*trace, arguments->scale);
    }
    return result;
}

/* The exit status for one run. Prints problems to standard error. */
static int judge(const mend_replay_row *row)
{
    const mend_replay_result *result = row->result;
    if (result->problem[0] != 0) {
        fprintf(stderr, "libmend replay: %s, %s: %s\n", row->trace->name, row->policy,
                result->problem);
        return STATUS_BROKEN;
    }
    if (result->content_errors > 0) {
        fprintf(stderr, "libmend replay: %s, %s: %llu content errors\n", row->trace->name,
                row->policy, (unsigned long long)result->content_errors);
        return STATUS_BROKEN;
    }
    return mend_replay_served_all(result) ? STATUS_COMPLETED : STATUS_OUT_OF_MEMORY;
}

static int worse(int a, int b)
{
    return a > b ? a : b;
}

static int run_one(const mend_replay_arguments *arguments, const mend_trace *trace,
                   const char *policy, const mend_capacity *capacity, FILE *timeline)
{
    progress_line line = {policy, isatty(STDERR_FILENO) != 0};
    mend_replay_options options = arguments->options;
    options.progress = show_progress;
    options.progress_context = &line;
    options.sample_limit = timeline != NULL ? trace->event_count + 1 : 0;
    mend_replay_result result;
    mend_result outcome = mend_replay_run(trace, policy, capacity, &options, &result);
    end_progress(&line);
    if (outcome != MEND_OK) {
        return mend_command_fail(&mend_replay_command, policy);
    }
    mend_replay_row row = {trace, policy, &options, &result};
    if (arguments->json) {
        mend_replay_print_json(stdout, &row);
    } else {
        mend_replay_print_table_row(stdout, &row);
    }
    if (timeline != NULL) {
        mend_replay_timeline_write(timeline, &row);
    }
    int status = judge(&row);
    mend_replay_result_clear(&result);
    return status;
}

static int run_trace(const mend_replay_arguments *arguments, const mend_trace *trace,
                     FILE *timeline)
{
    int status = STATUS_COMPLETED;
    if (!arguments->json) {
        mend_replay_print_table_head(stdout, trace, &arguments->options);
    }
    for (size_t p = 0; p < arguments->policy_count; p++) {
        for (size_t c = 0; c < arguments->capacity_count; c++) {
            status = worse(status, run_one(arguments, trace, arguments->policies[p],
                                           &arguments->capacities[c], timeline));
        }
    }
    return status;
}

/* Reads all inputs before the first run, so that wrong ones are reported at once. */
static int run_all(const mend_replay_arguments *arguments, FILE *timeline)
{
    mend_trace **traces = calloc(arguments->input_count, sizeof(mend_trace *));
    if (traces == NULL) {
        fprintf(stderr, "libmend replay: no host memory\n");
        return STATUS_BAD_INPUT;
    }
    int status = STATUS_COMPLETED;
    for (size_t i = 0; i < arguments->input_count; i++) {
        if (load(arguments, arguments->inputs[i], &traces[i]) != MEND_OK) {
            status = mend_command_fail(&mend_replay_command, "");
        }
    }
    for (size_t i = 0; i < arguments->input_count; i++) {
        if (status != STATUS_BAD_INPUT) {
            status = worse(status, run_trace(arguments, traces[i], timeline));
        }
    }
    for (size_t i = 0; i < arguments->input_count; i++) {
        mend_trace_destroy(traces[i]);
    }
    free(traces);
    return status;
}

/* An input file is never overwritten. */
static bool inputs_are_apart(const mend_replay_arguments *arguments, const mend_output *timeline)
{
    bool are_apart = arguments->costs == NULL || mend_output_is_apart(timeline, arguments->costs);
    for (size_t i = 0; i < arguments->input_count && are_apart; i++) {
        are_apart = mend_workload_is_spec(arguments->inputs[i]) ||
                    mend_output_is_apart(timeline, arguments->inputs[i]);
    }
    return are_apart;
}

/* All runs, and the file of timelines if it is asked for. */
static int run_with_timeline(const mend_replay_arguments *arguments)
{
    mend_output timeline;
    if (!mend_output_open(&timeline, "replay", arguments->timeline)) {
        return STATUS_BAD_INPUT;
    }
    int status = STATUS_BAD_INPUT;
    if (inputs_are_apart(arguments, &timeline)) {
        if (timeline.stream != NULL) {
            mend_replay_timeline_head(timeline.stream);
        }
        status = run_all(arguments, timeline.stream);
    }
    if (status == STATUS_BAD_INPUT) {
        mend_output_discard(&timeline);
    }
    return mend_output_close(&timeline) ? status : worse(status, STATUS_BAD_INPUT);
}

int mend_cli_replay(int argc, char **argv)
{
    mend_replay_arguments arguments;
    int status;
    if (!mend_replay_arguments_read(argc, argv, &arguments, &status)) {
        return status;
    }
    if (arguments.list) {
        mend_workload_list(stdout);
        return STATUS_COMPLETED;
    }
    return run_with_timeline(&arguments);
}
