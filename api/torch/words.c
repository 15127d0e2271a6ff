/* PyTorch's text for out of memory, and what Mend knows besides. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mend/mend_torch.h"
#include "torch/heaps.h"

enum { AMOUNT_BYTES = 32 };

/* Writes an amount as PyTorch does. */
static const char *amount(char text[AMOUNT_BYTES], uint64_t bytes)
{
    static const char *const names[] = {"KiB", "MiB", "GiB"};
    int unit = bytes > UINT64_C(1) << 30 ? 2 : bytes > UINT64_C(1) << 20 ? 1 : 0;
    if (bytes <= 1024) {
        snprintf(text, AMOUNT_BYTES, "%u bytes", (unsigned)bytes);
    } else {
        snprintf(text, AMOUNT_BYTES, "%.2f %s",
                 (double)bytes / (double)(UINT64_C(1) << 10 * (unit + 1)), names[unit]);
    }
    return text;
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

/* Who holds the memory: the end of Mend's message. */
static const char *holders_of(const char *message)
{
    const char *end = strstr(message, " The GPU has ");
    const char *grew = end != NULL ? strstr(end, " Grew and never came back: ") : NULL;
    const char *held = end != NULL ? strstr(end, " Most is held by: ") : NULL;
    return grew != NULL ? grew : held != NULL ? held : "";
}

typedef struct words {
    char *text;
    size_t capacity;
    size_t length;
} words;

__attribute__((format(printf, 2, 3))) static void add(words *to, const char *format, ...)
{
    va_list arguments;
    if (to->length < to->capacity) {
        va_start(arguments, format);
        int written =
            vsnprintf(to->text + to->length, to->capacity - to->length, format, arguments);
        va_end(arguments);
        to->length += written > 0 ? (size_t)written : 0;
    }
}

static void add_device(words *to, const mend_shortfall *shortfall, int device)
{
    char total[AMOUNT_BYTES];
    char free_now[AMOUNT_BYTES];
    char others[AMOUNT_BYTES];
    char held[AMOUNT_BYTES];
    add(to, ". GPU %d has a total capacity of %s of which %s is free. ", device,
        amount(total, shortfall->device_bytes), amount(free_now, shortfall->device_free_bytes));
    if (shortfall->device_others_bytes > 0) {
        add(to, "%s is in use outside of Mend. ", amount(others, shortfall->device_others_bytes));
    }
    add(to, "Mend has %s memory in use. ", amount(held, shortfall->reserved_bytes));
    mend_torch_allowed allowed;
    bool is_known = mend_torch_get_allowed(device, &allowed) == MEND_OK;
    uint64_t limit = is_known ? allowed.bytes : shortfall->limit_bytes;
    if (limit < shortfall->device_bytes) {
        add(to, "%s allowed", amount(held, limit));
        if (is_known && allowed.foreign_bytes > 0) {
            add(to, ", of which %s are in memory pools with an allocator of the program's",
                amount(held, allowed.foreign_bytes));
        }
        add(to, "; ");
    }
}

static void add_process(words *to, const mend_shortfall *shortfall, int device)
{
    char live[AMOUNT_BYTES];
    char kept[AMOUNT_BYTES];
    char rest[AMOUNT_BYTES];
    char pinned[AMOUNT_BYTES];
    mend_pool *heap;
    mend_stats stats = MEND_STATS_INIT;
    add(to, "Of the allocated memory %s is allocated by PyTorch, ",
        amount(live, shortfall->live_bytes));
    if (shortfall->group_bytes > 0) {
        add(to, "%s is kept for private pools (e.g., CUDA Graphs), ",
            amount(kept, shortfall->group_bytes));
    }
    add(to, "and %s is reserved by PyTorch but unallocated.",
        amount(rest, shortfall->reserved_bytes - shortfall->live_bytes));
    if (mend_torch_heap(device, &heap) == MEND_OK && mend_get_stats(heap, &stats) == MEND_OK &&
        stats.pinned_bytes > 0) {
        add(to, " %s is pinned where it is.", amount(pinned, stats.pinned_bytes));
    }
}

void mend_torch_write_out_of_memory(char *text, size_t capacity, int device, uint64_t size_bytes)
{
    mend_error error = MEND_ERROR_INIT;
    words to = {text, capacity, 0};
    char tried[AMOUNT_BYTES];
    int length;
    mend_last_error(&error);
    add(&to, "CUDA out of memory. Tried to allocate %s", amount(tried, size_bytes));
    if (error.shortfall == NULL) {
        add(&to, " on GPU %d. Mend: %s", device, error.message);
        return;
    }
    add_device(&to, error.shortfall, device);
    add_process(&to, error.shortfall, device);
    const char *middle = middle_of(error.message, &length);
    add(&to, " Mend: %.*s%s", length, middle, holders_of(error.message));
}

/* No device has room for a larger request, so it is out of memory, not a wrong argument. */
int mend_torch_lacks_memory(mend_result result)
{
    return result == MEND_ERROR_OUT_OF_MEMORY || result == MEND_ERROR_OUT_OF_HOST_MEMORY ||
           result == MEND_ERROR_OUT_OF_ADDRESSES;
}
