/*
 * Memory of a pool that other processes and other devices use. The conventions of mend.h hold.
 */
#ifndef MEND_MEND_SHARE_H
#define MEND_MEND_SHARE_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory shared with other processes ------------------------------------------------------ */

/* The kind of an export: which processes may import it. */
typedef enum mend_export_kind {
    MEND_EXPORT_SOCKET = 0, /* file descriptors: for processes of the same machine and user. Needs
                             * mend_pool_config.shareable. The first export of a process opens a
                             * socket (abstract, only for this user) and starts a thread. Each
                             * exported chunk keeps a file descriptor open */
    MEND_EXPORT_FABRIC = 1  /* fabric handles: for processes of the same user and IMEX channel, also
                             * in other containers or on other machines of one NVLink domain. Needs
                             * MEND_SHAREABLE_FABRIC and a device with such handles (CUDA 12.3 or
                             * later) */
} mend_export_kind;

/* The options of an export. */
typedef struct mend_export_options {
    size_t struct_size;
    int kind;            /* a mend_export_kind */
    uint64_t size_bytes; /* the committed pages of a range that hold so many bytes from the pointer
                          * on. 0: the live block around the pointer, or in a range the export of
                          * its page, or else the page */
} mend_export_options;
#define MEND_EXPORT_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(mend_export_options), 0, 0                                                          \
    }

/* The token of an export by MEND_EXPORT_SOCKET. */
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
 * `capacity_bytes`, nothing is exported (an error if token_bytes is NULL). `token` may be NULL if
 * capacity_bytes is 0. *offset_bytes (may be NULL) is the distance of `pointer` from the start of
 * the exported memory.
 *
 * Exported chunks are pinned. The importer gets whole chunks, so it can also reach other blocks in
 * them. The free of the block ends the export, and the pool reuses the memory, while importers can
 * still reach it. You cannot revoke a token by fabric handles: an import after the free may give
 * memory of other blocks, without an error.
 *
 * Pages are one export, which ends when the first of them is decommitted. A page is in one export
 * at a time. If all the pages are in one export already, the call returns that export.
 *
 * Calls the driver for each chunk that no export of the kind has yet. Never waits for the GPU.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (bytes outside of one range, or some of the pages are in an
 * export that does not have all of them); MEND_ERROR_NOT_SUPPORTED (not by this kind: the message
 * says why); MEND_ERROR_FOREIGN_POINTER (also with size_bytes in no range); MEND_ERROR_DOUBLE_FREE
 * (also a page that is not committed); MEND_ERROR_ASLEEP; MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_SYSTEM (no socket, thread or file descriptor); MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. On failure nothing new is exported.
 */
MEND_API mend_result mend_export(mend_pool *pool, const void *pointer,
                                 const mend_export_options *options, void *token,
                                 size_t capacity_bytes, size_t *token_bytes,
                                 uint64_t *offset_bytes);

/*
 * Map exported memory for the pool's device and its peer devices. *pointer is the start of the
 * block, and *size_bytes (may be NULL) its usable size. The token may have any alignment. The
 * memory counts as imported_bytes, and in no limit. A second import of the same token returns the
 * same pointer, and counts. The exporter may be this process. For fabric handles the pool need not
 * be shareable.
 *
 * Mend does not synchronize the processes: before you read, the exporter's writes must have
 * finished, or wait for an event that both know. Imported memory stays valid if the exporter ends
 * or frees the block.
 *
 * Talks to the exporter (not for fabric handles) for at most ten seconds, without a lock, then
 * calls the driver. Never waits for the GPU.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (also a token that is cut, changed, or of another version);
 * MEND_ERROR_EXPORTER_GONE (it has ended, does not respond, is of another user, or has freed the
 * block); MEND_ERROR_SYSTEM (no socket or file descriptor); MEND_ERROR_NOT_SUPPORTED (another page
 * size, no fabric handles, another IMEX channel or domain); MEND_ERROR_OUT_OF_ADDRESS_SPACE;
 * MEND_ERROR_OUT_OF_MEMORY; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER (also a device that
 * cannot reach the exporter's); MEND_ERROR_DEVICE_LOST. On failure nothing is mapped.
 */
MEND_API mend_result mend_import(mend_pool *pool, const void *token, size_t token_bytes,
                                 void **pointer, uint64_t *size_bytes);

/* ---- the end of an import -------------------------------------------------------------------- */

/*
 * Close one mend_import of `pointer`. All use of the memory must precede this point of `stream`.
 * The last close unmaps the memory: at once, or in a later call that changes mappings, when that
 * work is done. With MEND_NO_STREAM the call waits for all work of the context. The pool's end
 * closes its imports. May record an event.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (also MEND_EVERY_STREAM); MEND_ERROR_FOREIGN_POINTER (no
 * such import); MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_CAPTURING; MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. On failure the memory stays imported.
 */
MEND_API mend_result mend_import_close(mend_pool *pool, void *pointer, mend_stream stream);

/* ---- other devices --------------------------------------------------------------------------- */

/*
 * Let another device use all memory of the pool, imported memory included, from now on: in place of
 * cudaDeviceEnablePeerAccess, which affects only plain blocks. Two pools of a process enable each
 * other by default (mend_pool_config.peers). You may repeat the call. Each device makes mapping
 * more expensive, and you cannot disable it again. Calls the driver for all mapped memory. Never
 * waits for the GPU.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NOT_SUPPORTED (it cannot reach the memory);
 * MEND_ERROR_OUT_OF_MEMORY; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. On failure the device may be
 * able to use some memory, but no new memory.
 */
MEND_API mend_result mend_enable_peer(mend_pool *pool, int device);

#ifdef __cplusplus
}
#endif

#endif
