#include "heap/range.h"

#include <assert.h>

#include "base/error.h"
#include "heap/block.h"
#include "ladder/ladder.h"
#include "layout/pages.h"
#include "move/range.h"
#include "move/scope.h"
#include "users/users.h"

static mend_result no_host_memory(void)
{
    return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for pages of a range");
}

mend_result mend_heap_commit(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                             mend_stream stream, const mend_helpers *helpers)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(!range->is_closed);
    const uint64_t missing_bytes = mend_range_missing_bytes(range, from, end);
    if (missing_bytes == 0) {
        return MEND_OK;
    }
    mend_request request = {
        .size_bytes = missing_bytes,
        .alignment_bytes = MEND_GRANULE_BYTES,
        .requested_bytes = missing_bytes,
        .handle = stream,
        .zone = MEND_ZONE_RANGE,
        .at = from,
        .tag = range->tag,
        .range = range,
        .end = end,
    };
    mend_result result = mend_ladder_commit(heap, &request, helpers);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        heap->counters.out_of_memory++;
        mend_history_note_stream(&heap->history, MEND_EVENT_OUT_OF_MEMORY, missing_bytes, stream);
    }
    return result;
}

static size_t count_committed(const mend_range *range, uint64_t from, uint64_t end)
{
    const uint64_t bytes = end - from - mend_range_missing_bytes(range, from, end);
    return (size_t)(bytes / range->page_bytes);
}

/* Fences for the streams that were recorded for what was freed since: those that may end without a
 * word. */
static void record_fences_of_users(mend_heap *heap, uint64_t of_users_before)
{
    const uint64_t last = heap->frees.of_users;
    for (uint32_t i = heap->streams.count; heap->config.streams_may_vanish && i > 0; i--) {
        const uint64_t freed_by =
            i <= heap->streams.count ? heap->streams.items[i - 1].freed_by : 0;
        if (freed_by > of_users_before && freed_by <= last) {
            mend_block_record_fence(heap, i - 1);
        }
    }
}

mend_result mend_heap_decommit(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                               mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_block_users users = {MEND_STREAM_UNKNOWN, MEND_STREAM_UNKNOWN};
    if (stream != MEND_NO_STREAM) {
        mend_result result = mend_users_find_stream(heap, stream, 0, &users.first);
        result = mend_block_excuse(heap, result, &users);
        if (result != MEND_OK) {
            return result;
        }
    }
    if (!mend_range_reserve_nodes(heap, count_committed(range, from, end))) {
        return no_host_memory();
    }
    const uint64_t of_users_before = heap->frees.of_users;
    mend_page_stretch stretch = {.kind = MEND_EVENT_DECOMMIT, .stream = stream};
    bool any = false;
    for (uint64_t at = from; at < end; at += range->page_bytes) {
        const size_t page = mend_range_page_of(range, at);
        mend_span *span = range->pages[page];
        if (span != NULL) {
            mend_block_stamp(heap, span, users.first);
            mend_range_free_page(heap, range, page);
            mend_range_note_page(heap, range, &stretch, at);
            any = true;
        }
    }
    mend_range_note_last(heap, range, &stretch);
    if (any) {
        mend_block_record_fence_at_free(heap, users.first);
        record_fences_of_users(heap, of_users_before);
    }
    return MEND_OK;
}

mend_result mend_heap_record_range(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                                   mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    uint32_t user = MEND_STREAM_UNKNOWN;
    mend_result result = mend_users_find_stream(heap, stream, 0, &user);
    if (result != MEND_OK) {
        return result;
    }
    if (!mend_slab_reserve(&heap->nodes.waits, count_committed(range, from, end))) {
        return no_host_memory();
    }
    for (uint64_t at = from; at < end && result == MEND_OK; at += range->page_bytes) {
        mend_span *span = range->pages[mend_range_page_of(range, at)];
        result = span != NULL ? mend_block_add_user(heap, span, user) : MEND_OK;
    }
    return result;
}

static mend_result check_pins(const mend_heap *heap, const mend_range *range)
{
    return mend_range_is_pinned(heap, range)
               ? mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                              "the range 0x%llx has pinned memory: undo its pins (mend_unpin) "
                              "before it is destroyed",
                              (unsigned long long)range->address)
               : MEND_OK;
}

mend_result mend_heap_destroy_range(mend_heap *heap, mend_range *range, mend_stream stream)
{
    mend_scope scope;
    assert(mend_mutex_is_held(&heap->grow));
    mend_result result = check_pins(heap, range);
    if (result == MEND_OK) {
        result = mend_heap_decommit(heap, range, range->address, mend_range_end(range), stream);
    }
    if (result != MEND_OK) {
        return result;
    }
    mend_ranges_close(heap, range);
    if (mend_scope_open(heap, &scope) == MEND_OK) {
        mend_ranges_settle(heap, MEND_STREAM_UNKNOWN);
        mend_scope_close(heap, &scope);
    }
    return MEND_OK;
}
