/*
 * A compaction: the live memory of a partly used chunk is copied to chunks no larger than it needs,
 * which take its place at the same addresses. The chunk is empty then; pointers and contents stay.
 * All work of the context has been waited for, and nobody launches any meanwhile: the program has
 * declared so.
 *
 * While a chunk is compacted it is *frozen*: its free memory is claimed, so that nobody takes it,
 * and what is freed in it is claimed at once (mend_layout_free). When it thaws it is free memory as
 * any other. A new chunk stays frozen longer when the driver refuses to map it at its address: the
 * bytes are safe in it, its blocks cannot be used, and later calls try again (move/remap.h).
 *
 * Both locks are held, the driver scope is open; `state` is let go of around slow calls of the
 * driver.
 */
#ifndef MEND_MOVE_COMPACT_H
#define MEND_MOVE_COMPACT_H

#include "policy/victims.h"

/* Compacts one chunk, and counts it in the pass. MEND_ERROR_OUT_OF_MEMORY: there is no memory for
 * it elsewhere; MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: the heap
 * is as it was before, or blocks miss their mappings. */
mend_result mend_compact_chunk(mend_compact_pass *pass, mend_chunk *chunk);

#endif
