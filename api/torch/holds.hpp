// Memory of PyTorch's pools that a library may have registered (NCCL). A tracker hears of it as a
// segment, and it is pinned until the pool ends. Ranges of one pool do not overlap, and each block
// of the pool that a tracker heard of lies in one. If a block lies partly in ranges, they end, and
// one begins that covers all of it.
#pragma once

#include <algorithm>
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

    size_t end() const { return address + size; }
    bool is_of(const Held &other) const { return device == other.device && pool == other.pool; }
    bool covers(const Held &other) const
    {
        return address <= other.address && other.end() <= end();
    }
    bool meets(const Held &other) const { return address < other.end() && other.address < end(); }
};

// News for trackers: ranges that ended, which stay pinned until then, and ranges that began.
struct Change {
    std::vector<Held> ended;
    std::vector<Held> begun;
};

class Holds
{
  public:
    // Holds a range of a pool. Nothing is called under the lock: a tracker may ask for a snapshot.
    Change add(const Held &range)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        Change change;
        Held whole = range;
        for (const Held &other : held_) {
            if (!other.is_of(range) || !other.meets(range)) {
                continue;
            }
            if (other.covers(range)) {
                return {};
            }
            const size_t end = std::max(whole.end(), other.end());
            whole.address = std::min(whole.address, other.address);
            whole.size = end - whole.address;
            change.ended.push_back(other);
        }
        if (!pin(whole)) {
            return {};
        }
        forget([&](const Held &held) { return held.is_of(range) && held.meets(range); });
        held_.push_back(whole);
        change.begun.push_back(whole);
        return change;
    }

    // All ranges of a pool end.
    Change end(DeviceIndex device, PoolId pool)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const Held of = {device, pool, 0, 0};
        Change change;
        for (const Held &held : held_) {
            if (held.is_of(of)) {
                change.ended.push_back(held);
            }
        }
        forget([&](const Held &held) { return held.is_of(of); });
        return change;
    }

    static void unpin(const Held &held)
    {
        mend_pool *heap = nullptr;
        if (mend_pool_for_device(held.device, &heap) == MEND_OK) {
            (void)mend_unpin(heap, reinterpret_cast<void *>(held.address), held.size);
        }
    }

    // The range that covers another. False: there is none.
    bool find(const Held &range, Held *found) const
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const Held &held : held_) {
            if (held.is_of(range) && held.covers(range)) {
                *found = held;
                return true;
            }
        }
        return false;
    }

  private:
    static bool pin(const Held &held)
    {
        mend_pool *heap = nullptr;
        return mend_pool_for_device(held.device, &heap) == MEND_OK &&
               mend_pin(heap, reinterpret_cast<void *>(held.address), held.size) == MEND_OK;
    }

    template <typename Is> void forget(Is is)
    {
        held_.erase(std::remove_if(held_.begin(), held_.end(), is), held_.end());
    }

    mutable std::mutex mutex_;
    std::vector<Held> held_;
};

} // namespace mend_torch
