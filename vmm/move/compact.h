/*
 * A compaction: copies the live memory of a partly used chunk to chunks no larger than needed,
 * which replace it at the same addresses. The chunk is empty then; pointers and contents stay. All
 * work of the context is done, and the program has promised not to launch any meanwhile.
 *
 * During a compaction the chunk is *frozen*: its free memory is claimed, so that no thread takes
 * it, and so is memory that is freed in it (mend_layout_free). Afterwards it is free memory like
 * any other. If the driver refuses to map a new chunk at its address, that chunk stays frozen: it
 * has the bytes, its blocks cannot be used, and later calls try again (move/remap.h).
 *
 * The caller holds both locks, and a driver scope is open; slow driver calls release `state`.
 */
#ifndef MEND_MOVE_COMPACT_H
#define MEND_MOVE_COMPACT_H

#include "policy/victims.h"

/* Compacts one chunk, and counts it in the pass. MEND_ERROR_OUT_OF_MEMORY: there is no other memory
 * to copy to; MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: the heap is
 * unchanged, or some blocks lack their mappings. */
mend_result mend_compact_chunk(mend_compact_pass *pass, mend_chunk *chunk);

#endif
