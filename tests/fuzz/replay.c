/*
 * Bytes as a whole run of `libmend replay`: how, a trace, and behind a 0 a cost table. Whatever
 * they hold, the run completes or stops out of memory, in little time. No allocator breaks a rule
 * of the driver, and nothing is left behind.
 */
#include "lab/replay/replay.h"

#include <string.h>

#include "base/align.h"
#include "lab/replay/json.h"
#include "lab/replay/print.h"
#include "lab/support/costs.h"
#include "lab/trace/read.h"
#include "tests/fuzz/fuzz.h"

/* The first bytes choose. */
enum { CHOICE_POLICY, CHOICE_CAPACITY, CHOICE_LAG, CHOICE_SCALE, CHOICES };

enum { MOST_EVENTS = 1000 };

/* Runs take time with the memory they ask for. A refused input takes none. */
static bool is_long(const mend_trace *trace)
{
    static const uint64_t long_bytes = 512 * MEND_GIB;
    uint64_t bytes = 0;
    for (size_t i = 0; i < trace->event_count && bytes < long_bytes; i++) {
        bytes += trace->events[i].is_alloc ? trace->events[i].size_bytes : 0;
    }
    bool is_refused = trace->peak_live_bytes > 4 * MEND_TIB;
    return trace->event_count > MOST_EVENTS || (bytes >= long_bytes && !is_refused);
}

/* In JSON and in words, to nowhere. */
static void print(const mend_replay_row *row)
{
    static FILE *nowhere;
    if (nowhere == NULL) {
        nowhere = fopen("/dev/null", "w");
        FUZZ_CHECK(nowhere != NULL, "/dev/null");
    }
    mend_replay_print_json(nowhere, row);
    mend_replay_print_table_head(nowhere, row->trace, row->options);
    mend_replay_print_table_row(nowhere, row);
}

static void run(const mend_trace *trace, const uint8_t *choices, const mend_replay_options *options)
{
    static const char *const policies[] = {"mend",         "caching",    "caching:split128",
                                           "caching:gc80", "expandable", "caching:2.13",
                                           "rmm-pool",     "rmm-arena"};
    const char *policy = policies[choices[CHOICE_POLICY] % (sizeof(policies) / sizeof(*policies))];
    static const char *const texts[] = {
        "unlimited", "1.05x", "fit",  "64MiB",      "1GiB", "80GiB",  "1x", "1",
        "1000000x",  "0.5x",  "2TiB", "4000000TiB", "3B",   "1.001x", "2x", "300MiB"};
    mend_capacity capacity = {.kind = MEND_CAPACITY_UNLIMITED};
    const char *text = texts[choices[CHOICE_CAPACITY] % 16];
    FUZZ_CHECK(mend_parse_capacity(text, &capacity), "%s", text);
    mend_replay_result result;
    mend_result outcome = mend_replay_run(trace, policy, &capacity, options, &result);
    if (outcome != MEND_OK) {
        fuzz_check_refusal(outcome, "");
        return;
    }
    FUZZ_CHECK(result.problem[0] == 0, "%s: %s", policy, result.problem);
    FUZZ_CHECK(result.completed || result.failed_at_event < result.events, "where it ended");
    FUZZ_CHECK(capacity.kind != MEND_CAPACITY_FIT || !result.fitted || result.completed,
               "%s does not fit where it did", policy);
    print(&(mend_replay_row){trace, policy, options, &result});
    mend_replay_result_clear(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const double scales[] = {1, 1e6, 0.001, 3};
    if (size <= CHOICES) {
        return -1;
    }
    const uint8_t *text = data + CHOICES;
    const uint8_t *text_end = data + size;
    const uint8_t *zero = memchr(text, 0, size - CHOICES);
    static const uint64_t lags[] = {64, 0, 1, 1000000000};
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    options.lag_events = lags[data[CHOICE_LAG] % 4];
    options.sample_limit = 16;
    mend_sim_prices prices = MEND_SIM_PRICES_INIT;
    if (zero != NULL) {
        if (mend_costs_read(fuzz_file(1, zero + 1, (size_t)(text_end - zero - 1)), &prices) ==
            MEND_OK) {
            options.prices = &prices;
        }
        text_end = zero;
    }
    mend_trace *trace = NULL;
    if (mend_trace_read(fuzz_file(0, text, (size_t)(text_end - text)), &trace) != MEND_OK) {
        return -1;
    }
    double scale = scales[data[CHOICE_SCALE] % 4];
    if ((scale == 1 || mend_trace_scale(trace, scale) == MEND_OK) && !is_long(trace)) {
        run(trace, data, &options);
    }
    mend_trace_destroy(trace);
    return 0;
}
