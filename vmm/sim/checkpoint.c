/* A checkpoint of the process, as another program makes it: the bytes of all memory go to the host,
 * the memory to others, and both come back. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/align.h"
#include "sim/state.h"

typedef bool (*chunk_visitor)(mend_sim *sim, mend_sim_chunk *chunk,
                              const mend_sim_mapping *mapping);

/* Every chunk, by its mappings and by its handles. Some more than once. False: one visit was. */
static bool visit_chunks(mend_sim *sim, chunk_visitor visit)
{
    MEND_TREE_EACH(mend_sim_mapping, mapping, by_address, &sim->mappings) {
        if (!visit(sim, mapping->chunk, mapping)) {
            return false;
        }
    }
    for (size_t i = 0; i < sim->chunks.capacity; i++) {
        mend_sim_chunk *chunk = sim->chunks.entries[i].value;
        if (chunk != NULL && !visit(sim, chunk, NULL)) {
            return false;
        }
    }
    return true;
}

/* Plain memory is private at its address. Memory of chunks lies in the device's file. */
static bool move_bytes(mend_sim *sim, const mend_sim_chunk *chunk, const mend_sim_mapping *mapping,
                       void *bytes, bool out)
{
    const size_t size = (size_t)chunk->size_bytes;
    void *there = chunk->plain
                      ? (void *)(uintptr_t)mapping->address
                      : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
                             sim->devices[chunk->device].memory_file, (off_t)chunk->file_offset);
    if (there == MAP_FAILED) {
        return false;
    }
    memcpy(out ? bytes : there, out ? there : bytes, size);
    if (!chunk->plain) {
        munmap(there, size);
    }
    return true;
}

static bool drop(mend_sim *sim, mend_sim_chunk *chunk, const mend_sim_mapping *mapping)
{
    (void)sim;
    (void)mapping;
    free(chunk->image);
    chunk->image = NULL;
    return true;
}

static bool save(mend_sim *sim, mend_sim_chunk *chunk, const mend_sim_mapping *mapping)
{
    if (chunk->image != NULL) {
        return true;
    }
    chunk->image = malloc((size_t)chunk->size_bytes);
    mend_sim_fresh_fill_chunk(sim, chunk);
    return chunk->image != NULL && move_bytes(sim, chunk, mapping, chunk->image, true);
}

static bool overwrite(mend_sim *sim, mend_sim_chunk *chunk, const mend_sim_mapping *mapping)
{
    void *garbage = malloc((size_t)chunk->size_bytes);
    if (garbage != NULL) { /* else the memory looks untouched, which is possible, too */
        memset(garbage, MEND_SIM_POISON, (size_t)chunk->size_bytes);
        move_bytes(sim, chunk, mapping, garbage, false);
        free(garbage);
    }
    return true;
}

static bool load(mend_sim *sim, mend_sim_chunk *chunk, const mend_sim_mapping *mapping)
{
    if (chunk->image == NULL) {
        return true;
    }
    bool is_loaded = move_bytes(sim, chunk, mapping, chunk->image, false);
    return drop(sim, chunk, mapping) && is_loaded;
}

static bool is_private(mend_sim *sim, mend_sim_chunk *chunk, const mend_sim_mapping *mapping)
{
    (void)sim;
    (void)mapping;
    return chunk->share_types == 0 && chunk->share_count == 0 && !chunk->foreign;
}

static const char *reason_against(mend_sim *sim)
{
    if (!mend_list_is_empty(&sim->captures)) {
        return "a stream is being captured";
    }
    if (!mend_list_is_empty(&sim->foreign_chunks)) {
        return "memory of another process is imported";
    }
    return visit_chunks(sim, is_private)
               ? NULL
               : "memory is exported, or was created to be shared with other processes";
}

static mend_result save_all(mend_sim *sim)
{
    const bool has_bytes = sim->config.content != MEND_SIM_CONTENT_NONE;
    if (has_bytes && !visit_chunks(sim, save)) {
        visit_chunks(sim, drop);
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (has_bytes) {
        visit_chunks(sim, overwrite);
    }
    for (int i = 0; i < sim->config.device_count; i++) {
        sim->devices[i].checkpointed_bytes = sim->devices[i].charged_bytes;
        sim->devices[i].charged_bytes = 0;
    }
    sim->checkpointed = true;
    return MEND_OK;
}

mend_result mend_sim_checkpoint(mend_sim *sim, const char **reason)
{
    if (sim == NULL) {
        return mend_sim_invalid("mend_sim_checkpoint: sim is NULL");
    }
    mend_mutex_lock(&sim->mutex);
    mend_result result =
        sim->checkpointed ? mend_sim_invalid("mend_sim_checkpoint: there is one") : MEND_OK;
    const char *why = result == MEND_OK ? reason_against(sim) : NULL;
    if (why != NULL) {
        result = MEND_ERROR_NOT_SUPPORTED;
        *(reason != NULL ? reason : &why) = why;
    }
    for (int i = 0; i < sim->config.device_count && result == MEND_OK; i++) {
        mend_sim_run_until(sim, sim->devices[i].tail_ns);
    }
    result = result == MEND_OK ? save_all(sim) : result;
    mend_mutex_unlock(&sim->mutex);
    return result;
}

mend_result mend_sim_restore(mend_sim *sim)
{
    if (sim == NULL) {
        return mend_sim_invalid("mend_sim_restore: sim is NULL");
    }
    mend_mutex_lock(&sim->mutex);
    mend_result result =
        sim->checkpointed ? MEND_OK : mend_sim_invalid("mend_sim_restore: no checkpoint");
    for (int i = 0; i < sim->config.device_count && result == MEND_OK; i++) {
        bool is_free = sim->devices[i].checkpointed_bytes <= mend_sim_free_bytes(sim, i);
        result = is_free ? MEND_OK : MEND_ERROR_OUT_OF_MEMORY;
    }
    if (result == MEND_OK) {
        for (int i = 0; i < sim->config.device_count; i++) {
            sim->devices[i].charged_bytes = sim->devices[i].checkpointed_bytes;
        }
        bool is_loaded = visit_chunks(sim, load);
        assert(is_loaded);
        (void)is_loaded;
        sim->checkpointed = false;
    }
    mend_mutex_unlock(&sim->mutex);
    return result;
}
