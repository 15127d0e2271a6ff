/*
 * Exported blocks: live blocks that other processes can import, by file, by fabric handles, or in
 * both ways. Invariants, checked by the audit:
 * - an export is of one live block, which is marked, and a marked block has one export;
 * - the chunks that hold an exported block are pinned once for it, and count it in each of its
 * ways;
 * - a chunk has a file exactly while it counts an export by file, and a fabric handle if it counts
 *   an export by fabric handles;
 * - an export by file is published, in the number of its chunks and with their files.
 *
 * The caller holds `state`, and to add an export `grow` too.
 */
#ifndef MEND_USERS_EXPORT_H
#define MEND_USERS_EXPORT_H

#include "layout/state.h"
#include "mend/mend_share.h"

void mend_exports_init(mend_heap *heap);

/* Exports a live block by file, if it is not yet, and writes its token. Calls the driver; `state`
 * stays held. MEND_ERROR_NOT_SUPPORTED, MEND_ERROR_SYSTEM, MEND_ERROR_OUT_OF_HOST_MEMORY,
 * MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: nothing changed. */
mend_result mend_exports_add(mend_heap *heap, mend_span *span, mend_export_token *token);

/* The size of the description of a live block. O(chunks of the block). */
size_t mend_exports_description_size(const mend_heap *heap, const mend_span *span);

/* Exports a live block by fabric handles, if it is not yet, and writes its description, for which
 * there is room. Calls the driver; `state` stays held. MEND_ERROR_NOT_SUPPORTED,
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: nothing changed. */
mend_result mend_exports_describe(mend_heap *heap, mend_span *span, void *description);

/* Ends all exports of a block. Cannot fail; no driver call. */
void mend_exports_end(mend_heap *heap, mend_span *span);

/* Ends all exports. */
void mend_exports_clear(mend_heap *heap);

/* The number of blocks in a chunk that are exported in a way; and whether just the marked blocks
 * are exported, given their number. O(exports). */
uint64_t mend_exports_in(const mend_heap *heap, const mend_chunk *chunk, mend_export_way way);
bool mend_exports_are_right(const mend_heap *heap, uint64_t marked_blocks);

#endif
