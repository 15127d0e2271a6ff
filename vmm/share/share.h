/* Memory shared between devices and processes: peer devices, exported blocks, their descriptions,
 * the exporter's thread, and the importer's side, and pins, which keep a mapping. */
#ifndef MEND_SHARE_SHARE_H
#define MEND_SHARE_SHARE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/process.h"
#include "driver/driver.h"
#include "layout/feature.h"
#include "layout/state.h"
#include "mend/mend_results.h"
#include "mend/mend_share.h"

/* ---- wire.c ---------------------------------------------------------------------------------- */

/* It changes with every change of the structures below. */
#define MEND_SHARE_MARK UINT64_C(0x33446e656d45584d)

/* The content of a mend_export_token. */
typedef struct mend_token_content {
    uint64_t mark;
    unsigned char name[MEND_SHARE_NAME_BYTES]; /* of the exporter's socket */
    uint64_t key;
    uint64_t number;
    uint64_t process; /* its id, for people */
    uint64_t unused;
    uint64_t check; /* of all before it */
} mend_token_content;
static_assert(sizeof(mend_token_content) == sizeof(mend_export_token),
              "a token has no other bytes");

/* Whether it has sense: the block lies in the chunks, which are at most 2^20, of 2^60 bytes. */
bool mend_fetched_is_sound(const mend_fetched *all);

/* The first message of an importer. */
typedef struct mend_share_request {
    uint64_t mark;
    uint64_t key;
    uint64_t number;
} mend_share_request;

/* The answer: one message after the other, until all chunks are sent. Files of `count` chunks come
 * with each. */
enum { MEND_SHARE_BATCH = 64 };
typedef struct mend_share_reply {
    uint64_t mark;
    mend_fetched all; /* of no chunks: there is no such export */
    uint64_t count;   /* chunks in this message */
    uint64_t chunk_bytes[MEND_SHARE_BATCH];
} mend_share_reply;

/* The files of a message. */
typedef union mend_share_files {
    struct cmsghdr header; /* aligns the bytes */
    unsigned char bytes[CMSG_SPACE(sizeof(int) * MEND_SHARE_BATCH)];
} mend_share_files;

/* How long either side waits for the other. */
enum { MEND_SHARE_PATIENCE_MS = 10000 };

/* The token of an export. */
void mend_token_write(const mend_token_content *content, mend_export_token *token);

/* False: it is not a token of this version of the library, or it is damaged. */
bool mend_token_read(const mend_export_token *token, mend_token_content *content);

/* The address of an exporter's socket, in the abstract namespace, and its length. */
socklen_t mend_share_address(const unsigned char name[MEND_SHARE_NAME_BYTES],
                             struct sockaddr_un *address);

/* Whether the process at the other end runs as this one's user. */
bool mend_share_is_of_this_user(int connected);

/* Whether the process or the system has hardly a file descriptor left. The driver says "out of
 * memory" then, and may need several for one call. *limit is the process's. */
bool mend_share_lacks_files(uint64_t *limit);

/* The head of a description. */
typedef struct mend_description {
    uint64_t mark;
    uint64_t description_bytes; /* all of it */
    uint64_t number;            /* of the export in its process. Never 0 */
    mend_fetched all;
    uint64_t check; /* of all other bytes */
} mend_description;

/* Behind it, for each chunk in the order of addresses. */
typedef struct mend_described_chunk {
    uint64_t size_bytes;
    unsigned char handle[MEND_FABRIC_HANDLE_BYTES];
} mend_described_chunk;

/* The size of a description of so many chunks. */
size_t mend_description_size(size_t count);

/* Writes a description, part by part: each chunk, then the beginning, whose mark, size and check
 * are filled in here. `bytes` holds mend_description_size(head->all.count). */
void mend_description_write_chunk(void *bytes, size_t at, const mend_described_chunk *chunk);
void mend_description_write_head(void *bytes, const mend_description *head);

/* NULL: the bytes are a sound description, and *head is its beginning. Otherwise the fault, which
 * follows "the description". Reads no byte behind `size_bytes`. */
const char *mend_description_read(const void *bytes, size_t size_bytes, mend_description *head);

/* A chunk of a sound description. */
mend_described_chunk mend_description_chunk(const void *bytes, size_t at);

/* ---- socket.c -------------------------------------------------------------------------------- */

/* The receiver of the chunks. `begin` is called once, then `take` for each chunk in order, which
 * does not keep the file. A result that is not MEND_OK ends the conversation. */
typedef struct mend_share_taker {
    mend_result (*begin)(void *context, const mend_fetched *all);
    mend_result (*take)(void *context, int file, uint64_t size_bytes);
    void *context;
} mend_share_taker;

/* Fetches the chunks. Waits for the other process, for at most `patience_ms` in all. The caller
 * holds no lock. At most MEND_SHARE_BATCH files are open at a time, and none is when it returns.
 * MEND_ERROR_EXPORTER_GONE: the exporter has ended, does not answer, is of another user, or exports
 * this no more; MEND_ERROR_SYSTEM: the system refused a socket or file descriptors; or what the
 * taker returned. */
mend_result mend_share_fetch(const mend_token_content *token, uint64_t patience_ms,
                             const mend_share_taker *taker);

/*
 * The exporter's side: the exports of the process, and the thread that serves them.
 *
 * The first export of a process opens a socket and starts the thread, and both stay until the
 * process ends. The thread calls no driver and allocates nothing. It gives the files of an export's
 * chunks to processes of the same user that name the export, several at a time, and none for longer
 * than MEND_SHARE_PATIENCE_MS. All signals are blocked in it.
 *
 * All functions are thread-safe. The caller may hold the locks of a pool.
 */

/* Opens the socket and starts the thread, unless that is done. MEND_ERROR_SYSTEM: the system
 * refused one of them. Nothing is left. */
mend_result mend_share_open(void);

/* A number for an export. Never 0, never given again. */
uint64_t mend_share_next_number(void);

/* Lets importers have an export, by its number. Cannot fail. `export` and its chunks stay the
 * caller's, and stay as they are until mend_share_withdraw. */
void mend_share_publish(mend_published *export);

/* When it returns, no importer gets the export any more, and its files may be closed. */
void mend_share_withdraw(mend_published *export);

/* The token of a published export. */
void mend_share_write_token(const mend_published *export, mend_export_token *token);

/* ---- import.c -------------------------------------------------------------------------------- */

/* Here a driver scope is open only where it says so. */

typedef struct mend_imported_chunk {
    mend_chunk_handle handle; /* until it is mapped. 0: none */
    uint64_t size_bytes;
} mend_imported_chunk;

/* The key of an import: the token, or the description's number and its first fabric handle, which
 * belongs to one process. */
typedef struct mend_import_name {
    uint64_t number; /* 0: a token */
    unsigned char bytes[MEND_EXPORT_TOKEN_BYTES];
} mend_import_name;

typedef struct mend_imported {
    mend_mapped_import mapped;
    mend_tree_node by_name;
    mend_import_name name;
    uint64_t address; /* of the block, inside */
    uint64_t offset_bytes;
    uint64_t size_bytes;    /* of the block */
    uint64_t uses;          /* mend_import without mend_import_close. 0: it is closed */
    mend_deferred deferred; /* handles that the driver did not take back */
    size_t count;
    mend_imported_chunk chunks[];
} mend_imported;

void mend_imports_init(mend_heap *heap);

/* At the end of the heap: releases unused mappings and handles, then host memory. */
void mend_imports_give_back(mend_heap *heap, mend_ending *ending);
void mend_imports_clear(mend_heap *heap);

/* Releases the handles of the import, whose mappings keep the memory (layout/feature.h). */
void mend_imports_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking);

/* NULL: there is none. */
mend_imported *mend_imports_find_named(const mend_heap *heap, const mend_import_name *name);

/* ---- export.c -------------------------------------------------------------------------------- */

/* The caller holds `state`. Hooks of the feature (layout/feature.h). */
void mend_share_init(mend_heap *heap);
void mend_share_give_back(mend_heap *heap, mend_ending *ending);
void mend_share_clear(mend_heap *heap);
void mend_share_statistics(const mend_heap *heap, mend_stats *stats);

/* Ends the export of a marked block or page: all ways, and all pages of it. Cannot fail. No driver
 * call. */
void mend_exports_end(mend_heap *heap, const mend_span *span);

/* The number of exports in a chunk, in a way or, for MEND_EXPORT_WAYS, in any, and whether exactly
 * the marked spans are exported, given their number. O(exports). */
uint64_t mend_exports_in(const mend_heap *heap, const mend_chunk *chunk, mend_export_way way);
bool mend_exports_are_right(const mend_heap *heap, uint64_t marked);

/* ---- peers.c --------------------------------------------------------------------------------- */

/* A hook of the table. */
mend_result mend_peers_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config);

/* ---- pin.c ----------------------------------------------------------------------------------- */

void mend_pins_init(mend_heap *heap);

/* The number of pins that cover a byte of the chunk, besides exports: of the program, and of blocks
 * that must lie in one chunk, which need no other record. O(pins + blocks in the chunk). */
uint64_t mend_pins_of(const mend_heap *heap, const mend_chunk *chunk);

#endif
