// Pools that are marked `use_on_oom`, and have an allocator of the program's: their free memory
// serves a request that is out of memory, as PyTorch's own allocator does it.
#pragma once

#include <algorithm>
#include <thread>

#include "convert.hpp"
#include "history.hpp"
#include "native.hpp"

namespace mend_torch
{

#if MEND_TORCH >= 208

// The size to which PyTorch's own allocator rounds.
inline size_t rounded_by_native(size_t size)
{
    constexpr size_t UNIT = 512;
    return (std::max(rounded(size), UNIT) + UNIT - 1) / UNIT * UNIT;
}

// Whether the allocator would take a free block of the pool: the smallest of the stream that is
// large enough, with the two rules for blocks that are not split.
inline bool has_free_block(cca::CUDAAllocator &native, DeviceIndex device, PoolId pool, size_t size,
                           cudaStream_t stream)
{
    constexpr size_t LARGEST_SMALL = size_t{1} << 20;
    const size_t limit = max_split_size();
    size_t smallest = SIZE_MAX;
    for (const auto &segment : snapshot_of(native, pool).segments) {
        if (segment.device != device || segment.stream != stream ||
            segment.is_large != (size > LARGEST_SMALL)) {
            continue;
        }
        for (const auto &block : segment.blocks) {
            if (!block.allocated && !block.active && block.size >= size) {
                smallest = std::min(smallest, block.size);
            }
        }
    }
    const bool fits = size < limit ? smallest < limit : smallest < size + most_unsplit_excess();
    return smallest != SIZE_MAX && fits;
}

// Requests of this thread go to a pool of the native allocator, which does not grow, while this
// lives.
class Visit
{
  public:
    Visit(Native &native, DeviceIndex device, PoolId pool)
        : native_(native), device_(device), pool_(pool)
    {
        native->beginAllocateToPool(device, pool,
                                    [self = std::this_thread::get_id()](cudaStream_t) {
                                        return std::this_thread::get_id() == self;
                                    });
        takes_no_more() = true;
    }

    ~Visit()
    {
        takes_no_more() = false;
        native_->endAllocateToPool(device_, pool_);
        native_->releasePool(device_, pool_);
    }

    Visit(const Visit &) = delete;
    Visit &operator=(const Visit &) = delete;

  private:
    Native &native_;
    DeviceIndex device_;
    PoolId pool_;
};

// Allocates in a pool of the native allocator, on the current device. NULL: it has no free block
// for it, or a thread allocates in it now. No other thread begins, ends or empties a pool
// meanwhile: the allocator would find this thread in it. The stack is gathered already, because
// that may wait for a thread that waits here.
inline void *take_free(Native &native, DeviceIndex device, PoolId pool, size_t size,
                       cudaStream_t stream, const Context &context)
{
    // A sanitizer of the program's runs Python at each allocation.
    if (c10::impl::GPUTrace::get_trace() != nullptr) {
        return nullptr;
    }
    const auto lock = native.lock_pools();
    const History::Gathered gathered(context);
    // A pool that has begun already would keep the user that the native allocator adds before it
    // refuses.
    const mend_torch_pool_info info = info_of(device, id_of(pool));
    if (info.users == 0 || info.is_begun != 0) {
        return nullptr;
    }
    try {
        const Native::Change change(native, device);
        const Visit visit(native, device, pool);
        const size_t wanted = rounded_by_native(size);
        return has_free_block(*native.operator->(), device, pool, wanted, stream)
                   ? native->raw_alloc_with_stream(size, stream)
                   : nullptr;
    } catch (const c10::Error &) {
        return nullptr;
    }
}

#else

inline void *take_free(Native & /*native*/, DeviceIndex /*device*/, PoolId /*pool*/,
                       size_t /*size*/, cudaStream_t /*stream*/, const Context & /*context*/)
{
    return nullptr;
}

#endif

} // namespace mend_torch
