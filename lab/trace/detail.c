#include "lab/trace/detail.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/support/room.h"
#include "lab/trace/builder.h"

void mend_trace_detail_init(mend_trace_detail *detail)
{
    *detail = (mend_trace_detail){0};
    mend_pointer_map_init(&detail->by_label);
    mend_stretches_init(&detail->asleep);
}

void mend_trace_detail_clear(mend_trace_detail *detail)
{
    for (size_t i = 0; i < detail->owner_count; i++) {
        free(detail->owners[i].name);
    }
    free(detail->owners);
    free(detail->places);
    free(detail->segments);
    free(detail->refusals);
    free(detail->streams);
    mend_pointer_map_clear(&detail->by_label);
    mend_stretches_clear(&detail->asleep);
    mend_trace_detail_init(detail);
}

/* Without memory the array stays as it is. */
static void *with_room(mend_trace_detail *detail, void *array, size_t count, size_t *room,
                       size_t object_bytes)
{
    void *grown = mend_with_room(array, count, room, object_bytes);
    detail->lacks_memory = detail->lacks_memory || grown == NULL;
    return grown != NULL ? grown : array;
}

static uint64_t hash_of(const mend_trace_detail *detail, const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ detail->salt;
    for (; *text != 0; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return hash << 9 | 512; /* the map spreads addresses, whose lowest bits are 0 */
}

/* Adds a name that is not there yet. */
static uint32_t add_owner(mend_trace_detail *detail, uint64_t key, const mend_trace_label *label)
{
    detail->owners = with_room(detail, detail->owners, detail->owner_count, &detail->owner_room,
                               sizeof(*detail->owners));
    char *copy = strdup(label->text);
    if (copy == NULL || !mend_pointer_map_reserve(&detail->by_label) || detail->lacks_memory) {
        free(copy);
        detail->lacks_memory = true;
        return 0;
    }
    mend_trace_owner *owner = &detail->owners[detail->owner_count++];
    owner->name = copy;
    memcpy(owner->part_bytes, label->part_bytes, sizeof(owner->part_bytes));
    mend_pointer_map_insert(&detail->by_label, key, (void *)(uintptr_t)detail->owner_count);
    return (uint32_t)(detail->owner_count - 1);
}

static bool is_named(const mend_trace_owner *owner, const mend_trace_label *label)
{
    return strcmp(owner->name, label->text) == 0 &&
           memcmp(owner->part_bytes, label->part_bytes, sizeof(owner->part_bytes)) == 0;
}

uint32_t mend_trace_detail_owner(mend_trace_detail *detail, const mend_trace_label *label)
{
    static const mend_trace_label others = {.text = "(lines beyond the first 65,535)"};
    uint64_t key = hash_of(detail, label->text);
    uintptr_t known;
    while ((known = (uintptr_t)mend_pointer_map_find(&detail->by_label, key)) != 0 &&
           !is_named(&detail->owners[known - 1], label)) {
        key += 512;
    }
    if (known != 0) {
        return (uint32_t)(known - 1);
    }
    if (detail->owner_count == MEND_TRACE_MAX_OWNERS) {
        return MEND_TRACE_MAX_OWNERS - 1;
    }
    const bool is_last = detail->owner_count == MEND_TRACE_MAX_OWNERS - 1;
    return add_owner(detail, key, is_last ? &others : label);
}

/* NULL: it has none. */
static mend_name_entry *name_of(const mend_trace_detail *detail, uint64_t stream)
{
    size_t i = 0;
    while (i < detail->stream_count && detail->streams[i].number != stream) {
        i++;
    }
    return i < detail->stream_count ? &detail->streams[i] : NULL;
}

void mend_trace_detail_name_stream(mend_trace_detail *detail, const mend_name_entry *name)
{
    mend_name_entry *known = name_of(detail, name->number);
    if (known == NULL && detail->stream_count < MEND_TRACE_MAX_STREAMS) {
        detail->streams = with_room(detail, detail->streams, detail->stream_count,
                                    &detail->stream_room, sizeof(*name));
        known = detail->lacks_memory ? NULL : &detail->streams[detail->stream_count++];
    }
    if (known != NULL) {
        *known = *name;
    }
}

void mend_trace_detail_tell_stream(const mend_trace_detail *detail, uint64_t stream, char *text,
                                   size_t size)
{
    const mend_name_entry *known = name_of(detail, stream);
    if (known != NULL && known->name[0] != 0) {
        snprintf(text, size, "%s", known->name);
    } else if (stream == 0) {
        snprintf(text, size, "the default stream");
    } else {
        snprintf(text, size, "stream %" PRIx64, stream);
    }
}

void mend_trace_detail_add_place(mend_trace_detail *detail, mend_trace_place place)
{
    detail->places =
        with_room(detail, detail->places, detail->place_count, &detail->place_room, sizeof(place));
    if (!detail->lacks_memory) {
        detail->places[detail->place_count++] = place;
    }
}

void mend_trace_detail_add_segment(mend_trace_detail *detail, mend_trace_segment segment)
{
    detail->segments = with_room(detail, detail->segments, detail->segment_count,
                                 &detail->segment_room, sizeof(segment));
    if (!detail->lacks_memory) {
        detail->segments[detail->segment_count++] = segment;
        detail->wait_count += segment.is_wait;
    }
}

/* These addresses are in the set, or not. */
static void put(mend_trace_detail *detail, mend_stretches *set, const mend_trace_segment *segment,
                bool is_in, uint64_t *most_bytes)
{
    if (is_in) {
        mend_stretches_add(set, segment->address, segment->size_bytes, 0);
    } else {
        mend_stretches_remove(set, segment->address, segment->size_bytes);
    }
    *most_bytes = mend_max_u64(*most_bytes, set->bytes);
    detail->lacks_memory = detail->lacks_memory || set->lacks_memory;
}

void mend_trace_detail_add_change(mend_trace_detail *detail, const mend_history_event *event,
                                  uint64_t events_before)
{
    const bool is_created = event->kind == MEND_EVENT_CREATE;
    const bool is_asleep = event->kind == MEND_EVENT_SLEEP;
    const bool is_memory = is_created || event->kind == MEND_EVENT_RELEASE;
    const bool is_mapped = !is_memory && !is_asleep && event->kind != MEND_EVENT_UNMAP;
    const mend_trace_segment segment = {.event = events_before,
                                        .address = (uint64_t)(uintptr_t)event->address,
                                        .size_bytes = event->size_bytes,
                                        .is_taken = is_created || is_mapped,
                                        .is_place = detail->has_places && !is_memory};
    mend_trace_detail_add_segment(detail, segment);
    if (!is_memory) {
        put(detail, &detail->asleep, &segment, is_asleep, &detail->most_asleep_bytes);
    }
}

void mend_trace_detail_add_refusal(mend_trace_detail *detail, mend_trace_refusal refusal)
{
    detail->refusals = with_room(detail, detail->refusals, detail->refusal_count,
                                 &detail->refusal_room, sizeof(refusal));
    if (!detail->lacks_memory) {
        detail->refusals[detail->refusal_count++] = refusal;
    }
}
