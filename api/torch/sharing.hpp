// Tensors for other processes (torch.multiprocessing): the handle is a letter, the device, and the
// token of mend_export; the offset is that in the block.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "convert.hpp"
#include "mend/mend_share.h"

namespace mend_torch
{

// PyTorch's own handles begin with 'c' or 'e'.
inline constexpr char HANDLE_KIND = 'm';

inline bool is_handle(const std::string &handle)
{
    return handle.size() == 1 + sizeof(mend_export_token) && handle[0] == HANDLE_KIND;
}

inline cca::ShareableHandle exported(void *pointer, int device)
{
    mend_pool *heap = nullptr;
    mend_export_token token;
    uint64_t offset = 0;
    check(mend_pool_for_device(device, &heap), "sharing a tensor");
    check(mend_export(heap, pointer, &token, &offset), "sharing a tensor");
    std::string handle(1, HANDLE_KIND);
    handle.append(reinterpret_cast<const char *>(token.bytes), sizeof(token));
    return {static_cast<ptrdiff_t>(offset), std::move(handle)};
}

// Mapped until the last copy of the pointer goes; the host then waits for work that may use it.
inline std::shared_ptr<void> imported(const std::string &handle, DeviceIndex device)
{
    mend_pool *heap = nullptr;
    mend_export_token token;
    void *pointer = nullptr;
    std::memcpy(&token, handle.data() + 1, sizeof(token));
    check(mend_pool_for_device(device, &heap), "a shared tensor");
    check(mend_import(heap, &token, &pointer, nullptr), "a shared tensor");
    return {pointer, [heap](void *imported_pointer) {
                (void)mend_import_close(heap, imported_pointer, MEND_NO_STREAM);
            }};
}

} // namespace mend_torch
