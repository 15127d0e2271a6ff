/*
 * Exports: live blocks, and committed pages of a range, that other processes can import, by file,
 * by fabric handles, or in both ways. Invariants, checked by the audit:
 * - an export is of one live block, or of committed pages that follow each other, which are marked;
 *   what is marked has one export;
 * - the chunks that hold what is exported are pinned once for it, and count it in each of its
 *   ways;
 * - a chunk has a file exactly while it counts an export by file, and a fabric handle if it counts
 *   an export by fabric handles;
 * - an export by file is published, in the number of its chunks and with their files.
 *
 * The caller holds `state`, and to add an export `grow` too.
 */
#ifndef MEND_USERS_EXPORT_H
#define MEND_USERS_EXPORT_H

#include "layout/range.h"
#include "mend/mend_share.h"

/* What is exported: a live block, or committed pages. */
typedef struct mend_extent {
    mend_range *range; /* NULL: a block */
    mend_span *span;   /* the block; of pages NULL */
    uint64_t address;
    uint64_t size_bytes;
} mend_extent;

void mend_exports_init(mend_heap *heap);

/* The export that contains an address. False: there is none. O(log exports). */
bool mend_exports_find(const mend_heap *heap, uint64_t address, mend_extent *found);

/* Exports by file what is not yet, and writes its token. It has an export as a whole, or none.
 * Calls the driver; `state` stays held. MEND_ERROR_NOT_SUPPORTED, MEND_ERROR_SYSTEM,
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: nothing changed. */
mend_result mend_exports_add(mend_heap *heap, const mend_extent *what, mend_export_token *token);

/* The size of the description. O(chunks of the block, or of the pages). */
size_t mend_exports_description_size(const mend_heap *heap, const mend_extent *what);

/* Exports by fabric handles what is not yet, and writes its description, for which there is room.
 * As above. Calls the driver; `state` stays held. MEND_ERROR_NOT_SUPPORTED,
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: nothing changed. */
mend_result mend_exports_describe(mend_heap *heap, const mend_extent *what, void *description);

/* Ends the export of a marked block or page: all ways, and all pages of it. Cannot fail; no driver
 * call. */
void mend_exports_end(mend_heap *heap, const mend_span *span);

/* Ends all exports. */
void mend_exports_clear(mend_heap *heap);

/* The number of exports in a chunk, in a way; and whether just what is marked is exported, given
 * the number of marked spans. O(exports). */
uint64_t mend_exports_in(const mend_heap *heap, const mend_chunk *chunk, mend_export_way way);
bool mend_exports_are_right(const mend_heap *heap, uint64_t marked);

#endif
