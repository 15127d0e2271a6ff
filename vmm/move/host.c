/*
 * Blocks on the host: a block that finds no memory of the device gets a chunk of its own there
 * (physical/chunk.h), if the program has allowed it.
 */
#include "move/move.h"

#include <assert.h>

#include "base/error.h"
#include "move/driver_scope.h"
#include "physical/chunk.h"
#include "physical/waits.h"

uint64_t mend_host_chunk_bytes(const mend_heap *heap, uint64_t size_bytes)
{
    if (heap->config.host_limit_bytes == 0 || heap->device.host_page_bytes == 0) {
        return 0;
    }
    return mend_align_up(
        size_bytes, mend_max_u64(heap->device.granularity_bytes, heap->device.host_page_bytes));
}

bool mend_host_has_room(const mend_heap *heap, uint64_t chunk_bytes)
{
    const uint64_t limit = heap->config.host_limit_bytes;
    const uint64_t used =
        heap->chunks.host_bytes + heap->chunks.host_spare_bytes + heap->retire.host_bytes;
    return used <= limit && chunk_bytes <= limit - used;
}

/* Gives back what has lost its blocks, and if that is not enough waits for the work that uses it.
 */
static bool make_room(mend_heap *heap, uint64_t bytes, uint32_t stream)
{
    mend_retire_flush(heap, stream);
    if (!mend_host_has_room(heap, bytes) && heap->retire.host_bytes > 0 &&
        mend_streams_wait_context(&heap->streams, stream) == MEND_OK) {
        mend_retire_flush(heap, stream);
    }
    return mend_host_has_room(heap, bytes);
}

static mend_outcome place(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_request large = *request;
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    assert(request->pages == NULL);
    const uint64_t bytes = mend_host_chunk_bytes(heap, request->size_bytes);
    if (bytes == 0 || !make_room(heap, bytes, request->stream)) {
        return MEND_NOTHING;
    }
    const mend_plan plan = {.create_bytes = bytes, .create_unit_bytes = bytes, .on_host = true};
    large.zone = MEND_ZONE_LARGE;
    return mend_grow(heap, &large, &plan, span);
}

mend_outcome mend_host_place(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_driver_scope scope;
    if (request->group != 0) {
        return MEND_NOTHING; /* captured graphs rely on memory that stays with them */
    }
    if (mend_enter(heap, &scope) != MEND_OK) {
        return MEND_FAILED;
    }
    mend_outcome outcome = place(heap, request, span);
    mend_driver_scope_close(heap, &scope);
    return outcome;
}
