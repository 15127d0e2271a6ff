/*
 * A million live blocks: the time of a call while they become that many, while random ones of them
 * are replaced, and while they end; and the host memory Mend keeps for each.
 */
#include <benchmark/benchmark.h>

#include <string>

#include "speed/crowd.h"

namespace
{

constexpr size_t blocks = 1000000;

void million(benchmark::State &state, speed_contender contender)
{
    speed_crowd_figures figures = {};
    for (auto _ : state) {
        speed_heap *heap = speed_heap_create(contender, 1);
        bool good =
            heap != nullptr && speed_crowd_measure(speed_heap_lane(heap, 0), blocks, &figures);
        if (heap != nullptr) {
            speed_heap_destroy(heap);
        }
        if (!good) {
            state.SkipWithError("an allocation failed");
            break;
        }
    }
    state.counters["fill_ns"] = figures.fill_ns;
    state.counters["churn_ns"] = figures.churn_ns;
    state.counters["drain_ns"] = figures.drain_ns;
    state.counters["host_bytes"] = figures.host_bytes;
}

} // namespace

int main(int argc, char **argv)
{
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 2;
    }
    for (int i = 0; i < SPEED_CONTENDERS; i++) {
        auto contender = static_cast<speed_contender>(i);
        if (speed_load(contender)) {
            std::string name = std::string("million/") + speed_name(contender);
            benchmark::RegisterBenchmark(name.c_str(), million, contender)
                ->Iterations(1)
                ->Unit(benchmark::kMillisecond);
        }
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
