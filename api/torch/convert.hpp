// Between PyTorch's types and Mend's, and Mend's failures as exceptions.
#pragma once

#include "mend/mend_devices.h"
#include "mend/mend_torch.h"
#include "versions.hpp"

namespace mend_torch
{

inline constexpr size_t ONE_EXABYTE = size_t{1} << 60;

// The deleter of a tensor's DataPtr. PyTorch compares it, so there is one.
void delete_block(void *pointer);

[[noreturn]] inline void fail(const char *what, mend_result result)
{
    mend_error error = MEND_ERROR_INIT;
    mend_get_last_error(&error);
    TORCH_CHECK(false, "Mend: ", what, ": ", mend_result_name(result), ": ", error.message);
}

inline void check(mend_result result, const char *what)
{
    if (C10_UNLIKELY(result != MEND_OK)) {
        fail(what, result);
    }
}

inline mend_stream stream_of(cudaStream_t stream)
{
    return reinterpret_cast<mend_stream>(stream);
}

inline mend_torch_pool_id id_of(PoolId id)
{
    return {id.first, id.second};
}

inline mend_torch_pool_info info_of(DeviceIndex device, mend_torch_pool_id id)
{
    mend_torch_pool_info info = MEND_TORCH_POOL_INFO_INIT;
    (void)mend_torch_pool_get_info(device, id, &info);
    return info;
}

inline PoolId id_of(mend_torch_pool_id id)
{
    return {id.first, id.second};
}

inline DeviceIndex index_of(int device)
{
    return static_cast<DeviceIndex>(device < 0 ? 0 : device);
}

inline size_t rounded(size_t size)
{
    const size_t divisions = divisions_for(size);
    if (C10_LIKELY(divisions <= 1) || size <= 512 * divisions || (size & (size - 1)) == 0) {
        return size;
    }
    size_t floor = 1;
    while (floor <= size / 2) {
        floor *= 2;
    }
    const size_t step = floor / divisions;
    return step == 0 ? floor * 2 : (size + step - 1) / step * step;
}

inline DataPtr tensor_of(void *pointer, DeviceIndex device)
{
    return {pointer, pointer, &delete_block, c10::Device(c10::DeviceType::CUDA, device)};
}

} // namespace mend_torch
