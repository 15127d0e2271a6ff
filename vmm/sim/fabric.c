/*
 * Chunks shared by fabric handles: 64 bytes that name a chunk to every process. A handle holds no
 * memory, unlike a file descriptor: it is good as long as the chunk exists. An importer holds the
 * chunk, whatever becomes of the exporter's own handle.
 *
 * So that importers in other processes find the chunk, the device listens at a socket of its own
 * for each exported one. An importer connects, and needs no answer: its data is in the handle, the
 * bytes are in the exporter's file, and its end of the connection holds the memory. The device
 * accepts at its next call.
 */
#include "sim/shares.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/align.h"
#include "base/words.h"

#define FABRIC_MARK UINT64_C(0x63697262616664)

enum { BACKLOG = 4096 };

/* The content of a handle. */
typedef struct fabric_handle {
    uint64_t mark;
    uint64_t process;
    uint64_t sim;
    uint64_t id;
    uint64_t size_bytes;
    uint64_t file_offset;
    int32_t memory_file; /* its number in the exporter. -1: no content is kept */
    uint16_t device;
    uint16_t page_bits;
    uint64_t check; /* of all before it */
} fabric_handle;
static_assert(sizeof(fabric_handle) == MEND_FABRIC_HANDLE_BYTES, "a handle has 64 bytes");

void mend_sim_fabric_init(mend_sim *sim)
{
    mend_list_init(&sim->fabric_exports);
    sim->fabric_bell = -1;
}

/* ---- the socket of an export ----------------------------------------------------------------- */

/* The first byte is 0: the name is in no file system, and goes with the socket. */
static socklen_t address_of(const mend_sim_origin *origin, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
                          "mend-sim-fabric-%" PRIx64 "-%" PRIx64 "-%" PRIx64, origin->process,
                          origin->sim, origin->id);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* -1: errno says why. */
static int open_socket(const mend_sim_origin *origin, bool listens)
{
    struct sockaddr_un address;
    const socklen_t length = address_of(origin, &address);
    const struct sockaddr *at = (const struct sockaddr *)&address;
    int opened = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (opened >= 0 && (listens ? bind(opened, at, length) != 0 || listen(opened, BACKLOG) != 0
                                : connect(opened, at, length) != 0)) {
        int reason = errno;
        close(opened);
        errno = reason;
        opened = -1;
    }
    return opened;
}

static void take_in(mend_sim *sim, mend_sim_chunk *chunk)
{
    while (mend_slab_reserve(&sim->share_slab, 1)) {
        int kept = accept4(chunk->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (kept < 0) {
            return;
        }
        mend_sim_holder_add(sim, chunk, 0, kept);
    }
}

/* One poll for all sockets: the sweep runs in each driver call. */
static bool has_rung(const mend_sim *sim)
{
    struct epoll_event event;
    return sim->fabric_bell < 0 || epoll_wait(sim->fabric_bell, &event, 1, 0) != 0;
}

static void end_bell(mend_sim *sim)
{
    if (sim->fabric_bell >= 0) {
        close(sim->fabric_bell);
        sim->fabric_bell = -1;
    }
}

/* A bell hears all sockets, or there is none: it is made before the first. */
static void hear(mend_sim *sim, int listener)
{
    if (sim->fabric_bell < 0 && mend_list_is_empty(&sim->fabric_exports)) {
        sim->fabric_bell = epoll_create1(EPOLL_CLOEXEC);
    }
    struct epoll_event event = {.events = EPOLLIN};
    if (sim->fabric_bell >= 0 &&
        epoll_ctl(sim->fabric_bell, EPOLL_CTL_ADD, listener, &event) != 0) {
        end_bell(sim);
    }
}

void mend_sim_fabric_sweep(mend_sim *sim)
{
    if (mend_list_is_empty(&sim->fabric_exports) || !has_rung(sim)) {
        return;
    }
    for (mend_list *at = sim->fabric_exports.next; at != &sim->fabric_exports; at = at->next) {
        take_in(sim, MEND_CONTAINER_OF(at, mend_sim_chunk, by_fabric));
    }
}

void mend_sim_fabric_clear(mend_sim *sim)
{
    end_bell(sim);
    while (!mend_list_is_empty(&sim->fabric_exports)) {
        mend_sim_chunk *chunk =
            MEND_CONTAINER_OF(sim->fabric_exports.next, mend_sim_chunk, by_fabric);
        close(chunk->listener);
        mend_list_remove(&chunk->by_fabric);
        chunk->fabric_id = 0;
    }
}

/* ---- the handle ------------------------------------------------------------------------------ */

static uint64_t check_of(const fabric_handle *handle)
{
    return mend_hash(MEND_HASH_OF_NOTHING, handle, offsetof(fabric_handle, check));
}

static uint16_t bits_of(uint64_t page_bytes)
{
    uint16_t bits = 0;
    assert(mend_is_power_of_two(page_bytes));
    while (page_bytes >> bits != 1) {
        bits++;
    }
    return bits;
}

static fabric_handle handle_of(const mend_sim *sim, const mend_sim_chunk *chunk,
                               const mend_sim_origin *origin)
{
    int memory_file = origin->has_content ? sim->devices[chunk->device].memory_file : -1;
    fabric_handle handle = {.mark = origin->mark,
                            .process = origin->process,
                            .sim = origin->sim,
                            .id = origin->id,
                            .size_bytes = origin->size_bytes,
                            .file_offset = origin->file_offset,
                            .memory_file = memory_file,
                            .device = (uint16_t)origin->device,
                            .page_bits = bits_of(origin->page_bytes)};
    handle.check = check_of(&handle);
    return handle;
}

mend_status mend_sim_fabric_export(mend_sim *sim, mend_sim_chunk *chunk, void *out)
{
    mend_sim_origin origin = mend_sim_origin_of(sim, chunk, FABRIC_MARK);
    if (chunk->fabric_id == 0) {
        int listener = open_socket(&origin, true);
        NEED(listener >= 0);
        sim->last_share_id = origin.id;
        chunk->fabric_id = origin.id;
        chunk->listener = listener;
        hear(sim, listener);
        mend_list_append(&sim->fabric_exports, &chunk->by_fabric);
    }
    origin.id = chunk->fabric_id;
    fabric_handle handle = handle_of(sim, chunk, &origin);
    memcpy(out, &handle, sizeof(handle));
    return MEND_DRIVER_OK;
}

/* ---- import ---------------------------------------------------------------------------------- */

/* The chunk of an export of this device. NULL: it is gone. */
static mend_sim_chunk *find_own(const mend_sim *sim, uint64_t id)
{
    MEND_LIST_EACH(mend_sim_chunk, chunk, by_fabric, &sim->fabric_exports) {
        if (chunk->fabric_id == id) {
            return chunk;
        }
    }
    return NULL;
}

/* Opens the exporter's file of bytes: the two processes have one user. */
static int open_memory(const fabric_handle *handle)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%d", handle->process, handle->memory_file);
    return open(path, O_RDWR | O_CLOEXEC);
}

static mend_status status_of(int reason)
{
    bool lacks_files = reason == EMFILE || reason == ENFILE || reason == EAGAIN || reason == ENOMEM;
    return lacks_files ? MEND_DRIVER_OUT_OF_MEMORY : MEND_DRIVER_INVALID_VALUE;
}

static mend_status import_foreign(mend_sim *sim, const fabric_handle *handle,
                                  const mend_sim_origin *origin, mend_sim_chunk **chunk)
{
    int held = open_socket(origin, false);
    if (held < 0) {
        return status_of(errno);
    }
    int memory_file = origin->has_content ? open_memory(handle) : -1;
    mend_status status = MEND_DRIVER_OK;
    if (origin->has_content && memory_file < 0) {
        status = status_of(errno);
    }
    if (status == MEND_DRIVER_OK) {
        *chunk = mend_sim_foreign_make(sim, origin, held, memory_file);
        status = *chunk != NULL ? MEND_DRIVER_OK : MEND_DRIVER_OUT_OF_MEMORY;
    }
    if (status != MEND_DRIVER_OK) {
        close(held);
        if (memory_file >= 0) {
            close(memory_file);
        }
    }
    return status;
}

mend_status mend_sim_fabric_import(mend_sim *sim, const void *shared, mend_sim_chunk **chunk)
{
    fabric_handle handle;
    memcpy(&handle, shared, sizeof(handle));
    FORBID(handle.mark != FABRIC_MARK || handle.check != check_of(&handle),
           MEND_DRIVER_INVALID_VALUE, "import_handle: the bytes are not a fabric handle");
    const mend_sim_origin origin = {.mark = handle.mark,
                                    .process = handle.process,
                                    .sim = handle.sim,
                                    .id = handle.id,
                                    .size_bytes = handle.size_bytes,
                                    .file_offset = handle.file_offset,
                                    .page_bytes = UINT64_C(1) << handle.page_bits,
                                    .device = handle.device,
                                    .has_content = handle.memory_file >= 0};
    if (mend_sim_origin_is_own(sim, &origin)) {
        *chunk = find_own(sim, origin.id);
        return *chunk != NULL ? MEND_DRIVER_OK : MEND_DRIVER_INVALID_VALUE;
    }
    return mend_sim_origin_is_mappable(sim, &origin) ? import_foreign(sim, &handle, &origin, chunk)
                                                     : MEND_DRIVER_INVALID_VALUE;
}
