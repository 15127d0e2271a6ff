/*
 * The witness: sits between the pools and the device, and sees all creations, releases and
 * mappings. Memory created and released within one call was undone, and leaves no trace in the
 * statistics, except in a commit: it may release chunks of one gap to fill another. Peaks of the
 * pools are never above the device's. And granules: a chunk may be mapped at two addresses, and
 * each of its granules belongs to one block at most, whatever its mappings, and a block may have to
 * lie in one chunk. The contents of addresses are known from driver calls alone.
 */
#include <stdlib.h>

#include "layout/state.h"
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"

#define LLU(value) ((unsigned long long)(value))

static trial *trial_of(const mend_driver *driver)
{
    return MEND_CONTAINER_OF(driver->state, trial_witness, unwatched)->trial;
}

static const mend_driver *inner_of(const mend_driver *driver)
{
    return &((mend_unwatched_driver *)driver->state)->table;
}

static void note_most(trial *t)
{
    trial_witness *w = &t->witness;
    mend_sim_ledger ledger = trial_ledger(t);
    w->most.chunk_bytes = mend_max_u64(w->most.chunk_bytes, ledger.chunk_bytes);
    w->most.chunks = mend_max_u64(w->most.chunks, ledger.chunks);
    w->most.mappings = mend_max_u64(w->most.mappings, ledger.mappings);
}

static mend_status witness_create(const mend_driver *driver, uint64_t size_bytes,
                                  const mend_chunk_properties *properties,
                                  mend_chunk_handle *handle)
{
    trial *t = trial_of(driver);
    trial_witness *w = &t->witness;
    const mend_driver *inner = inner_of(driver);
    mend_status status = inner->create(inner, size_bytes, properties, handle);
    if (status == MEND_DRIVER_OK) {
        w->lost_count |= w->born_count >= WITNESS_BORN;
        w->born[w->born_count % WITNESS_BORN] = (trial_born){*handle, size_bytes};
        w->born_count++;
        note_most(t);
        trial_check_creation(t);
    }
    return status;
}

static mend_status witness_import_handle(const mend_driver *driver, const void *shared,
                                         int share_type, mend_chunk_handle *handle)
{
    trial_witness *w = &trial_of(driver)->witness;
    const mend_driver *inner = inner_of(driver);
    mend_status status = inner->import_handle(inner, shared, share_type, handle);
    if (status == MEND_DRIVER_OK) {
        w->fetched[w->fetched_count++ % WITNESS_FETCHED] = *handle;
    }
    return status;
}

static bool is_fetched(const trial_witness *w, mend_chunk_handle handle)
{
    bool is_there = false;
    for (size_t i = 0; i < w->fetched_count && i < WITNESS_FETCHED; i++) {
        is_there = is_there || w->fetched[i] == handle;
    }
    return is_there;
}

static mend_status witness_release(const mend_driver *driver, mend_chunk_handle handle)
{
    trial_witness *w = &trial_of(driver)->witness;
    const mend_driver *inner = inner_of(driver);
    mend_status status = inner->release(inner, handle);
    w->fetched_releases += status == MEND_DRIVER_OK && is_fetched(w, handle);
    for (size_t i = 0; status == MEND_DRIVER_OK && i < w->born_count && i < WITNESS_BORN; i++) {
        if (w->born[i].handle == handle) {
            w->commit_gave_back |= trial_is_in(trial_of(driver), CALL_COMMIT);
            w->undone_chunks++;
            w->undone_bytes += w->born[i].size_bytes;
        }
    }
    return status;
}

static bool has_other(const trial_witness *w, const trial_mapping *map)
{
    bool has = false;
    for (size_t i = 0; i < w->map_count; i++) {
        has = has || (&w->maps[i] != map && w->maps[i].handle == map->handle);
    }
    return has;
}

static mend_status witness_map(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                               uint64_t offset_bytes, mend_chunk_handle handle)
{
    trial *t = trial_of(driver);
    const mend_driver *inner = inner_of(driver);
    mend_status status = inner->map(inner, address, size_bytes, offset_bytes, handle);
    if (status == MEND_DRIVER_OK) {
        t->witness.fetched_maps += is_fetched(&t->witness, handle);
        t->witness.lost_maps |= t->witness.map_count == WITNESS_MAPS;
        if (t->witness.map_count < WITNESS_MAPS) {
            trial_mapping *made = &t->witness.maps[t->witness.map_count++];
            *made = (trial_mapping){address, size_bytes, handle};
            t->witness.doubles += has_other(&t->witness, made);
        }
        note_most(t);
    }
    return status;
}

/* Pinned memory must not be unmapped, nor lose its chunk to another address that way. */
static mend_status witness_unmap(const mend_driver *driver, uint64_t address, uint64_t size_bytes)
{
    trial *t = trial_of(driver);
    const mend_driver *inner = inner_of(driver);
    for (int i = 0; i < TRIAL_PINS; i++) {
        const trial_pinned *pin = &t->pins[i];
        bool meets = pin->size_bytes != 0 && pin->address < address + size_bytes &&
                     address < pin->address + pin->size_bytes;
        trial_claim(t, TRIAL_RULE, !meets, "pinned memory is unmapped");
    }
    TRIAL_EACH_BLOCK(const trial_block, block, t) {
        bool meets = trial_pins_its_chunks(block) && !trial_is_ending(t, block) &&
                     block->address < address + size_bytes &&
                     address < block->address + block->size_bytes;
        trial_claim(t, TRIAL_RULE, !meets,
                    "a block that is exported, or in one chunk, is unmapped");
    }
    for (int i = 0; i < TRIAL_IMPORTS; i++) {
        uint64_t at = (uint64_t)(uintptr_t)t->imports[i].pointer;
        bool meets = at != 0 && at < address + size_bytes &&
                     address < at + t->imports[i].size_bytes &&
                     (t->imports[i].uses > 1 || !trial_is_in(t, CALL_CLOSE));
        trial_claim(t, TRIAL_RULE, !meets, "an import is unmapped");
    }
    mend_status status = inner->unmap(inner, address, size_bytes);
    trial_witness *w = &t->witness;
    for (size_t i = 0; status == MEND_DRIVER_OK && i < w->map_count;) {
        if (w->maps[i].address - address < size_bytes) {
            w->doubles -= has_other(w, &w->maps[i]);
            w->maps[i] = w->maps[--w->map_count];
        } else {
            i++;
        }
    }
    return status;
}

static mend_status witness_stream_get_info(const mend_driver *driver, mend_stream stream,
                                           mend_stream_info *info)
{
    const mend_driver *inner = inner_of(driver);
    mend_status status = inner->stream_get_info(inner, stream, info);
    if (status == MEND_DRIVER_OK && info->capture != MEND_CAPTURE_NONE) {
        trial_of(driver)->witness.captured = stream;
    }
    return status;
}

void trial_witness_init(trial *t)
{
    trial_witness *w = &t->witness;
    mend_unwatched_driver_init(&w->unwatched, t->device);
    w->trial = t;
    w->table = w->unwatched.table; /* the other calls need nobody to look */
    w->table.create = witness_create;
    w->table.release = witness_release;
    w->table.map = witness_map;
    w->table.import_handle = witness_import_handle;
    w->table.unmap = witness_unmap;
    w->table.stream_get_info = witness_stream_get_info;
}

void trial_witness_call(trial *t)
{
    t->witness.born_count = 0;
    t->witness.captured = MEND_NO_STREAM;
}

void trial_witness_forget(trial *t)
{
    mend_sim_ledger ledger = trial_ledger(t);
    t->witness.undone_chunks = 0;
    t->witness.undone_bytes = 0;
    t->witness.fetched_maps = 0;
    t->witness.fetched_releases = 0;
    t->witness.lost_count = false;
    t->witness.commit_gave_back = false;
    t->witness.most = (trial_most){ledger.chunk_bytes, ledger.chunks, ledger.mappings};
}

/* ---- granules ---- */

/* A part of a chunk that a block lies in. */
typedef struct stretch {
    mend_chunk_handle handle;
    uint64_t from;
    uint64_t to;
    uint64_t block;
} stretch;

static const trial_mapping *map_at(const trial_witness *w, uint64_t address)
{
    for (size_t i = 0; i < w->map_count; i++) {
        if (address - w->maps[i].address < w->maps[i].size_bytes) {
            return &w->maps[i];
        }
    }
    return NULL;
}

static int compare_stretches(const void *first, const void *second)
{
    const stretch *a = first;
    const stretch *b = second;
    if (a->handle != b->handle) {
        return a->handle < b->handle ? -1 : 1;
    }
    return (a->from > b->from) - (a->from < b->from);
}

/* The stretches of a block, behind the first `count` of the list. */
static size_t add_block(trial *t, const trial_block *block, stretch *list, size_t count)
{
    const uint64_t end = block->address + block->size_bytes;
    for (uint64_t at = block->address; at < end && count < WITNESS_MAPS;) {
        const trial_mapping *map = map_at(&t->witness, at);
        if (!trial_claim(t, TRIAL_RULE, map != NULL, "the block at 0x%llx is not mapped at 0x%llx",
                         LLU(block->address), LLU(at))) {
            return count;
        }
        uint64_t to = mend_min_u64(end, map->address + map->size_bytes);
        list[count++] =
            (stretch){map->handle, at - map->address, to - map->address, block->address};
        at = to;
    }
    return count;
}

void trial_check_granules(trial *t)
{
    for (int i = 0; i < TRIAL_BLOCKS && !t->witness.lost_maps && !t->stopped; i++) {
        const trial_block *block = &t->blocks[i];
        if (block->live && block->in_one_chunk) {
            const trial_mapping *map = map_at(&t->witness, block->address);
            trial_claim(t, TRIAL_RULE,
                        map != NULL &&
                            block->size_bytes <= map->address + map->size_bytes - block->address,
                        "the block at 0x%llx does not lie in one chunk", LLU(block->address));
        }
    }
    stretch list[WITNESS_MAPS];
    size_t count = 0;
    if (t->witness.doubles == 0 || t->witness.lost_maps || t->stopped) {
        return;
    }
    TRIAL_EACH_BLOCK(const trial_block, block, t) {
        if (block->live && !block->unmapped && !block->asleep && block->zone != MEND_ZONE_PASSED) {
            count = add_block(t, block, list, count);
        }
    }
    qsort(list, count, sizeof(*list), compare_stretches);
    for (size_t i = 1; i < count; i++) {
        const stretch *before = &list[i - 1];
        const stretch *at = &list[i];
        trial_claim(t, TRIAL_RULE, before->handle != at->handle || before->to <= at->from,
                    "the blocks at 0x%llx and 0x%llx lie in the same memory", LLU(before->block),
                    LLU(at->block));
    }
}
