// Calls PyTorch's allocator as its C++ parts do, where Python cannot: tests load this by ctypes.
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include <c10/cuda/CUDACachingAllocator.h>

#define PROBE extern "C" __attribute__((visibility("default")))

namespace cca = c10::cuda::CUDACachingAllocator;

static std::mutex mutex;
static std::string events;
static std::map<void *, c10::DataPtr> tensors;

static void add(const char *format, unsigned long long a, unsigned long long b,
                unsigned long long c, unsigned long long d)
{
    char line[200];
    snprintf(line, sizeof(line), format, a, b, c, d);
    const std::lock_guard<std::mutex> lock(mutex);
    events += line;
}

// Runs a call. Its exception becomes text.
template <typename Call> static void run(char *text, size_t capacity, Call call)
{
    text[0] = '\0';
    try {
        call();
    } catch (const std::exception &error) {
        snprintf(text, capacity, "%s", error.what());
    }
}

// What trackers and observers heard since the last time.
PROBE void probe_events(char *text, size_t capacity)
{
    const std::lock_guard<std::mutex> lock(mutex);
    snprintf(text, capacity, "%s", events.c_str());
    events.clear();
}

PROBE size_t probe_largest(int device)
{
    size_t bytes = 0;
    cca::get()->cacheInfo(static_cast<c10::DeviceIndex>(device), &bytes);
    return bytes;
}

// Segments of pools, as NCCL's hooks hear of them.
PROBE void probe_track(void)
{
    cca::get()->attachAllocatorTraceTracker([](const cca::TraceEntry &entry) {
#if MEND_TORCH >= 208
        const unsigned long long pool = entry.mempool_.first + entry.mempool_.second;
#else
        const unsigned long long pool = 0;
#endif
        if (entry.action_ == cca::TraceEntry::SEGMENT_ALLOC ||
            entry.action_ == cca::TraceEntry::SEGMENT_FREE) {
            add(entry.action_ == cca::TraceEntry::SEGMENT_ALLOC ? "begun %llu %llu %llu %llu\n"
                                                                : "ended %llu %llu %llu %llu\n",
                static_cast<unsigned long long>(entry.device_), entry.addr_, entry.size_, pool);
        }
    });
}

// 1: this version of PyTorch has both of the next two.
PROBE int probe_is_new(void)
{
    return MEND_TORCH >= 213;
}

PROBE void probe_observe_rejections(void)
{
#if MEND_TORCH >= 213
    cca::get()->attachOomRejectionObserver(
        [](int64_t device, size_t size, size_t allocated, size_t allowed) {
            add("rejected %llu %llu %llu %llu\n", static_cast<unsigned long long>(device), size,
                allocated, allowed);
        });
#endif
}

// A tensor of so many bytes at an address, until probe_drop.
PROBE void probe_allocate_at(size_t size, void *address, char *text, size_t capacity)
{
    run(text, capacity, [&] {
#if MEND_TORCH >= 213
        c10::DataPtr made = cca::get()->allocateWithAddress(size, address);
        TORCH_CHECK(made.get() == address, "it is elsewhere");
        tensors[address] = std::move(made);
#endif
    });
}

PROBE void probe_drop(void *address)
{
    tensors.erase(address);
}

// alloc_fn and free_fn of a MemPool with an allocator of the program's: memory outside of Mend.
PROBE void *probe_take(size_t size, int /*device*/, cudaStream_t /*stream*/)
{
    void *pointer = nullptr;
    return cudaMalloc(&pointer, size) == cudaSuccess ? pointer : nullptr;
}

PROBE void probe_give(void *pointer, size_t /*size*/, int /*device*/, cudaStream_t /*stream*/)
{
    (void)cudaFree(pointer);
}

// As probe_take, but it throws as PyTorch does where it has no memory.
PROBE void *probe_take_or_throw(size_t size, int device, cudaStream_t stream)
{
    constexpr size_t MOST = size_t{100} << 20;
    TORCH_CHECK_WITH(OutOfMemoryError, size <= MOST, "the program's allocator has no memory");
    return probe_take(size, device, stream);
}
