// The class, second part: memory in total. Statistics, limits, releases.
#pragma once

#include "allocator_blocks.hpp"
#include "figures.hpp"

namespace mend_torch
{

class Totals : public Blocks
{
  public:
    using Blocks::Blocks;

    double getMemoryFraction(DeviceIndex device) MEND_SINCE_206
    {
        mend_torch_allowed allowed{};
        requests_.begin(device);
        check(mend_torch_get_allowed(device, &allowed), "the memory fraction");
        return allowed.fraction;
    }

    void setMemoryFraction(double fraction, DeviceIndex device) override
    {
        TORCH_CHECK(0 <= fraction && fraction <= 1, "invalid fraction:", fraction,
                    ". Please set within [0, 1].");
        requests_.begin(device);
        check(mend_torch_set_fraction(device, fraction), "the memory fraction");
        native().when_used([fraction, device](cca::CUDAAllocator &native) {
            native.setMemoryFraction(fraction, device);
        });
    }

#if MEND_TORCH >= 208
    void emptyCache(PoolId id = {0, 0}) override
    {
        requests_.empty_native([&] { native()->emptyCache(id); });
        if (!is_pool(id)) {
            empty_cache();
        }
    }
#else
    void emptyCache() override
    {
        requests_.empty_native([&] { native()->emptyCache(); });
        empty_cache();
    }
#endif

    void cacheInfo(DeviceIndex device, size_t *largest) override
    {
        uint64_t bytes = 0;
        const auto stream = c10::cuda::getCurrentCUDAStream(device).stream();
        requests_.begin(device);
        check(mend_torch_largest(device, stream_of(stream), &bytes), "the room");
        *largest = bytes;
    }

    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override
    {
        c10::CachingDeviceAllocator::DeviceStats stats;
        requests_.settings.look();
        if (native().is_used()) {
            stats = native()->getDeviceStats(device);
            native().tell(device, stats);
        }
        add_figures(stats, device);
#if MEND_TORCH >= 212
        stats.num_oom_rejections += requests_.rejections.load();
#endif
        return stats;
    }

    void resetAccumulatedStats(DeviceIndex device) override
    {
        if (native().is_used()) {
            native()->resetAccumulatedStats(device);
        }
        requests_.rejections = 0;
        check(mend_torch_reset(device, MEND_TORCH_ACCUMULATED), "statistics");
    }

    void resetPeakStats(DeviceIndex device) override
    {
        if (native().is_used()) {
            native()->resetPeakStats(device);
        }
        check(mend_torch_reset(device, MEND_TORCH_PEAKS), "statistics");
    }

#if MEND_TORCH >= 210
    std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override
    {
        return native().is_used() ? native()->getExpandableSegmentSizes(device)
                                  : std::vector<cca::StreamSegmentSize>();
    }
#endif

  private:
    void empty_cache()
    {
        requests_.settings.look();
        const Context context = history().gather(Record::ALL);
        check(mend_torch_empty_cache(), "empty_cache");
        requests_.tell_mappings(context);
    }
};

} // namespace mend_torch
