// The memory that Mend maps and unmaps, as segments in PyTorch's traces: read from the history of
// Mend's pools while PyTorch records.
#pragma once

#include <mutex>

#include "history.hpp"
#include "mend/mend_devices.h"

namespace mend_torch
{

class Mappings
{
  public:
    // From now on, of a device that is used. off: no more.
    void record(DeviceIndex device, bool enabled)
    {
        mend_pool *heap = nullptr;
        if (mend_pool_for_device(device, &heap) == MEND_OK) {
            (void)mend_history_start(heap, enabled ? KEPT_EVENTS : 0);
        }
    }

    // Reports events since the last time. The context is of the causing call.
    void tell(History &history, DeviceIndex device, cudaStream_t stream, const Context &context)
    {
        mend_history_event events[64];
        size_t count = 0;
        mend_pool *heap = nullptr;
        Event open = {}; // chunks side by side are one segment
        const std::lock_guard<std::mutex> lock(mutex_);
        if (mend_pool_for_device(device, &heap) != MEND_OK) {
            return;
        }
        while (mend_history_read(heap, &cursors_[device], events, sizeof(events[0]), 64, &count) ==
                   MEND_OK &&
               count > 0) {
            for (size_t i = 0; i < count; i++) {
                const mend_history_event &event = events[i];
                if (event.kind == MEND_EVENT_MAP || event.kind == MEND_EVENT_UNMAP) {
                    const auto action =
                        event.kind == MEND_EVENT_MAP ? Entry::SEGMENT_MAP : Entry::SEGMENT_UNMAP;
                    const auto address = reinterpret_cast<size_t>(event.address);
                    if (open.size == 0 || open.action != action ||
                        open.address + open.size != address) {
                        close(open, history, context);
                        open = {action, device, address, 0, stream, {0, 0}};
                    }
                    open.size += event.size_bytes;
                }
            }
        }
        close(open, history, context);
    }

  private:
    static void close(const Event &open, History &history, const Context &context)
    {
        if (open.size > 0) {
            history.note(open, context);
        }
    }

    // More events than a thread causes between two reported requests.
    static constexpr uint64_t KEPT_EVENTS = 4096;

    std::mutex mutex_;
    uint64_t cursors_[64] = {};
};

} // namespace mend_torch
