/*
 * The pair of calls programs make most: allocate a block whose memory is cached, and free it again,
 * by size and by the number of other live blocks, beside host allocators. On the simulated device:
 * what is measured is Mend's own work, since such a pair makes no driver call.
 */
#include <benchmark/benchmark.h>

#include <string>

#include "speed/crowd.h"

namespace
{

/* A heap with its crowd. One for each contender at a time: it is kept while the next benchmark asks
 * for the same, since a million blocks take their time. */
struct World {
    speed_heap *heap = nullptr;
    speed_crowd crowd = {};
    size_t others = 0;
};
World worlds[SPEED_CONTENDERS];

void clear(World &world)
{
    if (world.heap != nullptr) {
        speed_crowd_destroy(&world.crowd);
        speed_heap_destroy(world.heap);
    }
    world = {};
}

const speed_lane *lane_among(speed_contender contender, size_t others)
{
    World &world = worlds[contender];
    if (world.heap != nullptr && world.others == others) {
        return speed_heap_lane(world.heap, 0);
    }
    clear(world);
    world.heap = speed_heap_create(contender, 1);
    if (world.heap == nullptr) {
        return nullptr;
    }
    world.others = others;
    const speed_lane *lane = speed_heap_lane(world.heap, 0);
    if (!speed_crowd_create(&world.crowd, lane, others)) {
        speed_heap_destroy(world.heap);
        world = {};
        return nullptr;
    }
    return lane;
}

void cached_pair(benchmark::State &state, speed_contender contender, size_t others, size_t size)
{
    const speed_lane *lane = lane_among(contender, others);
    if (lane == nullptr) {
        state.SkipWithError("no heap with that many blocks");
        return;
    }
    for (auto _ : state) {
        void *block = lane->alloc(lane, size);
        benchmark::DoNotOptimize(block);
        if (block == nullptr) {
            state.SkipWithError("the allocation failed");
            break;
        }
        lane->free(lane, block);
    }
}

void register_all()
{
    const size_t sizes[] = {512,     4 << 10, 32 << 10, 256 << 10,
                            1 << 20, 2 << 20, 16 << 20, 128 << 20};
    for (size_t others : {size_t{0}, size_t{1000}, size_t{100000}, size_t{1000000}}) {
        for (size_t size : sizes) {
            for (int i = 0; i < SPEED_CONTENDERS; i++) {
                auto contender = static_cast<speed_contender>(i);
                if (!speed_load(contender)) {
                    continue;
                }
                std::string name = std::string("cached_pair/") + speed_name(contender) +
                                   "/others:" + std::to_string(others) +
                                   "/size:" + std::to_string(size);
                benchmark::RegisterBenchmark(name.c_str(), cached_pair, contender, others, size);
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
    for (World &world : worlds) {
        clear(world);
    }
    return 0;
}
