/*
 * A recording from start to end, by policy, on the simulated device: host time of the replay, of
 * which the simulated device and the bookkeeping of the replay are a fixed part.
 */
#include <benchmark/benchmark.h>

#include <string>

extern "C" {
#include "cli/replay.h"
#include "cli/trace.h"
}

namespace
{

void replay(benchmark::State &state, const char *policy, const char *name)
{
    mend_trace *trace = nullptr;
    std::string path = std::string(MEND_TRACES_DIR) + "/" + name + ".csv.gz";
    if (mend_trace_read(path.c_str(), &trace) != MEND_OK) {
        state.SkipWithError("the recording cannot be read");
        return;
    }
    mend_replay_options options = {};
    options.lag_events = 64;
    mend_capacity capacity = {MEND_CAPACITY_UNLIMITED, 0, 0};
    for (auto _ : state) {
        mend_replay_result result = {};
        if (mend_replay_run(trace, policy, &capacity, &options, &result) != MEND_OK) {
            state.SkipWithError("the replay failed");
            break;
        }
        state.counters["alloc_p50_ns"] = static_cast<double>(result.alloc_ns.p50_ns);
        state.counters["free_p50_ns"] = static_cast<double>(result.free_ns.p50_ns);
        state.counters["driver_ms"] = result.driver_time_us / 1000;
        mend_replay_result_clear(&result);
    }
    state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(trace->event_count));
    mend_trace_destroy(trace);
}

BENCHMARK_CAPTURE(replay, mend_gpt2, "mend", "gpt2-medium-pretrain");
BENCHMARK_CAPTURE(replay, caching_gpt2, "caching", "gpt2-medium-pretrain");
BENCHMARK_CAPTURE(replay, expandable_gpt2, "expandable", "gpt2-medium-pretrain");
BENCHMARK_CAPTURE(replay, mend_fsdp, "mend", "fsdp-llama-2stream");
BENCHMARK_CAPTURE(replay, caching_fsdp, "caching", "fsdp-llama-2stream");
BENCHMARK_CAPTURE(replay, expandable_fsdp, "expandable", "fsdp-llama-2stream");

} // namespace
