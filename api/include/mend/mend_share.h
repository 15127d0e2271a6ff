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

/* The kind of an export, which decides which processes may import it. */
typedef enum mend_export_kind {
    MEND_EXPORT_SOCKET = 0, /* file descriptors: for processes of the same machine and user. Needs
                             * mend_pool_config.shareable. The first export of a process opens a
                             * socket (abstract, random name, only for this user) and starts a
                             * thread, which blocks all signals. Each exported chunk keeps a file
                             * descriptor open */
    MEND_EXPORT_FABRIC = 1  /* fabric handles of the driver: for processes of the same user and IMEX
                             * channel, in other containers or on other machines of one NVLink
                             * domain too. Needs MEND_SHAREABLE_FABRIC and a device with such
                             * handles (CUDA 12.3 or later). No socket, thread or file descriptor */
} mend_export_kind;

/* The options of an export. */
typedef struct mend_export_options {
    size_t struct_size;
    int kind;            /* a mend_export_kind */
    uint64_t size_bytes; /* the committed pages of a range that hold so many bytes from the pointer
                          * on. 0: the live block around the pointer. In a range: the export of its
                          * page, or else the page alone */
} mend_export_options;
#define MEND_EXPORT_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(mend_export_options), 0, 0                                                          \
    }

/* The token of an export by MEND_EXPORT_SOCKET. By MEND_EXPORT_FABRIC it is larger. */
#define MEND_EXPORT_TOKEN_BYTES 64
typedef struct mend_export_token {
    unsigned char bytes[MEND_EXPORT_TOKEN_BYTES];
} mend_export_token;

/*
 * Export a live block, until it is freed, or pages of a range to other processes. NULL for
 * `options` means the block that contains `pointer`, by MEND_EXPORT_SOCKET.
 *
 *     mend_export_token token; // exporter: send it to the importer
 *     size_t token_bytes;
 *     mend_export(pool, block, NULL, &token, sizeof token, &token_bytes, NULL);
 *     mend_import(pool, &token, sizeof token, &pointer, NULL); // importer
 *
 * Writes a token to `token`, of any alignment. Send it to the importers in any way. Tokens are
 * equal, byte for byte, exactly if they are of one export. *token_bytes is its size:
 * MEND_EXPORT_TOKEN_BYTES, or by fabric handles 64 bytes and 72 for each chunk. If that is above
 * `capacity_bytes`, nothing is written or exported (an error if token_bytes is NULL). `token` may
 * be NULL if capacity_bytes is 0. *offset_bytes (may be NULL) is the distance of `pointer` from the
 * start of the exported memory. You may export a block by both kinds.
 *
 * Exported chunks are pinned. The importer gets whole chunks, so it can also reach other blocks in
 * them. The free of the block ends the export, and the pool reuses the memory. Importers keep the
 * physical memory, so make sure that they no longer use it. You cannot revoke a token by fabric
 * handles: an import after the free may give memory of other blocks, without an error.
 *
 * Pages are one export, in the order of their addresses, which ends when the first of them is
 * decommitted. Destroying the range decommits them. A page is in one export at a time. If all the
 * pages are in one export already, the call returns that export.
 *
 * Calls the driver for each chunk that no export of the kind has yet. Never waits for the GPU.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a NULL, no such kind, bytes outside of one range, or some
 * of the pages are in an export that does not have all of them); MEND_ERROR_NOT_SUPPORTED (the
 * pool's memory cannot be shared by this kind: the message says why); MEND_ERROR_FOREIGN_POINTER
 * (of another pool, or with size_bytes in no range); MEND_ERROR_DOUBLE_FREE (the memory is free, or
 * a page is not committed); MEND_ERROR_ASLEEP (it sleeps); MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_SYSTEM (no socket, thread or file descriptor: the process has too many open files);
 * MEND_ERROR_DRIVER (it gives no handle for another reason); MEND_ERROR_DEVICE_LOST. On failure
 * nothing new is exported.
 */
MEND_API mend_result mend_export(mend_pool *pool, const void *pointer,
                                 const mend_export_options *options, void *token,
                                 size_t capacity_bytes, size_t *token_bytes,
                                 uint64_t *offset_bytes);

/*
 * Map exported memory for the pool's device and its peer devices. *pointer is the start of the
 * block, and *size_bytes (may be NULL) its usable size. The token may have any alignment. The
 * memory counts as imported_bytes, and no limit of this pool applies. A second import of the same
 * token returns the same pointer, and counts. The exporter may be this process. For fabric handles
 * the pool need not be shareable.
 *
 * Mend does not synchronize the processes. Before the importer reads, the exporter's writes must
 * have finished, or wait for an event that both know. Imported memory stays valid if the exporter
 * ends or frees the block.
 *
 * Talks to the exporter (not for fabric handles) for at most ten seconds, without a lock of the
 * pool, then calls the driver. Never waits for the GPU.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a NULL, or the token is cut, changed, or of another version
 * of the library); MEND_ERROR_EXPORTER_GONE (the exporter has ended, does not respond, is of
 * another user, or has freed the block. For fabric handles: the driver no longer knows the memory);
 * MEND_ERROR_SYSTEM (no socket or file descriptors); MEND_ERROR_NOT_SUPPORTED (the exporter's
 * device has another page size, or this process may not use the memory: no fabric handles, another
 * IMEX channel or domain); MEND_ERROR_OUT_OF_ADDRESS_SPACE; MEND_ERROR_OUT_OF_MEMORY (the device
 * has too little memory for the mapping); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER (for
 * example, this device cannot reach the exporter's); MEND_ERROR_DEVICE_LOST. On failure nothing is
 * mapped.
 */
MEND_API mend_result mend_import(mend_pool *pool, const void *token, size_t token_bytes,
                                 void **pointer, uint64_t *size_bytes);

/* ---- the end of an import -------------------------------------------------------------------- */

/*
 * Close one mend_import of `pointer`. All use of the memory must precede this point of `stream`.
 * The last close unmaps the memory once the work queued on `stream` is done: at once, or in a later
 * call that changes mappings. With MEND_NO_STREAM the call waits for all work of the context, then
 * unmaps. The pool's end closes its imports. May record an event.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM included); MEND_ERROR_FOREIGN_POINTER
 * (the pool has no such import); MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_CAPTURING (`stream` is being
 * captured, or a capture forbids the wait); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. On failure the memory stays imported.
 */
MEND_API mend_result mend_import_close(mend_pool *pool, void *pointer, mend_stream stream);

/* ---- other devices --------------------------------------------------------------------------- */

/*
 * Let another device use all memory of the pool, imported memory included, from now on. `device` is
 * an ordinal of the pool's driver. Call it where a program calls cudaDeviceEnablePeerAccess, which
 * does not affect a pool, and has no pool on that device. Two pools of a process enable each other
 * by default (mend_pool_config.peers). Repeating the call is harmless, and the pool's own device
 * succeeds. Each device makes mapping more expensive, and you cannot disable it again. Calls the
 * driver for all mapped memory. Never waits for the GPU.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (no such ordinal); MEND_ERROR_NOT_SUPPORTED (the device
 * cannot reach the pool's memory); MEND_ERROR_OUT_OF_MEMORY (the device has too little memory for
 * the mappings); MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. On failure the device may be able to
 * use some memory, but no new memory.
 */
MEND_API mend_result mend_enable_peer(mend_pool *pool, int device);

#ifdef __cplusplus
}
#endif

#endif
