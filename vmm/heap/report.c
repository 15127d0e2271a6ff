#include "heap/report.h"

#include "base/error.h"
#include "heap/layout.h"

#define RUN_OF(node) MEND_CONTAINER_OF(node, mend_run, by_address)
#define LLU(value)   ((unsigned long long)(value))

/* Free bytes by what keeps the request from using them. */
typedef struct free_bytes {
    uint64_t in_group;   /* held for graphs */
    uint64_t in_use;     /* work of streams may still use them */
    uint64_t streamless; /* freed without a stream: only a wait for the context makes them idle */
} free_bytes;

static void add_stamp(const mend_heap *heap, const mend_request *request, mend_stamp stamp,
                      uint64_t size_bytes, free_bytes *bytes)
{
    if (stamp.epoch == 0 || mend_stamp_is_ready(&heap->streams, stamp, request->stream)) {
        return;
    }
    const mend_stream_state *state = &heap->streams.items[stamp.stream];
    if (state->group != 0) {
        bytes->in_group += size_bytes;
    } else if (stamp.stream == MEND_STREAM_UNKNOWN) {
        bytes->streamless += size_bytes;
    } else {
        bytes->in_use += size_bytes;
    }
}

static free_bytes free_by_reason(const mend_heap *heap, const mend_request *request)
{
    free_bytes bytes = {0};
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        mend_tree_node *at = mend_tree_first(&heap->zones[zone].runs_by_address);
        for (; at != NULL; at = mend_tree_next(at)) {
            const mend_run *run = RUN_OF(at);
            for (const mend_span *span = run->first;; span = span->next) {
                /* Of several stamps the first stands for all. */
                add_stamp(heap, request, span->waits.first, span->size_bytes, &bytes);
                if (span == run->last) {
                    break;
                }
            }
        }
    }
    return bytes;
}

/* The chunk with most free bytes among those partly used, and one block that holds it. */
static const mend_span *emptiest_holder(const mend_heap *heap, uint64_t *free_most_bytes)
{
    const mend_chunk *emptiest = NULL;
    *free_most_bytes = 0;
    for (mend_tree_node *at = mend_tree_first(&heap->chunks.mapped); at != NULL;
         at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
        uint64_t bytes = chunk->size_bytes - chunk->live_bytes;
        if (chunk->live_bytes != 0 && bytes > *free_most_bytes) {
            *free_most_bytes = bytes;
            emptiest = chunk;
        }
    }
    if (emptiest == NULL) {
        return NULL;
    }
    const mend_span *span = mend_heap_span_at(heap, emptiest->address + emptiest->size_bytes - 1);
    while (!span->live) {
        span = span->previous;
    }
    return span;
}

bool mend_report_is_hopeless(const mend_heap *heap, const mend_request *request)
{
    uint64_t most_bytes = mend_max_u64(heap->config.limit_bytes, heap->chunks.reserved_bytes);
    return request->size_bytes > most_bytes - heap->counters.live_bytes;
}

static bool limit_has_room(const mend_heap *heap)
{
    uint64_t page = heap->device.granularity_bytes;
    return heap->chunks.reserved_bytes + page <= heap->config.limit_bytes;
}

static const char *what_would_help(const mend_heap *heap, const mend_request *request,
                                   const free_bytes *bytes)
{
    bool can_raise = heap->config.limit_bytes < heap->device.total_bytes;
    if (mend_report_is_hopeless(heap, request)) {
        return can_raise ? "A higher limit, or fewer live bytes, would help."
                         : "Only fewer live bytes would help: the limit is the whole device.";
    }
    if (limit_has_room(heap)) {
        return "The device itself has no memory left: others hold it.";
    }
    if (bytes->in_group >= request->size_bytes) {
        return "Releasing groups whose graphs are launched no more would help.";
    }
    if (bytes->in_use + bytes->streamless >= request->size_bytes) {
        return "Ending the capture under way would help: what was freed can be waited for then.";
    }
    return can_raise ? "What is free lies beside live blocks: a higher limit would help."
                     : "What is free lies beside live blocks: freeing some of them would help.";
}

/* Memory of the device that is neither free nor the pool's; 0 where the driver does not say. */
static uint64_t held_by_others(mend_heap *heap, uint64_t *device_free_bytes)
{
    uint64_t total_bytes = 0;
    *device_free_bytes = 0;
    mend_status status = heap->driver->memory_info(heap->driver, device_free_bytes, &total_bytes);
    uint64_t known_bytes = *device_free_bytes + heap->chunks.reserved_bytes;
    return status == MEND_DRIVER_OK && total_bytes > known_bytes ? total_bytes - known_bytes : 0;
}

mend_result mend_report_out_of_memory(mend_heap *heap, const mend_request *request)
{
    uint64_t device_free_bytes;
    uint64_t others_bytes = held_by_others(heap, &device_free_bytes);
    uint64_t emptiest_bytes;
    const mend_span *holder = emptiest_holder(heap, &emptiest_bytes);
    free_bytes bytes = free_by_reason(heap, request);
    uint64_t free_all_bytes = heap->chunks.reserved_bytes - heap->counters.live_bytes;
    heap->counters.out_of_memory++;
    return mend_fail(
        MEND_ERROR_OUT_OF_MEMORY,
        "no room for %llu bytes: limit %llu, reserved %llu, live %llu, free %llu (%llu in wholly "
        "free chunks, %llu beside live blocks); of the free, %llu wait for streams, %llu for the "
        "context, %llu for groups. Emptiest chunk in use: %llu free, held by 0x%llx (%llu bytes). "
        "Device: %llu free, %llu held by others. %s",
        LLU(request->requested_bytes), LLU(heap->config.limit_bytes),
        LLU(heap->chunks.reserved_bytes), LLU(heap->counters.live_bytes), LLU(free_all_bytes),
        LLU(heap->chunks.whole_bytes), LLU(free_all_bytes - heap->chunks.whole_bytes),
        LLU(bytes.in_use), LLU(bytes.streamless), LLU(bytes.in_group), LLU(emptiest_bytes),
        LLU(holder != NULL ? holder->address : 0), LLU(holder != NULL ? holder->size_bytes : 0),
        LLU(device_free_bytes), LLU(others_bytes), what_would_help(heap, request, &bytes));
}
