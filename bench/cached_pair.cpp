/*
 * The pair of calls programs make most: allocate a block whose memory is cached, and free it again,
 * by size. Through the public interface, on the simulated device: what is measured is Mend's own
 * work, since such a pair makes no driver call.
 */
#include <benchmark/benchmark.h>

#include "mend/mend.h"
#include "mend/mend_sim.h"

namespace
{

class Device
{
  public:
    Device()
    {
        mend_sim_config config = MEND_SIM_CONFIG_INIT;
        mend_sim_create(&config, &sim_);
        mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
        pool_config.driver = mend_sim_driver(sim_);
        mend_pool_create(&pool_config, &pool_);
        mend_sim_stream_create(sim_, &stream_);
    }

    ~Device()
    {
        mend_pool_destroy(pool_);
        mend_sim_destroy(sim_);
    }

    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;

    mend_pool *pool() { return pool_; }
    mend_stream stream() { return stream_; }

  private:
    mend_sim *sim_ = nullptr;
    mend_pool *pool_ = nullptr;
    mend_stream stream_ = nullptr;
};

void cached_pair(benchmark::State &state)
{
    Device device;
    uint64_t size = static_cast<uint64_t>(state.range(0));
    for (auto _ : state) {
        void *pointer = nullptr;
        mend_result result = mend_alloc(device.pool(), size, device.stream(), &pointer);
        benchmark::DoNotOptimize(pointer);
        if (result != MEND_OK || mend_free(device.pool(), pointer, device.stream()) != MEND_OK) {
            state.SkipWithError("the pair failed");
            break;
        }
    }
}
BENCHMARK(cached_pair)->RangeMultiplier(8)->Range(512, int64_t{1} << 30);

/* The same with a thousand blocks live around it, so that there are holes to search. */
void cached_pair_among_others(benchmark::State &state)
{
    Device device;
    uint64_t size = static_cast<uint64_t>(state.range(0));
    void *others[2000];
    for (size_t i = 0; i < 2000; i++) {
        others[i] = nullptr;
        mend_alloc(device.pool(), 512 * (1 + i * 37 % 4000), device.stream(), &others[i]);
    }
    for (size_t i = 0; i < 2000; i += 2) {
        mend_free(device.pool(), others[i], device.stream());
    }
    for (auto _ : state) {
        void *pointer = nullptr;
        mend_result result = mend_alloc(device.pool(), size, device.stream(), &pointer);
        benchmark::DoNotOptimize(pointer);
        if (result != MEND_OK || mend_free(device.pool(), pointer, device.stream()) != MEND_OK) {
            state.SkipWithError("the pair failed");
            break;
        }
    }
}
BENCHMARK(cached_pair_among_others)->Arg(512)->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20);

} // namespace
