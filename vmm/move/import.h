/*
 * Imports: blocks of other processes, mapped among the pool's own addresses. An import takes
 * addresses for the chunks that hold the block, and nothing else. It has mappings but no handles:
 * the driver keeps the memory as long as it is mapped. It is no chunk of the pool: nothing of it is
 * moved, given to requests or counted as reserved. A handle that the driver does not take back is
 * offered again later, so that the exporter's memory does not stay in use for it. Invariants,
 * checked by the audit:
 * - the mappings of an import follow each other, and take their addresses;
 * - an import is in both trees, and is used at least once; only one that is closed is in none;
 * - just the imports with a handle are in the list of unreleased ones.
 *
 * The caller holds both locks.
 */
#ifndef MEND_MOVE_IMPORT_H
#define MEND_MOVE_IMPORT_H

#include "layout/state.h"
#include "mend/mend_share.h"

typedef struct mend_imported_chunk {
    mend_chunk_handle handle; /* until it is mapped; 0: none */
    uint64_t size_bytes;
} mend_imported_chunk;

/* What an import is known by: the token, or the description's number and its first fabric handle,
 * which belongs to one process. */
typedef struct mend_import_name {
    uint64_t number; /* 0: a token */
    unsigned char bytes[MEND_EXPORT_TOKEN_BYTES];
} mend_import_name;

typedef struct mend_imported {
    mend_tree_node by_address;
    mend_tree_node by_name;
    mend_import_name name;
    uint64_t mapped_at; /* start of the first chunk */
    uint64_t all_bytes; /* of all chunks */
    uint64_t address;   /* of the block, inside */
    uint64_t offset_bytes;
    uint64_t size_bytes; /* of the block */
    uint64_t uses;       /* mend_import without mend_import_close; 0: it is closed */
    mend_list link;      /* in the list of unreleased ones, while is_unreleased */
    bool is_unreleased;
    size_t count;
    mend_imported_chunk chunks[];
} mend_imported;

void mend_imports_init(mend_heap *heap);

/* Frees host memory. */
void mend_imports_clear(mend_heap *heap);

/* NULL: there is none. */
mend_imported *mend_imports_find_named(const mend_heap *heap, const mend_import_name *name);
mend_imported *mend_imports_find_address(const mend_heap *heap, uint64_t address);

/*
 * Maps the chunks of an import, whose fields but the addresses are set, adds it to the heap, which
 * then owns it, and releases the handles. Calls the driver. MEND_ERROR_OUT_OF_ADDRESSES,
 * MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST: nothing is mapped, and handles and import are the caller's.
 */
mend_result mend_imports_map(mend_heap *heap, mend_imported *import);

/* Takes over what was imported and is not needed: releases the handles, and frees the import. Calls
 * the driver, inside a scope of its own. */
void mend_imports_discard(mend_heap *heap, mend_imported *import);

/* Offers the driver again what it did not take back. Inside an open scope. */
void mend_imports_settle(mend_heap *heap);

/* Undoes one use. The last one removes the import and retires its mappings, which are idle after
 * the stamp; then unmaps what is idle. `asking` is the stream of the current call.
 * MEND_ERROR_OUT_OF_HOST_MEMORY: nothing changed. Calls the driver, inside an open scope. */
mend_result mend_imports_close(mend_heap *heap, mend_imported *import, mend_stamp stamp,
                               uint32_t asking);

#endif
