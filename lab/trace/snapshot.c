#include "lab/trace/snapshot.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/support/json_read.h"
#include "lab/support/pickle.h"
#include "lab/support/values.h"
#include "lab/trace/builder.h"

typedef struct snapshot_reader {
    const char *path;
    mend_trace_builder builder;
    mend_pointer_map live; /* from the key of an address to its block + 1 */
    size_t device;
    size_t event;
    size_t unknown_frees; /* what was no event of the trace, by reason */
    size_t segment_events;
    size_t other_events;
    size_t other_devices;
    size_t missing_frees;
} snapshot_reader;

/* The first byte that is no space, if the buffer has one. */
static char first_word(const mend_byte_source *source)
{
    char first = ' ';
    for (size_t at = source->start; at < source->end && isspace((unsigned char)first); at++) {
        first = source->buffer[at];
    }
    return first;
}

bool mend_trace_is_snapshot(const mend_byte_source *source)
{
    char first = first_word(source);
    return mend_is_pickle(first) || first == '{' || first == '[';
}

/* Refuses with the event what the last failure, or `reason`, says. */
static mend_result fail(const snapshot_reader *reader, const char *reason)
{
    return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: device_traces[%zu][%zu]: %s", reader->path,
                     reader->device, reader->event, reason);
}

static mend_result judge_builder(const snapshot_reader *reader)
{
    if (reader->builder.failure != MEND_ERROR_INVALID_ARGUMENT) {
        return reader->builder.failure;
    }
    mend_error error = MEND_ERROR_INIT;
    mend_last_error(&error);
    char reason[128];
    snprintf(reason, sizeof(reason), "%s", error.message);
    return fail(reader, reason);
}

static mend_result take_free(snapshot_reader *reader, uint64_t key, mend_trace_actor actor)
{
    void *found = mend_pointer_map_remove(&reader->live, key);
    if (found == NULL) {
        reader->unknown_frees++;
        return MEND_OK;
    }
    mend_trace_builder_free(&reader->builder, (uint32_t)((uintptr_t)found - 1), actor);
    return judge_builder(reader);
}

static mend_result take_alloc(snapshot_reader *reader, uint64_t key, uint64_t size_bytes,
                              mend_trace_actor actor)
{
    if (mend_pointer_map_find(&reader->live, key) != NULL) {
        reader->missing_frees++;
        mend_result result = take_free(reader, key, actor);
        if (result != MEND_OK) {
            return result;
        }
    }
    if (!mend_pointer_map_reserve(&reader->live)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint32_t block = mend_trace_builder_alloc(&reader->builder, size_bytes, actor);
    mend_pointer_map_insert(&reader->live, key, (void *)((uintptr_t)block + 1));
    return judge_builder(reader);
}

/* A block is free for others when its free is completed: then no stream uses it any more. */
static mend_result take_event(snapshot_reader *reader, mend_value event)
{
    mend_value action = mend_value_of(event, "action");
    if (action.kind != MEND_VALUE_TEXT) {
        return fail(reader, "an event without an action");
    }
    bool is_alloc = strcmp(action.text, "alloc") == 0;
    if (!is_alloc && strcmp(action.text, "free_completed") != 0) {
        bool is_request = strcmp(action.text, "free_requested") == 0;
        bool is_segments = strncmp(action.text, "segment_", strlen("segment_")) == 0;
        reader->segment_events += is_segments;
        reader->other_events += !is_request && !is_segments;
        return MEND_OK;
    }
    mend_value address = mend_value_of(event, "addr");
    mend_value size = mend_value_of(event, "size");
    mend_value stream = mend_value_of(event, "stream");
    if (address.kind != MEND_VALUE_NUMBER || size.kind != MEND_VALUE_NUMBER ||
        stream.kind != MEND_VALUE_NUMBER) {
        return fail(reader, "addr, size or stream is no number");
    }
    /* The tables cannot have the largest number; no address and no stream is that large. */
    if (address.number == UINT64_MAX || stream.number == UINT64_MAX) {
        return fail(reader, "addr or stream is too large");
    }
    mend_trace_actor actor = {.stream = stream.number};
    uint64_t key = mend_trace_key(&reader->builder, address.number);
    return is_alloc ? take_alloc(reader, key, size.number, actor) : take_free(reader, key, actor);
}

static void write_note(const snapshot_reader *reader, mend_trace *trace)
{
    const struct {
        size_t count;
        const char *what;
    } reasons[] = {
        {reader->unknown_frees, "skipped frees of blocks from before the recording"},
        {reader->segment_events, "skipped events of segments"},
        {reader->other_events, "skipped other events"},
        {reader->other_devices, "skipped events of other devices"},
        {reader->missing_frees, "added frees that were not recorded"},
    };
    size_t length = 0;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
        if (reasons[i].count > 0 && length < sizeof(trace->note)) {
            length +=
                (size_t)snprintf(trace->note + length, sizeof(trace->note) - length, "%s%s: %zu",
                                 length > 0 ? ", " : "", reasons[i].what, reasons[i].count);
        }
    }
}

/* The device that has most events; the others are counted. */
static mend_value choose_device(snapshot_reader *reader, mend_value devices)
{
    size_t all = 0;
    mend_value chosen = {.kind = MEND_VALUE_ABSENT};
    for (size_t i = 0; i < mend_value_count(devices); i++) {
        mend_value events = devices.items->values[i];
        all += mend_value_count(events);
        if (mend_value_count(events) > mend_value_count(chosen)) {
            chosen = events;
            reader->device = i;
        }
    }
    reader->other_devices = all - mend_value_count(chosen);
    return chosen;
}

static mend_result take_snapshot(snapshot_reader *reader, mend_value snapshot, mend_trace **trace)
{
    mend_value devices = mend_value_of(snapshot, "device_traces");
    mend_value events = choose_device(reader, devices);
    mend_result result = reader->builder.failure;
    for (; result == MEND_OK && reader->event < mend_value_count(events); reader->event++) {
        result = take_event(reader, events.items->values[reader->event]);
    }
    if (result == MEND_OK && reader->builder.trace->event_count == 0) {
        result = mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                           "%s: the snapshot has no allocations: PyTorch records them after "
                           "torch.cuda.memory._record_memory_history()",
                           reader->path);
    }
    if (result == MEND_OK) {
        write_note(reader, reader->builder.trace);
        result = mend_trace_builder_finish(&reader->builder, trace);
    }
    return result;
}

mend_result mend_trace_read_snapshot(mend_byte_source *source, mend_trace **trace)
{
    static const char *const keys[] = {"device_traces", "action", "addr", "size", "stream", NULL};
    mend_value_store store;
    mend_value_store_init(&store, keys);
    mend_result result = mend_is_pickle(first_word(source)) ? mend_pickle_read(source, &store)
                                                            : mend_json_read(source, &store);
    if (result == MEND_OK) {
        snapshot_reader reader = {.path = source->path};
        mend_trace_builder_init(&reader.builder, source->path);
        mend_pointer_map_init(&reader.live);
        result = take_snapshot(&reader, store.stack[0], trace);
        mend_pointer_map_clear(&reader.live);
        mend_trace_builder_clear(&reader.builder);
    }
    mend_value_store_clear(&store);
    return result;
}
