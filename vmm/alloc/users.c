/* Who uses blocks: streams, learned from the driver, their fences recorded, and forgotten; and who
 * requests memory: the stream of a request, and the group that will own the block. */
#include "alloc/users.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "map/map.h"

void mend_users_record_fence(mend_heap *heap, uint32_t stream)
{
    mend_result result = mend_streams_close_named(&heap->streams, stream);
    if (result != MEND_OK) {
        mend_driver_work_around(heap, result);
    }
}

/* Collects unused slots, also those whose last fence has passed: nobody else may ask about it. This
 * is the place for it: no other thread that makes room uses an unmarked slot now. */
static void collect_slots(mend_heap *heap)
{
    if (heap->streams.wants_collection && mend_mutex_try_lock(&heap->grow)) {
        (void)mend_streams_poll(&heap->streams);
        mend_slots_collect(&heap->streams);
        mend_mutex_unlock(&heap->grow);
    }
}

/* Keeps the slot while its fence is recorded, which releases the lock. */
static void record_found(mend_heap *heap, uint32_t stream)
{
    mend_streams_begin_call(&heap->streams, stream);
    mend_users_record_fence(heap, stream);
    mend_streams_end_call(&heap->streams, stream);
}

mend_result mend_users_learn_stream(mend_heap *heap, mend_stream stream, uint32_t group,
                                    uint32_t *index)
{
    assert(stream != MEND_NO_STREAM);
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    collect_slots(heap);
    mend_result result = mend_streams_find(&heap->streams, stream, group, index);
    if (result == MEND_OK && heap->streams.verify) {
        record_found(heap, *index);
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}

/* ---- streams that end: the driver is not asked about them any more --------------------------- */

/* A stream that the pool knows only from groups must not be forgotten during its capture either. */
static mend_result check_captures_of_groups(mend_heap *heap, mend_stream stream)
{
    const uint32_t index = mend_streams_lookup_captured(&heap->streams, stream);
    if (index == MEND_STREAM_UNKNOWN) {
        return MEND_OK;
    }
    mend_driver_scope scope;
    mend_reach reach = MEND_REACH_GONE;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_result result = mend_streams_reach(&heap->streams, index, &reach);
    mend_driver_scope_close(heap, &scope);
    return result == MEND_OK && reach == MEND_REACH_CAPTURED
               ? mend_failure(MEND_ERROR_CAPTURING, "the stream %p is being captured",
                              (void *)stream)
               : result;
}

static void leave_groups(mend_heap *heap, mend_stream stream, uint64_t id)
{
    mend_streams_watch_no_more(&heap->streams, stream);
    mend_streams_leave_groups(&heap->streams, stream, id);
}

/* The last fence comes first: if the driver refuses it, the stream is known as before. Then the
 * slot is found by no call any more; those that have found it before are waited for, because the
 * program may destroy the stream after this. */
mend_result mend_users_forget_stream(mend_heap *heap, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    uint32_t index;
    if (!mend_streams_handle_suffices(&heap->streams, stream)) {
        MEND_TRY(mend_users_find_stream(heap, stream, 0, &index));
    } else if ((index = mend_streams_lookup(&heap->streams, stream, 0)) == MEND_STREAM_UNKNOWN) {
        MEND_TRY(check_captures_of_groups(heap, stream));
        leave_groups(heap, stream, 0);
        return MEND_OK;
    }
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    uint64_t id = heap->streams.items[index].id;
    /* One last fence, for memory that was freed and for blocks that the stream still uses. */
    mend_streams_stamp(&heap->streams, index, 0);
    mend_result result = mend_streams_forget(&heap->streams, index);
    if (result == MEND_OK) {
        mend_streams_await_calls(&heap->streams, index, &heap->state);
    }
    mend_driver_scope_close(heap, &scope);
    MEND_TRY(result);
    leave_groups(heap, stream, id);
    return MEND_OK;
}

/* ---- requesters ------------------------------------------------------------------------------ */

mend_result mend_requester_find_stream(mend_heap *heap, mend_order order, uint32_t group,
                                       uint32_t *index)
{
    MEND_TRY(mend_users_find_stream(heap, order.stream, group, index));
    if (group != 0) { /* of the program and not begun on the stream: no watch tells of the end */
        const bool is_unwatched = order.capture != 0 && (group & MEND_GROUP_OF_CAPTURE) == 0 &&
                                  mend_group_taking(heap, order.stream) != group;
        mend_slots_name(&heap->streams, *index, order.capture, is_unwatched);
        mend_group_watch_again(heap, order.stream);
    }
    return MEND_OK;
}

mend_result mend_requester_find_group(mend_heap *heap, mend_order order, uint32_t *group)
{
    *group = mend_group_taking(heap, order.stream);
    return *group == 0 && order.capture != 0 ? mend_capture_group_find(heap, order, group)
                                             : MEND_OK;
}

mend_result mend_requester_find(mend_heap *heap, mend_request *request)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(request->handle != MEND_EVERY_STREAM);
    mend_capture_groups_collect(heap);
    if (request->handle == MEND_NO_STREAM) {
        heap->streams.may_be_several = true;
        heap->streams.serves_any = true;
        request->stream = MEND_STREAM_UNKNOWN;
        return MEND_OK;
    }
    const uint32_t known = mend_requester_known(heap, request);
    if (known != MEND_STREAM_UNKNOWN) {
        request->group = 0;
        request->stream = known;
        return MEND_OK;
    }
    mend_order order = {request->handle, request->capture};
    if (request->pages != NULL) { /* its pages belong to no group */
        request->group = 0;
        return mend_users_find_stream(heap, request->handle, 0, &request->stream);
    }
    request->group = request->owner;
    if (request->owner == 0) {
        MEND_TRY(mend_requester_find_group(heap, order, &request->group));
    }
    return mend_requester_find_stream(heap, order, request->group, &request->stream);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/*
 * Groups: blocks that belong to captured graphs. While a group is begun, requests on its streams go
 * to streams of the group (memory/stream.h); no other stream gets memory that is freed there. A
 * block of a group has a mark among its users, which stays on whatever stream it is freed. Programs
 * create groups; for other captures the pool does.
 */

void mend_group_enter(mend_heap *heap, mend_group *group, mend_pool *pool)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(heap->groups.last_number + 1 < MEND_GROUP_OF_CAPTURE);
    *group = (mend_group){.pool = pool, .number = ++heap->groups.last_number};
    mend_list_init(&group->watch.link);
    mend_list_append(&heap->groups.list, &group->link);
    heap->groups.count++;
}

static bool takes(const mend_group *group, mend_stream stream)
{
    const mend_stream taken = group->watch.handle;
    const bool takes_legacy = taken == NULL || taken == MEND_STREAM_LEGACY;
    return taken == MEND_EVERY_STREAM || taken == stream ||
           (takes_legacy && (stream == NULL || stream == MEND_STREAM_LEGACY));
}

uint32_t mend_group_taking(const mend_heap *heap, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(stream != MEND_NO_STREAM);
    MEND_LIST_EACH(const mend_group, group, link, &heap->groups.list) {
        if (!group->is_begun || takes(group, stream)) {
            return group->is_begun ? group->number : 0;
        }
    }
    return 0;
}

/* The mark of its group is the oldest user of a block. */
uint32_t mend_group_number_of(const mend_heap *heap, const mend_span *span)
{
    assert(span->live);
    uint32_t owner = 0;
    for (const mend_wait *at = span->of_group ? span->waits.others : NULL; at != NULL;
         at = at->next) {
        owner = at->stamp.epoch == 0 ? heap->streams.items[at->stamp.stream].group : owner;
    }
    return owner;
}

bool mend_group_owns(const mend_heap *heap, uint32_t number, const mend_span *span)
{
    return mend_group_number_of(heap, span) == number;
}

mend_group *mend_group_numbered(const mend_heap *heap, uint32_t number)
{
    assert(mend_mutex_is_held(&heap->state));
    if (number == 0 || (number & MEND_GROUP_OF_CAPTURE) != 0) {
        return NULL;
    }
    MEND_LIST_EACH(mend_group, group, link, &heap->groups.list) {
        if (group->number == number) {
            return group;
        }
    }
    return NULL;
}

void mend_group_watch_again(mend_heap *heap, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    MEND_LIST_EACH(mend_group, group, link, &heap->groups.list) {
        if (!group->is_begun) {
            return;
        }
        if (takes(group, stream) && mend_list_is_empty(&group->watch.link)) {
            mend_list_append(&heap->streams.watches, &group->watch.link);
        }
    }
}

void mend_group_set_begun(mend_heap *heap, mend_group *group, mend_stream stream, bool is_begun)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(group->is_begun != is_begun);
    assert(group->capture == 0);
    assert(is_begun || atomic_load(&heap->groups.begun_count) > 0);
    mend_list_remove(&group->link);
    mend_list_remove(&group->watch.link);
    atomic_fetch_add_explicit(&heap->groups.begun_count, is_begun ? 1u : UINT_MAX,
                              memory_order_relaxed);
    mend_process_note_begun(is_begun);
    heap->streams.serves_groups = mend_heap_has_begun_groups(heap);
    mend_streams_look_up_anew(&heap->streams);
    group->is_begun = is_begun;
    group->watch.handle = stream;
    if (is_begun) {
        mend_list_insert_after(&heap->groups.list, &group->link);
        mend_group_watch_again(heap, stream);
    } else {
        mend_list_append(&heap->groups.list, &group->link);
    }
}

/* Records events on `stream`, which is behind the last launch, for all use of the group's
 * memory. */
static mend_result close_on(mend_heap *heap, const mend_group *group, mend_stream stream)
{
    uint32_t recorder;
    mend_driver_scope scope;
    MEND_TRY(mend_users_find_stream(heap, stream, 0, &recorder));
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_result result = mend_streams_close_group(&heap->streams, group->number, recorder);
    mend_driver_scope_close(heap, &scope);
    return result;
}

/* A stream that was met in its capture and cannot be identified is of a device that may access the
 * memory: from now on waits cover all of those. */
static mend_result cover_all_devices(mend_heap *heap)
{
    mend_status status = MEND_DRIVER_OK;
    for (int i = 0; i < heap->allowed.count && status == MEND_DRIVER_OK; i++) {
        const int device = heap->allowed.devices[i];
        if (device != heap->config.device) {
            status = mend_foreign_admit_device(&heap->streams, device);
        }
    }
    return status == MEND_DRIVER_OK
               ? MEND_OK
               : mend_streams_driver_result(&heap->streams, MEND_CALL_device_open, status);
}

/* Only a wait for the context makes the memory idle, and for those of other devices whose streams
 * used it: asks about those that were met in their captures. */
static mend_result close_on_none(mend_heap *heap, const mend_group *group)
{
    mend_driver_scope scope;
    if (!mend_streams_has_unidentified(&heap->streams, group->number)) {
        return MEND_OK;
    }
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_result result = mend_streams_identify(&heap->streams, group->number);
    if (result == MEND_OK && mend_streams_has_unidentified(&heap->streams, group->number)) {
        result = cover_all_devices(heap);
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}

mend_result mend_group_leave(mend_heap *heap, mend_group *group, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    assert(!group->is_begun);
    mend_streams *streams = &heap->streams;
    MEND_TRY(mend_streams_keep_captured(streams, group->number));
    MEND_SLOTS_EACH(i, streams, group->number) {
        mend_streams_stamp(streams, i, 0); /* for blocks that are still live */
    }
    MEND_TRY(stream == MEND_NO_STREAM ? close_on_none(heap, group) : close_on(heap, group, stream));
    mend_streams_release_group(&heap->streams, group->number);
    return MEND_OK;
}

void mend_group_drop(mend_heap *heap, mend_group *group)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(heap->groups.count > heap->groups.capture_count || group->capture != 0);
    if (mend_history_is_on(&heap->history) && group->capture == 0) {
        mend_history_put_step(&heap->history, (mend_history_event){.kind = MEND_EVENT_GROUP_DESTROY,
                                                                   .stream = MEND_NO_STREAM,
                                                                   .group = group});
    }
    mend_list_remove(&group->link);
    heap->groups.count--;
}

/* ---- groups of captures ---------------------------------------------------------------------- */

/*
 * A graph uses its memory again at every launch: memory allocated on a captured stream outside of
 * the program's own groups, or freed or declared there. So the pool makes a group for each capture
 * that calls it. No other request gets that memory until the driver reports the end of the graph.
 */

#define GROUP_OF(at) MEND_CONTAINER_OF(at, mend_group, link)

/* Shared by a group and the driver; the last of the two frees it. The driver calls in any thread,
 * maybe long after the pool is destroyed. */
typedef struct mend_capture_end {
    atomic_bool has_come;
    atomic_int owners;
} mend_capture_end;

static void leave(mend_capture_end *end)
{
    if (atomic_fetch_sub(&end->owners, 1) == 1) {
        free(end);
    }
}

static void hear(void *context)
{
    mend_capture_end *end = context;
    atomic_store(&end->has_come, true);
    mend_process_note_graph_end();
    leave(end);
}

static void free_group(mend_group *group)
{
    if (group->end != NULL) {
        leave(group->end);
    }
    free(group);
}

void mend_groups_free(mend_heap *heap)
{
    mend_list *groups = &heap->groups.list;
    while (!mend_list_is_empty(groups)) {
        mend_group *group = MEND_CONTAINER_OF(groups->next, mend_group, link);
        mend_list_remove(&group->link);
        if (group->is_begun) {
            mend_process_note_begun(false);
        }
        free_group(group);
    }
}

/* Asks the driver to report the end of the graph. */
static mend_result ask_for_end(mend_heap *heap, mend_stream stream, mend_capture_end *end)
{
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_status status = heap->driver->capture_keep(heap->driver, stream, hear, end);
    mend_result result = mend_driver_result(heap, MEND_ANSWER(capture_keep, status));
    mend_driver_scope_close(heap, &scope);
    return result;
}

static mend_result make(mend_heap *heap, mend_order order, mend_group **made)
{
    mend_group *group = malloc(sizeof(*group));
    mend_capture_end *end = calloc(1, sizeof(*end));
    if (end != NULL) {
        atomic_init(&end->owners, 2);
    }
    mend_result result = group != NULL && end != NULL
                             ? ask_for_end(heap, order.stream, end)
                             : mend_no_host_memory("the memory of a capture");
    if (result != MEND_OK) {
        free(group);
        free(end);
        return result;
    }
    mend_group_enter(heap, group, NULL);
    group->number |= MEND_GROUP_OF_CAPTURE;
    group->capture = order.capture;
    group->end = end;
    heap->groups.capture_count++;
    *made = group;
    return MEND_OK;
}

mend_result mend_capture_group_find(mend_heap *heap, mend_order order, uint32_t *number)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(order.capture != 0);
    mend_group *found = NULL;
    mend_list *end = &heap->groups.list;
    for (mend_list *at = end->previous; at != end && found == NULL; at = at->previous) {
        found = GROUP_OF(at)->capture == order.capture ? GROUP_OF(at) : NULL;
    }
    if (found == NULL) {
        MEND_TRY(make(heap, order, &found));
    }
    *number = found->number;
    return MEND_OK;
}

/* Looks at the groups only if a graph of the process has ended since the last look. */
void mend_capture_groups_collect_all(mend_heap *heap)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_list *end = &heap->groups.list;
    const unsigned heard = mend_process_graph_ends();
    if (heard == heap->groups.ends_seen) {
        return;
    }
    heap->groups.ends_seen = heard;
    for (mend_list *at = end->next, *next; at != end; at = next) {
        next = at->next;
        mend_group *group = GROUP_OF(at);
        if (group->end != NULL && atomic_load(&group->end->has_come)) {
            mend_streams_end_capture(&heap->streams, group->capture);
            mend_streams_end_group(&heap->streams, group->number);
            mend_streams_release_group(&heap->streams, group->number);
            mend_group_drop(heap, group);
            free_group(group);
            heap->groups.capture_count--;
        }
    }
}

mend_result mend_capture_groups_wait_oldest(mend_heap *heap, uint32_t asking, bool with_asking,
                                            bool *has_graphs, bool *waited)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    mend_result result = mend_streams_wait_oldest(&heap->streams, asking, with_asking, waited);
    if (result == MEND_OK && !*waited && *has_graphs) {
        *has_graphs = false;
        result = mend_streams_wait_context(&heap->streams, asking);
        *waited = result == MEND_OK;
    }
    mend_capture_groups_collect(heap);
    return result;
}
