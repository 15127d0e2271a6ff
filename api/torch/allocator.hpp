// The class that takes the place of PyTorch's own CUDA allocator: it turns PyTorch's calls into
// Mend's, and nothing more.
#pragma once

#include <unordered_set>
#include <vector>

#include "figures.hpp"
#include "peers.hpp"
#include "pools.hpp"
#include "requests.hpp"
#include "sharing.hpp"
#include "snapshot.hpp"

namespace mend_torch
{

class Allocator final : public cca::CUDAAllocator
{
  public:
    explicit Allocator(cca::CUDAAllocator *native) : requests_(native) {}

    // ---- blocks -------------------------------------------------------------------------------

    DataPtr allocate(size_t size) override
    {
        if (C10_UNLIKELY(is_off_)) {
            return native()->allocate(size);
        }
        const DeviceIndex device = c10::cuda::current_device();
        void *pointer = nullptr;
        if (size != 0) {
            pointer = requests_.take(size, device, c10::cuda::getCurrentCUDAStream(device));
        }
        return tensor_of(pointer, device);
    }

    void *raw_alloc(size_t size) override
    {
        if (size == 0) {
            return nullptr;
        }
        if (C10_UNLIKELY(is_off_)) {
            return native()->raw_alloc(size);
        }
        const DeviceIndex device = c10::cuda::current_device();
        return requests_.take(size, device, c10::cuda::getCurrentCUDAStream(device));
    }

    void *raw_alloc_with_stream(size_t size, cudaStream_t stream) override
    {
        if (C10_UNLIKELY(is_off_)) {
            return native()->raw_alloc_with_stream(size, stream);
        }
        return size == 0 ? nullptr : requests_.take(size, c10::cuda::current_device(), stream);
    }

    void raw_delete(void *pointer) override
    {
        if (pointer != nullptr) {
            requests_.give(pointer);
        }
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return is_off_ ? native()->raw_deleter() : &delete_block;
    }

    void copy_data(void *to, const void *from, size_t count) const override
    {
        C10_CUDA_CHECK(cudaMemcpy(to, from, count, cudaMemcpyKind::cudaMemcpyDeviceToDevice));
    }

    void *getBaseAllocation(void *pointer, size_t *size) override
    {
        mend_torch_block block;
        if (mend_torch_block_find(pointer, &block) != MEND_OK) {
            return native()->getBaseAllocation(pointer, size);
        }
        if (size != nullptr) {
            *size = block.usable_bytes;
        }
        return block.base;
    }

    void recordStream(const DataPtr &data, c10::cuda::CUDAStream stream) override
    {
        // An empty tensor, or memory of another allocator.
        if (!data.get() || data.get_deleter() != &delete_block) {
            return;
        }
        const mend_result result =
            mend_device_record_stream(MEND_ALL_DEVICES, data.get(), stream_of(stream.stream()));
        if (result == MEND_ERROR_FOREIGN_POINTER && native().is_used()) {
            record_stream_of_native(data, stream);
        } else if (result != MEND_ERROR_NOT_SUPPORTED) {
            check(result, "record_stream");
        }
    }

    // ---- life and settings --------------------------------------------------------------------

    void init(int device_count) override { device_count_ = device_count; }

    bool initialized() override { return device_count_ > 0; }

    std::string name() override { return "mend"; }

    // False: each block straight from the device, as PyTorch's own allocator does it.
    void enable(bool value) MEND_SINCE_206
    {
        is_off_ = !value;
        turn_native(value);
    }

    bool isEnabled() const MEND_SINCE_206 { return !is_off_; }

    double getMemoryFraction(DeviceIndex device) MEND_SINCE_206
    {
        double fraction = 1;
        requests_.begin(device);
        check(mend_torch_get_fraction(device, &fraction), "the memory fraction");
        return fraction;
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

    // ---- memory in total ----------------------------------------------------------------------

#if MEND_TORCH >= 208
    void emptyCache(PoolId id = {0, 0}) override
    {
        if (native().is_used()) {
            native()->emptyCache(id);
        }
        if (!is_pool(id)) {
            empty_cache();
        }
    }
#else
    void emptyCache() override
    {
        if (native().is_used()) {
            native()->emptyCache();
        }
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
        if (native().is_used()) {
            stats = native()->getDeviceStats(device);
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
        check(mend_torch_reset_accumulated(device), "statistics");
    }

    void resetPeakStats(DeviceIndex device) override
    {
        if (native().is_used()) {
            native()->resetPeakStats(device);
        }
        check(mend_torch_reset_peaks(device), "statistics");
    }

#if MEND_TORCH >= 210
    std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override
    {
        return native().is_used() ? native()->getExpandableSegmentSizes(device)
                                  : std::vector<cca::StreamSegmentSize>();
    }
#endif

    // ---- pools and captures -------------------------------------------------------------------

    void beginAllocateToPool(DeviceIndex device, PoolId id,
                             std::function<bool(cudaStream_t)> filter) override
    {
        requests_.begin(device);
        if (is_foreign(device, id)) {
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
        TORCH_CHECK(mend_torch_pool_end(device, id_of(id)) == MEND_OK,
                    "endAllocatePool: not currently recording to mempool_id");
        if (is_foreign(device, id)) {
            native()->endAllocateToPool(device, id);
        }
    }

    void releasePool(DeviceIndex device, PoolId id) override
    {
        if (is_foreign(device, id)) {
            native()->releasePool(device, id);
        }
        if (mend_torch_pool_uses(device, id_of(id)) == 1) {
            end_holds(device, id, requests_);
        }
        const mend_result result = mend_torch_pool_release(device, id_of(id));
        // A capture may be under way: the memory is released later.
        TORCH_CHECK(result != MEND_ERROR_INVALID_ARGUMENT, "releasePool: no such pool is in use");
    }

    int getPoolUseCount(DeviceIndex device, PoolId id) MEND_SINCE_206
    {
        return mend_torch_pool_uses(device, id_of(id));
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

    // ---- history and observers -----------------------------------------------------------------

    bool isHistoryEnabled() override
    {
        return history().is_recording();
    }

#if MEND_TORCH >= 211
    void recordHistory(bool enabled, cca::CreateContextFn recorder, size_t most, Record when,
                       bool clear, const std::vector<std::string> &skipped) override
    {
        history().record(enabled, recorder, most, when, clear, skipped);
        requests_.record_mappings();
        native().when_used([=](cca::CUDAAllocator &native) {
            native.recordHistory(enabled, recorder, most, when, clear, skipped);
        });
    }
#elif MEND_TORCH >= 208
    void recordHistory(bool enabled, cca::CreateContextFn recorder, size_t most, Record when,
                       bool clear) override
    {
        history().record(enabled, recorder, most, when, clear, {});
        requests_.record_mappings();
        native().when_used([=](cca::CUDAAllocator &native) {
            native.recordHistory(enabled, recorder, most, when, clear);
        });
    }
#else
    void recordHistory(bool enabled, cca::CreateContextFn recorder, size_t most,
                       Record when) override
    {
        history().record(enabled, recorder, most, when, false, {});
        requests_.record_mappings();
        native().when_used([=](cca::CUDAAllocator &native) {
            native.recordHistory(enabled, recorder, most, when);
        });
    }
#endif

    // PyTorch's own allocator does what these ask for with its pools; Mend's memory serves all.
#if MEND_TORCH >= 211
    void setUseOnOOM(DeviceIndex device, PoolId id, bool use_on_oom) override
    {
        if (is_foreign(device, id)) {
            native()->setUseOnOOM(device, id, use_on_oom);
        }
    }
#elif MEND_TORCH >= 208
    void setUseOnOOM(DeviceIndex device, PoolId id) override
    {
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

    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &metadata) override
    {
        if (history().is_recording()) {
            history().annotate(c10::cuda::current_device(), metadata);
        }
    }

    void pushCompileContext(std::string &name) MEND_SINCE_208
    {
        History::push_compiled(name);
    }

    void popCompileContext() MEND_SINCE_208
    {
        History::pop_compiled();
    }

    bool supportsUserMetadata() MEND_SINCE_214
    {
        return true;
    }

    void setUserMetadata(const std::string &metadata) MEND_SINCE_210
    {
        History::user_metadata() = metadata;
    }

    std::string getUserMetadata() MEND_SINCE_210
    {
        return History::user_metadata();
    }

#if MEND_TORCH >= 214
    void annotateMemory(const void *pointer, const std::string &metadata) override
    {
        mend_torch_block block;
        if (history().is_recording() && mend_torch_block_find(pointer, &block) == MEND_OK &&
            block.base == pointer) {
            history().note({Entry::ANNOTATE, index_of(block.device),
                            reinterpret_cast<size_t>(pointer), block.requested_bytes,
                            reinterpret_cast<cudaStream_t>(block.stream),
                            id_of(mend_torch_pool_of_tag(block.tag))},
                           nullptr, metadata);
        }
    }
#endif

    Context getContextForPointer(const void *pointer) MEND_SINCE_212
    {
        mend_torch_block block;
        return mend_torch_block_find(pointer, &block) == MEND_OK ? history().context_of(block.base)
                                                                 : nullptr;
    }

    void attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer) override
    {
        native().when_used(
            [observer](cca::CUDAAllocator &native) { native.attachOutOfMemoryObserver(observer); });
        requests_.add_observer(std::move(observer));
    }

#if MEND_TORCH >= 212
    void attachOomRejectionObserver(cca::OomRejectionObserver observer) override
    {
        requests_.add_rejection_observer(std::move(observer));
    }
#endif

    void attachAllocatorTraceTracker(cca::AllocatorTraceTracker tracker) override
    {
        native().when_used(
            [tracker](cca::CUDAAllocator &native) { native.attachAllocatorTraceTracker(tracker); });
        history().add_tracker(std::move(tracker));
    }

    // ---- other devices and processes ----------------------------------------------------------

    void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override
    {
        requests_.begin(peer);
        enable_peer(device, peer);
    }

    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device,
                            size_t count, cudaStream_t stream, bool p2p_enabled) override
    {
        return copy_between(to, to_device, from, from_device, count, stream, p2p_enabled);
    }

    // ---- snapshots and checkpoints ------------------------------------------------------------

#if MEND_TORCH >= 211
    cca::SnapshotInfo snapshot(PoolId id = {0, 0}, bool include_traces = true) override
    {
        return completed(native()->snapshot(id, include_traces), id, include_traces, requests_,
                         device_count_);
    }
#elif MEND_TORCH >= 208
    cca::SnapshotInfo snapshot(PoolId id = {0, 0}) override
    {
        return completed(native()->snapshot(id), id, true, requests_, device_count_);
    }
#else
    cca::SnapshotInfo snapshot() override
    {
        return completed(native()->snapshot(), {0, 0}, true, requests_, device_count_);
    }
#endif

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

    cca::ShareableHandle shareIpcHandle(void *pointer) override
    {
        mend_torch_block block;
        if (mend_torch_block_find(pointer, &block) != MEND_OK) {
            return native()->shareIpcHandle(pointer);
        }
        return exported(pointer, block.device);
    }

    std::shared_ptr<void> getIpcDevPtr(std::string handle) override
    {
        if (!is_handle(handle)) {
            native().use(device_count_);
            return native()->getIpcDevPtr(std::move(handle));
        }
        return imported(handle, c10::cuda::current_device());
    }

  private:
    Native &native()
    {
        return requests_.native;
    }

    const Native &native() const
    {
        return requests_.native;
    }

    void empty_cache()
    {
        const Context context = history().gather(Record::ALL);
        check(mend_torch_empty_cache(), "empty_cache");
        requests_.tell_mappings(context);
    }

    History &history()
    {
        return requests_.history;
    }

    void create_in_native(DeviceIndex device, PoolId id, Backing backing)
    {
#if MEND_TORCH >= 208
        native().use(device_count_);
        native()->createOrIncrefPool(device, id, std::move(backing));
#else
        TORCH_CHECK(false, "a MemPool with an allocator needs PyTorch 2.8 or later");
#endif
    }

    void record_stream_of_native(const DataPtr &data, c10::cuda::CUDAStream stream)
    {
        DataPtr theirs(data.get(), data.get(), native()->raw_deleter(), data.device());
        native()->recordStream(theirs, stream);
        (void)theirs.release_context();
    }

    void turn_native(bool value)
    {
#if MEND_TORCH >= 208
        native()->enable(value);
#endif
    }

    Requests requests_;
    bool is_off_ = false;
    int device_count_ = 0;
};

} // namespace mend_torch
