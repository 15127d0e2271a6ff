// The class, third part: PyTorch's memory pools, captures, checkpoints.
#pragma once

#include <unordered_set>

#include "allocator_totals.hpp"
#include "pools.hpp"
#include "snapshot.hpp"

namespace mend_torch
{

class Pools : public Totals
{
  public:
    using Totals::Totals;

    void beginAllocateToPool(DeviceIndex device, PoolId id,
                             std::function<bool(cudaStream_t)> filter) override
    {
        requests_.begin(device);
        requests_.settings.look();
        std::unique_lock<std::recursive_mutex> lock;
        if (mend_torch_pool_begins_native(device, id_of(id)) != 0) {
            native().use(device_count_);
            lock = native().lock_pools();
            native()->beginAllocateToPool(device, id, filter);
        }
        auto *kept = new std::function<bool(cudaStream_t)>(std::move(filter));
        const mend_result result =
            mend_torch_pool_begin(device, id_of(id), &takes, &drop_filter, kept);
        if (result != MEND_OK) {
            delete kept;
            TORCH_CHECK(result != MEND_ERROR_INVALID_ARGUMENT,
                        "beginAllocateToPool: already recording to mempool_id");
            fail("a memory pool", result);
        }
    }

    void endAllocateToPool(DeviceIndex device, PoolId id) override
    {
        std::unique_lock<std::recursive_mutex> lock;
        if (is_foreign(device, id)) {
            lock = native().lock_pools();
        }
        TORCH_CHECK(mend_torch_pool_end(device, id_of(id)) == MEND_OK,
                    "endAllocatePool: not currently recording to mempool_id");
        if (is_foreign(device, id)) {
            native()->endAllocateToPool(device, id);
        }
    }

    void releasePool(DeviceIndex device, PoolId id) override
    {
        std::unique_lock<std::recursive_mutex> lock;
        if (is_foreign(device, id)) {
            lock = native().lock_pools();
            const Native::Change change(native(), device);
            native()->releasePool(device, id);
        }
        if (info_of(device, id_of(id)).users == 1) {
            requests_.end_holds(device, id);
        }
        const mend_result result = mend_torch_pool_remove(device, id_of(id));
        // A capture may be under way: the memory is released later.
        TORCH_CHECK(result != MEND_ERROR_INVALID_ARGUMENT, "releasePool: no such pool is in use");
    }

    int getPoolUseCount(DeviceIndex device, PoolId id) MEND_SINCE_206
    {
        return info_of(device, id_of(id)).users;
    }

    void createOrIncrefPool(DeviceIndex device, PoolId id, Backing backing = nullptr) MEND_SINCE_208
    {
        requests_.begin(device);
        const bool is_foreign = backing != nullptr;
        if (is_foreign) {
            create_in_native(device, id, std::move(backing));
        }
        check(mend_torch_pool_add(device, id_of(id), is_foreign), "a memory pool");
    }

#if MEND_TORCH == 206 || MEND_TORCH == 207
    void ensureExistsAndIncrefPool(DeviceIndex device, PoolId id) override
    {
        createOrIncrefPool(device, id);
    }
#endif

    // PyTorch's own allocator does the same with its pools. Without a mark Mend's memory serves all
    // requests except memory of graphs. Its blocks lie side by side.
#if MEND_TORCH >= 211
    void setUseOnOOM(DeviceIndex device, PoolId id, bool use_on_oom) override
    {
        mend_torch_pool_mark(device, id_of(id), use_on_oom);
        if (is_foreign(device, id)) {
            native()->setUseOnOOM(device, id, use_on_oom);
        }
    }
#elif MEND_TORCH >= 208
    void setUseOnOOM(DeviceIndex device, PoolId id) override
    {
        mend_torch_pool_mark(device, id_of(id), true);
        if (is_foreign(device, id)) {
            native()->setUseOnOOM(device, id);
        }
    }
#endif

#if MEND_TORCH >= 210
    void setNoSplit(DeviceIndex device, PoolId id) override
    {
        if (is_foreign(device, id)) {
            native()->setNoSplit(device, id);
        }
    }
#endif

    // ---- checkpoints ------------------------------------------------------------------------

    std::shared_ptr<cca::AllocatorState> getCheckpointState(DeviceIndex device, PoolId id) override
    {
        return is_foreign(device, id) ? native()->getCheckpointState(device, id)
                                      : checkpoint_of(device, id);
    }

    cca::CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                                std::shared_ptr<cca::AllocatorState> state) override
    {
        const auto checkpoint = std::dynamic_pointer_cast<Checkpoint>(state);
        return checkpoint ? go_back_to(*checkpoint, device)
                          : native()->setCheckpointPoolState(device, std::move(state));
    }

    bool checkPoolLiveAllocations(DeviceIndex device, PoolId id,
                                  const std::unordered_set<void *> &expected) override
    {
        return is_foreign(device, id) ? native()->checkPoolLiveAllocations(device, id, expected)
                                      : are_live(device, id, expected);
    }

#if MEND_TORCH >= 213
    DataPtr allocateWithAddress(size_t size, void *address) override
    {
        const DeviceIndex device = c10::cuda::current_device();
        const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device);
        requests_.begin(device);
        const Context context = history().gather(Record::STATE);
        check(mend_torch_block_alloc_at(device, size, stream_of(stream), address),
              "an allocation at an address");
        requests_.tell(address, static_cast<int64_t>(size), device, stream, context);
        return tensor_of(address, device);
    }
#endif

  private:
    void create_in_native(DeviceIndex device, PoolId id, Backing backing)
    {
#if MEND_TORCH >= 208
        native().use(device_count_);
        native()->createOrIncrefPool(device, id, counted(std::move(backing)));
#else
        TORCH_CHECK(false, "a MemPool with an allocator needs PyTorch 2.8 or later");
#endif
    }
};

} // namespace mend_torch
