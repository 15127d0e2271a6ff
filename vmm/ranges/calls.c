/* The calls of mend_range.h. Inside `from` and `end` are addresses at pages of the range. */
#include <stdlib.h>

#include "alloc/heap.h"
#include "base/align.h"
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

/* ---- commit ---------------------------------------------------------------------------------- */

/* The first frozen chunk there that belongs to no committed page. NULL: none. O(1) while nothing is
 * frozen. */
static const mend_chunk *find_frozen(const mend_heap *heap, const mend_parts *parts)
{
    for (size_t i = 0; i < parts->count && heap->chunks.frozen_count > 0; i++) {
        const mend_part *part = &parts->items[i];
        for (const mend_chunk *chunk = mend_chunk_from(&heap->chunks, part->from);
             chunk != NULL && chunk->address < part->end; chunk = mend_chunk_next(chunk)) {
            const size_t page = mend_range_page_of(part->range, chunk->address);
            if (chunk->is_frozen && part->range->pages[page] == NULL) {
                return chunk;
            }
        }
    }
    return NULL;
}

/* Says why a chunk of a page that was decommitted is still there. */
static mend_result not_given_back(const mend_heap *heap, const mend_chunk *chunk)
{
    if (mend_chunk_sleeps(chunk) && chunk->missing == MEND_MISSING_MEMORY) {
        return mend_no_host_memory("pages of a range");
    }
    if (!mend_retire_copies_have_ended(heap)) {
        return mend_failure(MEND_ERROR_OUT_OF_ADDRESS_SPACE,
                            "the page at 0x%llx has memory that a wake was to fill, and its copies "
                            "may still run: mend_wake, or mend_trim with MEND_TRIM_WAIT, waits",
                            (unsigned long long)chunk->address);
    }
    const bool is_lost = heap->unlocking.lost != MEND_DRIVER_OK;
    return mend_failure(is_lost ? MEND_ERROR_DEVICE_LOST : MEND_ERROR_DRIVER,
                        "the page at 0x%llx was decommitted while it slept or lacked its mapping, "
                        "and the driver does not let its memory go",
                        (unsigned long long)chunk->address);
}

/* Waits for a sleep that has just begun. Pages that were decommitted while they slept, or while a
 * sleep began, are collected before their addresses are used again. */
static mend_result make_way(mend_heap *heap, const mend_parts *parts)
{
    if (find_frozen(heap, parts) == NULL) {
        return MEND_OK;
    }
    mend_heap_unlock(heap);
    mend_heap_lock_all(heap);
    mend_retry_all(heap);
    const mend_chunk *left = find_frozen(heap, parts);
    const mend_result result = left != NULL ? not_given_back(heap, left) : MEND_OK;
    mend_heap_unlock_grow(heap);
    return result;
}

static mend_result commit_pages(mend_heap *heap, const mend_parts *parts, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_result result = make_way(heap, parts);
    const mend_parts_pages all = mend_parts_known(parts);
    const uint64_t missing_bytes = all.pages.missing_bytes(&all.pages);
    if (result != MEND_OK || missing_bytes == 0) {
        return result;
    }
    mend_request request = {
        .size_bytes = missing_bytes,
        .alignment_bytes = MEND_GRANULE_BYTES,
        .requested_bytes = missing_bytes,
        .handle = stream,
        .zone = MEND_ZONE_RANGE,
        .pages = &all.pages,
    };
    mend_span *none = NULL;
    result = mend_fallback_run(heap, &request, &none);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        mend_events_refuse(heap, missing_bytes, stream);
    }
    return result;
}

static mend_result commit(mend_pool *pool, const char *call, const mend_parts *pages,
                          mend_stream stream)
{
    MEND_TRY(check_capture(pool, call, stream));
    MEND_TRY(mend_pool_take(pool));
    return mend_pool_leave(pool, commit_pages(&pool->heap, pages, stream));
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

/* ---- decommit -------------------------------------------------------------------------------- */

/* Each page keeps its span, and neighbors are one run. Over frozen chunks it is cut at their
 * edges. It has the stamp of its memory. */
static bool reserve_decommit(mend_heap *heap, const mend_range *range, uint64_t from, uint64_t end)
{
    const bool any_frozen = heap->chunks.frozen_count > 0;
    mend_layout_promise nodes = {0};
    uint64_t behind = 0;
    for (uint64_t at = from; at < end && range->committed_bytes > 0; at += range->page_bytes) {
        const mend_span *span = range->pages[mend_range_page_of(range, at)];
        if (span == NULL) {
            continue;
        }
        const size_t parts = any_frozen ? mend_layout_count_chunks(heap, span) : 1;
        const size_t waits = mend_waits_count_others(&span->waits) + 1;
        nodes.waits += any_frozen ? (1 + 2 * parts) * waits : span->waits.first.epoch != 0;
        nodes.spans += any_frozen ? 2 * parts : 0;
        nodes.runs += any_frozen ? parts + 2 : at != behind;
        behind = at + range->page_bytes;
    }
    return mend_layout_reserve_these(heap, &nodes);
}

/* Makes a committed page free memory again, which is idle after the waits of its span. */
static void free_page(mend_heap *heap, mend_range *range, size_t page)
{
    mend_span *span = range->pages[page];
    assert(span->size_bytes == range->page_bytes);
    range->pages[page] = NULL;
    range->committed_bytes -= range->page_bytes;
    mend_layout_count_free(heap, &heap->zones[span->zone], span);
    mend_layout_free(heap, span);
    mend_usage_note(heap);
}

/* The stream is found and the nodes are reserved, which may fail. Then page after page is freed,
 * which cannot. Fences come last, because they release `state`. */
static mend_result decommit_pages(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                                  mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_block_users users = {MEND_STREAM_UNKNOWN, MEND_STREAM_UNKNOWN};
    if (stream != MEND_NO_STREAM) {
        mend_result result = mend_users_find_stream(heap, stream, 0, &users.first);
        MEND_TRY(mend_block_go_without_users(heap, result, &users));
    }
    if (!reserve_decommit(heap, range, from, end)) {
        return mend_no_host_memory("pages of a range");
    }
    const uint64_t of_users_before = heap->frees.of_users;
    mend_page_stretch stretch = {.kind = MEND_EVENT_DECOMMIT, .stream = stream};
    bool any = false;
    for (uint64_t at = from; at < end && range->committed_bytes > 0; at += range->page_bytes) {
        const size_t page = mend_range_page_of(range, at);
        mend_span *span = range->pages[page];
        if (span != NULL) {
            if (span->is_exported) {
                MEND_FEATURES_CALL(block_ends, heap, span);
            }
            mend_block_stamp(heap, span, users.first);
            mend_range_note_page(heap, &stretch, span);
            free_page(heap, range, page);
            any = true;
        }
    }
    mend_range_note_last(heap, &stretch);
    if (any) {
        mend_block_record_fences(heap, users.first, of_users_before);
    }
    if (heap->chunks.deferred.count[MEND_DEFERRED_END] > 0) {
        mend_retry_ends(heap);
    }
    return MEND_OK;
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
                             ? decommit_pages(&pool->heap, range, part.from, part.end, stream)
                             : MEND_OK;
    return mend_pool_leave(pool, result);
}

/* Whether none of the committed pages sleeps. */
static mend_result check_awake(const mend_heap *heap, const mend_range *range, uint64_t from,
                               uint64_t end)
{
    for (uint64_t at = from; at < end && heap->chunks.asleep_count > 0; at += range->page_bytes) {
        const mend_span *span = range->pages[mend_range_page_of(range, at)];
        if (span != NULL) {
            MEND_TRY(mend_heap_check_awake(heap, span->address, span->size_bytes,
                                           "mend_range_record_stream"));
        }
    }
    return MEND_OK;
}

static mend_result record_pages(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                                mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    uint32_t user = MEND_STREAM_UNKNOWN;
    MEND_TRY(mend_users_find_stream(heap, stream, 0, &user));
    MEND_TRY(check_awake(heap, range, from, end));
    const uint64_t bytes = end - from - mend_range_missing_bytes(range, from, end);
    if (!mend_slab_reserve(mend_heap_wait_env(heap).nodes, (size_t)(bytes / range->page_bytes))) {
        return mend_no_host_memory("pages of a range");
    }
    for (uint64_t at = from; at < end; at += range->page_bytes) {
        mend_span *span = range->pages[mend_range_page_of(range, at)];
        if (span != NULL) {
            MEND_TRY(mend_block_add_user(heap, span, user));
        }
    }
    return MEND_OK;
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
    return mend_pool_leave(pool, record_pages(&pool->heap, range, part.from, part.end, stream));
}

/* Whether a chunk below the range is pinned, for more than the export of its page. A page is in one
 * export at most, and a chunk in one page. */
static bool is_pinned(const mend_heap *heap, const mend_range *range)
{
    bool any = false;
    const mend_chunk *chunk =
        heap->chunks.pinned_bytes > 0 ? mend_chunk_from(&heap->chunks, range->address) : NULL;
    for (; chunk != NULL && chunk->address < mend_range_end(range);
         chunk = mend_chunk_next(chunk)) {
        const mend_span *page = range->pages[mend_range_page_of(range, chunk->address)];
        any = any || chunk->pins != (page != NULL && page->is_exported);
    }
    return any;
}

static mend_result destroy(mend_heap *heap, mend_range *range, mend_stream stream)
{
    mend_driver_scope scope;
    assert(mend_mutex_is_held(&heap->grow));
    if (is_pinned(heap, range)) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "the range 0x%llx has pinned memory: undo its pins (mend_unpin) "
                            "before it is destroyed",
                            (unsigned long long)range->address);
    }
    MEND_TRY(decommit_pages(heap, range, range->address, mend_range_end(range), stream));
    mend_ranges_close(heap, range);
    if (mend_enter(heap, &scope) == MEND_OK) {
        mend_retry_these(heap, MEND_DEFERRED_RANGE, MEND_DEFERRED_RANGE, MEND_STREAM_UNKNOWN);
        mend_driver_scope_close(heap, &scope);
    }
    return MEND_OK;
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
    return mend_pool_leave_all(pool, destroy(&pool->heap, range, stream));
}
