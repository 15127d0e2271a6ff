/*
 * Pinned host memory for backups. Pinning it costs ten times a copy to it, so a wake leaves it as a
 * copy, for the next sleep and for mend_read_backup. Invariants, checked by the validation:
 *  - a copy has memory of the host, and no file. No two hold bytes of one address.
 *  - it has the contents of the last sleep of a block: a sleep ends all older copies.
 *  - all have at most copies_limit bytes.
 *  - with the backups of sleeping blocks they have room_bytes, which is at most most_bytes.
 */
#include "sleep/sleep.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/align.h"
#include "pool/pool.h"

#define COPY_OF(node)      MEND_CONTAINER_OF(node, mend_contents, by_address)
#define COPY_BY_ROOM(node) MEND_CONTAINER_OF(node, mend_contents, by_room)

/* ---- freed ----------------------------------------------------------------------------------- */

void mend_sleep_file_leave(mend_kept_file **file)
{
    assert(*file == NULL || (*file)->uses > 0);
    if (*file != NULL && --(*file)->uses == 0) {
        close((*file)->descriptor);
        free(*file);
    }
    *file = NULL;
}

static void unmap_pages(mend_heap *heap, void *pages, uint64_t size_bytes)
{
    mend_heap_unlock(heap);
    munmap(pages, size_bytes);
    mend_heap_lock(heap);
}

static bool free_host(mend_heap *heap, void *host, uint64_t registered_bytes)
{
    const mend_driver *driver = heap->driver;
    if (host == NULL || heap->keeping.is_abandoned) {
        return true;
    }
    if (!mend_retire_copies_have_ended(heap) ||
        !mend_driver_did(heap, registered_bytes > 0 ? driver->host_unregister(driver, host)
                                                    : driver->host_free(driver, host))) {
        return false;
    }
    if (registered_bytes > 0) {
        unmap_pages(heap, host, registered_bytes);
    }
    return true;
}

void mend_keep_drop(mend_heap *heap, mend_contents *kept)
{
    if (kept == NULL) {
        return;
    }
    mend_sleep_file_leave(&kept->file);
    heap->keeping.room_bytes -= kept->room_bytes;
    kept->room_bytes = 0;
    if (free_host(heap, kept->host, kept->registered_bytes)) {
        mend_defer(&heap->chunks.deferred, &kept->deferred, MEND_DEFERRED_NOTHING, 0);
        free(kept);
    } else {
        mend_defer(&heap->chunks.deferred, &kept->deferred, MEND_DEFERRED_HOST_MEMORY,
                   MEND_DEFERRED_LAST);
    }
}

void mend_keep_clear(mend_heap *heap, mend_ending *ending)
{
    heap->keeping.is_abandoned = !ending->has_context;
    if (ending->is_idle) {
        heap->retire.copies = (mend_stamp){0};
    }
    for (const mend_chunk *chunk = heap->chunks.asleep_count > 0 ? mend_chunk_from(&heap->chunks, 0)
                                                                 : NULL;
         chunk != NULL; chunk = mend_chunk_next(chunk)) {
        mend_keep_drop(heap, chunk->kept);
    }
    mend_copies_shrink(heap, 0);
    mend_deferred *deferred;
    while ((deferred = mend_deferred_from(&heap->chunks.deferred, MEND_DEFERRED_HOST_MEMORY, 0)) !=
           NULL) {
        mend_contents *kept = MEND_CONTAINER_OF(deferred, mend_contents, deferred);
        (void)free_host(heap, kept->host, kept->registered_bytes);
        mend_defer(&heap->chunks.deferred, deferred, MEND_DEFERRED_NOTHING, 0);
        free(kept);
    }
}

void mend_keep_drop_host(mend_heap *heap, void *host, uint64_t registered_bytes)
{
    const bool is_free = free_host(heap, host, registered_bytes);
    mend_contents *record = is_free ? NULL : calloc(1, sizeof(*record));
    if (record != NULL) {
        record->host = host;
        record->registered_bytes = registered_bytes;
        mend_defer(&heap->chunks.deferred, &record->deferred, MEND_DEFERRED_HOST_MEMORY,
                   MEND_DEFERRED_LAST);
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* A copy serves a backup that leaves at most a fifth of it unused. */
static bool fits(const mend_contents *copy, const mend_contents *kept)
{
    return copy->room_bytes >= kept->host_bytes &&
           copy->room_bytes - kept->host_bytes <= kept->host_bytes / 4;
}

MEND_TREE_ORDER(compare_addresses, mend_contents, by_address, address);
MEND_TREE_ORDER_BY_TWO(compare_rooms, mend_contents, by_room, room_bytes, address);

void mend_copies_init(mend_heap *heap)
{
    mend_tree_init(&heap->keeping.copies, compare_addresses);
    mend_tree_init(&heap->keeping.copies_by_room, compare_rooms);
    heap->keeping.copies_limit = UINT64_MAX;
}

mend_contents *mend_copy_at(const mend_heap *heap, uint64_t address)
{
    const mend_contents key = {.address = address};
    mend_tree_node *at = mend_tree_at_or_before(&heap->keeping.copies, &key.by_address);
    return at != NULL ? COPY_OF(at) : NULL;
}

static void remove_copy(mend_heap *heap, mend_contents *copy)
{
    mend_tree_remove(&heap->keeping.copies, &copy->by_address);
    mend_tree_remove(&heap->keeping.copies_by_room, &copy->by_room);
    heap->keeping.copies_bytes -= copy->room_bytes;
}

static void drop_copy(mend_heap *heap, mend_contents *copy)
{
    remove_copy(heap, copy);
    mend_keep_drop(heap, copy);
}

void mend_copies_shrink(mend_heap *heap, uint64_t most_bytes)
{
    while (heap->keeping.copies_bytes > most_bytes) {
        drop_copy(heap, COPY_OF(mend_tree_first(&heap->keeping.copies)));
    }
}

/* Where its last piece ends. One that was forgotten has its address. */
static uint64_t end_of(const mend_contents *copy)
{
    if (copy->piece_count == 0) {
        return copy->address + 1;
    }
    const mend_kept_piece *last = &copy->pieces[copy->piece_count - 1];
    return copy->address + last->offset_bytes + last->size_bytes;
}

void mend_copies_forget(mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    mend_contents *copy = mend_copy_at(heap, address + size_bytes - 1);
    while (copy != NULL && end_of(copy) > address) {
        copy->piece_count = 0;
        mend_tree_node *before = mend_tree_previous(&copy->by_address);
        copy = before != NULL ? COPY_OF(before) : NULL;
    }
}

void mend_copies_leave(mend_heap *heap, mend_contents *kept, uint64_t size_bytes)
{
    mend_keeping *keeping = &heap->keeping;
    mend_contents *copy; /* of earlier contents there, also in a larger or in smaller chunks */
    while (kept->host != NULL &&
           (copy = mend_copy_at(heap, kept->address + size_bytes - 1)) != NULL &&
           end_of(copy) > kept->address) {
        drop_copy(heap, copy);
    }
    if (kept->host == NULL || keeping->copies_bytes + kept->room_bytes > keeping->copies_limit) {
        mend_keep_drop(heap, kept);
        return;
    }
    mend_sleep_file_leave(&kept->file);
    mend_tree_insert(&keeping->copies, &kept->by_address);
    mend_tree_insert(&keeping->copies_by_room, &kept->by_room);
    keeping->copies_bytes += kept->room_bytes;
}

/* The copy's record goes, and its memory is kept for another. */
static void take_over(mend_heap *heap, mend_contents *kept, mend_contents *copy)
{
    remove_copy(heap, copy);
    kept->host = copy->host;
    kept->registered_bytes = copy->registered_bytes;
    kept->room_bytes = copy->room_bytes;
    copy->host = NULL;
    copy->room_bytes = 0;
    mend_keep_drop(heap, copy);
}

void mend_copies_take_own(mend_heap *heap, mend_contents *kept)
{
    mend_contents *copy = kept->host_bytes > 0 ? mend_copy_at(heap, kept->address) : NULL;
    if (copy != NULL && copy->address == kept->address && fits(copy, kept)) {
        take_over(heap, kept, copy);
    }
}

/* ---- taken ----------------------------------------------------------------------------------- */

/* False: memory of the driver's own is to be tried. */
static bool take_pages(mend_heap *heap, uint64_t size_bytes, mend_contents *kept)
{
    const mend_driver *driver = heap->driver;
    mend_heap_unlock(heap);
    void *pages = mend_pinned_pages(size_bytes);
    mend_heap_lock(heap);
    if (pages == NULL) {
        return false;
    }
    if (driver->host_register(driver, pages, size_bytes) != MEND_DRIVER_OK) {
        unmap_pages(heap, pages, size_bytes);
        return false;
    }
    kept->host = pages;
    kept->registered_bytes = size_bytes;
    return true;
}

mend_result mend_keep_take_host(mend_heap *heap, uint64_t size_bytes, bool saves,
                                mend_contents *kept)
{
    if (heap->device.host_register && size_bytes >= MEND_PINNED_PAGE_BYTES &&
        take_pages(heap, mend_align_up(size_bytes, MEND_PINNED_PAGE_BYTES), kept)) {
        return MEND_OK;
    }
    const mend_status status = heap->driver->host_alloc(heap->driver, size_bytes, &kept->host);
    bool is_unsupported = saves && status == MEND_DRIVER_NOT_SUPPORTED;
    if (status != MEND_DRIVER_OUT_OF_MEMORY && !is_unsupported) {
        return mend_driver_result(heap, MEND_ANSWER(host_alloc, status));
    }
    (void)mend_driver_did(heap, status);
    return mend_refused(
        heap->driver, is_unsupported ? MEND_ERROR_NOT_SUPPORTED : MEND_ERROR_OUT_OF_HOST_MEMORY,
        MEND_CALL_host_alloc, status,
        is_unsupported ? "the driver gives no pinned memory, as may be under confidential "
                         "computing: sleeping memory cannot have a backup (%llu bytes)"
        : saves        ? "the host has no %llu bytes of pinned memory to back up sleeping memory"
                : "the host has no %llu bytes of pinned memory to read files of sleeping memory",
        (unsigned long long)size_bytes);
}

/* New memory makes all of it no more than was ever needed: other copies go. All of them do if the
 * host has no more. */
mend_result mend_keep_take_room(mend_heap *heap, mend_contents *kept)
{
    mend_keeping *keeping = &heap->keeping;
    if (kept->host_bytes == 0 || kept->host != NULL) {
        return MEND_OK;
    }
    const mend_contents key = {.room_bytes = kept->host_bytes};
    mend_tree_node *at = mend_tree_at_or_after(&keeping->copies_by_room, &key.by_room);
    if (at != NULL && fits(COPY_BY_ROOM(at), kept)) {
        take_over(heap, kept, COPY_BY_ROOM(at));
        return MEND_OK;
    }
    const uint64_t in_use = keeping->room_bytes - keeping->copies_bytes + kept->host_bytes;
    mend_copies_shrink(heap, keeping->most_bytes > in_use ? keeping->most_bytes - in_use : 0);
    mend_result result = mend_keep_take_host(heap, kept->host_bytes, true, kept);
    if (result == MEND_ERROR_OUT_OF_HOST_MEMORY && keeping->copies_bytes > 0) {
        mend_copies_shrink(heap, 0);
        result = mend_keep_take_host(heap, kept->host_bytes, true, kept);
    }
    if (result == MEND_OK) {
        kept->room_bytes = kept->host_bytes;
        keeping->room_bytes += kept->room_bytes;
        mend_raise_u64(&keeping->most_bytes, keeping->room_bytes - keeping->copies_bytes);
        assert(keeping->room_bytes <= keeping->most_bytes);
    }
    return result;
}

/* ---- what is of no use ----------------------------------------------------------------------- */

/* Whether a block lives of which the copy holds bytes. */
static bool is_of_block(const mend_heap *heap, const mend_contents *copy)
{
    bool any = false;
    for (size_t i = 0; i < copy->piece_count && !any; i++) {
        const uint64_t begin = copy->address + copy->pieces[i].offset_bytes;
        const uint64_t end = begin + copy->pieces[i].size_bytes;
        const mend_span *span =
            mend_chunk_at(&heap->chunks, begin) != NULL ? mend_heap_span_at(heap, begin) : NULL;
        for (; span != NULL && span->address < end && !any; span = span->next) {
            any = span->live && span->has_copy && copy->pieces[i].backup == MEND_BACKUP_HOST;
        }
    }
    return any;
}

void mend_copies_trim(mend_heap *heap, bool all)
{
    mend_driver_scope scope;
    if (heap->keeping.copies_bytes == 0 || mend_driver_scope_open(heap, &scope) != MEND_OK) {
        return;
    }
    for (mend_tree_node *at = mend_tree_first(&heap->keeping.copies), *next; at != NULL;
         at = next) {
        next = mend_tree_next(at);
        if (all || !is_of_block(heap, COPY_OF(at))) {
            drop_copy(heap, COPY_OF(at));
        }
    }
    mend_driver_scope_close(heap, &scope);
}

mend_result mend_set_backup_cache_limit(mend_pool *pool, uint64_t most_bytes)
{
    mend_driver_scope scope;
    MEND_INVALID_IF(pool == NULL, "mend_set_backup_cache_limit: pool is NULL");
    MEND_TRY(mend_pool_enter_all(pool));
    mend_result result = mend_driver_scope_open(&pool->heap, &scope);
    if (result == MEND_OK) {
        pool->heap.keeping.copies_limit = most_bytes;
        mend_copies_shrink(&pool->heap, most_bytes);
        mend_driver_scope_close(&pool->heap, &scope);
    }
    return mend_pool_leave_all(pool, result);
}
