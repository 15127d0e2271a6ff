/* The calls of mend_range.h: they check the arguments, take the locks and call the heap. */
#include <stdlib.h>

#include "base/struct_size.h"
#include "pool/pool.h"
#include "ranges/ranges.h"

#define LARGEST_RANGE_BYTES (UINT64_C(1) << 46)
#define MOST_PAGES          (UINT64_C(1) << 26)

/* Sets the default page and rounds the size. */
static mend_result check_sizes(const mend_pool *pool, uint64_t *size_bytes, uint64_t *page_bytes)
{
    const uint64_t device_page = pool->heap.device.granularity_bytes;
    *page_bytes = *page_bytes != 0 ? *page_bytes : device_page;
    if (*page_bytes % device_page != 0 || *page_bytes > LARGEST_RANGE_BYTES) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "mend_range_options.page_bytes is %llu, not a multiple of the device's "
                         "page, %llu bytes",
                         (unsigned long long)*page_bytes, (unsigned long long)device_page);
    }
    if (*size_bytes == 0 || *size_bytes > LARGEST_RANGE_BYTES ||
        (*size_bytes - 1) / *page_bytes >= MOST_PAGES) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "a range of %llu bytes is not possible; it has 1 to 2^46 bytes, in at "
                         "most 2^26 pages (of %llu bytes)",
                         (unsigned long long)*size_bytes, (unsigned long long)*page_bytes);
    }
    *size_bytes = ((*size_bytes - 1) / *page_bytes + 1) * *page_bytes;
    return MEND_OK;
}

mend_result mend_range_create(mend_pool *pool, uint64_t size_bytes, const mend_range_options *given,
                              mend_range **range)
{
    MEND_INVALID_IF(pool == NULL || range == NULL, "mend_range_create: pool or range is NULL");
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    MEND_TRY(mend_pool_read_struct(given, "mend_range_options", &options, sizeof(options)));
    MEND_TRY(mend_pool_needs_chunks(pool, "mend_range_create"));
    const uint64_t requested_bytes = size_bytes;
    MEND_TRY(check_sizes(pool, &size_bytes, &options.page_bytes));
    MEND_TRY(mend_pool_enter_all(pool));
    mend_result result = mend_ranges_create(&pool->heap, size_bytes, options.page_bytes, range);
    if (result == MEND_OK) {
        (*range)->pool = pool;
        (*range)->requested_bytes = requested_bytes;
        (*range)->tag = options.tag;
        const uint64_t sleep_tag = mend_process_marks().sleep_tag;
        (*range)->sleep_tag = sleep_tag != 0 ? sleep_tag : options.tag;
    }
    return mend_pool_leave_all(pool, result);
}

mend_result mend_range_get_info(mend_range *range, mend_range_info *info)
{
    MEND_INVALID_IF(range == NULL || info == NULL, "mend_range_get_info: range or info is NULL");
    mend_pool *pool = range->pool;
    MEND_TRY(mend_pool_check_struct(info, "mend_range_info"));
    MEND_TRY(mend_pool_look(pool));
    const mend_range_info all = {
        .base = (void *)(uintptr_t)range->address,
        .size_bytes = range->size_bytes,
        .page_bytes = range->page_bytes,
        .committed_bytes = range->committed_bytes,
        .mapped_bytes = range->sums.mapped_bytes,
        .tag = range->tag,
        .pool = pool,
        .asleep_bytes = range->sums.asleep_live_bytes,
    };
    mend_heap_unlock(&pool->heap);
    mend_struct_write(info, &all, sizeof(all));
    return MEND_OK;
}

/* Checks the pages of a range, and finds the order of the stream. */
static mend_result check_bytes(const char *call, mend_range *range, uint64_t offset_bytes,
                               uint64_t size_bytes, mend_stream stream)
{
    if (range == NULL || stream == MEND_EVERY_STREAM) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "%s: range is NULL, or stream is MEND_EVERY_STREAM", call);
    }
    if (size_bytes == 0 || offset_bytes > range->size_bytes ||
        size_bytes > range->size_bytes - offset_bytes) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "%s: %llu bytes at offset %llu are not in the range of %llu bytes", call,
                         (unsigned long long)size_bytes, (unsigned long long)offset_bytes,
                         (unsigned long long)range->size_bytes);
    }
    return MEND_OK;
}

/* A graph would use the pages at each launch, whatever they are by then: so its program commits
 * them before, and decommits them behind all launches. */
static mend_result check_capture(mend_pool *pool, const char *call, mend_stream stream)
{
    mend_order order;
    mend_result result = mend_pool_find_order(pool, stream, &order);
    return result == MEND_OK && order.capture != 0
               ? mend_fail(MEND_ERROR_CAPTURING,
                           "%s: the stream is being captured; commit pages before the capture, "
                           "and decommit them after the graph's launches",
                           call)
               : result;
}

static mend_result commit(mend_pool *pool, const char *call, const mend_parts *pages,
                          mend_stream stream)
{
    MEND_TRY(check_capture(pool, call, stream));
    MEND_TRY(mend_pool_take(pool));
    return mend_pool_leave(pool, mend_heap_commit(&pool->heap, pages, stream));
}

/* The pages that hold any of these bytes. */
static mend_part pages_around(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes)
{
    const uint64_t page = range->page_bytes;
    const uint64_t last = (offset_bytes + size_bytes - 1) / page;
    return (mend_part){range, range->address + offset_bytes / page * page,
                       range->address + (last + 1) * page};
}

/* The pages that hold only these bytes. Bytes beyond the requested size do not count. */
static mend_part pages_inside(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes)
{
    const uint64_t page = range->page_bytes;
    const uint64_t end = offset_bytes + size_bytes;
    const uint64_t from = range->address + (offset_bytes + page - 1) / page * page;
    const uint64_t to =
        end >= range->requested_bytes ? mend_range_end(range) : range->address + end / page * page;
    return (mend_part){range, from, mend_max_u64(from, to)};
}

mend_result mend_range_commit(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes,
                              mend_stream stream)
{
    const char *call = "mend_range_commit";
    MEND_TRY(check_bytes(call, range, offset_bytes, size_bytes, stream));
    const mend_part part = pages_around(range, offset_bytes, size_bytes);
    return commit(range->pool, call, &(mend_parts){&part, 1}, stream);
}

static int compare_parts(const void *first, const void *second)
{
    return mend_compare_u64(((const mend_part *)first)->from, ((const mend_part *)second)->from);
}

/* Sorts the parts, and joins touching parts of one range. Returns how many are left. */
static size_t join_parts(mend_part *parts, size_t count)
{
    size_t left = 1;
    qsort(parts, count, sizeof(*parts), compare_parts);
    for (size_t i = 1; i < count; i++) {
        mend_part *last = &parts[left - 1];
        if (parts[i].range == last->range && parts[i].from <= last->end) {
            last->end = mend_max_u64(last->end, parts[i].end);
        } else {
            parts[left++] = parts[i];
        }
    }
    return left;
}

static mend_range_part given_part(const mend_range_part *given, size_t part_bytes, size_t at)
{
    mend_range_part part;
    mend_element_read(&part, sizeof(part), given, part_bytes, at);
    return part;
}

mend_result mend_range_commit_all(const mend_range_part *given, size_t part_bytes,
                                  size_t part_count, mend_stream stream)
{
    const char *call = "mend_range_commit_all";
    MEND_INVALID_IF((given == NULL && part_count > 0) ||
                        !mend_struct_size_is_whole(part_bytes, sizeof(mend_range_part)),
                    "mend_range_commit_all: parts is NULL, or part_bytes is not "
                    "sizeof(mend_range_part)");
    if (part_count == 0) {
        return MEND_OK;
    }
    mend_pool *pool = NULL;
    for (size_t i = 0; i < part_count; i++) {
        const mend_range_part part = given_part(given, part_bytes, i);
        MEND_TRY(check_bytes(call, part.range, part.offset_bytes, part.size_bytes, stream));
        MEND_INVALID_IF(pool != NULL && part.range->pool != pool,
                        "mend_range_commit_all: the ranges are of several pools");
        pool = part.range->pool;
    }
    mend_part *parts = calloc(part_count, sizeof(*parts));
    if (parts == NULL) {
        return mend_publish(mend_no_host_memory("parts of ranges"));
    }
    for (size_t i = 0; i < part_count; i++) {
        const mend_range_part part = given_part(given, part_bytes, i);
        parts[i] = pages_around(part.range, part.offset_bytes, part.size_bytes);
    }
    const mend_parts pages = {parts, join_parts(parts, part_count)};
    const mend_result result = commit(pool, call, &pages, stream);
    free(parts);
    return result;
}

mend_result mend_range_decommit(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes,
                                mend_stream stream)
{
    const char *call = "mend_range_decommit";
    MEND_TRY(check_bytes(call, range, offset_bytes, size_bytes, stream));
    MEND_TRY(check_capture(range->pool, call, stream));
    MEND_TRY(mend_pool_take_to_free(range->pool));
    mend_pool *pool = range->pool;
    const mend_part part = pages_inside(range, offset_bytes, size_bytes);
    mend_result result = part.from < part.end
                             ? mend_heap_decommit(&pool->heap, range, part.from, part.end, stream)
                             : MEND_OK;
    return mend_pool_leave(pool, result);
}

mend_result mend_range_record_stream(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes,
                                     mend_stream stream)
{
    const char *call = "mend_range_record_stream";
    MEND_TRY(check_bytes(call, range, offset_bytes, size_bytes, stream));
    MEND_INVALID_IF(stream == MEND_NO_STREAM, "mend_range_record_stream: MEND_NO_STREAM");
    MEND_TRY(check_capture(range->pool, call, stream));
    MEND_TRY(mend_pool_take(range->pool));
    mend_pool *pool = range->pool;
    const mend_part part = pages_around(range, offset_bytes, size_bytes);
    return mend_pool_leave(pool,
                           mend_heap_record_range(&pool->heap, range, part.from, part.end, stream));
}

mend_result mend_range_destroy(mend_range *range, mend_stream stream)
{
    if (range == NULL) {
        return MEND_OK;
    }
    MEND_INVALID_IF(stream == MEND_EVERY_STREAM, "mend_range_destroy: stream is MEND_EVERY_STREAM");
    mend_pool *pool = range->pool;
    MEND_TRY(check_capture(pool, "mend_range_destroy", stream));
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, mend_heap_destroy_range(&pool->heap, range, stream));
}
