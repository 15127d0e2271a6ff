/*
 * The records of a chunk whose memory was exchanged: it has other memory, or becomes several
 * chunks. Nothing here fails or calls the driver; the caller promised the nodes.
 */
#ifndef MEND_LAYOUT_REPLACE_H
#define MEND_LAYOUT_REPLACE_H

#include "layout/state.h"

/* Gives a frozen chunk, which lacks nothing, the memory of others[0], and that one the old memory.
 * If there are several, all of the device, the chunk ends where others[0] did, and the next ones
 * follow at its addresses, frozen; each claimed span lies in one of them afterwards. */
void mend_layout_replace(mend_heap *heap, mend_chunk *chunk, mend_chunk *const others[],
                         size_t count);

#endif
