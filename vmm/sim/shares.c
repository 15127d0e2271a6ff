/*
 * File descriptors are here in full, fabric.c has the other way. An exported descriptor holds the
 * memory until its last copy, in any process, is closed. So it is one end of a pair of sockets, and
 * the device keeps the other end and sees it hang up. The socket contains the data for an importer,
 * and may be read any number of times. If content is kept, the file with the bytes comes with it.
 * The importer holds a copy of the descriptor as long as it has a handle or a mapping.
 */
#include "sim/shares.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system.h"

#define SHARE_MARK UINT64_C(0x6572616873646e65)

void mend_sim_shares_init(mend_sim *sim)
{
    mend_sim_holders_init(sim);
    mend_sim_fabric_init(sim);
}

void mend_sim_shares_clear(mend_sim *sim)
{
    mend_sim_fabric_clear(sim);
    mend_sim_holders_clear(sim);
    mend_sim_foreign_clear(sim);
}

void mend_sim_shares_sweep(mend_sim *sim)
{
    mend_sim_fabric_sweep(sim);
    mend_sim_holders_sweep(sim);
}

/* ---- the token and its file ------------------------------------------------------------------ */

typedef union carried_file {
    struct cmsghdr header; /* aligns the bytes */
    unsigned char bytes[CMSG_SPACE(sizeof(int))];
} carried_file;

static bool send_token(int end, const mend_sim_origin *token, int memory_file)
{
    mend_sim_origin copy = *token;
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

/* Reads the token and leaves it there. *memory_file is a file of the caller's. -1: none came, and
 * *lacks_files tells whether the process has no descriptor left for it. False: it is no export. */
static bool read_token(int descriptor, mend_sim_origin *token, int *memory_file, bool *lacks_files)
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

static mend_status export_file(mend_sim *sim, mend_sim_chunk *chunk, void *out)
{
    int ends[2] = {-1, -1};
    if (!mend_slab_reserve(&sim->share_slab, 1) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    mend_sim_origin token = mend_sim_origin_of(sim, chunk, SHARE_MARK);
    ends[0] = mend_file_keep(ends[0]); /* the other end has any number, as a driver's */
    if (ends[0] < 0 || !send_token(ends[0], &token, sim->devices[chunk->device].memory_file)) {
        if (ends[0] >= 0) {
            close(ends[0]);
        }
        close(ends[1]);
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    sim->last_share_id = token.id;
    mend_sim_holder_add(sim, chunk, token.id, ends[0]);
    *(int *)out = ends[1];
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_export_handle(mend_sim *sim, mend_chunk_handle handle, int share_type,
                                      void *out)
{
    mend_sim_chunk *chunk = mend_pointer_map_find(&sim->chunks, handle);
    bool is_one_type = share_type == MEND_SHARE_FILE_DESCRIPTOR || share_type == MEND_SHARE_FABRIC;
    FORBID(chunk == NULL || !is_one_type || (chunk->share_types & share_type) != share_type,
           MEND_DRIVER_INVALID_VALUE,
           "export_handle: 0x%" PRIx64 " is not a handle of a chunk created for share type %d",
           handle, share_type);
    mend_sim_fresh_fill_chunk(sim, chunk);
    return share_type == MEND_SHARE_FABRIC ? mend_sim_fabric_export(sim, chunk, out)
                                           : export_file(sim, chunk, out);
}

/* ---- import ---------------------------------------------------------------------------------- */

static mend_status import_token(mend_sim *sim, const mend_sim_origin *token, int descriptor,
                                int *memory_file, mend_sim_chunk **chunk)
{
    bool is_own = mend_sim_origin_is_own(sim, token);
    bool has_bytes = (*memory_file >= 0) == (token->has_content != 0);
    *chunk = is_own ? mend_sim_holder_find(sim, token->id) : NULL;
    if (is_own || !has_bytes || !mend_sim_origin_is_mappable(sim, token)) {
        return *chunk != NULL ? MEND_DRIVER_OK
                              : mend_sim_refuse(sim, MEND_DRIVER_INVALID_VALUE,
                                                "import_handle: the export is over, or is of a "
                                                "device that this one is not like");
    }
    int held = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    *chunk = held >= 0 ? mend_sim_foreign_make(sim, token, held, *memory_file) : NULL;
    if (*chunk == NULL) {
        if (held >= 0) {
            close(held);
        }
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    *memory_file = -1; /* the chunk's */
    return MEND_DRIVER_OK;
}

static mend_status import_file(mend_sim *sim, int descriptor, mend_sim_chunk **chunk)
{
    mend_sim_origin token = {0};
    int memory_file;
    bool lacks_files;
    mend_status status = MEND_DRIVER_OUT_OF_MEMORY;
    if (!read_token(descriptor, &token, &memory_file, &lacks_files)) {
        status = mend_sim_refuse(sim, MEND_DRIVER_INVALID_VALUE,
                                 "import_handle: the file is not an export of a chunk");
    } else if (!lacks_files) {
        status = import_token(sim, &token, descriptor, &memory_file, chunk);
    }
    if (memory_file >= 0) {
        close(memory_file);
    }
    return status;
}

mend_status mend_sim_do_import_handle(mend_sim *sim, const void *shared, int share_type,
                                      mend_chunk_handle *handle)
{
    mend_sim_chunk *chunk = NULL;
    TRY(share_type == MEND_SHARE_FABRIC            ? mend_sim_fabric_status(sim)
        : share_type == MEND_SHARE_FILE_DESCRIPTOR ? MEND_DRIVER_OK
                                                   : MEND_DRIVER_NOT_SUPPORTED);
    NEED(mend_pointer_map_reserve(&sim->chunks));
    TRY(share_type == MEND_SHARE_FABRIC ? mend_sim_fabric_import(sim, shared, &chunk)
                                        : import_file(sim, *(const int *)shared, &chunk));
    *handle = mend_sim_chunk_add_handle(sim, chunk);
    return MEND_DRIVER_OK;
}
