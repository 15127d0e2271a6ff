// Differences between the versions of PyTorch: MEND_TORCH is 208 for 2.8 (defined by the command
// that compiles this). MEND_SINCE(208) is `override` where PyTorch has the method since 2.8.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>

#include <string>

#if !defined(MEND_TORCH) || MEND_TORCH < 205
#error "MEND_TORCH is the version of PyTorch, 205 and later"
#endif

#if MEND_TORCH >= 206
#define MEND_SINCE_206 override
#else
#define MEND_SINCE_206
#endif
#if MEND_TORCH >= 208
#define MEND_SINCE_208 override
#else
#define MEND_SINCE_208
#endif
#if MEND_TORCH >= 210
#define MEND_SINCE_210 override
#else
#define MEND_SINCE_210
#endif
#if MEND_TORCH >= 212
#define MEND_SINCE_212 override
#else
#define MEND_SINCE_212
#endif
#if MEND_TORCH >= 214
#define MEND_SINCE_214 override
#else
#define MEND_SINCE_214
#endif

namespace mend_torch
{

namespace cca = c10::cuda::CUDACachingAllocator;

using c10::DataPtr;
using c10::DeviceIndex;
using c10::GatheredContext;
using PoolId = c10::cuda::MempoolId_t;
using Context = std::shared_ptr<GatheredContext>;
using Entry = cca::TraceEntry;
using Record = cca::RecordContext;

#if MEND_TORCH >= 211
using Backing = std::shared_ptr<cca::CUDAAllocator>; // the allocator of a MemPool
#else
using Backing = cca::CUDAAllocator *;
#endif

// Whether a trace entry belongs to a pool. Older ones do not say.
inline bool is_in([[maybe_unused]] const Entry &entry, [[maybe_unused]] PoolId pool)
{
#if MEND_TORCH >= 208
    return entry.mempool_ == pool;
#else
    return true;
#endif
}

inline bool is_pool(PoolId id)
{
    return id.first != 0 || id.second != 0;
}

// Settings that are not CUDA's alone.
#if MEND_TORCH >= 210
using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
#else
using Config = cca::CUDAAllocatorConfig;
#endif

// roundup_power2_divisions of PYTORCH_CUDA_ALLOC_CONF: 0 or 1 means no rounding beyond 512.
inline size_t divisions_for(size_t size)
{
    return Config::roundup_power2_divisions(size);
}

// PYTORCH_CUDA_ALLOC_CONF, or the program's later settings.
inline std::string settings_now()
{
    return Config::last_allocator_settings();
}

// The settings about blocks that are not split.
inline size_t max_split_size()
{
    return Config::max_split_size();
}

#if MEND_TORCH >= 208
inline size_t most_unsplit_excess()
{
    return Config::max_non_split_rounding_size();
}

// A pool's memory, without traces where possible.
inline cca::SnapshotInfo snapshot_of(cca::CUDAAllocator &allocator, PoolId pool)
{
#if MEND_TORCH >= 211
    return allocator.snapshot(pool, false);
#else
    return allocator.snapshot(pool);
#endif
}
#endif

// per_process_memory_fraction of PYTORCH_CUDA_ALLOC_CONF.
inline double configured_fraction()
{
#if MEND_TORCH >= 210
    return cca::CUDAAllocatorConfig::per_process_memory_fraction();
#else
    return 1;
#endif
}

inline bool rejects_early()
{
#if MEND_TORCH >= 212
    return cca::CUDAAllocatorConfig::throw_on_cudamalloc_oom();
#else
    return false;
#endif
}

} // namespace mend_torch
