/*
 * The slots of streams: found by the handle and the graph pool in O(1), and reused. A slot stays
 * with its stream while a stamp of it has not passed, a block names it, or a call uses it. After
 * that, its stamps have passed, so they mean idle memory whichever stream gets the slot.
 */
#include "memory/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { FIRST_CAPACITY = 8 };

bool mend_streams_grow(void *array, size_t *capacity, size_t count, size_t element_bytes)
{
    assert(count > 0 && element_bytes > 0);
    if (count <= *capacity) {
        return true;
    }
    size_t larger = *capacity ? *capacity : FIRST_CAPACITY;
    while (larger < count) {
        larger *= 2;
    }
    void *old;
    memcpy(&old, array, sizeof(old));
    assert((old == NULL) == (*capacity == 0));
    char *moved = realloc(old, larger * element_bytes);
    if (moved == NULL) {
        return false;
    }
    memset(moved + *capacity * element_bytes, 0, (larger - *capacity) * element_bytes);
    memcpy(array, &moved, sizeof(moved));
    *capacity = larger;
    return true;
}

/* While there are fewer slots than FEW_SLOTS, unused ones are gathered whenever none is free. */
enum { FIRST_BUCKETS = 8, FEW_SLOTS = 64 };

/* ---- the index ------------------------------------------------------------------------------- */

/* The calling thread's number if the handle is the per-thread stream. Otherwise 0. */
static uint64_t thread_of(mend_stream handle)
{
    return handle == MEND_STREAM_PER_THREAD ? mend_process_thread_number() : 0;
}

/* The slot, or the first one behind it in its list, that has the handle and the thread. */
static uint32_t skip_others(const mend_streams *streams, uint32_t slot, mend_stream handle,
                            uint64_t thread)
{
    assert(slot < streams->count);
    while (slot != MEND_STREAM_UNKNOWN &&
           (streams->items[slot].handle != handle || streams->items[slot].thread != thread)) {
        slot = streams->items[slot].in[MEND_SLOTS_OF_HANDLE].next;
    }
    return slot;
}

uint32_t mend_slots_first(const mend_streams *streams, mend_stream handle)
{
    mend_stream plain = mend_slots_handle(handle);
    uint64_t thread = thread_of(plain);
    const uint64_t key = mend_slots_key(plain, thread, 0);
    return skip_others(streams, *mend_slots_head(streams, MEND_SLOTS_OF_HANDLE, key), plain,
                       thread);
}

uint32_t mend_slots_next(const mend_streams *streams, uint32_t slot)
{
    assert(slot != MEND_STREAM_UNKNOWN && streams->items[slot].known);
    const mend_stream_state *state = &streams->items[slot];
    return skip_others(streams, state->in[MEND_SLOTS_OF_HANDLE].next, state->handle, state->thread);
}

/* Enters the slot into a ring, before another one, and it leaves the ring. */
static void enter_ring(mend_streams *streams, mend_slot_list ring, uint32_t slot, uint32_t before)
{
    mend_stream_state *items = streams->items;
    const uint32_t behind = items[before].in[ring].previous;
    items[slot].in[ring] = (mend_slot_link){.next = before, .previous = behind};
    items[behind].in[ring].next = slot;
    items[before].in[ring].previous = slot;
}

static void leave_ring(mend_streams *streams, mend_slot_list ring, uint32_t slot)
{
    const mend_slot_link link = streams->items[slot].in[ring];
    streams->items[link.previous].in[ring].next = link.next;
    streams->items[link.next].in[ring].previous = link.previous;
}

static void enter(mend_streams *streams, mend_slot_list list, uint64_t key, uint32_t slot)
{
    assert(slot != MEND_STREAM_UNKNOWN && slot < streams->count);
    uint32_t *head = mend_slots_head(streams, list, key);
    streams->items[slot].in[list] = (mend_slot_link){.next = *head};
    if (*head != MEND_STREAM_UNKNOWN) {
        streams->items[*head].in[list].previous = slot;
    }
    *head = slot;
}

static void leave(mend_streams *streams, mend_slot_list list, uint64_t key, uint32_t slot)
{
    uint32_t *head = mend_slots_head(streams, list, key);
    const mend_slot_link link = streams->items[slot].in[list];
    assert((*head == slot) == (link.previous == MEND_STREAM_UNKNOWN));
    if (*head == slot) {
        *head = link.next;
    } else {
        streams->items[link.previous].in[list].next = link.next;
    }
    if (link.next != MEND_STREAM_UNKNOWN) {
        streams->items[link.next].in[list].previous = link.previous;
    }
}

static uint64_t key_of_handle(const mend_stream_state *state)
{
    return mend_slots_key(state->handle, state->thread, 0);
}

static uint64_t key_of_pair(const mend_stream_state *state)
{
    return mend_slots_key(state->handle, state->thread, state->graph_pool);
}

void mend_slots_enter_unpassed(mend_streams *streams, uint32_t slot)
{
    mend_stream_state *state = &streams->items[slot];
    if (slot == MEND_STREAM_UNKNOWN) {
        streams->may_be_several = state->is_unpassed = true;
    } else if (!state->is_unpassed && state->graph_pool == 0) {
        enter_ring(streams, MEND_SLOTS_UNPASSED, slot, MEND_STREAM_UNKNOWN);
        state->is_unpassed = true;
    }
}

void mend_slots_leave_passed(mend_streams *streams, uint32_t slot)
{
    mend_stream_state *state = &streams->items[slot];
    if (state->is_unpassed && !state->open && state->fence_count == 0 && state->recordings == 0) {
        leave_ring(streams, MEND_SLOTS_UNPASSED, slot);
        state->is_unpassed = false;
    }
}

/* The device of the context, or the pool's. A stream that was met in its capture has no context
 * yet. */
static int device_of(const mend_streams *streams, mend_context context)
{
    int i = context == NULL ? MEND_OWN_CONTEXT : MEND_CONTEXTS - 1;
    while (i > MEND_OWN_CONTEXT && streams->contexts[i] != context) {
        i--;
    }
    return i == MEND_OWN_CONTEXT ? streams->home->device : i - 1;
}

void mend_watch_begin(const mend_streams *streams, mend_watch *watch, mend_context context)
{
    if (watch->member.number == 0) {
        watch->owner = streams;
        watch->member.domain = streams->home->domain;
        watch->member.device = device_of(streams, context);
        mend_process_join(&mend_process_watches, &watch->member);
    }
}

void mend_watch_end(mend_watch *watch)
{
    if (watch->member.number != 0) {
        mend_process_leave(&mend_process_watches, &watch->member);
    }
}

void mend_slots_see(mend_streams *streams, uint32_t slot, bool captured, uint64_t capture)
{
    mend_stream_state *state = &streams->items[slot];
    assert(slot != MEND_STREAM_UNKNOWN || !captured);
    if (state->seen_captured && !captured) {
        leave_ring(streams, MEND_SLOTS_CAPTURED, slot);
        mend_watch_end(state->watch);
    } else if (captured && !state->seen_captured) {
        enter_ring(streams, MEND_SLOTS_CAPTURED, slot,
                   streams->items[MEND_STREAM_UNKNOWN].in[MEND_SLOTS_CAPTURED].next);
        if (!streams->verify && state->handle != NULL && state->handle != MEND_STREAM_PER_THREAD) {
            const mend_stream_state *known =
                &streams->items[mend_streams_lookup(streams, state->handle, 0)];
            state->watch->handle = state->handle;
            mend_watch_begin(streams, state->watch,
                             state->context != NULL ? state->context : known->context);
        }
    }
    state->seen_captured = captured;
    state->seen_capture = capture;
}

/* Space for one more slot, and as many heads of each list as slots. */
static bool grow(mend_streams *streams)
{
    if (streams->count < streams->capacity) {
        return true;
    }
    uint32_t bucket_count = streams->bucket_count > 0 ? streams->bucket_count * 2 : FIRST_BUCKETS;
    uint32_t *buckets = calloc((size_t)bucket_count * MEND_SLOTS_WITH_HEADS, sizeof(*buckets));
    size_t capacity = streams->capacity;
    if (buckets == NULL ||
        !mend_streams_grow(&streams->items, &capacity, (size_t)streams->count + 1,
                           sizeof(mend_stream_state))) {
        free(buckets);
        return false;
    }
    free(streams->buckets);
    streams->capacity = (uint32_t)capacity;
    streams->buckets = buckets;
    streams->bucket_count = bucket_count;
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        const mend_stream_state *state = &streams->items[i];
        if (state->known) {
            enter(streams, MEND_SLOTS_OF_HANDLE, key_of_handle(state), i);
            enter(streams, MEND_SLOTS_OF_PAIR, key_of_pair(state), i);
        }
        if (state->graph_pool != 0) {
            enter(streams, MEND_SLOTS_OF_GRAPH_POOL, state->graph_pool, i);
        }
    }
    return true;
}

/* ---- free slots ------------------------------------------------------------------------------ */

static bool is_of_no_use(const mend_stream_state *state)
{
    return state->graph_pool == 0 && !state->open && state->fence_count == 0 &&
           mend_stream_awaited_epoch(state) == 0 && state->recordings == 0 && state->calls == 0 &&
           state->users == 0;
}

/* Adds the slot to the free ones. Its epochs go on counting, so that old stamps stay passed. The
 * waits that the old stream had queued are dropped. */
static void keep(mend_streams *streams, uint32_t slot)
{
    mend_stream_state *state = &streams->items[slot];
    assert(!state->known && !state->is_free_slot && is_of_no_use(state));
    free(state->waited_epochs);
    state->waited_epochs = NULL;
    state->waited_capacity = 0;
    state->has_ended = false;
    state->freed_by = 0;
    leave_ring(streams, MEND_SLOTS_OF_GRAPH_POOL, slot);
    mend_slots_leave_passed(streams, slot);
    state->is_free_slot = true;
    state->in[MEND_SLOTS_OF_PAIR].next = streams->first_free_slot;
    streams->first_free_slot = slot;
}

/* Frees the slots of streams that are no longer known, and sets when to do this next. */
static void gather(mend_streams *streams)
{
    assert(streams->count > MEND_STREAM_UNKNOWN);
    uint32_t in_use = 0;
    for (uint32_t i = streams->count - 1; i > MEND_STREAM_UNKNOWN; i--) {
        mend_stream_state *state = &streams->items[i];
        if (!state->known && !state->is_free_slot && is_of_no_use(state)) {
            keep(streams, i);
        }
        in_use += !state->is_free_slot;
    }
    streams->collect_at = in_use * 2;
}

mend_result mend_slots_add(mend_streams *streams, mend_stream handle, const mend_stream_info *info,
                           uint32_t graph_pool, uint32_t *index)
{
    const bool is_time = streams->count >= FEW_SLOTS && streams->count >= streams->collect_at;
    if (streams->first_free_slot == MEND_STREAM_UNKNOWN && streams->count > 0 &&
        (streams->count < FEW_SLOTS || is_time)) {
        gather(streams);
        streams->wants_collection = is_time;
    }
    uint32_t slot = streams->first_free_slot;
    if (slot != MEND_STREAM_UNKNOWN) {
        assert(streams->items[slot].is_free_slot);
        streams->first_free_slot = streams->items[slot].in[MEND_SLOTS_OF_PAIR].next;
    } else {
        mend_watch *watch = grow(streams) ? calloc(1, sizeof(*watch)) : NULL;
        if (watch == NULL) {
            return mend_no_host_memory("a stream's slot");
        }
        watch->was_seen = true;
        slot = streams->count++;
        streams->items[slot] = (mend_stream_state){.open_epoch = 1, .watch = watch};
    }
    mend_stream_state *state = &streams->items[slot];
    assert(is_of_no_use(state) && !state->known);
    state->is_free_slot = false;
    state->handle = mend_slots_handle(handle);
    state->thread = thread_of(state->handle);
    state->id = info->id;
    state->capture_id = info->id == 0 ? info->capture_id : 0;
    state->context = info->context;
    state->graph_pool = graph_pool;
    state->first_epoch = state->open_epoch;
    state->known = true;
    state->was_found = true;
    mend_slots_see(streams, slot, info->capture != MEND_CAPTURE_NONE, info->capture_id);
    state->serves_capture = false;
    state->used_outside = false;
    state->named_in = 0;
    state->is_unpassed = false;
    streams->may_be_several |= slot > MEND_STREAM_UNKNOWN + 1 || graph_pool != 0;
    if (slot != MEND_STREAM_UNKNOWN) {
        enter(streams, MEND_SLOTS_OF_HANDLE, key_of_handle(state), slot);
        enter(streams, MEND_SLOTS_OF_PAIR, key_of_pair(state), slot);
    }
    if (graph_pool != 0) {
        enter(streams, MEND_SLOTS_OF_GRAPH_POOL, graph_pool, slot);
    } else if (slot != MEND_STREAM_UNKNOWN) {
        enter_ring(streams, MEND_SLOTS_OF_GRAPH_POOL, slot, MEND_STREAM_UNKNOWN);
        streams->known_count++;
    }
    *index = slot;
    return MEND_OK;
}

void mend_slots_lose(mend_streams *streams, uint32_t slot)
{
    assert(slot != MEND_STREAM_UNKNOWN && slot < streams->count);
    mend_stream_state *state = &streams->items[slot];
    if (state->known) {
        leave(streams, MEND_SLOTS_OF_HANDLE, key_of_handle(state), slot);
        leave(streams, MEND_SLOTS_OF_PAIR, key_of_pair(state), slot);
        mend_streams_look_up_anew(streams);
        streams->known_count -= state->graph_pool == 0;
    }
    mend_slots_see(streams, slot, false, state->seen_capture);
    state->known = false;
    state->handle = NULL;
    state->thread = 0;
}

void mend_streams_release_graph_pool(mend_streams *streams, uint32_t graph_pool)
{
    assert(graph_pool != 0);
    for (uint32_t i = mend_slots_first_of(streams, graph_pool), next; i != MEND_STREAM_UNKNOWN;
         i = next) {
        mend_stream_state *state = &streams->items[i];
        next = mend_slots_next_of(streams, i);
        mend_slots_lose(streams, i);
        state->has_ended = true;
        leave(streams, MEND_SLOTS_OF_GRAPH_POOL, graph_pool, i);
        state->graph_pool = 0;
        enter_ring(streams, MEND_SLOTS_OF_GRAPH_POOL, i, MEND_STREAM_UNKNOWN);
        if (state->open || state->fence_count > 0) {
            mend_slots_enter_unpassed(streams, i);
        }
    }
}

void mend_slots_collect(mend_streams *streams)
{
    assert(streams->count > MEND_STREAM_UNKNOWN);
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        /* A stream that is verified by its handle before each use need not be kept. */
        if (!state->was_found && state->known && !state->seen_captured && is_of_no_use(state) &&
            (streams->verify || state->handle == MEND_STREAM_PER_THREAD)) {
            mend_slots_lose(streams, i);
        }
        state->was_found = false;
    }
    gather(streams);
    streams->wants_collection = false;
}

void mend_slots_clear(mend_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_watch_end(streams->items[i].watch);
        free(streams->items[i].watch);
    }
    free(streams->buckets);
    free(streams->items);
}
