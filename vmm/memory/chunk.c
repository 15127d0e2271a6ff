/* Chunks: created, released, entered and found. */
#include "memory/chunk.h"

#define CHUNK_OF(node, member) MEND_CONTAINER_OR_NULL(node, mend_chunk, member)
#define DEFERRED_OF(at)        MEND_CONTAINER_OR_NULL(at, mend_deferred, node)

MEND_TREE_ORDER(compare_address, mend_chunk, by_address, address);
MEND_TREE_ORDER(compare_number, mend_chunk, memory.by_number, memory.number);
MEND_TREE_ORDER_BY_TWO(compare_size, mend_chunk, by_size, size_bytes, memory.number);
MEND_TREE_ORDER_BY_TWO(compare_deferred, mend_deferred, node, kind, at);

void mend_chunks_init(mend_chunks *chunks, const mend_driver *driver,
                      const mend_chunk_properties *properties, mend_events *events)
{
    *chunks = (mend_chunks){
        .driver = driver, .properties = *properties, .next_number = 1, .events = events};
    mend_tree_init(&chunks->mapped, compare_address);
    mend_tree_init(&chunks->empty, compare_size);
    mend_list_init(&chunks->newly_empty);
    mend_tree_init(&chunks->deferred.tree, compare_deferred);
    mend_tree_init(&chunks->all, compare_number);
    mend_slab_init(&chunks->slab, sizeof(mend_chunk));
}

void mend_chunks_clear(mend_chunks *chunks)
{
    assert(chunks->mapped.count <= chunks->all.count + chunks->asleep_count);
    assert(chunks->empty.count <= chunks->all.count);
    mend_slab_clear(&chunks->slab);
}

uint64_t mend_chunks_kept_by_pins(const mend_chunks *chunks)
{
    uint64_t bytes = 0;
    const mend_chunk *chunk = chunks->pinned_bytes > 0 ? mend_chunk_from(chunks, 0) : NULL;
    for (; chunk != NULL; chunk = mend_chunk_next(chunk)) {
        bytes += mend_chunk_is_kept_by_pins(chunk) ? chunk->size_bytes : 0;
    }
    return bytes;
}

/* The record of a chunk that is not mapped, in no set, with a node that the caller reserved. */
static mend_chunk *begin(mend_chunks *chunks, uint64_t size_bytes)
{
    mend_chunk *made = mend_slab_take(&chunks->slab);
    made->size_bytes = size_bytes;
    made->empty_sum = &chunks->empty_unmapped_bytes;
    mend_list_init(&made->newly);
    return made;
}

/* Adds a chunk to the sums of all and of its area, or removes it: around each change of its sums,
 * except freezing and live bytes. */
static void count(mend_chunks *chunks, const mend_chunk *chunk, bool begins)
{
    const uint64_t one = begins ? 1 : UINT64_MAX; /* which is -1 */
    const uint64_t size_bytes = one * chunk->size_bytes;
    const uint64_t live_bytes = one * chunk->live_bytes;
    const bool is_mapped = chunk->address != 0;
    const bool sleeps = chunk->kept != NULL;
    const bool lacks_memory = chunk->missing == MEND_MISSING_MEMORY;
    const bool lacks_mapping = lacks_memory || chunk->missing == MEND_MISSING_MAPPING;
    chunks->missing_count += chunk->missing != MEND_MISSING_NOTHING && !sleeps ? (uint32_t)one : 0;
    chunks->unmapped_frozen_count += lacks_mapping ? one : 0;
    chunks->unmapped_frozen_bytes += lacks_mapping ? size_bytes : 0;
    chunks->asleep_count += sleeps ? (uint32_t)one : 0;
    chunks->asleep_bytes += sleeps ? size_bytes : 0;
    chunks->asleep_live_bytes += sleeps ? live_bytes : 0;
    chunks->away_live_in[chunk->zone] += sleeps ? live_bytes : 0;
    chunks->away_in[chunk->zone] += is_mapped && lacks_memory ? size_bytes : 0;
    chunks->reserved_in[chunk->zone] += is_mapped && !lacks_memory ? one : 0;
    chunks->unmapped_bytes += !is_mapped && !lacks_memory ? size_bytes : 0;
    if (chunk->sums != NULL) {
        *(sleeps ? &chunk->sums->asleep_live_bytes : &chunk->sums->mapped_bytes) +=
            sleeps ? live_bytes : size_bytes;
    }
}

mend_status mend_chunk_create(mend_chunks *chunks, uint64_t size_bytes, bool is_private,
                              mend_chunk **chunk)
{
    mend_chunk_properties as = chunks->properties;
    mend_chunk_handle handle;
    assert(size_bytes > 0 && size_bytes % MEND_GRANULE_BYTES == 0);
    if (is_private) {
        as.share_types = MEND_SHARE_NONE;
    }
    mend_status status = chunks->driver->create(chunks->driver, size_bytes, &as, &handle);
    const bool is_unable =
        status == MEND_DRIVER_NOT_PERMITTED || status == MEND_DRIVER_NOT_SUPPORTED;
    if (is_unable && (as.share_types & MEND_SHARE_FABRIC) != 0) {
        /* A device may claim fabric handles that the driver refuses, where no IMEX channel is set
         * up. Tries it without, and makes all later ones so. */
        const mend_status refusal = status;
        as.share_types &= ~MEND_SHARE_FABRIC;
        chunks->fabric_retries++;
        MEND_TRY_CALL(chunks->driver->create(chunks->driver, size_bytes, &as, &handle));
        chunks->properties = as;
        chunks->fabric_refusal = refusal;
        status = MEND_DRIVER_OK;
    }
    MEND_TRY_CALL(status);
    mend_chunk *made = begin(chunks, size_bytes);
    made->memory.handle = handle;
    made->memory.number = chunks->next_number++;
    mend_tree_insert(&chunks->all, &made->memory.by_number);
    made->memory.share_types = as.share_types;
    count(chunks, made, true);
    chunks->reserved_bytes += size_bytes;
    mend_chunk_enter_empty(chunks, made);
    chunks->created++;
    chunks->created_bytes += size_bytes;
    mend_events_note(chunks->events, MEND_EVENT_CREATE, 0, size_bytes, made->memory.number);
    *chunk = made;
    return MEND_DRIVER_OK;
}

mend_status mend_chunk_release(mend_chunks *chunks, mend_chunk *chunk, bool is_undone)
{
    assert(chunk->address == 0 && chunk->claim.address == 0 && mend_chunk_is_empty(chunk));
    assert(!mend_chunk_is_exported(chunk));
    MEND_TRY_CALL(chunks->driver->release(chunks->driver, chunk->memory.handle));
    chunks->reserved_bytes -= chunk->size_bytes;
    chunks->importers_bytes += chunk->memory.was_exported ? chunk->size_bytes : 0;
    assert(chunks->released < chunks->created);
    chunks->created -= is_undone;
    chunks->created_bytes -= is_undone ? chunk->size_bytes : 0;
    chunks->released += !is_undone;
    mend_events_note(chunks->events, MEND_EVENT_RELEASE, 0, chunk->size_bytes,
                     chunk->memory.number);
    mend_chunk_end(chunks, chunk);
    return MEND_DRIVER_OK;
}

void mend_chunk_end(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->address == 0);
    mend_chunk_leave_empty(chunks, chunk);
    mend_list_remove(&chunk->newly);
    count(chunks, chunk, false);
    chunks->frozen_count -= chunk->is_frozen;
    mend_defer(&chunks->deferred, &chunk->deferred, MEND_DEFERRED_NOTHING, 0);
    if (chunk->memory.handle != 0) {
        mend_tree_remove(&chunks->all, &chunk->memory.by_number);
    }
    mend_slab_give(&chunks->slab, chunk);
}

void mend_chunk_set_address(mend_chunks *chunks, mend_chunk *chunk, int zone, uint64_t address)
{
    assert((chunk->address == 0) != (address == 0) && (chunk->live_bytes == 0 || chunk->is_frozen));
    assert(chunk->pins == 0 && address % MEND_GRANULE_BYTES == 0);
    count(chunks, chunk, false);
    const uint64_t empty_bytes = mend_chunk_is_empty(chunk) ? chunk->size_bytes : 0;
    *chunk->empty_sum -= empty_bytes;
    chunk->empty_sum = address != 0 ? &chunks->empty_in[zone] : &chunks->empty_unmapped_bytes;
    *chunk->empty_sum += empty_bytes;
    if (chunk->address != 0) {
        mend_chunk *before = CHUNK_OF(mend_tree_previous(&chunk->by_address), by_address);
        if (before != NULL) {
            assert(before->next == chunk);
            before->next = chunk->next;
        }
        mend_tree_remove(&chunks->mapped, &chunk->by_address);
    }
    chunk->address = address;
    chunk->zone = zone;
    if (address != 0) {
        mend_tree_insert_by(&chunks->mapped, &chunk->by_address, compare_address);
        mend_chunk *before = CHUNK_OF(mend_tree_previous(&chunk->by_address), by_address);
        chunk->next = CHUNK_OF(mend_tree_next(&chunk->by_address), by_address);
        assert(before == NULL || before->address + before->size_bytes <= address);
        assert(chunk->next == NULL || address + chunk->size_bytes <= chunk->next->address);
        if (before != NULL) {
            before->next = chunk;
        }
    }
    const bool has_sums = address != 0 && zone == MEND_CHUNK_ZONE_WITH_SUMS;
    chunk->sums = has_sums ? chunks->sums_at(chunks, address) : NULL;
    count(chunks, chunk, true);
}

/* ---- deferred work --------------------------------------------------------------------------- */

void mend_defer(mend_deferred_list *list, mend_deferred *deferred, mend_deferred_kind kind,
                uint64_t at)
{
    if (deferred->kind == kind) {
        assert(kind == MEND_DEFERRED_NOTHING || at == MEND_DEFERRED_LAST || deferred->at == at);
        return;
    }
    if (deferred->kind != MEND_DEFERRED_NOTHING) {
        mend_tree_remove(&list->tree, &deferred->node);
        list->count[deferred->kind]--;
    }
    deferred->kind = kind;
    deferred->at = at == MEND_DEFERRED_LAST ? ++list->last_number : at;
    if (kind != MEND_DEFERRED_NOTHING) {
        mend_tree_insert(&list->tree, &deferred->node);
        list->count[kind]++;
    }
}

mend_deferred *mend_deferred_from(const mend_deferred_list *list, mend_deferred_kind kind,
                                  uint64_t at)
{
    const mend_deferred key = {.kind = kind, .at = at};
    mend_deferred *deferred =
        list->count[kind] > 0 ? DEFERRED_OF(mend_tree_at_or_after(&list->tree, &key.node)) : NULL;
    return deferred != NULL && deferred->kind == kind ? deferred : NULL;
}

mend_deferred *mend_deferred_next(const mend_deferred *deferred)
{
    mend_deferred *next = DEFERRED_OF(mend_tree_next(&deferred->node));
    return next != NULL && next->kind == deferred->kind ? next : NULL;
}

bool mend_deferred_any(const mend_deferred_list *list, mend_deferred_kind last)
{
    uint32_t count = 0;
    for (int kind = MEND_DEFERRED_RESTORE; list->tree.count > 0 && kind <= (int)last; kind++) {
        count += kind != MEND_DEFERRED_MAPPING ? list->count[kind] : 0;
    }
    return count > 0;
}

mend_deferred_kind mend_chunk_deferred_kind(const mend_chunk *chunk)
{
    if (chunk->address == 0) {
        return MEND_DEFERRED_NOTHING;
    }
    if (mend_chunk_sleeps(chunk) && chunk->missing == MEND_MISSING_ACCESS) {
        return MEND_DEFERRED_MEMORY; /* one without a mapping is in a transaction */
    }
    const bool is_left = mend_chunk_sleeps(chunk) && chunk->live_bytes == 0;
    return mend_chunk_misses_mapping(chunk)               ? MEND_DEFERRED_RESTORE
           : !is_left                                     ? MEND_DEFERRED_NOTHING
           : chunk->deferred.kind == MEND_DEFERRED_GRAPHS ? MEND_DEFERRED_GRAPHS
                                                          : MEND_DEFERRED_END;
}

static void note_deferred(mend_chunks *chunks, mend_chunk *chunk)
{
    const uint64_t at = chunk->address != 0 ? chunk->address : chunk->memory.number;
    mend_defer(&chunks->deferred, &chunk->deferred, mend_chunk_deferred_kind(chunk), at);
}

void mend_chunk_freeze(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(!chunk->is_frozen && chunk->pins == 0);
    assert(chunk->address != 0 && chunk->claim.address == 0);
    mend_chunk_leave_empty(chunks, chunk);
    chunk->is_frozen = true;
    chunks->frozen_count++;
}

void mend_chunk_thaw(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->is_frozen && chunk->missing == MEND_MISSING_NOTHING);
    assert(chunks->frozen_count > chunks->missing_count);
    chunk->is_frozen = false;
    chunks->frozen_count--;
    mend_chunk_enter_empty(chunks, chunk);
}

void mend_chunk_pin(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->address != 0 && chunk->claim.address == 0);
    chunks->pinned_bytes += chunk->pins == 0 ? chunk->size_bytes : 0;
    mend_chunk_leave_empty(chunks, chunk);
    chunk->pins++;
}

void mend_chunk_unpin(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(chunk->pins > 0);
    chunk->pins--;
    assert(chunk->pins > 0 || chunks->pinned_bytes >= chunk->size_bytes);
    chunks->pinned_bytes -= chunk->pins == 0 ? chunk->size_bytes : 0;
    mend_chunk_enter_empty(chunks, chunk);
}

void mend_chunk_set_missing(mend_chunks *chunks, mend_chunk *chunk, mend_chunk_missing missing)
{
    assert(chunk->missing != missing);
    mend_chunk_set_kept(chunks, chunk, chunk->kept, missing);
}

void mend_chunk_set_kept(mend_chunks *chunks, mend_chunk *chunk, mend_contents *kept,
                         mend_chunk_missing missing)
{
    assert(chunk->is_frozen && (kept == NULL || missing != MEND_MISSING_NOTHING));
    const bool is_deferred = kept == chunk->kept || chunk->deferred.kind != MEND_DEFERRED_NOTHING;
    count(chunks, chunk, false);
    chunk->kept = kept;
    chunk->missing = missing;
    count(chunks, chunk, true);
    if (is_deferred || chunk->live_bytes == 0) { /* otherwise nothing, before and now */
        note_deferred(chunks, chunk);
    }
}

static void move_memory(mend_chunks *chunks, mend_chunk *to, mend_chunk *from)
{
    to->memory = from->memory;
    mend_tree_remove(&chunks->all, &from->memory.by_number);
    mend_tree_insert(&chunks->all, &to->memory.by_number);
    from->memory.handle = 0;
    from->memory.was_exported = false;
    from->memory.has_fabric = false;
}

mend_chunk *mend_chunk_leave_memory(mend_chunks *chunks, mend_chunk *chunk, mend_contents *kept)
{
    assert(!mend_chunk_is_exported(chunk));
    mend_chunk *empty = begin(chunks, chunk->size_bytes);
    move_memory(chunks, empty, chunk);
    mend_chunk_set_kept(chunks, chunk, kept, MEND_MISSING_MEMORY);
    count(chunks, empty, true);
    mend_chunk_enter_empty(chunks, empty);
    return empty;
}

void mend_chunk_take_memory(mend_chunks *chunks, mend_chunk *chunk, mend_chunk *empty)
{
    assert(chunk->missing == MEND_MISSING_MEMORY);
    assert(empty->claim.address == 0 && mend_chunk_is_empty(empty));
    assert(empty->size_bytes == chunk->size_bytes);
    move_memory(chunks, chunk, empty);
    mend_chunk_end(chunks, empty);
    count(chunks, chunk, false);
    chunk->missing = MEND_MISSING_MAPPING; /* of a transaction: not deferred */
    count(chunks, chunk, true);
}

void mend_chunk_note_freed_asleep(mend_chunks *chunks, mend_chunk *chunk, uint64_t size_bytes)
{
    assert(mend_chunk_sleeps(chunk));
    chunks->asleep_live_bytes -= size_bytes;
    chunks->away_live_in[chunk->zone] -= size_bytes;
    assert(chunks->asleep_live_bytes >= chunk->live_bytes);
    if (chunk->live_bytes == 0) {
        note_deferred(chunks, chunk);
    }
    if (chunk->sums != NULL) {
        chunk->sums->asleep_live_bytes -= size_bytes;
        assert(chunk->sums->asleep_live_bytes >= chunk->live_bytes);
    }
}

bool mend_chunks_are_in_order(const mend_chunks *chunks)
{
    bool is_right = mend_tree_is_valid(&chunks->mapped) && mend_tree_is_valid(&chunks->empty) &&
                    mend_tree_is_valid(&chunks->all) && mend_tree_is_valid(&chunks->deferred.tree);
    const mend_tree_node *at = is_right ? mend_tree_first(&chunks->mapped) : NULL;
    for (; at != NULL && is_right; at = mend_tree_next(at)) {
        is_right = CHUNK_OF(at, by_address)->next == CHUNK_OF(mend_tree_next(at), by_address);
    }
    return is_right;
}

mend_chunk *mend_chunk_numbered(const mend_chunks *chunks, uint64_t number)
{
    mend_chunk key = {.memory.number = number};
    mend_chunk *chunk =
        CHUNK_OF(mend_tree_at_or_after(&chunks->all, &key.memory.by_number), memory.by_number);
    return chunk != NULL && chunk->memory.number == number ? chunk : NULL;
}

mend_chunk *mend_chunk_from(const mend_chunks *chunks, uint64_t address)
{
    const mend_chunk key = {.address = address};
    return CHUNK_OF(mend_tree_at_or_after(&chunks->mapped, &key.by_address), by_address);
}

static bool is_behind(const mend_tree_node *chunk, const void *address)
{
    return MEND_CONTAINER_OF(chunk, mend_chunk, by_address)->address > *(const uint64_t *)address;
}

mend_chunk *mend_chunk_previous(const mend_chunk *chunk)
{
    return CHUNK_OF(mend_tree_previous(&chunk->by_address), by_address);
}

mend_chunk *mend_chunk_below(const mend_chunks *chunks, uint64_t address)
{
    return CHUNK_OF(mend_tree_last_to(&chunks->mapped, &(uint64_t){address - 1}, is_behind),
                    by_address);
}

mend_chunk *mend_chunk_at(const mend_chunks *chunks, uint64_t address)
{
    mend_chunk *chunk = mend_chunk_below(chunks, address + 1);
    return chunk != NULL && address - chunk->address < chunk->size_bytes ? chunk : NULL;
}

/* Before a search: every empty chunk is in the tree, except chunks reserved for graph pools. */
static void sort_newly_empty(mend_chunks *chunks)
{
    while (!mend_list_is_empty(&chunks->newly_empty)) {
        mend_chunk *chunk = MEND_CONTAINER_OF(chunks->newly_empty.next, mend_chunk, newly);
        mend_list_remove(&chunk->newly);
        if (mend_chunk_is_empty(chunk)) {
            mend_tree_insert_by(&chunks->empty, &chunk->by_size, compare_size);
        }
    }
}

mend_chunk *mend_chunk_empty_at_most(mend_chunks *chunks, uint64_t size_bytes, uint64_t number)
{
    sort_newly_empty(chunks);
    const mend_chunk key = {.size_bytes = size_bytes, .memory.number = number};
    return CHUNK_OF(mend_tree_at_or_before(&chunks->empty, &key.by_size), by_size);
}

mend_chunk *mend_chunk_empty_at_least(mend_chunks *chunks, uint64_t size_bytes, uint64_t number)
{
    sort_newly_empty(chunks);
    const mend_chunk key = {.size_bytes = size_bytes, .memory.number = number};
    return CHUNK_OF(mend_tree_at_or_after(&chunks->empty, &key.by_size), by_size);
}

mend_chunk *mend_chunk_empty_next(const mend_chunk *chunk)
{
    return CHUNK_OF(mend_tree_next(&chunk->by_size), by_size);
}
