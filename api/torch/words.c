/* PyTorch's text for out of memory, with Mend's report. */
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

typedef struct words {
    char *text;
    size_t capacity;
    size_t length;
} words;

__attribute__((format(printf, 2, 3))) static void append_text(words *to, const char *format, ...)
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

/* With the name that Python has for it. */
static void add_in_python(words *to, const char *from, const char *name, const char *in_python)
{
    const char *at = strstr(from, name);
    if (at == NULL) {
        append_text(to, "%s", from);
    } else {
        append_text(to, "%.*s%s%s", (int)(at - from), from, in_python, at + strlen(name));
    }
}

/* Mend's message without the request and the GPU, which PyTorch's text has: free memory, remedies
 * and owners. A fraction that was set can be raised. */
static void add_mend(words *to, const mend_error *error, const mend_torch_allowed *allowed)
{
    static const char limit[] = "; the limit is ";
    static const char gpu[] = "; the GPU has ";
    static const char raise[] = " Raise the limit to ";
    static const char more[] = " or more";
    const mend_oom_report *f = error->oom_report;
    const char *begin = strstr(error->message, limit);
    const char *end = begin != NULL ? strstr(begin, gpu) : NULL;
    const char *advice = end != NULL ? strstr(end, ". ") : NULL;
    if (advice == NULL) {
        return;
    }
    append_text(to, "\nMend: %.*s.", (int)(end - begin) - 2, begin + 2);
    advice++;
    const char *behind = strstr(advice, more);
    if (strncmp(advice, raise, sizeof(raise) - 1) == 0 && behind != NULL && allowed->is_fraction) {
        const uint64_t enough_bytes = f->sufficient_limit_bytes + allowed->foreign_bytes;
        const double enough = (double)enough_bytes / (double)f->device_bytes;
        append_text(
            to, " Raise the memory fraction (set_per_process_memory_fraction) from %.3g to %.3f",
            allowed->fraction, (double)(uint64_t)(enough * 1e3 + 1) / 1e3);
        advice = behind;
    }
    add_in_python(to, advice, "mend_compact", "libmend.compact()");
    bool has_lines = false;
    bool has_owners = f->owners[0] != NULL;
    for (int i = 0; i < 3 && f->owners[i] != NULL; i++) {
        has_lines = has_lines || f->owners[i]->stack != 0;
    }
    if (has_owners && !has_lines && to->length > 0 && to->length < to->capacity) {
        to->length -= to->text[to->length - 1] == '.';
        append_text(to, " (MEND_STACKS=1MiB names lines).");
    }
}

static void add_device(words *to, const mend_oom_report *oom_report,
                       const mend_torch_allowed *allowed, int device)
{
    char total[AMOUNT_BYTES];
    char free_now[AMOUNT_BYTES];
    char others[AMOUNT_BYTES];
    char held[AMOUNT_BYTES];
    append_text(to, ". GPU %d has a total capacity of %s of which %s is free. ", device,
                amount(total, oom_report->device_bytes),
                amount(free_now, oom_report->device_free_bytes));
    const uint64_t foreign_bytes = allowed->all_foreign_bytes;
    if (foreign_bytes > 0 && allowed->foreign_bytes == 0) {
        append_text(to, "%s is in memory pools with an allocator of the program's. ",
                    amount(others, foreign_bytes));
    }
    if (oom_report->device_others_bytes > foreign_bytes) {
        append_text(to, "%s is in use outside of Mend. ",
                    amount(others, oom_report->device_others_bytes - foreign_bytes));
    }
    if (oom_report->device_kept_bytes > 0) {
        append_text(to, "%s is kept free (min_free of MEND_CONF). ",
                    amount(others, oom_report->device_kept_bytes));
    }
    append_text(to, "Mend has %s memory in use. ", amount(held, oom_report->reserved_bytes));
    const uint64_t limit = allowed->bytes;
    if (limit < oom_report->device_bytes) {
        append_text(to, "%s allowed", amount(held, limit));
        if (allowed->foreign_bytes > 0) {
            append_text(to, ", of which %s are in memory pools with an allocator of the program's",
                        amount(held, allowed->foreign_bytes));
        }
        append_text(to, "; ");
    }
}

static void add_process(words *to, const mend_oom_report *oom_report, int device)
{
    char live[AMOUNT_BYTES];
    char kept[AMOUNT_BYTES];
    char rest[AMOUNT_BYTES];
    char pinned[AMOUNT_BYTES];
    mend_pool *heap;
    mend_stats stats = MEND_STATS_INIT;
    append_text(to, "Of the allocated memory %s is allocated by PyTorch, ",
                amount(live, oom_report->live_bytes));
    if (oom_report->graph_pool_bytes > 0) {
        append_text(to, "%s is kept for private pools (e.g., CUDA Graphs), ",
                    amount(kept, oom_report->graph_pool_bytes));
    }
    append_text(to, "and %s is reserved by PyTorch but unallocated.",
                amount(rest, oom_report->reserved_bytes - oom_report->live_bytes));
    if (mend_torch_heap(device, &heap) == MEND_OK && mend_get_stats(heap, &stats) == MEND_OK &&
        stats.pinned_bytes > 0) {
        append_text(to, " %s is pinned where it is.", amount(pinned, stats.pinned_bytes));
    }
}

void mend_torch_write_out_of_memory(char *text, size_t capacity, int device, uint64_t size_bytes)
{
    mend_error error = MEND_ERROR_INIT;
    words to = {text, capacity, 0};
    char tried[AMOUNT_BYTES];
    mend_get_last_error(&error);
    append_text(&to, "CUDA out of memory. Tried to allocate %s", amount(tried, size_bytes));
    if (error.oom_report == NULL) {
        append_text(&to, " on GPU %d. Mend: %s", device, error.message);
        return;
    }
    mend_torch_allowed allowed;
    if (mend_torch_get_allowed(device, &allowed) != MEND_OK) {
        allowed = (mend_torch_allowed){.bytes = error.oom_report->limit_bytes};
    }
    add_device(&to, error.oom_report, &allowed, device);
    add_process(&to, error.oom_report, device);
    add_mend(&to, &error, &allowed);
}

/* No device has room for a larger request, so it is out of memory, not a wrong argument. */
int mend_torch_lacks_memory(mend_result result)
{
    return result == MEND_ERROR_OUT_OF_MEMORY || result == MEND_ERROR_OUT_OF_HOST_MEMORY ||
           result == MEND_ERROR_OUT_OF_ADDRESS_SPACE;
}
