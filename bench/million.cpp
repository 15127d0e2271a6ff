/*
 * A million live blocks: the time of a call while they become that many, while random ones of them
 * are replaced, and while they end; and the host memory Mend keeps for each.
 */
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "speed/crowd.h"

namespace
{

constexpr size_t blocks = 1000000;

/* Heaps live on from one repetition to the next, as those of mimalloc and jemalloc do anyway: so
 * the first one finds them cold, and the others warm. What is kept for the blocks is taken once. */
struct World {
    speed_heap *heap = nullptr;
    double host_bytes = 0;
};
World worlds[SPEED_CONTENDERS];

void million(benchmark::State &state, speed_contender contender)
{
    World &world = worlds[contender];
    if (world.heap == nullptr) {
        world.heap = speed_heap_create(contender, 1);
    }
    speed_crowd_figures figures = {};
    for (auto _ : state) {
        if (world.heap == nullptr ||
            !speed_crowd_measure(speed_heap_lane(world.heap, 0), blocks, &figures)) {
            state.SkipWithError("an allocation failed");
            break;
        }
    }
    world.host_bytes = std::max(world.host_bytes, figures.host_bytes);
    state.counters["fill_ns"] = figures.fill_ns;
    state.counters["churn_ns"] = figures.churn_ns;
    state.counters["drain_ns"] = figures.drain_ns;
    state.counters["host_bytes"] = world.host_bytes;
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
    for (World &world : worlds) {
        if (world.heap != nullptr) {
            speed_heap_destroy(world.heap);
        }
    }
    return 0;
}
