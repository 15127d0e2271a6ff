/* The owners of memory: the lines that a snapshot names. A log names none, so they are the sizes of
 * blocks by stream: the largest sums alone, and the others by powers of two. */
#include "lab/report/owners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lab/report/words.h"
#include "lab/support/capacity.h"

enum { MOST_SIZES = 1024, CLASSES = 64, NAME_BYTES = 112 };

/* All blocks of a size on a stream. */
typedef struct size_sum {
    uint64_t size_bytes;
    uint64_t sum_bytes;
    uint32_t stream;
    uint32_t owner;
} size_sum;

static int by_size(const void *a, const void *b)
{
    const size_sum *one = a;
    const size_sum *other = b;
    if (one->size_bytes != other->size_bytes) {
        return one->size_bytes < other->size_bytes ? -1 : 1;
    }
    return (one->stream > other->stream) - (one->stream < other->stream);
}

static int by_sum(const void *a, const void *b)
{
    const size_sum *one = a;
    const size_sum *other = b;
    if (one->sum_bytes != other->sum_bytes) {
        return one->sum_bytes > other->sum_bytes ? -1 : 1;
    }
    return by_size(a, b);
}

static mend_result fail_of_memory(void)
{
    return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the report");
}

static size_sum key_of(const mend_trace_event *event)
{
    return (size_sum){.size_bytes = mend_report_bytes(event), .stream = event->stream};
}

/* One entry for each size and stream, sorted by size, with the sum of its bytes. */
static size_t collect(const mend_trace *trace, size_sum *sums)
{
    size_t blocks = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].is_alloc) {
            sums[blocks++] = key_of(&trace->events[i]);
        }
    }
    qsort(sums, blocks, sizeof(*sums), by_size);
    size_t count = 0;
    for (size_t i = 0; i < blocks; i++) {
        if (count == 0 || by_size(&sums[count - 1], &sums[i]) != 0) {
            sums[count++] = sums[i];
        }
        sums[count - 1].sum_bytes += sums[i].size_bytes;
    }
    return count;
}

static unsigned class_of(uint64_t size_bytes)
{
    unsigned bits = 0;
    while (bits < CLASSES - 1 && UINT64_C(1) << bits < size_bytes) {
        bits++;
    }
    return bits;
}

/* Sizes that are the same in two digits have different names. */
static void write_size(uint64_t size_bytes, char *text, size_t size)
{
    uint64_t unit = 1;
    while (unit < MEND_TIB && unit * 1024 <= size_bytes) {
        unit *= 1024;
    }
    mend_format_bytes(size_bytes, text, size);
    if (size_bytes % unit * 100 % unit != 0) {
        size_t length = strlen(text);
        snprintf(text + length, size - length, " (%s B)", mend_word_count(size_bytes).text);
    }
}

static void name_size(const mend_report *report, const size_sum *sum, bool is_class, char *name)
{
    char size[56];
    char stream[32] = "";
    if (report->trace->stream_count > 1 && !is_class) {
        const uint64_t number = report->trace->stream_names[sum->stream];
        mend_trace_detail_tell_stream(&report->detail, number, stream, sizeof(stream));
    }
    write_size(is_class ? UINT64_C(1) << class_of(sum->size_bytes) : sum->size_bytes, size,
               sizeof(size));
    snprintf(name, NAME_BYTES, "%s %s%s%s", is_class ? "other blocks up to" : "blocks of", size,
             stream[0] != 0 ? ", " : "", stream);
}

/* The first sums have an owner each, the others one for their class. */
static mend_result number(mend_report *report, size_sum *sums, size_t count)
{
    uint32_t of_class[CLASSES] = {0};
    report->names = calloc(MOST_SIZES + CLASSES, NAME_BYTES);
    report->owners = calloc(MOST_SIZES + CLASSES, sizeof(*report->owners));
    if (report->names == NULL || report->owners == NULL) {
        return fail_of_memory();
    }
    qsort(sums, count, sizeof(*sums), by_sum);
    for (size_t i = 0; i < count; i++) {
        bool is_class = i >= MOST_SIZES;
        unsigned class = class_of(sums[i].size_bytes);
        if (!is_class || of_class[class] == 0) {
            char *name = report->names + report->owner_count * NAME_BYTES;
            name_size(report, &sums[i], is_class, name);
            report->owners[report->owner_count++].name = name;
            of_class[class] = is_class ? (uint32_t)report->owner_count : of_class[class];
        }
        sums[i].owner = (uint32_t)(is_class ? of_class[class] : report->owner_count) - 1;
    }
    qsort(sums, count, sizeof(*sums), by_size);
    return MEND_OK;
}

static mend_result find_sizes(mend_report *report)
{
    const mend_trace *trace = report->trace;
    size_sum *sums = calloc(trace->block_count + 1, sizeof(*sums));
    if (sums == NULL) {
        return fail_of_memory();
    }
    size_t count = collect(trace, sums);
    mend_result result = number(report, sums, count);
    for (size_t i = 0; result == MEND_OK && i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        if (event->is_alloc) {
            size_sum key = key_of(event);
            const size_sum *found = bsearch(&key, sums, count, sizeof(*sums), by_size);
            report->owner_of[event->block] = found->owner;
        }
    }
    free(sums);
    return result;
}

mend_result mend_report_find_owners(mend_report *report)
{
    const mend_trace_detail *detail = &report->detail;
    if (detail->owner_count == 0) {
        return find_sizes(report);
    }
    report->owner_count = detail->owner_count;
    report->owners = calloc(detail->owner_count + 1, sizeof(*report->owners));
    if (report->owners == NULL) {
        return fail_of_memory();
    }
    for (size_t i = 0; i < detail->owner_count; i++) {
        report->owners[i].name = detail->owners[i].name;
    }
    for (size_t i = 0; i < detail->place_count; i++) {
        report->owner_of[i] = detail->places[i].owner;
    }
    return MEND_OK;
}
