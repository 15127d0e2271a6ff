/* Of PyTorch's header: what Mend's C++ part uses. */
#pragma once

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>

namespace c10
{

enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
using DeviceIndex = int8_t;

struct Device {
    DeviceType type;
    DeviceIndex index;
};

C10_API bool memoryProfilingEnabled();
C10_API void reportMemoryUsageToProfiler(void *pointer, int64_t size, size_t total_allocated,
                                         size_t total_reserved, Device device);
C10_API void reportOutOfMemoryToProfiler(int64_t size, size_t total_allocated,
                                         size_t total_reserved, Device device);

} // namespace c10
