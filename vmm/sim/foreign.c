/*
 * Memory that several simulated devices use: chunks of other devices, of the same process or not,
 * and the holders of this one's chunks. A device that imports a chunk of another one plays another
 * process on the same GPU. The memory is charged to its creator, which has one end of a connection
 * for each holder and sees it close.
 */
#include "sim/shares.h"

#include <assert.h>
#include <poll.h>
#include <unistd.h>

#include "base/align.h"

/* ---- chunks of other devices ----------------------------------------------------------------- */

mend_sim_origin mend_sim_origin_of(const mend_sim *sim, const mend_sim_chunk *chunk, uint64_t mark)
{
    assert(!chunk->foreign);
    return (mend_sim_origin){.mark = mark,
                             .process = (uint64_t)getpid(),
                             .sim = (uint64_t)(uintptr_t)sim,
                             .id = sim->last_share_id + 1,
                             .size_bytes = chunk->size_bytes,
                             .file_offset = chunk->file_offset,
                             .page_bytes = sim->config.page_bytes,
                             .device = chunk->device,
                             .has_content = sim->config.content == MEND_SIM_CONTENT_BYTES};
}

bool mend_sim_origin_is_own(const mend_sim *sim, const mend_sim_origin *origin)
{
    return origin->process == (uint64_t)getpid() && origin->sim == (uint64_t)(uintptr_t)sim;
}

bool mend_sim_origin_is_mappable(const mend_sim *sim, const mend_sim_origin *origin)
{
    bool keeps_content = sim->config.content == MEND_SIM_CONTENT_BYTES;
    return origin->size_bytes > 0 && origin->size_bytes % sim->config.page_bytes == 0 &&
           origin->device >= 0 && origin->device < sim->config.device_count &&
           (origin->has_content != 0) == keeps_content;
}

mend_sim_chunk *mend_sim_foreign_make(mend_sim *sim, const mend_sim_origin *origin, int held,
                                      int memory_file)
{
    assert(held >= 0);
    if (!mend_slab_reserve(&sim->chunk_slab, 1)) {
        return NULL;
    }
    mend_sim_chunk *chunk = mend_slab_take(&sim->chunk_slab);
    chunk->size_bytes = origin->size_bytes;
    chunk->file_offset = origin->file_offset;
    chunk->device = (int)origin->device;
    chunk->memory_file = memory_file;
    chunk->held = held;
    chunk->foreign = true;
    mend_list_append(&sim->foreign_chunks, &chunk->link);
    sim->ledger.foreign_chunks++;
    return chunk;
}

void mend_sim_foreign_clear(mend_sim *sim)
{
    for (mend_list *at = sim->foreign_chunks.next; at != &sim->foreign_chunks; at = at->next) {
        mend_sim_chunk_close_files(MEND_CONTAINER_OF(at, mend_sim_chunk, link));
    }
}

/* ---- holders of this device's chunks --------------------------------------------------------- */

typedef struct holder {
    mend_list link;
    uint64_t id;
    mend_sim_chunk *chunk;
    int kept; /* the device's end */
} holder;

void mend_sim_holders_init(mend_sim *sim)
{
    mend_list_init(&sim->shares);
    mend_list_init(&sim->foreign_chunks);
    mend_slab_init(&sim->share_slab, sizeof(holder));
}

void mend_sim_holder_add(mend_sim *sim, mend_sim_chunk *chunk, uint64_t id, int kept)
{
    assert(kept >= 0);
    holder *made = mend_slab_take(&sim->share_slab);
    made->id = id;
    made->chunk = chunk;
    made->kept = kept;
    mend_list_append(&sim->shares, &made->link);
    chunk->share_count++;
}

static void drop(mend_sim *sim, holder *gone)
{
    mend_sim_chunk *chunk = gone->chunk;
    assert(chunk->share_count > 0);
    close(gone->kept);
    mend_list_remove(&gone->link);
    mend_slab_give(&sim->share_slab, gone);
    chunk->share_count--;
    mend_sim_chunk_drop(sim, chunk);
}

mend_sim_chunk *mend_sim_holder_find(const mend_sim *sim, uint64_t id)
{
    MEND_LIST_EACH(holder, held, link, &sim->shares) {
        if (held->id == id) {
            return held->chunk;
        }
    }
    return NULL;
}

void mend_sim_holders_sweep(mend_sim *sim)
{
    mend_list *next = NULL;
    for (mend_list *at = sim->shares.next; at != &sim->shares; at = next) {
        holder *held = MEND_CONTAINER_OF(at, holder, link);
        struct pollfd end = {.fd = held->kept};
        next = at->next;
        if (poll(&end, 1, 0) > 0 && (end.revents & POLLHUP) != 0) {
            drop(sim, held);
        }
    }
}

void mend_sim_holders_clear(mend_sim *sim)
{
    for (mend_list *at = sim->shares.next; at != &sim->shares; at = at->next) {
        close(MEND_CONTAINER_OF(at, holder, link)->kept);
    }
}
