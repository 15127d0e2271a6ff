/*
 * Chunks shared by file descriptors. An exported descriptor holds the memory until its last copy,
 * in any process, is closed. So it is one end of a pair of sockets, and the device keeps the other
 * end and sees it hang up. The socket contains what an importer needs to know, and may be read any
 * number of times.
 */
#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/align.h"
#include "sim/state.h"

/* The content of an exported descriptor. */
typedef struct share_token {
    uint64_t mark; /* address of the simulated device: shows that the descriptor is of this
                    * process */
    uint64_t id;
} share_token;

typedef struct share {
    mend_list link;
    uint64_t id;
    mend_sim_chunk *chunk;
    int kept; /* the device's end */
} share;

void mend_sim_shares_init(mend_sim *sim)
{
    mend_list_init(&sim->shares);
    mend_slab_init(&sim->share_slab, sizeof(share));
}

static void drop_share(mend_sim *sim, share *gone)
{
    mend_sim_chunk *chunk = gone->chunk;
    assert(chunk->share_count > 0);
    close(gone->kept);
    mend_list_remove(&gone->link);
    mend_slab_give(&sim->share_slab, gone);
    chunk->share_count--;
    mend_sim_chunk_drop(sim, chunk);
}

void mend_sim_shares_clear(mend_sim *sim)
{
    while (!mend_list_is_empty(&sim->shares)) {
        drop_share(sim, MEND_CONTAINER_OF(sim->shares.next, share, link));
    }
}

void mend_sim_shares_sweep(mend_sim *sim)
{
    mend_list *next = NULL;
    for (mend_list *at = sim->shares.next; at != &sim->shares; at = next) {
        share *held = MEND_CONTAINER_OF(at, share, link);
        struct pollfd end = {.fd = held->kept};
        next = at->next;
        if (poll(&end, 1, 0) > 0 && (end.revents & POLLHUP) != 0) {
            drop_share(sim, held);
        }
    }
}

mend_status mend_sim_export(mend_sim *sim, mend_chunk_handle handle, int share_type, void *out)
{
    mend_sim_chunk *chunk = mend_pointer_map_find(&sim->chunks, handle);
    if (chunk == NULL || share_type == 0 || (chunk->share_types & share_type) != share_type) {
        return mend_sim_refuse(sim, MEND_DRIVER_INVALID_VALUE,
                               "export_handle: 0x%" PRIx64
                               " is not a handle of a chunk created for share type %d",
                               handle, share_type);
    }
    int ends[2] = {-1, -1};
    if (!mend_slab_reserve(&sim->share_slab, 1) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    share_token token = {(uint64_t)(uintptr_t)sim, sim->last_share_id + 1};
    if (write(ends[0], &token, sizeof(token)) != (ssize_t)sizeof(token)) {
        close(ends[0]);
        close(ends[1]);
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    share *made = mend_slab_take(&sim->share_slab);
    made->id = ++sim->last_share_id;
    made->chunk = chunk;
    made->kept = ends[0];
    mend_list_append(&sim->shares, &made->link);
    chunk->share_count++;
    *(int *)out = ends[1];
    return MEND_DRIVER_OK;
}

/* The chunk of an open export; NULL: the descriptor is not of this device. */
static mend_sim_chunk *find_shared(const mend_sim *sim, int descriptor)
{
    share_token token;
    ssize_t length = recv(descriptor, &token, sizeof(token), MSG_PEEK | MSG_DONTWAIT);
    if (length != (ssize_t)sizeof(token) || token.mark != (uint64_t)(uintptr_t)sim) {
        return NULL;
    }
    for (mend_list *at = sim->shares.next; at != &sim->shares; at = at->next) {
        share *held = MEND_CONTAINER_OF(at, share, link);
        if (held->id == token.id) {
            return held->chunk;
        }
    }
    return NULL;
}

mend_status mend_sim_import(mend_sim *sim, const void *shared, int share_type,
                            mend_chunk_handle *handle)
{
    if (share_type != MEND_SHARE_FILE_DESCRIPTOR) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    mend_sim_chunk *chunk = find_shared(sim, *(const int *)shared);
    if (chunk == NULL) {
        return mend_sim_refuse(sim, MEND_DRIVER_INVALID_VALUE,
                               "import_handle: the file is not an export of a chunk");
    }
    if (!mend_pointer_map_reserve(&sim->chunks)) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    *handle = mend_sim_chunk_add_handle(sim, chunk);
    return MEND_DRIVER_OK;
}
