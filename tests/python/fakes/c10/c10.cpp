/* A stand-in for PyTorch's libc10.so: its errors, and a profiler that keeps what it hears. */
#include <c10/core/Allocator.h>

#include <mutex>
#include <vector>

namespace c10
{

Error::Error(SourceLocation, std::string message) : message_(std::move(message)) {}

const char *Error::what() const noexcept
{
    return message_.c_str();
}

OutOfMemoryError::OutOfMemoryError(SourceLocation location, std::string message)
    : Error(location, std::move(message))
{
}

} // namespace c10

struct fake_event {
    int64_t size;
    uint64_t allocated;
    uint64_t reserved;
    int device;
    int is_out_of_memory;
};

namespace
{

std::mutex mutex;
std::vector<fake_event> events;
bool is_profiling;

void keep(int64_t size, size_t allocated, size_t reserved, c10::Device device, bool is_oom)
{
    const std::lock_guard<std::mutex> guard(mutex);
    events.push_back({size, allocated, reserved, device.index, is_oom});
}

} // namespace

namespace c10
{

bool memoryProfilingEnabled()
{
    return is_profiling;
}

void reportMemoryUsageToProfiler(void *, int64_t size, size_t allocated, size_t reserved,
                                 Device device)
{
    keep(size, allocated, reserved, device, false);
}

void reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device device)
{
    keep(size, allocated, reserved, device, true);
}

} // namespace c10

extern "C" {

C10_API void fake_c10_profile(int is_on)
{
    is_profiling = is_on != 0;
}

/* Copies what it heard, up to `most` events; returns how many there are. */
C10_API size_t fake_c10_events(fake_event *into, size_t most)
{
    const std::lock_guard<std::mutex> guard(mutex);
    for (size_t i = 0; i < events.size() && i < most; i++) {
        into[i] = events[i];
    }
    return events.size();
}
}
