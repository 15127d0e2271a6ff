#include "lab/trace/snapshot.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/support/json_read.h"
#include "lab/support/pickle.h"
#include "lab/support/values.h"
#include "lab/trace/before.h"
#include "lab/trace/builder.h"
#include "lab/trace/stacks.h"

typedef struct snapshot_reader {
    const char *path;
    mend_trace_detail *detail; /* NULL: only the requests are wanted */
    mend_pointer_map pending;  /* keys of addresses whose free was asked for and is not completed */
    uint64_t pending_bytes;
    mend_pointer_map by_stack; /* from the hash of a stack to its owner + 1 */
    mend_trace_builder builder;
    mend_pointer_map live; /* from the key of an address to its block + 1 */
    size_t device;
    size_t event;
    size_t before_events;
    size_t unknown_frees; /* entries that are no events of the trace, by reason */
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

/* The kind of a JSON text that is no snapshot: other files that people have. NULL: it may be
 * one. */
static const char *other_kind(const mend_byte_source *source)
{
    char text[4096] = "";
    const size_t bytes = mend_min_u64(source->end - source->start, sizeof(text) - 1);
    memcpy(text, source->buffer + source->start, bytes);
    if (mend_is_pickle(text[0]) || strstr(text, "device_traces") || strstr(text, "segments")) {
        return NULL;
    }
    const char *inner = text[0] == '[' ? text + 1 + strspn(text + 1, " \n") : text;
    const char *behind = inner + strspn(inner, "0123456789");
    if (inner > text && behind > inner && strncmp(behind, "][", 2) == 0) {
        return "it is a debug log of RMM (rmm_log.txt). Its logging adaptor writes one that can be "
               "read: rmm.enable_logging(\"rmm.csv\")";
    }
    if (strstr(text, "\"traceEvents\"") != NULL || strstr(text, "\"ph\":") != NULL) {
        return "it is a Chrome trace, which has no allocations one by one. PyTorch writes a memory "
               "snapshot by torch.cuda.memory._dump_snapshot()";
    }
    if (inner > text && inner[0] == '[' && isdigit((unsigned char)inner[1])) {
        return "it is no snapshot: perhaps a memory timeline of PyTorch's profiler, which has sums "
               "alone. torch.cuda.memory._dump_snapshot() writes a memory snapshot";
    }
    return NULL;
}

/* Refuses with the event, and the last failure or `reason`. */
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
    mend_get_last_error(&error);
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
    uint32_t block = (uint32_t)((uintptr_t)found - 1);
    if (mend_pointer_map_remove(&reader->pending, key) != NULL) {
        reader->pending_bytes -= reader->builder.block_sizes[block];
    }
    mend_trace_builder_free(&reader->builder, block, actor);
    return judge_builder(reader);
}

/* Files share the frames of a stack, not the list: so the frames in it are the key. */
static uint64_t stack_key(const snapshot_reader *reader, mend_value frames)
{
    uint64_t hash = reader->builder.salt;
    for (size_t i = 0; i < mend_value_count(frames); i++) {
        hash = (hash ^ (uintptr_t)frames.items->values[i].items) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash | 1;
}

static uint32_t owner_of(snapshot_reader *reader, mend_value frames)
{
    uint64_t key = stack_key(reader, frames);
    uintptr_t known = (uintptr_t)mend_pointer_map_find(&reader->by_stack, key);
    if (known != 0) {
        return (uint32_t)(known - 1);
    }
    mend_trace_label label = {.text = ""};
    mend_trace_name_stack(frames, label.text, sizeof(label.text));
    uint32_t owner = mend_trace_detail_owner(reader->detail, &label);
    if (mend_pointer_map_reserve(&reader->by_stack)) {
        mend_pointer_map_insert(&reader->by_stack, key, (void *)((uintptr_t)owner + 1));
    }
    return owner;
}

static void add_place(snapshot_reader *reader, uint64_t address, mend_value frames)
{
    if (reader->detail != NULL && reader->builder.failure == MEND_OK) {
        mend_trace_detail_add_place(
            reader->detail,
            (mend_trace_place){.address = address, .owner = owner_of(reader, frames)});
    }
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

static uint64_t number_of(mend_value event, const char *key, uint64_t otherwise)
{
    mend_value value = mend_value_of(event, key);
    return value.kind == MEND_VALUE_NUMBER ? value.number : otherwise;
}

static void note_segment(const snapshot_reader *reader, mend_value event, bool is_taken)
{
    mend_trace_segment segment = {.event = reader->builder.trace->event_count,
                                  .address = number_of(event, "addr", 0),
                                  .size_bytes = number_of(event, "size", 0),
                                  .stream = number_of(event, "stream", 0),
                                  .is_taken = is_taken};
    mend_trace_detail_add_segment(reader->detail, segment);
}

static mend_result take_refusal(snapshot_reader *reader, mend_value event)
{
    const uint64_t stream = number_of(event, "stream", 0);
    const uint64_t size_bytes = number_of(event, "size", 0);
    if (reader->detail == NULL) {
        mend_trace_builder_refuse(&reader->builder, size_bytes,
                                  (mend_trace_actor){.stream = stream != UINT64_MAX ? stream : 0});
        return judge_builder(reader);
    }
    mend_trace_refusal refusal = {.event = reader->builder.trace->event_count,
                                  .segments = reader->detail->segment_count,
                                  .size_bytes = size_bytes,
                                  .free_bytes = number_of(event, "device_free", UINT64_MAX),
                                  .pending_bytes = reader->pending_bytes,
                                  .stream = stream};
    mend_trace_detail_add_refusal(reader->detail, refusal);
    return MEND_OK;
}

/* Of a live block. */
static void note_request(snapshot_reader *reader, mend_value event)
{
    uint64_t address = number_of(event, "addr", UINT64_MAX);
    uint64_t key = address == UINT64_MAX ? 0 : mend_trace_key(&reader->builder, address);
    uintptr_t block = key == 0 ? 0 : (uintptr_t)mend_pointer_map_find(&reader->live, key);
    if (block != 0 && mend_pointer_map_find(&reader->pending, key) == NULL &&
        mend_pointer_map_reserve(&reader->pending)) {
        mend_pointer_map_insert(&reader->pending, key, reader);
        reader->pending_bytes += reader->builder.block_sizes[block - 1];
        if (block <= reader->detail->place_count) {
            reader->detail->places[block - 1].asked_behind =
                (uint32_t)(reader->builder.trace->event_count + reader->detail->segment_count +
                           reader->detail->refusal_count);
        }
    }
}

/* The allocator's actions. */
static void note_event(snapshot_reader *reader, const char *action, mend_value event)
{
    if (strcmp(action, "free_requested") == 0) {
        note_request(reader, event);
    } else if (strcmp(action, "segment_alloc") == 0 || strcmp(action, "segment_map") == 0) {
        note_segment(reader, event, true);
    } else if (strcmp(action, "segment_free") == 0 || strcmp(action, "segment_unmap") == 0) {
        note_segment(reader, event, false);
    }
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
        if (strcmp(action.text, "oom") == 0) {
            return take_refusal(reader, event);
        }
        reader->segment_events += is_segments;
        reader->other_events += !is_request && !is_segments;
        if (reader->detail != NULL) {
            note_event(reader, action.text, event);
        }
        return MEND_OK;
    }
    mend_value address = mend_value_of(event, "addr");
    mend_value size = mend_value_of(event, "size");
    mend_value stream = mend_value_of(event, "stream");
    if (address.kind != MEND_VALUE_NUMBER || size.kind != MEND_VALUE_NUMBER ||
        stream.kind != MEND_VALUE_NUMBER) {
        return fail(reader, "addr, size or stream is no number");
    }
    /* The tables cannot have the largest number. No address and no stream is that large. */
    if (address.number == UINT64_MAX || stream.number == UINT64_MAX) {
        return fail(reader, "addr or stream is too large");
    }
    mend_trace_actor actor = {.stream = stream.number};
    uint64_t key = mend_trace_key(&reader->builder, address.number);
    if (!is_alloc) {
        return take_free(reader, key, actor);
    }
    mend_result result = take_alloc(reader, key, size.number, actor);
    add_place(reader, address.number, mend_value_of(event, "frames"));
    return result;
}

/* ---- before the first event ------------------------------------------------------------------ */

static bool take_old(void *context, const mend_trace_old_block *block)
{
    snapshot_reader *reader = context;
    if (block->address == UINT64_MAX || block->stream == UINT64_MAX) {
        return true; /* refused as an event, or none */
    }
    uint64_t key = mend_trace_key(&reader->builder, block->address);
    mend_trace_actor actor = {.stream = block->stream};
    if (take_alloc(reader, key, block->size_bytes, actor) != MEND_OK) {
        return false;
    }
    if (mend_value_count(block->frames) > 0) {
        add_place(reader, block->address, block->frames);
    } else if (reader->detail != NULL) {
        const mend_trace_label label = {.text = "from before the recording"};
        uint32_t owner = mend_trace_detail_owner(reader->detail, &label);
        mend_trace_detail_add_place(reader->detail,
                                    (mend_trace_place){.address = block->address, .owner = owner});
    }
    return true;
}

/* Mend's chunks join as expandable segments do, whatever the settings of PyTorch are. */
static bool has_joined_segments(mend_value snapshot)
{
    mend_value segments = mend_value_of(snapshot, "segments");
    for (size_t i = 0; i < mend_value_count(segments); i++) {
        mend_value is_joined = mend_value_of(segments.items->values[i], "is_expandable");
        if (is_joined.kind == MEND_VALUE_NUMBER && is_joined.number == 1) {
            return true;
        }
    }
    return false;
}

static mend_result take_before(snapshot_reader *reader, mend_value snapshot, mend_value events)
{
    mend_trace_detail *detail = reader->detail;
    if (detail != NULL) {
        mend_value settings = mend_value_of(snapshot, "allocator_settings");
        mend_value expandable = mend_value_of(settings, "expandable_segments");
        detail->is_snapshot = true;
        detail->is_expandable = expandable.kind == MEND_VALUE_NUMBER && expandable.number == 1;
        detail->is_of_mend = !detail->is_expandable && has_joined_segments(snapshot);
        detail->is_expandable = detail->is_expandable || detail->is_of_mend;
        detail->salt = reader->builder.salt;
        mend_trace_add_held_before(snapshot, reader->device, events, detail);
    }
    if (!mend_trace_find_old_blocks(snapshot, reader->device, events, reader->builder.salt,
                                    take_old, reader)) {
        return reader->builder.failure != MEND_OK ? judge_builder(reader)
                                                  : MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    reader->before_events = reader->builder.trace->event_count;
    if (detail != NULL) {
        detail->before_events = reader->before_events;
    }
    return MEND_OK;
}

static void write_note(const snapshot_reader *reader, mend_trace *trace)
{
    bool has_detail = reader->detail != NULL; /* then these are not skipped */
    const struct {
        size_t count;
        const char *what;
    } reasons[] = {
        {has_detail ? 0 : reader->before_events, "blocks from before the recording"},
        {reader->unknown_frees, "skipped frees of unknown blocks"},
        {has_detail ? 0 : reader->segment_events, "skipped events of segments"},
        {has_detail ? 0 : reader->other_events, "skipped other events"},
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

/* The device that has most events. The others are counted. */
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
    if (result == MEND_OK) {
        result = take_before(reader, snapshot, events);
    }
    for (; result == MEND_OK && reader->event < mend_value_count(events); reader->event++) {
        result = take_event(reader, events.items->values[reader->event]);
    }
    if (result == MEND_OK && reader->builder.trace->event_count == 0) {
        result = mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: %s", reader->path,
                           devices.kind == MEND_VALUE_ABSENT
                               ? "it is no memory snapshot of PyTorch: it has no \"device_traces\""
                               : "the snapshot has no allocations: PyTorch records them after "
                                 "torch.cuda.memory._record_memory_history()");
    }
    if (result == MEND_OK) {
        write_note(reader, reader->builder.trace);
        result = mend_trace_builder_finish(&reader->builder, trace);
    }
    return result;
}

mend_result mend_trace_read_snapshot(mend_byte_source *source, mend_trace_detail *detail,
                                     mend_trace **trace)
{
    static const char *const keys[] = {"device_traces", "action",   "addr",    "size",
                                       "stream",        "segments", "address", "total_size",
                                       "blocks",        "state",    "device",  NULL};
    static const char *const all_keys[] = {"device_traces",
                                           "action",
                                           "addr",
                                           "size",
                                           "stream",
                                           "frames",
                                           "filename",
                                           "line",
                                           "name",
                                           "device_free",
                                           "segments",
                                           "address",
                                           "total_size",
                                           "blocks",
                                           "state",
                                           "device",
                                           "allocator_settings",
                                           "expandable_segments",
                                           "is_expandable",
                                           NULL};
    const char *kind = other_kind(source);
    if (kind != NULL) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: %s", source->path, kind);
    }
    mend_value_store store;
    mend_value_store_init(&store, detail != NULL ? all_keys : keys);
    store.bytes_left = source->most;
    mend_result result = mend_is_pickle(first_word(source)) ? mend_pickle_read(source, &store)
                                                            : mend_json_read(source, &store);
    if (result == MEND_OK) {
        snapshot_reader reader = {.path = source->path, .detail = detail};
        mend_trace_builder_init(&reader.builder, source->path);
        mend_pointer_map_init(&reader.live);
        mend_pointer_map_init(&reader.pending);
        mend_pointer_map_init(&reader.by_stack);
        result = take_snapshot(&reader, store.stack[0], trace);
        mend_pointer_map_clear(&reader.live);
        mend_pointer_map_clear(&reader.pending);
        mend_pointer_map_clear(&reader.by_stack);
        mend_trace_builder_clear(&reader.builder);
    }
    mend_value_store_clear(&store);
    return result;
}
