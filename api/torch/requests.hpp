// Requests and frees: from Mend, reported to all observers, and the steps before out of memory.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "convert.hpp"
#include "history.hpp"
#include "holds.hpp"
#include "mappings.hpp"
#include "marked.hpp"
#include "native.hpp"
#include "settings.hpp"

namespace mend_torch
{

class Requests
{
  public:
    explicit Requests(cca::CUDAAllocator *allocator) : native(allocator) {}

    Native native;
    History history;
    Holds holds;
    Mappings mappings;
    Settings settings;
    std::atomic<bool> has_begun[64] = {};
    std::atomic<int64_t> rejections{0};

    // The first use of a device.
    C10_NOINLINE void begin(DeviceIndex device)
    {
        TORCH_CHECK(device >= 0 && device < 64, "Invalid device argument ",
                    static_cast<int>(device));
        if (has_begun[device].exchange(true)) {
            return;
        }
        (void)mend_torch_use_device(device); // the request that follows says why it failed
        if (info_of(device, {0, 0}).is_foreign != 0) {
            native.use(c10::cuda::device_count());
        }
        settings.look();
        if (configured_fraction() < 1) {
            check(mend_torch_set_fraction(device, configured_fraction()), "the memory fraction");
        }
        if (history.is_recording()) {
            mappings.record(device, true);
        }
    }

    // Recording has begun or ended.
    void record_mappings()
    {
        for (int i = 0; i < 64; i++) {
            if (has_begun[i].load()) {
                mappings.record(static_cast<DeviceIndex>(i), history.is_recording());
            }
        }
    }

    // Reports Mend's mappings and unmappings for this call.
    void tell_mappings(const Context &context)
    {
        for (int i = 0; history.is_recording() && i < 64; i++) {
            if (has_begun[i].load()) {
                mappings.tell(history, static_cast<DeviceIndex>(i), nullptr, context);
            }
        }
    }

    C10_ALWAYS_INLINE void *take(size_t size, DeviceIndex device, cudaStream_t stream)
    {
        if (C10_UNLIKELY(!has_begun[device & 63].load(std::memory_order_relaxed))) {
            begin(device);
        }
        void *pointer = nullptr;
        int is_foreign = 0;
        const Context context =
            C10_UNLIKELY(history.is_recording()) ? history.gather(Record::STATE) : nullptr;
        const mend_result result = block_alloc(device, size, stream, &pointer, &is_foreign);
        if (C10_UNLIKELY(is_foreign != 0)) {
            return take_of_native(size, device, stream);
        }
        if (C10_UNLIKELY(result != MEND_OK)) {
            pointer = take_again(result, size, device, stream, context, &is_foreign);
            if (is_foreign != 0) {
                return pointer;
            }
        }
        tell(pointer, static_cast<int64_t>(size), device, stream, context);
        return pointer;
    }

    // Of the native allocator, if it has memory.
    template <typename Empty> void empty_native(Empty empty)
    {
        if (native.is_used()) {
            const Context context = history.gather(Record::ALL);
            const auto lock = native.lock_pools();
            const History::Gathered gathered(context);
            const Native::Change change(native);
            empty();
        }
    }

    // Pins memory of a pool, and tells the trackers of it.
    void hold(const Held &range, cudaStream_t stream, const Context &context)
    {
        tell_of(holds.add(range), stream, context);
    }

    void end_holds(DeviceIndex device, PoolId pool)
    {
        tell_of(holds.end(device, pool), nullptr, nullptr);
    }

    // ---- a free -------------------------------------------------------------------------------

    C10_ALWAYS_INLINE void give(void *pointer)
    {
        mend_torch_block block;
        const mend_result result = C10_UNLIKELY(history.is_active())
                                       ? note_and_free(pointer, &block)
                                       : mend_torch_block_give(pointer, &block);
        if (C10_UNLIKELY(result == MEND_ERROR_FOREIGN_POINTER)) {
            const Native::Change change(native);
            native->raw_delete(pointer); // which knows it, or says that it is unknown
            return;
        }
        check(result, "a free");
        if (const auto *interpreter = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(interpreter)) {
            (*interpreter)
                ->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(pointer));
        }
        if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
            profile(pointer, -static_cast<int64_t>(block.usable_bytes), index_of(block.device));
        }
    }

    // Called before the memory may belong to another.
    C10_NOINLINE mend_result note_and_free(void *pointer, mend_torch_block *block)
    {
        const mend_result result = mend_torch_block_find(pointer, block);
        if (result != MEND_OK || block->base != pointer) {
            return mend_torch_block_give(pointer, block); // which gives the reason
        }
        note_free(*block);
        return mend_torch_block_free(block);
    }

    void note_free(const mend_torch_block &block)
    {
        Context context = history.gather(Record::ALL);
        Context of_allocation = history.forget(block.base);
        context = context ? context : of_allocation;
        Event event = {Entry::FREE_REQUESTED,
                       index_of(block.device),
                       reinterpret_cast<size_t>(block.base),
                       block.requested_bytes,
                       reinterpret_cast<cudaStream_t>(block.stream),
                       id_of(mend_torch_pool_of_tag(block.tag))};
        history.note(event, context);
        event.action = Entry::FREE_COMPLETED;
        history.note(event, context);
    }

    C10_ALWAYS_INLINE void tell(void *pointer, int64_t size, DeviceIndex device,
                                cudaStream_t stream, const Context &context)
    {
        if (C10_UNLIKELY(history.is_active())) {
            note_allocation(pointer, static_cast<size_t>(size), device, stream, context);
        }
        if (const auto *interpreter = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(interpreter)) {
            (*interpreter)
                ->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(pointer));
        }
        if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
            mend_torch_block block;
            if (mend_torch_block_find(pointer, &block) == MEND_OK && block.usable_bytes != 0) {
                size = static_cast<int64_t>(block.usable_bytes);
            }
            profile(pointer, size, device);
        }
    }

    void add_observer(cca::OutOfMemoryObserver observer)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        observers_.push_back(std::move(observer));
    }

#if MEND_TORCH >= 212
    void add_rejection_observer(cca::OomRejectionObserver observer)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        rejection_observers_.push_back(std::move(observer));
    }
#endif

  private:
    C10_ALWAYS_INLINE static mend_result block_alloc(DeviceIndex device, size_t size,
                                                     cudaStream_t stream, void **pointer,
                                                     int *is_foreign)
    {
        const size_t room = rounded(size);
        return C10_LIKELY(room == size)
                   ? mend_torch_block_alloc(device, size, stream_of(stream), pointer, is_foreign)
                   : mend_torch_block_alloc_rounded(device, size, room, stream_of(stream), pointer,
                                                    is_foreign);
    }

    C10_NOINLINE void *take_of_native(size_t size, DeviceIndex device, cudaStream_t stream)
    {
        const Native::Change change(native, device);
        return native->raw_alloc_with_stream(size, stream);
    }

    void tell_of(const Change &change, cudaStream_t stream, const Context &context)
    {
        for (const Held &held : change.ended) {
            history.note(
                {Entry::SEGMENT_FREE, held.device, held.address, held.size, stream, held.pool},
                context);
            Holds::unpin(held);
        }
        for (const Held &held : change.begun) {
            history.note(
                {Entry::SEGMENT_ALLOC, held.device, held.address, held.size, stream, held.pool},
                context);
        }
    }

    // ---- who hears ----------------------------------------------------------------------------

    C10_NOINLINE void note_allocation(void *pointer, size_t size, DeviceIndex device,
                                      cudaStream_t stream, const Context &context)
    {
        mend_torch_block block;
        PoolId pool = {0, 0};
        if (mend_torch_block_find(pointer, &block) == MEND_OK) {
            pool = id_of(mend_torch_pool_of_tag(block.tag));
        }
        if (history.has_trackers() && is_pool(pool)) {
            hold({device, pool, reinterpret_cast<size_t>(pointer), block.usable_bytes}, stream,
                 context);
        }
        if (history.is_recording()) {
            mappings.tell(history, device, stream, context);
        }
        history.keep(pointer, context);
        history.note({Entry::ALLOC, device, reinterpret_cast<size_t>(pointer), size, stream, pool},
                     context);
    }

    C10_NOINLINE void profile(void *pointer, int64_t size, DeviceIndex device)
    {
        mend_stats stats = MEND_STATS_INIT;
        mend_pool *pool = nullptr;
        if (mend_pool_for_device(device, &pool) == MEND_OK &&
            mend_get_stats(pool, &stats) == MEND_OK) {
            c10::reportMemoryUsageToProfiler(pointer, size, stats.live_bytes, stats.reserved_bytes,
                                             c10::Device(c10::DeviceType::CUDA, device));
        }
    }

    // ---- out of memory ------------------------------------------------------------------------

    // After a failure: PyTorch's callbacks and its own allocator may release memory, or a marked
    // pool has some. *is_foreign: it is the native allocator's, which has reported it.
    C10_NOINLINE void *take_again(mend_result result, size_t size, DeviceIndex device,
                                  cudaStream_t stream, const Context &context, int *is_foreign)
    {
        void *pointer = nullptr;
        settings.look();
        if (mend_torch_lacks_memory(result) && frees_memory()) {
            mend_torch_note(device, MEND_TORCH_RETRY);
            result = block_alloc(device, size, stream, &pointer, is_foreign);
        }
        TORCH_CHECK_WITH(OutOfMemoryError, size < ONE_EXABYTE,
                         "CUDA out of memory. Tried to allocate more than 1EB memory.");
        if (mend_torch_lacks_memory(result) && has_marked(device, stream)) {
            pointer = take_of_marked(size, device, stream, context, is_foreign);
            if (pointer != nullptr) {
                return pointer;
            }
            result = block_alloc(device, size, stream, &pointer, is_foreign); // for its reason
        }
        if (*is_foreign != 0) {
            return take_of_native(size, device, stream);
        }
        if (result != MEND_OK) {
            if (!mend_torch_lacks_memory(result)) {
                fail("an allocation", result);
            }
            report_out_of_memory(size, device, stream, context);
        }
        return pointer;
    }

    bool frees_memory()
    {
        bool has_freed = false;
        for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
            has_freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
        }
        empty_native([&] {
            native->emptyCache();
            has_freed = true;
        });
        return has_freed;
    }

    // Whether pools are marked `use_on_oom`, and none takes the request.
    static bool has_marked(DeviceIndex device, cudaStream_t stream)
    {
        return mend_torch_pools_marked(device, nullptr, 0) != 0 &&
               mend_torch_pool_takes(device, stream_of(stream)) == 0;
    }

    // From the free memory of a marked pool. NULL: they have none for it.
    void *take_of_marked(size_t size, DeviceIndex device, cudaStream_t stream,
                         const Context &context, int *is_foreign)
    {
        std::vector<mend_torch_pool_id> pools(mend_torch_pools_marked(device, nullptr, 0));
        const size_t count = mend_torch_pools_marked(device, pools.data(), pools.size());
        pools.resize(std::min(count, pools.size()));
        void *pointer = nullptr;
        for (const auto &pool : pools) {
            *is_foreign = info_of(device, pool).is_foreign;
            if (*is_foreign != 0) {
                pointer = take_free(native, device, id_of(pool), size, stream, context);
            } else {
                (void)mend_torch_block_alloc_in(device, pool, rounded(size), stream_of(stream),
                                                &pointer);
            }
            if (pointer != nullptr) {
                return pointer;
            }
        }
        *is_foreign = 0;
        return nullptr;
    }

    [[noreturn]] void report_out_of_memory(size_t size, DeviceIndex device, cudaStream_t stream,
                                           const Context &context)
    {
        char text[2048];
        mend_torch_write_out_of_memory(text, sizeof(text), device, size);
        mend_torch_note(device, MEND_TORCH_OUT_OF_MEMORY);
        mend_stats stats = MEND_STATS_INIT;
        mend_pool *pool = nullptr;
        if (mend_pool_for_device(device, &pool) == MEND_OK) {
            (void)mend_get_stats(pool, &stats);
        }
        size_t free_bytes = 0;
        size_t total_bytes = 0;
        (void)cudaMemGetInfo(&free_bytes, &total_bytes);
        history.note({Entry::OOM, device, free_bytes, size, stream, {0, 0}}, context);
        c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size), stats.live_bytes,
                                         stats.reserved_bytes,
                                         c10::Device(c10::DeviceType::CUDA, device));
        mend_torch_allowed share = {stats.limit_bytes, 0, 0, 1};
        (void)mend_torch_get_allowed(device, &share);
        const size_t allowed = std::min<size_t>(share.bytes, total_bytes);
        if (rejects_early() && allowed < total_bytes) {
            reject(size, device, stats.live_bytes, allowed);
        }
        std::vector<cca::OutOfMemoryObserver> observers;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            observers = observers_;
        }
        for (const auto &observer : observers) {
            observer(device, size, allowed, free_bytes);
        }
        TORCH_CHECK_WITH(OutOfMemoryError, false, text);
    }

    void reject([[maybe_unused]] size_t size, [[maybe_unused]] DeviceIndex device,
                [[maybe_unused]] size_t allocated, [[maybe_unused]] size_t allowed)
    {
#if MEND_TORCH >= 212
        rejections++;
        std::vector<cca::OomRejectionObserver> observers;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            observers = rejection_observers_;
        }
        for (const auto &observer : observers) {
            observer(device, size, allocated, allowed);
        }
        TORCH_CHECK_WITH(
            OutOfMemoryError, false,
            "CUDA out of memory. Allocation was preemptively rejected because it would "
            "exceed per_process_memory_fraction limit. Requested size: ",
            size, " bytes, allocated: ", allocated, ", allowed: ", allowed,
            ". Set throw_on_cudamalloc_oom:false to disable.");
#endif
    }

    std::mutex mutex_;
    std::vector<cca::OutOfMemoryObserver> observers_;
#if MEND_TORCH >= 212
    std::vector<cca::OomRejectionObserver> rejection_observers_;
#endif
};

} // namespace mend_torch
