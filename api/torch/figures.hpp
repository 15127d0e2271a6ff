// PyTorch's statistics of a device.
#pragma once

#include "snapshot.hpp"

namespace mend_torch
{

// The memory of each pool, where PyTorch has statistics of it. Only current values are known.
inline void add_pools([[maybe_unused]] c10::CachingDeviceAllocator::DeviceStats &stats,
                      [[maybe_unused]] DeviceIndex device)
{
#if MEND_TORCH >= 213
    mend_pool *heap = nullptr;
    mend_stats now = MEND_STATS_INIT;
    if (mend_pool_for_device(device, &heap) != MEND_OK || mend_get_stats(heap, &now) != MEND_OK ||
        now.graph_pools == 0) {
        return;
    }
    for (const mend_region &region : regions_of(heap)) {
        const PoolId id = pool_of(region);
        if (is_pool(id)) {
            auto &figures = stats.reserved_bytes_by_private_pools[id];
            const size_t zone = region.is_small ? MEND_TORCH_SMALL : MEND_TORCH_LARGE;
            for (const size_t at : {size_t{MEND_TORCH_ALL}, zone}) {
                figures[at].current += static_cast<int64_t>(region.size_bytes);
                figures[at].peak = figures[at].allocated = figures[at].current;
            }
        }
    }
#endif
}

// `stats`: of PyTorch's own allocator, as reported to Mend.
inline void add_figures(c10::CachingDeviceAllocator::DeviceStats &stats, DeviceIndex device)
{
    mend_torch_figures figures;
    check(mend_torch_get_figures(device, &figures), "statistics");
    const auto before = stats;
#define X(field)                                                                                   \
    for (size_t i = 0; i < MEND_TORCH_STAT_TYPES; i++) {                                           \
        stats.field[i].current += figures.field[i].current;                                        \
        stats.field[i].allocated += figures.field[i].allocated;                                    \
        stats.field[i].freed += figures.field[i].freed;                                            \
        stats.field[i].peak = std::max(stats.field[i].peak, stats.field[i].current);               \
    }
    MEND_TORCH_STATS(X)
#undef X
#define X(field, row)                                                                              \
    for (size_t i = 0; i < MEND_TORCH_STAT_TYPES; i++) {                                           \
        if (row != MEND_USAGE_CHUNKS || i == MEND_TORCH_ALL) {                                     \
            stats.field[i].current = figures.field[i].current;                                     \
            stats.field[i].peak = std::max(before.field[i].peak, figures.field[i].peak);           \
        }                                                                                          \
    }
    MEND_TORCH_ROWS(X)
#undef X
#define X(field) stats.field += figures.field;
    MEND_TORCH_COUNTERS(X)
#undef X
    stats.max_split_size = -1;
    add_pools(stats, device);
}

} // namespace mend_torch
