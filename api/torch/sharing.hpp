// Tensors for other processes (torch.multiprocessing): the handle is a letter and a token of
// mend_export, of one kind each. The offset is in the block. MEND_CONF=shareable:fabric asks for
// descriptions, where the memory has fabric handles.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "convert.hpp"
#include "mend/mend_share.h"

namespace mend_torch
{

// PyTorch's own handles begin with 'c' or 'e'.
inline constexpr char TOKEN_KIND = 'm';
inline constexpr char DESCRIPTION_KIND = 'f';

// MEND_EXPORT_FABRIC: the size of a token, and its part for each chunk.
inline constexpr size_t DESCRIPTION_BYTES = 64;
inline constexpr size_t DESCRIBED_CHUNK_BYTES = 72;

inline bool is_description(const std::string &handle)
{
    return handle.size() > 1 + DESCRIPTION_BYTES && handle[0] == DESCRIPTION_KIND &&
           (handle.size() - 1 - DESCRIPTION_BYTES) % DESCRIBED_CHUNK_BYTES == 0;
}

inline bool is_handle(const std::string &handle)
{
    return is_description(handle) ||
           (handle.size() == 1 + sizeof(mend_export_token) && handle[0] == TOKEN_KIND);
}

// MEND_ERROR_NOT_SUPPORTED: the memory has no fabric handles. Until the block is exported, another
// thread may compact it into other chunks, and the size is another.
inline mend_result describe(mend_pool *heap, void *pointer, cca::ShareableHandle &shared)
{
    mend_export_options fabric = MEND_EXPORT_OPTIONS_INIT;
    fabric.kind = MEND_EXPORT_FABRIC;
    size_t capacity = 0;
    size_t size = 0;
    uint64_t offset = 0;
    mend_result result = mend_export(heap, pointer, &fabric, nullptr, 0, &size, nullptr);
    while (result == MEND_OK && size > capacity) {
        capacity = size;
        shared.handle.assign(1 + capacity, DESCRIPTION_KIND);
        result = mend_export(heap, pointer, &fabric, &shared.handle[1], capacity, &size, &offset);
    }
    shared.handle.resize(1 + size);
    shared.offset = static_cast<ptrdiff_t>(offset);
    return result;
}

inline mend_result write_token(mend_pool *heap, void *pointer, cca::ShareableHandle &shared)
{
    mend_export_token token;
    uint64_t offset = 0;
    mend_result result =
        mend_export(heap, pointer, nullptr, &token, MEND_EXPORT_TOKEN_BYTES, nullptr, &offset);
    if (result == MEND_OK) {
        shared.offset = static_cast<ptrdiff_t>(offset);
        shared.handle.assign(1, TOKEN_KIND);
        shared.handle.append(reinterpret_cast<const char *>(token.bytes), sizeof(token));
    }
    return result;
}

inline cca::ShareableHandle exported(void *pointer, int device)
{
    mend_pool *heap = nullptr;
    cca::ShareableHandle shared{};
    check(mend_pool_for_device(device, &heap), "sharing a tensor");
    mend_result result = describe(heap, pointer, shared);
    if (result == MEND_ERROR_NOT_SUPPORTED) {
        result = write_token(heap, pointer, shared);
    }
    check(result, "sharing a tensor");
    return shared;
}

inline void *import_block(mend_pool *heap, const std::string &handle)
{
    void *pointer = nullptr;
    check(mend_import(heap, handle.data() + 1, handle.size() - 1, &pointer, nullptr),
          "a shared tensor");
    return pointer;
}

// Mapped until the last copy of the pointer goes. The CPU then waits for work that may use it.
inline std::shared_ptr<void> imported(const std::string &handle, DeviceIndex device)
{
    mend_pool *heap = nullptr;
    check(mend_pool_for_device(device, &heap), "a shared tensor");
    return {import_block(heap, handle), [heap](void *imported_pointer) {
                (void)mend_import_close(heap, imported_pointer, MEND_NO_STREAM);
            }};
}

} // namespace mend_torch
