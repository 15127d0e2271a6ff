/*
 * Exported blocks: live blocks that other processes can import. Invariants, checked by the audit:
 * - an export is of one live block, which is marked, and a marked block has one export;
 * - the chunks that hold an exported block are pinned, count it, and have a file;
 * - a chunk has a file exactly while it counts an export.
 *
 * The caller holds `state`, and for mend_exports_add `grow` too.
 */
#ifndef MEND_USERS_EXPORT_H
#define MEND_USERS_EXPORT_H

#include "layout/state.h"
#include "mend/mend_share.h"

void mend_exports_init(mend_heap *heap);

/* Exports a live block, if it is not exported yet, and writes its token. Calls the driver; `state`
 * stays held. MEND_ERROR_NOT_SUPPORTED, MEND_ERROR_SYSTEM, MEND_ERROR_OUT_OF_HOST_MEMORY,
 * MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: nothing changed. */
mend_result mend_exports_add(mend_heap *heap, mend_span *span, mend_export_token *token);

/* Ends the export of a block. Cannot fail; no driver call. */
void mend_exports_end(mend_heap *heap, mend_span *span);

/* Ends all exports. */
void mend_exports_clear(mend_heap *heap);

/* The number of exported blocks in a chunk; and whether just the marked blocks are exported, given
 * their number. O(exports). */
uint64_t mend_exports_in(const mend_heap *heap, const mend_chunk *chunk);
bool mend_exports_are_right(const mend_heap *heap, uint64_t marked_blocks);

#endif
