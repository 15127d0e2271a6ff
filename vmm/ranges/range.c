/*
 * The calls of mend_range.h, without checks of the arguments. `from` and `end` are addresses at
 * pages of the range.
 */
#include "alloc/heap.h"

#include "alloc/users.h"
#include "ranges/ranges.h"

/* Says why a chunk of a page that was decommitted is still there. */
static mend_result not_given_back(const mend_heap *heap, const mend_chunk *chunk)
{
    if (mend_chunk_sleeps(chunk) && chunk->missing == MEND_MISSING_MEMORY) {
        return mend_no_host_memory("pages of a range");
    }
    const bool is_lost = heap->unlocking.lost != MEND_DRIVER_OK;
    return mend_failure(is_lost ? MEND_ERROR_DEVICE_LOST : MEND_ERROR_DRIVER,
                        "the page at 0x%llx was decommitted while it slept or lacked its mapping, "
                        "and the driver does not let its memory go",
                        (unsigned long long)chunk->address);
}

/* Waits for copies of a failed wake, which may write to its chunks. */
static mend_result end_copies(mend_heap *heap)
{
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_result result = mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN);
    mend_driver_scope_close(heap, &scope);
    return result;
}

/* Pages that were decommitted while they slept, or while a sleep began, are collected before their
 * addresses are used again. */
static mend_result collect_pages(mend_heap *heap, const mend_range *range, uint64_t from,
                                 uint64_t end)
{
    if (mend_range_find_frozen(heap, range, from, end) == NULL) {
        return MEND_OK;
    }
    mend_retry_all(heap);
    const mend_chunk *left = mend_range_find_frozen(heap, range, from, end);
    if (left != NULL && !mend_retire_copies_have_ended(heap)) {
        MEND_TRY(end_copies(heap));
        mend_retry_all(heap);
        left = mend_range_find_frozen(heap, range, from, end);
    }
    return left != NULL ? not_given_back(heap, left) : MEND_OK;
}

/* The same before a commit. Waits for a sleep that has just begun. A capture of any stream may
 * forbid to wait for copies. */
static mend_result make_way(mend_heap *heap, const mend_parts *pages)
{
    const mend_part *const end = pages->items + pages->count;
    const mend_part *part = pages->items;
    while (part < end && !mend_range_find_frozen(heap, part->range, part->from, part->end)) {
        part++;
    }
    if (part == end) {
        return MEND_OK;
    }
    mend_heap_unlock(heap);
    mend_heap_lock_all(heap);
    mend_result result = MEND_OK;
    for (part = pages->items; part < end && result == MEND_OK; part++) {
        result = collect_pages(heap, part->range, part->from, part->end);
    }
    mend_heap_unlock_grow(heap);
    return result == MEND_ERROR_CAPTURING
               ? mend_failure(MEND_ERROR_OUT_OF_ADDRESS_SPACE,
                              "pages of a range still have memory that a wake was to fill, and a "
                              "capture in progress keeps them so")
               : result;
}

/* The hooks of ranges for the core. */
static mend_pages known_of(const mend_parts *parts)
{
    mend_pages pages = {.commit = mend_parts_commit,
                        .contain = mend_parts_contain,
                        .missing_bytes = mend_parts_missing_bytes,
                        .address = parts->items[0].range->address,
                        .page_bytes = parts->items[0].range->page_bytes};
    for (size_t i = 0; i < parts->count; i++) {
        mend_raise_u64(&pages.largest_page_bytes, parts->items[i].range->page_bytes);
        pages.other_ranges += i > 0 && parts->items[i].range != parts->items[i - 1].range;
    }
    return pages;
}

mend_result mend_heap_commit(mend_heap *heap, const mend_parts *parts, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_result result = make_way(heap, parts);
    const mend_parts_pages all = {known_of(parts), parts};
    const uint64_t missing_bytes = mend_parts_missing_bytes(&all.pages);
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

/* The stream is found and the nodes are reserved, which may fail. Then page after page is freed,
 * which cannot. Fences come last, because they release `state`. */
mend_result mend_heap_decommit(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                               mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_block_users users = {MEND_STREAM_UNKNOWN, MEND_STREAM_UNKNOWN};
    if (stream != MEND_NO_STREAM) {
        mend_result result = mend_users_find_stream(heap, stream, 0, &users.first);
        MEND_TRY(mend_block_go_without_users(heap, result, &users));
    }
    if (!mend_range_reserve_decommit(heap, range, from, end)) {
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
            mend_range_free_page(heap, range, page);
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

mend_result mend_heap_record_range(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
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

mend_result mend_heap_destroy_range(mend_heap *heap, mend_range *range, mend_stream stream)
{
    mend_driver_scope scope;
    assert(mend_mutex_is_held(&heap->grow));
    if (mend_range_is_pinned(heap, range)) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "the range 0x%llx has pinned memory: undo its pins (mend_unpin) "
                            "before it is destroyed",
                            (unsigned long long)range->address);
    }
    MEND_TRY(mend_heap_decommit(heap, range, range->address, mend_range_end(range), stream));
    mend_ranges_close(heap, range);
    if (mend_enter(heap, &scope) == MEND_OK) {
        mend_retry_these(heap, MEND_DEFERRED_RANGE, MEND_DEFERRED_RANGE, MEND_STREAM_UNKNOWN);
        mend_driver_scope_close(heap, &scope);
    }
    return MEND_OK;
}
