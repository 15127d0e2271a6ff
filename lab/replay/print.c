#include "lab/replay/print.h"

#include "base/align.h"
#include "lab/replay/explain_json.h"
#include "lab/replay/explain_text.h"
#include "lab/support/capacity.h"
#include "lab/support/json.h"

static void print_calls(mend_json *json, const char *key, const mend_replay_calls *calls)
{
    mend_json_begin_object(json, key);
#define X(call) mend_json_integer(json, #call, calls->call##_calls);
    MEND_REPLAY_CALLS(X)
#undef X
    mend_json_end_object(json);
}

static void print_placements(mend_json *json, const mend_peer_placements *placed)
{
    mend_json_begin_object(json, "placed");
#define X(name, counter) mend_json_integer(json, #name, placed->name);
    MEND_PEER_PLACEMENTS(X)
#undef X
    mend_json_end_object(json);
}

static void print_latency(mend_json *json, const char *key, const mend_replay_latency *latency)
{
    if (latency->calls == 0) {
        mend_json_null(json, key);
        return;
    }
    mend_json_begin_object(json, key);
    mend_json_integer(json, "mean", latency->mean_ns);
    mend_json_integer(json, "p50", latency->p50_ns);
    mend_json_integer(json, "p99", latency->p99_ns);
    mend_json_integer(json, "p999", latency->p999_ns);
    mend_json_integer(json, "max", latency->max_ns);
    mend_json_end_object(json);
}

static void print_if(mend_json *json, const char *key, bool applies, uint64_t value)
{
    if (applies) {
        mend_json_integer(json, key, value);
    } else {
        mend_json_null(json, key);
    }
}

static void print_number_if(mend_json *json, const char *key, bool applies, double value)
{
    if (applies) {
        mend_json_number(json, key, value, 3);
    } else {
        mend_json_null(json, key);
    }
}

static const char *costs_name(const mend_replay_options *options)
{
    return options->costs_name != NULL ? options->costs_name : mend_replay_lists[0];
}

void mend_replay_print_json(FILE *out, const mend_replay_row *row)
{
    const mend_replay_result *result = row->result;
    bool simulated = row->options->device == MEND_REPLAY_SIM;
    mend_json writer = {.out = out};
    mend_json *json = &writer;
    mend_json_begin_object(json, NULL);
    mend_json_string(json, "trace", row->trace->name);
    mend_json_string(json, "policy", row->policy);
    mend_json_string(json, "device", simulated ? "sim" : "cuda");
    if (simulated) {
        mend_json_string(json, "costs", costs_name(row->options));
    } else {
        mend_json_null(json, "costs");
    }
    if (simulated) {
        mend_json_string(json, "compared_costs", mend_replay_compared_costs(row->options));
    } else {
        mend_json_null(json, "compared_costs");
    }
    print_if(json, "capacity_bytes", result->limited, result->capacity_bytes);
    print_if(json, "ballast_bytes", result->ballast_bytes > 0, result->ballast_bytes);
    mend_json_bool(json, "completed", result->completed);
    print_if(json, "failed_at_event", !result->completed, result->failed_at_event);
    mend_json_integer(json, "events", result->events);
    mend_json_integer(json, "peak_live_bytes", result->peak_live_bytes);
    mend_json_integer(json, "peak_reserved_bytes", result->peak_reserved_bytes);
    print_if(json, "fit_capacity_bytes", result->fitted, result->fit_capacity_bytes);
    if (result->fitted) {
        mend_json_number(json, "fit_factor", result->fit_factor, 3);
    } else {
        mend_json_null(json, "fit_factor");
    }
    mend_json_integer(json, "host_syncs", result->host_syncs);
    mend_json_integer(json, "bytes_copied", result->bytes_copied);
    mend_json_integer(json, "creates_refused", result->creates_refused);
    print_placements(json, &result->placed);
    mend_json_number(json, "driver_time_us", result->driver_time_us, 3);
    mend_json_number(json, "driver_time_second_half_us", result->driver_time_second_half_us, 3);
    print_number_if(json, "compared_time_us", simulated, result->compared_time_us);
    print_number_if(json, "compared_time_second_half_us", simulated,
                    result->compared_time_second_half_us);
    if (simulated) {
        mend_json_begin_object(json, "driver_time_by_list_us");
        for (size_t i = 0; i < MEND_REPLAY_LISTS; i++) {
            mend_json_number(json, mend_replay_lists[i], result->time_us.us[i], 3);
        }
        mend_json_end_object(json);
    } else {
        mend_json_null(json, "driver_time_by_list_us");
    }
    print_calls(json, "driver_calls", &result->calls);
    print_calls(json, "driver_calls_second_half", &result->calls_second_half);
    print_latency(json, "alloc_ns", &result->alloc_ns);
    print_latency(json, "free_ns", &result->free_ns);
    print_if(json, "mappings_peak", result->counts_mappings, result->mappings_peak);
    print_if(json, "content_errors", result->content_checked, result->content_errors);
    if (result->explanation != NULL) {
        mend_replay_explain_json(json, result);
    }
    mend_json_end_object(json);
    fputc('\n', out);
    fflush(out);
}

void mend_replay_print_table_head(FILE *out, const mend_trace *trace,
                                  const mend_replay_options *options)
{
    bool simulated = options->device == MEND_REPLAY_SIM;
    char name[128];
    char peak[32];
    mend_trace_short_name(trace, name, sizeof(name));
    mend_format_bytes(trace->peak_live_bytes, peak, sizeof(peak));
    fprintf(out, "\n%s: %zu events, peak live %s\n", name, trace->event_count, peak);
    if (simulated) {
        fprintf(out, "driver ms by the price lists %s (with the second half) and %s\n",
                costs_name(options), mend_replay_compared_costs(options));
    }
    fprintf(out, "%-21s %11s %9s %14s %12s %7s %9s %10s %11s %8s %9s %9s\n", "policy", "capacity",
            "factor", "outcome", "reserved", "x live", "driver ms", "2nd half",
            simulated ? mend_replay_compared_costs(options) : "-", "calls", "host wait",
            "alloc p50");
}

static uint64_t sum_calls(const mend_replay_calls *calls)
{
    uint64_t sum = 0;
#define X(call) sum += calls->call##_calls;
    MEND_REPLAY_CALLS(X)
#undef X
    return sum;
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
    } else if (result->completed) {
        snprintf(outcome, size, "completes");
    } else {
        snprintf(outcome, size, "out at %.0f %%",
                 100 * (double)result->failed_at_event / (double)result->events);
    }
}

void mend_replay_print_table_row(FILE *out, const mend_replay_row *row)
{
    const mend_replay_result *result = row->result;
    char capacity[32];
    char factor[32];
    char outcome[32];
    char reserved[32];
    format_capacity(result, capacity, sizeof(capacity), factor, sizeof(factor));
    format_outcome(result, outcome, sizeof(outcome));
    mend_format_bytes(result->peak_reserved_bytes, reserved, sizeof(reserved));
    double peak_bytes = (double)mend_max_u64(result->peak_live_bytes, 1);
    char compared[32] = "-";
    if (row->options->device == MEND_REPLAY_SIM) {
        snprintf(compared, sizeof(compared), "%.1f", result->compared_time_us / 1000);
    }
    fprintf(out, "%-21s %11s %9s %14s %12s %7.3f %9.1f %10.1f %11s %8llu %9llu %6llu ns\n",
            row->policy, capacity, factor, outcome, reserved,
            (double)result->peak_reserved_bytes / peak_bytes, result->driver_time_us / 1000,
            result->driver_time_second_half_us / 1000, compared,
            (unsigned long long)sum_calls(&result->calls), (unsigned long long)result->host_syncs,
            (unsigned long long)result->alloc_ns.p50_ns);
    if (result->explanation != NULL) {
        mend_replay_explain_text(out, result);
    }
    fflush(out);
}
