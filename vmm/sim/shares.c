/*
 * Chunks shared by file descriptors. An exported descriptor holds the memory until its last copy,
 * in any process, is closed. So it is one end of a pair of sockets, and the device keeps the other
 * end and sees it hang up. The socket contains what an importer needs to know, and may be read any
 * number of times; if content is kept, the file with the bytes comes with it.
 *
 * A simulated device that imports the chunk of another one, of the same process or not, plays
 * another process on the same GPU: the memory is charged to the device that created it, and the
 * importer holds a copy of the descriptor as long as it has a handle or a mapping.
 */
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/align.h"
#include "sim/state.h"

#define SHARE_MARK UINT64_C(0x6572616873646e65)

/* The content of an exported descriptor. */
typedef struct share_token {
    uint64_t mark;
    uint64_t process; /* this and the next: which simulated device has the chunk */
    uint64_t sim;
    uint64_t id;
    uint64_t size_bytes;
    uint64_t file_offset;
    uint64_t page_bytes;
    int64_t device;
    uint64_t has_content; /* the file with the bytes comes with the token */
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
    mend_list_init(&sim->foreign_chunks);
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
    for (mend_list *at = sim->foreign_chunks.next; at != &sim->foreign_chunks; at = at->next) {
        mend_sim_chunk_close_files(MEND_CONTAINER_OF(at, mend_sim_chunk, link));
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

/* ---- the token and its file ------------------------------------------------------------------ */

typedef union carried_file {
    struct cmsghdr header; /* aligns the bytes */
    unsigned char bytes[CMSG_SPACE(sizeof(int))];
} carried_file;

static bool send_token(int end, const share_token *token, int memory_file)
{
    share_token copy = *token;
    carried_file file = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
                                    .cmsg_level = SOL_SOCKET,
                                    .cmsg_type = SCM_RIGHTS}};
    struct iovec content = {&copy, sizeof(copy)};
    struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1};
    if (token->has_content) {
        memcpy(CMSG_DATA(&file.header), &memory_file, sizeof(memory_file));
        message.msg_control = file.bytes;
        message.msg_controllen = sizeof(file.bytes);
    }
    return sendmsg(end, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(copy);
}

/* Reads the token and leaves it there. *memory_file is a file of the caller's; -1: none came, and
 * *lacks_files tells whether the process has no descriptor left for it. False: it is no export. */
static bool read_token(int descriptor, share_token *token, int *memory_file, bool *lacks_files)
{
    carried_file file = {.bytes = {0}};
    struct iovec content = {token, sizeof(*token)};
    struct msghdr message = {.msg_iov = &content,
                             .msg_iovlen = 1,
                             .msg_control = file.bytes,
                             .msg_controllen = sizeof(file.bytes)};
    *memory_file = -1;
    ssize_t length = recvmsg(descriptor, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *carried = length < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (carried != NULL && carried->cmsg_level == SOL_SOCKET && carried->cmsg_type == SCM_RIGHTS) {
        memcpy(memory_file, CMSG_DATA(carried), sizeof(*memory_file));
    }
    *lacks_files = *memory_file < 0 && (message.msg_flags & MSG_CTRUNC) != 0;
    return length == (ssize_t)sizeof(*token) && token->mark == SHARE_MARK;
}

/* ---- export ---------------------------------------------------------------------------------- */

static share_token token_of(const mend_sim *sim, const mend_sim_chunk *chunk)
{
    return (share_token){.mark = SHARE_MARK,
                         .process = (uint64_t)getpid(),
                         .sim = (uint64_t)(uintptr_t)sim,
                         .id = sim->last_share_id + 1,
                         .size_bytes = chunk->size_bytes,
                         .file_offset = chunk->file_offset,
                         .page_bytes = sim->config.page_bytes,
                         .device = chunk->device,
                         .has_content = sim->config.content == MEND_SIM_CONTENT_BYTES};
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
    share_token token = token_of(sim, chunk);
    if (!send_token(ends[0], &token, sim->devices[chunk->device].memory_file)) {
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

/* ---- import ---------------------------------------------------------------------------------- */

/* The chunk of an open export of this device; NULL: there is none. */
static mend_sim_chunk *find_own(const mend_sim *sim, uint64_t id)
{
    for (mend_list *at = sim->shares.next; at != &sim->shares; at = at->next) {
        share *held = MEND_CONTAINER_OF(at, share, link);
        if (held->id == id) {
            return held->chunk;
        }
    }
    return NULL;
}

/* A chunk that stands for one of another device; takes over the file. NULL: no memory, or no
 * descriptor. */
static mend_sim_chunk *make_foreign(mend_sim *sim, const share_token *token, int descriptor,
                                    int memory_file)
{
    int held = mend_slab_reserve(&sim->chunk_slab, 1) ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    if (held < 0) {
        return NULL;
    }
    mend_sim_chunk *chunk = mend_slab_take(&sim->chunk_slab);
    chunk->size_bytes = token->size_bytes;
    chunk->file_offset = token->file_offset;
    chunk->device = (int)token->device;
    chunk->memory_file = memory_file;
    chunk->held = held;
    chunk->foreign = true;
    mend_list_append(&sim->foreign_chunks, &chunk->link);
    sim->ledger.foreign_chunks++;
    return chunk;
}

/* Whether this device can map what the token describes. */
static bool is_mappable(const mend_sim *sim, const share_token *token, int memory_file)
{
    bool keeps_content = sim->config.content == MEND_SIM_CONTENT_BYTES;
    return token->size_bytes > 0 && token->size_bytes % sim->config.page_bytes == 0 &&
           token->device >= 0 && token->device < sim->config.device_count &&
           (memory_file >= 0) == keeps_content;
}

static mend_status import_token(mend_sim *sim, const share_token *token, int descriptor,
                                int *memory_file, mend_sim_chunk **chunk)
{
    bool is_own = token->process == (uint64_t)getpid() && token->sim == (uint64_t)(uintptr_t)sim;
    *chunk = is_own ? find_own(sim, token->id) : NULL;
    if (is_own || !is_mappable(sim, token, *memory_file)) {
        return *chunk != NULL ? MEND_DRIVER_OK
                              : mend_sim_refuse(sim, MEND_DRIVER_INVALID_VALUE,
                                                "import_handle: the export is over, or is of a "
                                                "device that this one is not like");
    }
    *chunk = make_foreign(sim, token, descriptor, *memory_file);
    if (*chunk == NULL) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    *memory_file = -1; /* the chunk's */
    return MEND_DRIVER_OK;
}

mend_status mend_sim_import(mend_sim *sim, const void *shared, int share_type,
                            mend_chunk_handle *handle)
{
    if (share_type != MEND_SHARE_FILE_DESCRIPTOR) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    share_token token = {0};
    int memory_file;
    bool lacks_files;
    int descriptor = *(const int *)shared;
    mend_sim_chunk *chunk = NULL;
    mend_status status = MEND_DRIVER_OUT_OF_MEMORY;
    if (!read_token(descriptor, &token, &memory_file, &lacks_files)) {
        status = mend_sim_refuse(sim, MEND_DRIVER_INVALID_VALUE,
                                 "import_handle: the file is not an export of a chunk");
    } else if (!lacks_files && mend_pointer_map_reserve(&sim->chunks)) {
        status = import_token(sim, &token, descriptor, &memory_file, &chunk);
    }
    if (memory_file >= 0) {
        close(memory_file);
    }
    if (status == MEND_DRIVER_OK) {
        *handle = mend_sim_chunk_add_handle(sim, chunk);
    }
    return status;
}
