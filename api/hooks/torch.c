/* PyTorch's hook: see mend_torch.h. Compiled with -fexceptions, because exceptions pass through
 * mend_torch_alloc. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

/* No device has room for a larger request, so it is out of memory, not a wrong argument. */
#define LARGEST_BYTES (UINT64_C(1) << 60)

static bool lacks_memory(mend_result result, size_t size)
{
    return size > LARGEST_BYTES || result == MEND_ERROR_OUT_OF_MEMORY ||
           result == MEND_ERROR_OUT_OF_HOST_MEMORY || result == MEND_ERROR_OUT_OF_ADDRESSES;
}

enum { MESSAGE_BYTES = 1280, AMOUNT_BYTES = 32 };

/* Writes an amount as PyTorch does. */
static void write_amount(char text[AMOUNT_BYTES], uint64_t bytes)
{
    static const char *const names[] = {"KiB", "MiB", "GiB"};
    int unit = bytes >= UINT64_C(1) << 30 ? 2 : bytes >= UINT64_C(1) << 20 ? 1 : 0;
    if (bytes <= 1024) {
        snprintf(text, AMOUNT_BYTES, "%u bytes", (unsigned)bytes);
    } else {
        snprintf(text, AMOUNT_BYTES, "%.2f %s",
                 (double)bytes / (double)(UINT64_C(1) << 10 * (unit + 1)), names[unit]);
    }
}

/* The middle part of Mend's message, without the sentences about the request and the GPU, which
 * PyTorch's text has already. */
static const char *middle_of(const char *message, int *length)
{
    static const char request[] = " requested. ";
    const char *begin = strstr(message, request);
    begin = begin != NULL ? begin + sizeof(request) - 1 : message;
    const char *end = strstr(begin, " The GPU has ");
    *length = (int)(end != NULL ? (size_t)(end - begin) : strlen(begin));
    return begin;
}

/* If the pool reported out of memory: PyTorch's text, and then Mend's. */
static void write_out_of_memory(char message[MESSAGE_BYTES], const mend_error *error, size_t size,
                                int device)
{
    char tried[AMOUNT_BYTES];
    char total[AMOUNT_BYTES];
    char free_now[AMOUNT_BYTES];
    char others[AMOUNT_BYTES];
    write_amount(tried, size);
    if (error->shortfall == NULL) {
        snprintf(message, MESSAGE_BYTES,
                 "CUDA out of memory. Tried to allocate %s on GPU %d. Mend: %s", tried, device,
                 error->message);
        return;
    }
    write_amount(total, error->shortfall->device_bytes);
    write_amount(free_now, error->shortfall->device_free_bytes);
    write_amount(others, error->shortfall->device_others_bytes);
    int length;
    const char *middle = middle_of(error->message, &length);
    bool has_others = error->shortfall->device_others_bytes > 0;
    snprintf(message, MESSAGE_BYTES,
             "CUDA out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of which "
             "%s is free%s%s%s. Mend: %.*s",
             tried, device, total, free_now, has_others ? " and " : "", has_others ? others : "",
             has_others ? " is held by others" : "", length, middle);
}

static void raise_failure(mend_result result, size_t size, int device)
{
    mend_error error = MEND_ERROR_INIT;
    char message[MESSAGE_BYTES];
    mend_last_error(&error);
    if (lacks_memory(result, size)) {
        write_out_of_memory(message, &error, size, device);
    } else {
        snprintf(message, sizeof(message), "CUDA error. Mend: %zu bytes on device %d: %s: %s", size,
                 device, mend_result_name(result), error.message);
    }
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

void mend_torch_begin_pool(int device)
{
    static const char message[] =
        "mend.torch: capturing a CUDA graph, or a memory pool of PyTorch's, cannot work while "
        "PyTorch's memory comes from Mend. See docs/frameworks/pytorch.md";
    (void)device;
    raise_function raise = atomic_load(&raise_message);
    if (raise != NULL) {
        raise(message);
    }
    mend_torch_throw(message);
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
    /* 0 would mean no limit; a fraction above 1 means no limit */
    double bytes = fraction * (double)stats.device_bytes;
    return mend_set_limit(pool, fraction < 1 ? (uint64_t)bytes + (bytes < 1) : 0);
}

void mend_torch_memory_fraction(double fraction, int device)
{
    if (fraction >= 0) {
        mend_hooks_note(set_fraction(fraction, device), "the memory fraction of PyTorch");
    } else { /* also for NaN */
        mend_hooks_note_mistake(
            "the memory fraction of PyTorch is no number from 0 to 1: the limit "
            "stays as it is");
    }
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
