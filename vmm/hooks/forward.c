/* The calls that hooks use: each goes to the override of the device or of the block. If there is
 * none, it goes to the device's default pool. */
#include "base/struct_size.h"
#include "hooks/hooks.h"
#include "pool/pool.h"

/* The pool for a call in the usual process: one device, its pool exists, and there are no
 * overrides. NULL: another case. */
static inline mend_pool *usual_pool(int device)
{
    const mend_process_devices *devices = &mend_process_own_devices;
    bool is_usual = (unsigned)device < MEND_DEVICE_LIMIT &&
                    atomic_load_explicit(&devices->override_count, memory_order_acquire) == 0;
    return is_usual ? atomic_load_explicit(&devices->device[device].pool, memory_order_acquire)
                    : NULL;
}

/* A function of its own, so that the usual call saves no registers for it. */
__attribute__((noinline)) static mend_result alloc_with_care(int device, uint64_t size_bytes,
                                                             mend_stream stream, void **pointer)
{
    MEND_INVALID_IF(pointer == NULL, "mend_device_alloc: pointer is NULL");
    MEND_TRY(mend_devices_check(device, true));
    if (size_bytes == 0) {
        *pointer = NULL;
        return MEND_OK;
    }
    if (device == MEND_ALL_DEVICES) {
        MEND_TRY(mend_current_device(&device));
    }
    mend_override *override = mend_override_of_device(device);
    return override != NULL ? mend_override_alloc(override, size_bytes, stream, pointer)
                            : (mend_result)mend_devices_alloc(mend_devices_ctx(device), pointer,
                                                              size_bytes, stream);
}

mend_result mend_device_alloc(int device, uint64_t size_bytes, mend_stream stream, void **pointer)
{
    mend_pool *pool = usual_pool(device);
    return pool != NULL && size_bytes != 0 ? mend_alloc(pool, size_bytes, stream, pointer)
                                           : alloc_with_care(device, size_bytes, stream, pointer);
}

__attribute__((noinline)) static mend_result free_with_care(int device, void *pointer,
                                                            uint64_t size_bytes, mend_stream stream)
{
    mend_result result = mend_devices_check(device, true);
    if (result != MEND_OK || pointer == NULL) {
        return result;
    }
    mend_override *override = mend_override_of_block(pointer);
    return override != NULL ? mend_override_free(override, pointer, size_bytes, stream)
                            : (mend_result)mend_devices_free(mend_devices_ctx(device), pointer,
                                                             size_bytes, stream);
}

mend_result mend_device_free(int device, void *pointer, uint64_t size_bytes, mend_stream stream)
{
    mend_pool *pool = usual_pool(device);
    return pool != NULL ? mend_free(pool, pointer, stream)
                        : free_with_care(device, pointer, size_bytes, stream);
}

/* An override's block has no device that Mend knows. */
__attribute__((noinline)) static mend_result free_with_overrides(void *pointer,
                                                                 mend_block_info *info, int *device)
{
    *device = MEND_ALL_DEVICES;
    mend_result result = mend_device_block_info(MEND_ALL_DEVICES, pointer, info);
    if (result == MEND_OK && info->base != pointer) {
        result = mend_pool_invalid("mend_device_free_untagged: no block begins at the pointer");
    }
    return result == MEND_OK && info->tag == 0
               ? free_with_care(MEND_ALL_DEVICES, pointer, info->requested_bytes, info->stream)
               : result;
}

mend_result mend_device_free_untagged(void *pointer, mend_block_info *info, int *device)
{
    mend_block_info found = MEND_BLOCK_INFO_INIT;
    int at = MEND_ALL_DEVICES;
    MEND_INVALID_IF(pointer == NULL || info == NULL || device == NULL ||
                        !MEND_STRUCT_IS_WHOLE(info),
                    "mend_device_free_untagged: pointer, info or device is NULL, or "
                    "info->struct_size is wrong: begin with MEND_BLOCK_INFO_INIT");
    mend_result result = mend_devices_have_overrides()
                             ? free_with_overrides(pointer, &found, &at)
                             : mend_devices_free_untagged(pointer, &found, &at);
    if (result == MEND_OK) {
        mend_struct_write(info, &found, sizeof(found));
        *device = at;
    }
    return result;
}

mend_result mend_device_record_stream(int device, void *pointer, mend_stream stream)
{
    MEND_TRY(mend_devices_check(device, true));
    mend_override *override = mend_override_of_block(pointer);
    return override != NULL
               ? mend_override_record_stream(override, pointer, stream)
               : (mend_result)mend_devices_record_stream(mend_devices_ctx(device), pointer, stream);
}

/* Asks the overrides about a pointer that is not one of their blocks: it may lie inside one. An
 * override that does not know it is no failure of the call. */
static bool overrides_know(int device, const void *pointer, mend_block_info *info)
{
    const mend_thread_error error_before = *mend_process_error();
    bool is_known = false;
    const mend_device_range range = mend_devices_range(device);
    for (int i = range.first; i < range.end && !is_known; i++) {
        mend_override *override = mend_override_of_device(i);
        is_known = override != NULL && mend_override_block_info(override, pointer, info) == MEND_OK;
    }
    *mend_process_error() = error_before;
    return is_known;
}

mend_result mend_device_block_info(int device, const void *pointer, mend_block_info *info)
{
    MEND_TRY(mend_devices_check(device, true));
    MEND_INVALID_IF(pointer == NULL || info == NULL || !MEND_STRUCT_IS_WHOLE(info),
                    "mend_device_block_info: pointer or info is NULL, or its "
                    "struct_size is wrong: begin with MEND_BLOCK_INFO_INIT");
    mend_override *override = mend_override_of_block(pointer);
    if (override != NULL) {
        return mend_override_block_info(override, pointer, info);
    }
    return mend_devices_have_overrides() && overrides_know(device, pointer, info)
               ? MEND_OK
               : (mend_result)mend_devices_block_info(mend_devices_ctx(device), pointer, info);
}

/* An override for all devices is called once. */
static mend_result trim_each(int device, uint64_t keep_bytes, mend_trim_mode mode,
                             uint64_t *released_bytes)
{
    assert(*released_bytes == 0);
    mend_result result = MEND_OK;
    const mend_device_range range = mend_devices_range(device);
    mend_override *of_all = mend_override_of_device(MEND_ALL_DEVICES);
    bool is_asked = false;
    for (int i = range.first; i < range.end; i++) {
        uint64_t bytes = 0;
        mend_result here = MEND_OK;
        mend_override *override = mend_override_of_device(i);
        if (override == NULL) {
            here = (mend_result)mend_devices_trim(mend_devices_ctx(i), keep_bytes, mode, &bytes);
        } else if (override != of_all || !is_asked) {
            is_asked = is_asked || override == of_all;
            here = mend_override_trim(override, keep_bytes, mode, &bytes);
        } else {
            mend_override_let_go(override);
        }
        result = result == MEND_OK ? here : result;
        *released_bytes += bytes;
    }
    if (of_all != NULL) {
        mend_override_let_go(of_all);
    }
    return result;
}

mend_result mend_device_trim(int device, uint64_t keep_bytes, mend_trim_mode mode,
                             uint64_t *released_bytes)
{
    uint64_t bytes = 0;
    MEND_TRY(mend_devices_check(device, true));
    MEND_INVALID_IF((unsigned)mode > MEND_TRIM_SURPLUS,
                    "mend_device_trim: mode is no mend_trim_mode");
    mend_result result = trim_each(device, keep_bytes, mode, &bytes);
    if (result == MEND_OK && released_bytes != NULL) {
        *released_bytes = bytes;
    }
    return result;
}
