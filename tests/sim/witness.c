/*
 * The witness: sits between the pools and the device, and sees all creations, releases and
 * mappings. Memory created and released within one call was undone, and leaves no trace in the
 * statistics, except in a commit: it may release chunks of one gap to fill another. Peaks of the
 * pools are never above the device's.
 */
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"

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
            w->commit_gave_back |= trial_of(driver)->calling_kind == CALL_COMMIT;
            w->undone_chunks++;
            w->undone_bytes += w->born[i].size_bytes;
        }
    }
    return status;
}

static mend_status witness_map(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                               uint64_t offset_bytes, mend_chunk_handle handle)
{
    trial *t = trial_of(driver);
    const mend_driver *inner = inner_of(driver);
    mend_status status = inner->map(inner, address, size_bytes, offset_bytes, handle);
    if (status == MEND_DRIVER_OK) {
        t->witness.fetched_maps += is_fetched(&t->witness, handle);
        trial_note_map(t, address, size_bytes, handle);
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
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        const trial_block *block = &t->blocks[i];
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
                     (t->imports[i].uses > 1 || t->calling_kind != CALL_CLOSE);
        trial_claim(t, TRIAL_RULE, !meets, "an import is unmapped");
    }
    mend_status status = inner->unmap(inner, address, size_bytes);
    if (status == MEND_DRIVER_OK) {
        trial_note_unmap(t, address, size_bytes);
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
