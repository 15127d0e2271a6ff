// PyTorch's statistics of a device.
#pragma once

#include "convert.hpp"

namespace mend_torch
{

inline void add_figures(c10::CachingDeviceAllocator::DeviceStats &stats, DeviceIndex device)
{
    mend_torch_figures figures;
    check(mend_torch_get_figures(device, &figures), "statistics");
#define X(field)                                                                                   \
    for (size_t i = 0; i < MEND_TORCH_STAT_TYPES; i++) {                                           \
        stats.field[i].current += figures.field[i].current;                                        \
        stats.field[i].peak += figures.field[i].peak;                                              \
        stats.field[i].allocated += figures.field[i].allocated;                                    \
        stats.field[i].freed += figures.field[i].freed;                                            \
    }
    MEND_TORCH_STATS(X)
#undef X
#define X(field) stats.field += figures.field;
    MEND_TORCH_COUNTERS(X)
#undef X
    stats.max_split_size = -1;
}

} // namespace mend_torch
