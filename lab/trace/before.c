#include "lab/trace/before.h"

#include <string.h>

#include "lab/support/stretches.h"

static bool is_number(mend_value value)
{
    return value.kind == MEND_VALUE_NUMBER;
}

static const char *action_of(mend_value event)
{
    mend_value action = mend_value_of(event, "action");
    return action.kind == MEND_VALUE_TEXT ? action.text : "";
}

static uint64_t stream_of(mend_value dict)
{
    mend_value stream = mend_value_of(dict, "stream");
    return is_number(stream) ? stream.number : 0;
}

static bool is_of_device(mend_value segment, size_t device)
{
    mend_value number = mend_value_of(segment, "device");
    return !is_number(number) || number.number == device;
}

static mend_value segments_of(mend_value snapshot)
{
    return mend_value_of(snapshot, "segments");
}

/* ---- segments -------------------------------------------------------------------------------- */

static void walk_back(mend_stretches *held, mend_value event)
{
    const char *action = action_of(event);
    if (strncmp(action, "segment_", strlen("segment_")) != 0) {
        return;
    }
    mend_value address = mend_value_of(event, "addr");
    mend_value size = mend_value_of(event, "size");
    if (!is_number(address) || !is_number(size)) {
        return;
    }
    const char *what = action + strlen("segment_");
    if (strcmp(what, "alloc") == 0 || strcmp(what, "map") == 0) {
        mend_stretches_remove(held, address.number, size.number);
    } else if (strcmp(what, "free") == 0 || strcmp(what, "unmap") == 0) {
        mend_stretches_add(held, address.number, size.number, stream_of(event));
    }
}

void mend_trace_add_held_before(mend_value snapshot, size_t device, mend_value events,
                                mend_trace_detail *detail)
{
    mend_stretches held;
    mend_stretches_init(&held);
    mend_value segments = segments_of(snapshot);
    for (size_t i = 0; i < mend_value_count(segments); i++) {
        mend_value segment = segments.items->values[i];
        mend_value address = mend_value_of(segment, "address");
        mend_value size = mend_value_of(segment, "total_size");
        if (is_of_device(segment, device) && is_number(address) && is_number(size)) {
            mend_stretches_add(&held, address.number, size.number, stream_of(segment));
        }
    }
    for (size_t i = mend_value_count(events); i-- > 0;) {
        walk_back(&held, events.items->values[i]);
    }
    for (mend_stretch *at = mend_stretches_first(&held); at != NULL; at = mend_stretches_next(at)) {
        mend_trace_detail_add_segment(detail, (mend_trace_segment){.address = at->address,
                                                                   .size_bytes = at->size_bytes,
                                                                   .stream = at->owner,
                                                                   .is_taken = true});
    }
    detail->lacks_memory = detail->lacks_memory || held.lacks_memory;
    mend_stretches_clear(&held);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct old_search {
    mend_pointer_map seen; /* keys of addresses that an event or a block has named */
    uint64_t salt;
    mend_trace_take_old take;
    void *context;
} old_search;

/* Whether the address is named for the first time. *is_good becomes false if malloc fails. */
static bool is_first(old_search *search, uint64_t address, bool *is_good)
{
    uint64_t key = (address + 1) * search->salt;
    key = (key ^ key >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    if (key == 0 || mend_pointer_map_find(&search->seen, key) != NULL) {
        return false;
    }
    *is_good = mend_pointer_map_reserve(&search->seen);
    if (*is_good) {
        mend_pointer_map_insert(&search->seen, key, search);
    }
    return *is_good;
}

static bool take_of_event(old_search *search, mend_value event)
{
    const char *action = action_of(event);
    bool is_free = strcmp(action, "free_completed") == 0;
    mend_value address = mend_value_of(event, "addr");
    bool is_good = true;
    if ((!is_free && strcmp(action, "alloc") != 0) || !is_number(address) ||
        !is_first(search, address.number, &is_good)) {
        return is_good;
    }
    mend_value size = mend_value_of(event, "size");
    mend_value stream = mend_value_of(event, "stream");
    if (!is_free || !is_number(size) || !is_number(stream)) {
        return true;
    }
    mend_trace_old_block block = {address.number, size.number, stream.number, {0}};
    return search->take(search->context, &block);
}

/* Older snapshots have no addresses of blocks: they follow each other in their segment. */
static bool take_of_segment(old_search *search, mend_value segment)
{
    mend_value at = mend_value_of(segment, "address");
    mend_value blocks = mend_value_of(segment, "blocks");
    uint64_t next = is_number(at) ? at.number : 0;
    bool is_good = true;
    for (size_t i = 0; is_good && i < mend_value_count(blocks); i++) {
        mend_value block = blocks.items->values[i];
        mend_value size = mend_value_of(block, "size");
        mend_value state = mend_value_of(block, "state");
        mend_value address = mend_value_of(block, "address");
        mend_trace_old_block old = {.address = is_number(address) ? address.number : next,
                                    .size_bytes = is_number(size) ? size.number : 0,
                                    .stream = stream_of(segment),
                                    .frames = mend_value_of(block, "frames")};
        next = old.address + old.size_bytes;
        bool is_live = state.kind == MEND_VALUE_TEXT && strncmp(state.text, "active", 6) == 0;
        if (is_live && is_first(search, old.address, &is_good)) {
            is_good = search->take(search->context, &old);
        }
    }
    return is_good;
}

bool mend_trace_find_old_blocks(mend_value snapshot, size_t device, mend_value events,
                                uint64_t salt, mend_trace_take_old take, void *context)
{
    old_search search = {.salt = salt, .take = take, .context = context};
    mend_pointer_map_init(&search.seen);
    bool is_good = true;
    for (size_t i = 0; is_good && i < mend_value_count(events); i++) {
        is_good = take_of_event(&search, events.items->values[i]);
    }
    mend_value segments = segments_of(snapshot);
    for (size_t i = 0; is_good && i < mend_value_count(segments); i++) {
        if (is_of_device(segments.items->values[i], device)) {
            is_good = take_of_segment(&search, segments.items->values[i]);
        }
    }
    mend_pointer_map_clear(&search.seen);
    return is_good;
}
