// The class, fourth part: history and snapshots. History, snapshots, observers.
#pragma once

#include <vector>

#include "allocator_pools.hpp"
#include "snapshot.hpp"

namespace mend_torch
{

class Observed : public Pools
{
  public:
    using Pools::Pools;

    bool isHistoryEnabled() override { return history().is_recording(); }

#if MEND_TORCH >= 211
    void recordHistory(bool enabled, cca::CreateContextFn recorder, size_t most, Record when,
                       bool clear, const std::vector<std::string> &skipped) override
    {
        history().record(enabled, recorder, most, when, clear, skipped);
        requests_.record_mappings();
        const auto theirs = History::recorder_of_native(recorder);
        native().when_used([=](cca::CUDAAllocator &native) {
            native.recordHistory(enabled, theirs, most, when, clear, skipped);
        });
    }
#elif MEND_TORCH >= 208
    void recordHistory(bool enabled, cca::CreateContextFn recorder, size_t most, Record when,
                       bool clear) override
    {
        history().record(enabled, recorder, most, when, clear, {});
        requests_.record_mappings();
        const auto theirs = History::recorder_of_native(recorder);
        native().when_used([=](cca::CUDAAllocator &native) {
            native.recordHistory(enabled, theirs, most, when, clear);
        });
    }
#else
    void recordHistory(bool enabled, cca::CreateContextFn recorder, size_t most,
                       Record when) override
    {
        history().record(enabled, recorder, most, when, false, {});
        requests_.record_mappings();
        const auto theirs = History::recorder_of_native(recorder);
        native().when_used(
            [=](cca::CUDAAllocator &native) { native.recordHistory(enabled, theirs, most, when); });
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
        if (mend_torch_block_find(pointer, &block) != MEND_OK) {
            if (native().is_used()) {
                native()->annotateMemory(pointer, metadata);
            }
        } else if (history().is_recording() && block.base == pointer) {
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
        if (mend_torch_block_find(pointer, &block) != MEND_OK) {
            return context_in_native(pointer);
        }
        return history().context_of(block.base);
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

  private:
    Context context_in_native([[maybe_unused]] const void *pointer)
    {
#if MEND_TORCH >= 212
        return native().is_used() ? native()->getContextForPointer(pointer) : nullptr;
#else
        return nullptr;
#endif
    }
};

} // namespace mend_torch
