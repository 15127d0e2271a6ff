/*
 * Memory of a pool that other processes and other devices use. The conventions of mend.h hold here
 * too.
 */
#ifndef MEND_MEND_SHARE_H
#define MEND_MEND_SHARE_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory shared with other processes ------------------------------------------------------ */

/* The kind of an export, which decides who may import it. */
typedef enum mend_export_kind {
    MEND_EXPORT_SOCKET = 0, /* file descriptors: processes of the same machine and user. Needs
                             * mend_pool_config.shareable. The first export of a process opens a
                             * socket (abstract, with a random name; other users are refused) and
                             * starts a thread, which blocks all signals and ends with the process.
                             * Each exported chunk keeps a file descriptor open */
    MEND_EXPORT_FABRIC = 1  /* fabric handles of the driver: processes of the same user that may use
                             * the same IMEX channel, in other containers or on other machines of
                             * one NVLink domain too. Needs shareable = MEND_SHAREABLE_FABRIC and a
                             * device that has such handles (CUDA 12.3 or later). No socket, no
                             * thread, no file descriptor */
} mend_export_kind;

/* The options of an export. */
typedef struct mend_export_options {
    size_t struct_size;
    int kind;            /* a mend_export_kind */
    uint64_t size_bytes; /* the committed pages of a range (mend_range.h) that hold so many bytes
                          * from the pointer on. 0: the live block around the pointer; in a range
                          * the export that its page is in, or else the page alone */
} mend_export_options;
#define MEND_EXPORT_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(mend_export_options), 0, 0                                                          \
    }

/* The token of an export by MEND_EXPORT_SOCKET; by MEND_EXPORT_FABRIC it is larger. */
#define MEND_EXPORT_TOKEN_BYTES 64
typedef struct mend_export_token {
    unsigned char bytes[MEND_EXPORT_TOKEN_BYTES];
} mend_export_token;

/*
 * Lets other processes import a live block, until it is freed, or pages of a range. `options` NULL:
 * the block that contains `pointer`, by MEND_EXPORT_SOCKET.
 *
 * Writes a token to `token` (any alignment), which the program sends to the importers in any way.
 * It says all they need, and means nothing to the program; but two tokens of one export are equal
 * byte for byte, and descriptions of two exports never are. *token_bytes is its size:
 * MEND_EXPORT_TOKEN_BYTES, or by fabric handles 64 bytes and 72 for each chunk that holds the
 * memory. If that is above `capacity_bytes`, nothing is written or exported (where token_bytes is
 * NULL that is an error); `token` may be NULL if capacity_bytes is 0. *offset_bytes (may be NULL)
 * is the distance of `pointer` from the start of the exported memory. A block may be exported by
 * both kinds.
 *
 * While it is exported, the chunks that hold it keep their address and their physical memory, as if
 * pinned; pin and unpin count for themselves. The importer gets whole chunks: it can also reach
 * other blocks in them. The free of the block ends the export; processes that have imported it
 * keep the physical memory, and the program must know that they do not use it any more, because the
 * pool uses it again. Nobody can take a token by fabric handles back: one that is imported after
 * the block was freed may give memory of other blocks, and no call notices that.
 *
 * Pages are one export, until the first of them is decommitted: then it ends for all. The importer
 * has them one behind the other. Until then they are as if pinned, except that the range may be
 * destroyed, which decommits them. A page is in one export: where the pages are all in one already,
 * that is meant, and *offset_bytes says where they are in it.
 *
 * Calls the driver for each chunk that no export of the kind has yet; never waits for the GPU.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a NULL; no such kind; the bytes are not all in one range,
 * or some of the pages are in an export that has not all of them); MEND_ERROR_NOT_SUPPORTED (the
 * pool's memory cannot be shared so; the message says why); MEND_ERROR_FOREIGN_POINTER (of another
 * pool, or with size_bytes in no range); MEND_ERROR_DOUBLE_FREE (the memory is free, or a page that
 * is not committed); MEND_ERROR_ASLEEP (it sleeps); MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_SYSTEM (no socket, thread or file descriptor: the process has too many open files);
 * MEND_ERROR_DRIVER (it gives no handle for another reason); MEND_ERROR_DEVICE_LOST. On failure
 * nothing is exported that was not before.
 */
MEND_API mend_result mend_export(mend_pool *pool, const void *pointer,
                                 const mend_export_options *options, void *token,
                                 size_t capacity_bytes, size_t *token_bytes,
                                 uint64_t *offset_bytes);

/*
 * Maps the memory that a token names, of `token_bytes` bytes and any alignment, for the pool's
 * device and its peer devices. *pointer is the start of the block, and *size_bytes (may be NULL)
 * its usable size: base and usable_bytes of mend_block_info in the exporter. Addresses are
 * taken for the chunks that hold the block and no more. The memory counts as imported_bytes: it is
 * the exporter's, and no limit of this pool applies. A token that the pool has imported already
 * gives the same pointer, and counts. The exporter may be this process; for fabric handles the pool
 * need not be shareable.
 *
 * The caller orders the work of the two processes: before the import, the exporter's writes must
 * have been done, or be waited for by an event that both know. If the exporter ends or frees the
 * block, imported memory stays valid.
 *
 * Talks to the exporter (not for fabric handles), for at most ten seconds, without a lock of the
 * pool; then calls the driver. Never waits for the GPU. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a
 * NULL; the token is cut, changed, contradicts itself, or is of another version of the library);
 * MEND_ERROR_EXPORTER_GONE (the exporter has ended, does not answer, is of another user, or has
 * freed the block; the driver knows no such memory any more); MEND_ERROR_SYSTEM (no socket or file
 * descriptors); MEND_ERROR_NOT_SUPPORTED (the exporter's device has another page size; or this
 * process may not use it: no fabric handles, another IMEX channel or domain);
 * MEND_ERROR_OUT_OF_ADDRESS_SPACE; MEND_ERROR_OUT_OF_MEMORY (the device has no room for the
 * mapping); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER (for example, this device cannot reach
 * the exporter's); MEND_ERROR_DEVICE_LOST. On failure nothing is mapped.
 */
MEND_API mend_result mend_import(mend_pool *pool, const void *token, size_t token_bytes,
                                 void **pointer, uint64_t *size_bytes);

/* ---- the end of an import -------------------------------------------------------------------- */

/*
 * Undoes one mend_import. `pointer` is the pointer that it returned. With the last one
 * the memory is unmapped behind the work queued on `stream` so far: at once if that is done,
 * otherwise by a later call that makes room or gives memory back. So the caller guarantees that all
 * use of the memory precedes this point of `stream`. With MEND_NO_STREAM the host waits for all
 * work of the context, then unmaps. The pool's end closes its imports. May record an event.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM included); MEND_ERROR_FOREIGN_POINTER
 * (the pool has no such import); MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_CAPTURING (`stream` is being
 * captured; or the host would have to wait, and a capture forbids it);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. On failure the memory
 * stays imported.
 */
MEND_API mend_result mend_import_close(mend_pool *pool, void *pointer, mend_stream stream);

/* ---- other devices --------------------------------------------------------------------------- */

/*
 * Lets `device` (an ordinal of the pool's driver) use the memory of the pool from now on: what is
 * mapped, and what will be; what it imported, too. For programs that call
 * cudaDeviceEnablePeerAccess, which does not affect a pool, and have no pool on that device; two
 * pools of a process let each other's device use their memory by themselves, unless
 * mend_pool_config.peers says otherwise. Idempotent; the pool's own device succeeds. Each device
 * makes mapping more expensive, and none is taken back. Calls the driver for all mapped memory;
 * never waits for the GPU. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (no such ordinal);
 * MEND_ERROR_NOT_SUPPORTED (the device cannot reach the pool's memory); MEND_ERROR_OUT_OF_MEMORY
 * (the device has no room for the mappings); MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. On failure
 * some memory may be usable by the device, and new memory will not be.
 */
MEND_API mend_result mend_enable_peer(mend_pool *pool, int device);

#ifdef __cplusplus
}
#endif

#endif
