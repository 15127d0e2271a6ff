/*
 * Groups of captures. A graph uses its memory again at every launch: memory allocated on a captured
 * stream outside of the program's own groups, or freed or declared there. So the pool makes a group
 * (users/users.h) for each capture that calls it. No other request gets that memory until the
 * driver reports that the graph has ended.
 */
#include "users/users.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/process.h"
#include "move/driver_scope.h"
#include "physical/waits.h"

#define GROUP_OF(at) MEND_CONTAINER_OF(at, mend_group, link)

/* Shared by a group and the driver; the last of the two frees it. The driver calls in any thread,
 * maybe long after the pool is destroyed. */
typedef struct mend_capture_end {
    atomic_bool has_come;
    atomic_int owners;
} mend_capture_end;

static void leave(mend_capture_end *end)
{
    int owners = atomic_fetch_sub(&end->owners, 1);
    assert(owners > 0);
    if (owners == 1) {
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

void mend_capture_group_free(mend_group *group)
{
    if (group->end != NULL) {
        leave(group->end);
    }
    free(group);
}

/* Asks the driver to report the end of the graph. */
static mend_result ask_for_end(mend_heap *heap, mend_stream stream, mend_capture_end *end)
{
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_status status = heap->driver->capture_keep(heap->driver, stream, hear, end);
    mend_result result = status == MEND_DRIVER_OK
                             ? MEND_OK
                             : mend_driver_refused(heap, MEND_CALL_capture_keep, status);
    mend_driver_scope_close(heap, &scope);
    return result;
}

static mend_result make(mend_heap *heap, mend_order order, mend_group **made)
{
    assert(order.capture != 0);
    mend_group *group = malloc(sizeof(*group));
    mend_capture_end *end = calloc(1, sizeof(*end));
    if (end != NULL) {
        atomic_init(&end->owners, 2);
    }
    mend_result result = group != NULL && end != NULL
                             ? ask_for_end(heap, order.stream, end)
                             : mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY,
                                            "malloc failed for the memory of a capture");
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
    assert((found->number & MEND_GROUP_OF_CAPTURE) != 0);
    *number = found->number;
    return MEND_OK;
}

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
            assert(heap->groups.capture_count > 0);
            assert(!group->is_begun);
            mend_streams_end_capture(&heap->streams, group->capture);
            if (mend_streams_keep_captured(&heap->streams, group->number) != MEND_OK) {
                heap->groups.ends_seen = heard - 1; /* the next call looks again */
                continue;
            }
            mend_group_show_chunks(heap, group->number);
            mend_streams_end_group(&heap->streams, group->number);
            mend_streams_release_group(&heap->streams, group->number);
            mend_group_drop(heap, group);
            mend_capture_group_free(group);
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
