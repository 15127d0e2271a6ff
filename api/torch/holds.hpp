// Memory of PyTorch's pools that something outside may have registered (NCCL): who attached a
// tracker hears of it as a segment, and it is pinned until the pool ends.
#pragma once

#include <mutex>
#include <vector>

#include "mend/mend_devices.h"
#include "versions.hpp"

namespace mend_torch
{

struct Held {
    DeviceIndex device;
    PoolId pool;
    size_t address;
    size_t size;
};

class Holds
{
  public:
    // Pins a range, unless it lies in one that is pinned here. True: it is new.
    bool add(const Held &held)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const Held &other : held_) {
            if (other.device == held.device && other.address <= held.address &&
                held.address + held.size <= other.address + other.size) {
                return false;
            }
        }
        mend_pool *heap = nullptr;
        if (mend_pool_for_device(held.device, &heap) != MEND_OK ||
            mend_pin(heap, reinterpret_cast<void *>(held.address), held.size) != MEND_OK) {
            return false;
        }
        held_.push_back(held);
        return true;
    }

    // Unpins all of a pool, and returns it; `tell` is called for each before that.
    template <typename Tell> void end(DeviceIndex device, PoolId pool, Tell tell)
    {
        std::vector<Held> ended;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            const auto rest = std::partition(held_.begin(), held_.end(), [&](const Held &held) {
                return held.device != device || held.pool != pool;
            });
            ended.assign(rest, held_.end());
            held_.erase(rest, held_.end());
        }
        for (const Held &held : ended) {
            mend_pool *heap = nullptr;
            tell(held);
            if (mend_pool_for_device(device, &heap) == MEND_OK) {
                (void)mend_unpin(heap, reinterpret_cast<void *>(held.address), held.size);
            }
        }
    }

  private:
    std::mutex mutex_;
    std::vector<Held> held_;
};

} // namespace mend_torch
