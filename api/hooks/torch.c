/* PyTorch's hook: see mend_torch.h. Compiled with -fexceptions, for what is thrown passes through
 * mend_torch_alloc. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "hooks/failures.h"
#include "hooks/torch_raise.h"
#include "mend/mend_devices.h"
#include "mend/mend_torch.h"

typedef void (*raise_function)(const char *message);

static _Atomic(raise_function) raise_message;

void mend_torch_set_raise(void (*raise)(const char *message))
{
    atomic_store(&raise_message, raise);
}

/* Larger requests than this are no device's: the program asked for too much, not for nonsense. */
#define LARGEST_BYTES (UINT64_C(1) << 60)

static const char *beginning_of(mend_result result, size_t size)
{
    switch (size > LARGEST_BYTES ? MEND_ERROR_OUT_OF_MEMORY : result) {
    case MEND_ERROR_OUT_OF_MEMORY:
    case MEND_ERROR_OUT_OF_HOST_MEMORY:
    case MEND_ERROR_OUT_OF_ADDRESSES:
        return "CUDA out of memory.";
    default:
        return "CUDA error.";
    }
}

static void raise_failure(mend_result result, size_t size, int device)
{
    mend_error error = MEND_ERROR_INIT;
    char message[1024];
    mend_last_error(&error);
    snprintf(message, sizeof(message), "%s Mend: %zu bytes on device %d: %s: %s",
             beginning_of(result, size), size, device, mend_result_name(result), error.message);
    raise_function raise = atomic_load(&raise_message);
    if (raise != NULL) {
        raise(message);
    }
    mend_torch_throw(message);
}

void *mend_torch_alloc(size_t size, int device, mend_stream stream)
{
    void *pointer = NULL;
    mend_result result = mend_device_alloc(device, size, stream, &pointer);
    if (result != MEND_OK) {
        raise_failure(result, size, device);
    }
    return pointer;
}

void *mend_torch_alloc_or_null(size_t size, int device, mend_stream stream)
{
    void *pointer = NULL;
    return mend_device_alloc(device, size, stream, &pointer) == MEND_OK ? pointer : NULL;
}

void mend_torch_free(void *pointer, size_t size, int device, mend_stream stream)
{
    mend_hooks_note(mend_device_free(device, pointer, size, stream), "a free of PyTorch");
}

void mend_torch_record_stream(void *pointer, mend_stream stream)
{
    mend_hooks_note(mend_device_record_stream(MEND_ALL_DEVICES, pointer, stream),
                    "record_stream of PyTorch");
}

void mend_torch_init(int device_count)
{
    (void)device_count;
}

void mend_torch_reset(void)
{
    mend_hooks_note(mend_device_trim_wait(MEND_ALL_DEVICES, 0, NULL), "empty_cache of PyTorch");
}

static mend_result set_fraction(double fraction, int device)
{
    mend_pool *pool;
    mend_stats stats = MEND_STATS_INIT;
    mend_result result = mend_pool_for_device(device, &pool);
    if (result == MEND_OK) {
        result = mend_get_stats(pool, &stats);
    }
    if (result != MEND_OK) {
        return result;
    }
    /* 0 would mean no limit; and what is no fraction is no limit. */
    double bytes = fraction * (double)stats.device_bytes;
    bool is_fraction = fraction >= 0 && fraction < 1;
    return mend_set_limit(pool, is_fraction ? (uint64_t)bytes + (bytes < 1) : 0);
}

void mend_torch_memory_fraction(double fraction, int device)
{
    mend_hooks_note(set_fraction(fraction, device), "the memory fraction of PyTorch");
}

void *mend_torch_base_alloc(void *pointer, size_t *size)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    if (pointer == NULL || mend_device_block_info(MEND_ALL_DEVICES, pointer, &info) != MEND_OK) {
        return pointer;
    }
    if (size != NULL) {
        *size = info.usable_bytes;
    }
    return info.base;
}

uint64_t mend_torch_failures(void)
{
    return mend_hooks_failures();
}
