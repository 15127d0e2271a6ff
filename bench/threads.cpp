/*
 * 1 to 16 threads on separate streams of one pool, beside host allocators: calls a second, and the
 * time of single calls. Cached pairs of one size, and a churn of mixed sizes.
 */
#include <benchmark/benchmark.h>

#include <string>

#include "speed/crew.h"

namespace
{

void threads(benchmark::State &state, speed_contender contender, size_t count,
             const speed_work &work)
{
    speed_heap *heap = speed_heap_create(contender, count);
    speed_figures figures = {};
    for (auto _ : state) {
        if (heap == nullptr || !speed_crew_run(heap, count, &work, &figures)) {
            state.SkipWithError("an allocation failed");
            break;
        }
        state.SetIterationTime(figures.seconds);
    }
    double calls = static_cast<double>(count * work.calls);
    state.counters["calls_per_second"] = calls / figures.seconds;
    state.counters["cpu_ns"] = figures.cpu_ns;
    state.counters["p50_ns"] = static_cast<double>(figures.p50_ns);
    state.counters["p99_ns"] = static_cast<double>(figures.p99_ns);
    state.counters["p999_ns"] = static_cast<double>(figures.p999_ns);
    state.counters["max_ns"] = static_cast<double>(figures.max_ns);
    if (heap != nullptr) {
        speed_heap_destroy(heap);
    }
}

struct Scene {
    const char *name;
    speed_work work;
};

const Scene scenes[] = {
    {"pair_512B", {512, 512, 262144}},
    {"pair_2MiB", {2 << 20, 2 << 20, 65536}},
    {"churn_to_1MiB", {512, 1 << 20, 65536}},
    {"churn_to_64MiB", {512, 64 << 20, 65536}},
};

void register_all()
{
    for (const Scene &scene : scenes) {
        for (size_t count : {size_t{1}, size_t{2}, size_t{4}, size_t{8}, size_t{16}}) {
            for (int i = 0; i < SPEED_CONTENDERS; i++) {
                auto contender = static_cast<speed_contender>(i);
                if (!speed_load(contender)) {
                    continue;
                }
                std::string name = std::string("threads/") + speed_name(contender) + "/" +
                                   scene.name + "/threads:" + std::to_string(count);
                benchmark::RegisterBenchmark(name.c_str(), threads, contender, count, scene.work)
                    ->UseManualTime()
                    ->Iterations(1)
                    ->Unit(benchmark::kMillisecond);
            }
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 2;
    }
    register_all();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
