// PyTorch's records of allocations, on request: traces with the stacks of the callers, the stacks
// of live blocks, and callbacks at events. Stacks are gathered before any lock is taken, because
// that runs Python.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "versions.hpp"

namespace mend_torch
{

struct Event {
    Entry::Action action;
    DeviceIndex device;
    size_t address;
    size_t size;
    cudaStream_t stream;
    PoolId pool;
};

class History
{
  public:
    // One plain load: whether events are recorded, or trackers hear of them.
    bool is_active() const { return is_active_.load(std::memory_order_relaxed); }

    bool is_recording() const { return is_recording_.load(std::memory_order_relaxed); }

    bool has_trackers() const { return has_trackers_.load(std::memory_order_relaxed); }

    Context gather(Record level) const
    {
        if (!is_recording() || when_.load(std::memory_order_relaxed) < level) {
            return nullptr;
        }
        const auto recorder = recorder_.load();
        return recorder != nullptr ? recorder() : nullptr;
    }

    // The record of the native allocator, while this lives, in this thread: a context that was
    // gathered before a lock was taken.
    class Gathered
    {
      public:
        explicit Gathered(const Context &context) : before_(in_this_thread())
        {
            in_this_thread() = &context;
        }

        ~Gathered() { in_this_thread() = before_; }

        Gathered(const Gathered &) = delete;
        Gathered &operator=(const Gathered &) = delete;

        static const Context *&in_this_thread()
        {
            thread_local const Context *context = nullptr;
            return context;
        }

      private:
        const Context *before_;
    };

    // The recorder that the native allocator gets in the place of the program's.
    static cca::CreateContextFn recorder_of_native(cca::CreateContextFn recorder)
    {
        native_recorder().store(recorder);
        return recorder != nullptr ? &gather_for_native : nullptr;
    }

    void record(bool enabled, cca::CreateContextFn recorder, size_t most, Record when, bool clear,
                const std::vector<std::string> &skipped)
    {
        TORCH_CHECK(when == Record::NEVER || recorder != nullptr,
                    "a recorder of contexts is needed");
        const std::lock_guard<std::mutex> lock(mutex_);
        recorder_.store(enabled ? recorder : nullptr);
        when_.store(enabled ? when : Record::NEVER);
        most_ = std::max<size_t>(most, 1);
        skipped_.clear();
        skipped_.insert(skipped.begin(), skipped.end());
        is_recording_.store(enabled);
        is_active_.store(enabled || has_trackers());
        if (!enabled || clear) {
            traces_.clear();
            annotations_.clear();
        }
        if (!enabled) {
            contexts_.clear();
        }
        trim();
    }

    // The context of a block stays until `forget`.
    void keep(const void *block, const Context &context)
    {
        if (context) {
            const std::lock_guard<std::mutex> lock(mutex_);
            contexts_[block] = context;
        }
    }

    Context context_of(const void *block) const
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = contexts_.find(block);
        return found == contexts_.end() ? nullptr : found->second;
    }

    Context forget(const void *block)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = contexts_.find(block);
        Context context;
        if (found != contexts_.end()) {
            context = std::move(found->second);
            contexts_.erase(found);
        }
        return context;
    }

    void note(const Event &event, Context context,
              [[maybe_unused]] const std::string &metadata = "")
    {
        if (!is_active()) {
            return;
        }
        if (when_.load() < Record::ALLOC) {
            context = nullptr;
        }
#if MEND_TORCH >= 210
        Entry entry(event.action, event.device, event.address, event.size, event.stream, event.pool,
                    c10::getApproximateTime(), std::move(context), compiled(),
                    metadata.empty() ? user_metadata() : metadata);
#elif MEND_TORCH >= 208
        Entry entry(event.action, event.device, event.address, event.size, event.stream, event.pool,
                    c10::getApproximateTime(), std::move(context), compiled());
#else
        Entry entry(event.action, event.device, event.address, event.size, event.stream,
                    c10::getApproximateTime(), std::move(context));
#endif
        const std::lock_guard<std::recursive_mutex> trackers_lock(trackers_mutex_);
        for (const auto &tracker : trackers_) {
            tracker(entry);
        }
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_recording() && !skips(event.action)) {
            traces_.push_back(std::move(entry));
            trim();
        }
    }

    void annotate(DeviceIndex device,
                  const std::vector<std::pair<std::string, std::string>> &metadata)
    {
        if (is_recording()) {
            cca_annotation entry(device, c10::getApproximateTime());
            for (const auto &pair : metadata) {
                entry.recordUserMetadata(pair.first, pair.second);
            }
            const std::lock_guard<std::mutex> lock(mutex_);
            annotations_.push_back(std::move(entry));
            trim();
        }
    }

    void add_tracker(cca::AllocatorTraceTracker tracker)
    {
        const std::lock_guard<std::recursive_mutex> lock(trackers_mutex_);
        trackers_.push_back(std::move(tracker));
        has_trackers_.store(true);
        is_active_.store(true);
    }

    // The traces with times since the epoch in microseconds, as PyTorch's snapshots have them.
    std::vector<Entry> traces(DeviceIndex device, PoolId pool) const
    {
        std::vector<Entry> found;
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const Entry &entry : traces_) {
            if (entry.device_ == device && (!is_pool(pool) || is_in(entry, pool))) {
                found.push_back(entry);
                found.back().time_.t_ = microseconds(entry.time_.approx_t_);
            }
        }
        return found;
    }

    template <typename Annotations> void add_annotations(Annotations &to) const
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const auto &annotation : annotations_) {
            to.push_back(annotation);
            to.back().time_.t_ = microseconds(annotation.time_.approx_t_);
        }
    }

    static std::string &user_metadata()
    {
        thread_local std::string metadata;
        return metadata;
    }

    static void push_compiled(const std::string &name)
    {
        compiled_names().push_back(name);
    }

    static void pop_compiled()
    {
        if (!compiled_names().empty()) {
            compiled_names().pop_back();
        }
    }

  private:
#if MEND_TORCH >= 214
    using cca_annotation = c10::CachingDeviceAllocator::AnnotationEntry;
#else
    using cca_annotation = std::remove_reference_t<
        decltype(std::declval<cca::SnapshotInfo>().external_annotations.front())>;
#endif

    static std::atomic<cca::CreateContextFn> &native_recorder()
    {
        static std::atomic<cca::CreateContextFn> recorder{nullptr};
        return recorder;
    }

    static Context gather_for_native()
    {
        const Context *gathered = Gathered::in_this_thread();
        const auto recorder = native_recorder().load();
        return gathered != nullptr ? *gathered : recorder != nullptr ? recorder() : nullptr;
    }

    static std::vector<std::string> &compiled_names()
    {
        thread_local std::vector<std::string> names;
        return names;
    }

    static std::string compiled()
    {
        return compiled_names().empty() ? "" : compiled_names().back();
    }

    bool skips(Entry::Action action) const
    {
        static const std::unordered_map<int, std::string> names = {
            {Entry::ALLOC, "alloc"},
            {Entry::FREE_REQUESTED, "free_requested"},
            {Entry::FREE_COMPLETED, "free_completed"},
            {Entry::SEGMENT_ALLOC, "segment_alloc"},
            {Entry::SEGMENT_FREE, "segment_free"},
            {Entry::SEGMENT_MAP, "segment_map"},
            {Entry::SEGMENT_UNMAP, "segment_unmap"},
            {Entry::SNAPSHOT, "snapshot"},
            {Entry::OOM, "oom"},
        };
        const auto name = names.find(action);
        return !skipped_.empty() && name != names.end() && skipped_.count(name->second) != 0;
    }

    void trim()
    {
        while (traces_.size() > most_) {
            traces_.pop_front();
        }
        while (annotations_.size() > most_) {
            annotations_.pop_front();
        }
    }

    time_t microseconds(c10::approx_time_t time) const
    {
        if (!convert_) {
            convert_ = clock_.makeConverter();
        }
        return convert_(time) / 1000;
    }

    std::atomic<bool> is_active_{false};
    std::atomic<bool> is_recording_{false};
    std::atomic<bool> has_trackers_{false};
    std::atomic<Record> when_{Record::NEVER};
    std::atomic<cca::CreateContextFn> recorder_{nullptr};
    mutable std::mutex mutex_;
    size_t most_ = 1;
    std::deque<Entry> traces_;
    std::deque<cca_annotation> annotations_;
    std::unordered_set<std::string> skipped_;
    std::unordered_map<const void *, Context> contexts_;
    std::recursive_mutex trackers_mutex_;
    std::vector<cca::AllocatorTraceTracker> trackers_;
    mutable c10::ApproximateClockToUnixTimeConverter clock_;
    mutable std::function<time_t(c10::approx_time_t)> convert_;
};

} // namespace mend_torch
