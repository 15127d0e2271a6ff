/*
 * The part that needs PyTorch's C++ interface: out of memory as c10::OutOfMemoryError, and the
 * profiler's memory events. Compiled at first use against the PyTorch that is installed
 * (_adapter.py), and placed between PyTorch's pluggable allocator and libmend_torch.
 */
#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "mend/mend_devices.h"
#include "mend/mend_torch.h"

namespace
{

/* Mend's functions, as addresses, so that this links only with PyTorch. */
struct Mend {
    decltype(&mend_torch_alloc) alloc;
    decltype(&mend_torch_free) free;
    decltype(&mend_pool_for_device) pool_for_device;
    decltype(&mend_get_stats) get_stats;
};
Mend mend;

[[noreturn]] void raise(const char *message)
{
    const c10::SourceLocation here = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
    const char *out_of_memory = "CUDA out of memory.";
    if (std::strncmp(message, out_of_memory, std::strlen(out_of_memory)) == 0) {
        throw c10::OutOfMemoryError(here, message);
    }
    throw c10::Error(here, message);
}

/* The statistics of the pool; zeros if there is none. */
mend_stats stats_of(int device)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_pool *pool = nullptr;
    if (mend.pool_for_device(device, &pool) == MEND_OK) {
        mend.get_stats(pool, &stats);
    }
    return stats;
}

c10::Device cuda(int device)
{
    return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device)};
}

/* size_bytes: negative for a free. */
void report(void *pointer, int64_t size_bytes, int device)
{
    const mend_stats stats = stats_of(device);
    c10::reportMemoryUsageToProfiler(pointer, size_bytes, stats.live_bytes, stats.reserved_bytes,
                                     cuda(device));
}

} // namespace

extern "C" {

/* Called once, before the others, with the addresses of struct Mend in its order; set_raise is
 * mend_torch_set_raise. */
MEND_API void mend_torch_adapter_connect(const Mend *functions,
                                         void (*set_raise)(void (*)(const char *)))
{
    mend = *functions;
    set_raise(raise);
}

MEND_API void *mend_torch_adapter_alloc(size_t size, int device, mend_stream stream)
{
    const bool is_profiled = c10::memoryProfilingEnabled();
    try {
        void *pointer = mend.alloc(size, device, stream);
        if (is_profiled) {
            report(pointer, static_cast<int64_t>(size), device);
        }
        return pointer;
    } catch (const c10::OutOfMemoryError &) {
        if (is_profiled) {
            const mend_stats stats = stats_of(device);
            c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size), stats.live_bytes,
                                             stats.reserved_bytes, cuda(device));
        }
        throw;
    }
}

MEND_API void mend_torch_adapter_free(void *pointer, size_t size, int device, mend_stream stream)
{
    mend.free(pointer, size, device, stream);
    if (c10::memoryProfilingEnabled()) {
        report(pointer, -static_cast<int64_t>(size), device);
    }
}
}
