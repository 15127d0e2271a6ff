#include "lab/trace/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/support/room.h"

#define MOST_DEVICE_BYTES MEND_TIB

static void fail(mend_trace_builder *builder, mend_result failure)
{
    if (builder->failure == MEND_OK) {
        builder->failure = failure;
    }
}

static void fail_of_memory(mend_trace_builder *builder)
{
    fail(builder, mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the trace"));
}

/* Random. If the system has no randomness, a constant that still spreads the keys. */
static uint64_t draw_salt(void)
{
    uint64_t salt;
    ssize_t drawn = getrandom(&salt, sizeof(salt), 0);
    return drawn == (ssize_t)sizeof(salt) ? salt | 1 : UINT64_C(0xD1B54A32D192ED03);
}

void mend_trace_builder_init(mend_trace_builder *builder, const char *name)
{
    *builder = (mend_trace_builder){.trace = calloc(1, sizeof(mend_trace)),
                                    .event_limit = MEND_TRACE_MAX_EVENTS,
                                    .salt = draw_salt()};
    mend_pointer_map_init(&builder->streams);
    mend_pointer_map_init(&builder->threads);
    if (builder->trace != NULL) {
        builder->trace->name = strdup(name);
    }
    if (builder->trace == NULL || builder->trace->name == NULL) {
        fail_of_memory(builder);
    }
}

/* Without memory the array stays as it is. */
static void *with_room(mend_trace_builder *builder, void *array, size_t count, size_t *room,
                       size_t object_bytes)
{
    void *grown = mend_with_room(array, count, room, object_bytes);
    if (grown == NULL) {
        fail_of_memory(builder);
    }
    return grown != NULL ? grown : array;
}

/* The index of a name. New names count up from 0, to at most `limit`. */
static uint16_t index_of(mend_trace_builder *builder, mend_pointer_map *names, uint64_t name,
                         size_t limit, const char *what)
{
    uint64_t key = mend_trace_key(builder, name);
    void *known = mend_pointer_map_find(names, key);
    if (known != NULL) {
        return (uint16_t)((uintptr_t)known - 1);
    }
    if (names->count == limit) {
        fail(builder, mend_fail(MEND_ERROR_INVALID_ARGUMENT, "more than %zu %s", limit, what));
        return 0;
    }
    if (!mend_pointer_map_reserve(names)) {
        fail_of_memory(builder);
        return 0;
    }
    size_t index = names->count;
    mend_pointer_map_insert(names, key, (void *)(uintptr_t)(index + 1));
    return (uint16_t)index;
}

static uint16_t stream_index(mend_trace_builder *builder, uint64_t name)
{
    mend_trace *trace = builder->trace;
    uint16_t index = index_of(builder, &builder->streams, name, MEND_TRACE_MAX_STREAMS, "streams");
    if (builder->failure == MEND_OK && builder->streams.count > trace->stream_count) {
        trace->stream_names = with_room(builder, trace->stream_names, trace->stream_count,
                                        &builder->stream_room, sizeof(uint64_t));
        if (builder->failure == MEND_OK) {
            trace->stream_names[trace->stream_count++] = name;
        }
    }
    return index;
}

static void append(mend_trace_builder *builder, mend_trace_event event, mend_trace_actor actor)
{
    mend_trace *trace = builder->trace;
    if (trace->event_count == builder->event_limit) {
        fail(builder,
             mend_fail(MEND_ERROR_INVALID_ARGUMENT, "more than %zu events", builder->event_limit));
        return;
    }
    event.stream = stream_index(builder, actor.stream);
    event.thread =
        index_of(builder, &builder->threads, actor.thread, MEND_TRACE_MAX_THREADS, "threads");
    trace->thread_count = builder->threads.count;
    trace->events = with_room(builder, trace->events, trace->event_count, &builder->event_room,
                              sizeof(mend_trace_event));
    if (builder->failure == MEND_OK) {
        trace->events[trace->event_count++] = event;
    }
}

static uint32_t add_alloc(mend_trace_builder *builder, uint64_t size_bytes, mend_trace_actor actor,
                          bool has_failed)
{
    if (builder->failure != MEND_OK) {
        return 0;
    }
    mend_trace *trace = builder->trace;
    builder->block_sizes = with_room(builder, builder->block_sizes, trace->block_count,
                                     &builder->block_room, sizeof(uint64_t));
    if (size_bytes > MEND_TRACE_MAX_SIZE_BYTES || trace->block_count == UINT32_MAX) {
        fail(builder, mend_fail(MEND_ERROR_INVALID_ARGUMENT, "a block is too large, or there are "
                                                             "too many of them"));
    }
    if (builder->failure != MEND_OK) {
        return 0;
    }
    uint64_t rounded_bytes = mend_align_up(size_bytes, MEND_GRANULE_BYTES);
    if (builder->live_bytes + rounded_bytes > 8 * MEND_TRACE_MAX_SIZE_BYTES - 1) {
        fail(builder, mend_fail(MEND_ERROR_INVALID_ARGUMENT, "more than 2^63 bytes are live"));
        return 0;
    }
    uint32_t block = (uint32_t)trace->block_count;
    append(
        builder,
        (mend_trace_event){
            .size_bytes = size_bytes, .block = block, .is_alloc = true, .has_failed = has_failed},
        actor);
    if (builder->failure == MEND_OK) {
        builder->block_sizes[trace->block_count++] = size_bytes;
        builder->live_bytes += rounded_bytes;
    }
    return block;
}

uint32_t mend_trace_builder_alloc(mend_trace_builder *builder, uint64_t size_bytes,
                                  mend_trace_actor actor)
{
    const uint32_t block = add_alloc(builder, size_bytes, actor, false);
    if (builder->failure == MEND_OK) {
        builder->trace->served_end = builder->trace->event_count;
        builder->trace->failed_last = 0;
    }
    return block;
}

void mend_trace_builder_refuse(mend_trace_builder *builder, uint64_t size_bytes,
                               mend_trace_actor actor)
{
    if (builder->failure != MEND_OK || size_bytes == 0) {
        return;
    }
    if (size_bytes > MOST_DEVICE_BYTES) {
        builder->too_large++;
        return;
    }
    const uint32_t block = add_alloc(builder, size_bytes, actor, true);
    mend_trace_builder_free(builder, block, actor);
    if (builder->failure == MEND_OK) {
        builder->trace->events[builder->trace->event_count - 1].has_failed = true;
        builder->trace->failed_count++;
        builder->trace->failed_last++;
        builder->trace->last_failed_bytes = size_bytes;
    }
}

void mend_trace_builder_free(mend_trace_builder *builder, uint32_t block, mend_trace_actor actor)
{
    if (builder->failure != MEND_OK) {
        return;
    }
    uint64_t size_bytes = builder->block_sizes[block];
    append(builder, (mend_trace_event){.size_bytes = size_bytes, .block = block}, actor);
    builder->live_bytes -= mend_align_up(size_bytes, MEND_GRANULE_BYTES);
}

mend_result mend_trace_builder_finish(mend_trace_builder *builder, mend_trace **trace)
{
    mend_trace *made = builder->trace;
    if (builder->failure != MEND_OK) {
        return builder->failure;
    }
    const size_t length = strlen(made->note);
    if (builder->too_large > 0) {
        snprintf(made->note + length, sizeof(made->note) - length,
                 "%sskipped failed requests of more than 1 TiB: %zu", length > 0 ? ", " : "",
                 builder->too_large);
    }
    (void)mend_trace_find_peak(made); /* the sums were refused above */
    *trace = made;
    builder->trace = NULL;
    return MEND_OK;
}

void mend_trace_builder_clear(mend_trace_builder *builder)
{
    mend_trace_destroy(builder->trace);
    builder->trace = NULL;
    free(builder->block_sizes);
    builder->block_sizes = NULL;
    mend_pointer_map_clear(&builder->streams);
    mend_pointer_map_clear(&builder->threads);
}
