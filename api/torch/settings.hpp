// Settings of PyTorch's own allocator that a program makes while it runs.
#pragma once

#include <mutex>
#include <string>
#include <unordered_set>

#include "mend/mend_torch.h"
#include "versions.hpp"

namespace mend_torch
{

class Settings
{
  public:
    // Warns of settings that have no effect, once of each. PyTorch does not report a change, so
    // this is called where time does not matter.
    void look()
    {
        const std::string now = settings_now();
        char names[256];
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (now == last_) {
                return;
            }
            last_ = now;
            if (mend_torch_settings_without_effect(now.c_str(), names, sizeof(names)) == 0 ||
                !warned_.insert(names).second) {
                return;
            }
        }
        TORCH_WARN("libmend.torch: the program has set ", names,
                   ", which has no effect on memory from Mend; MEND_CONF has (docs/tuning.md)");
    }

  private:
    std::mutex mutex_;
    std::string last_ = settings_now(); // libmend.torch.enable() warns of settings of the
                                        // environment
    std::unordered_set<std::string> warned_;
};

} // namespace mend_torch
