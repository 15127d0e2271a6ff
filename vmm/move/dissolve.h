/*
 * The end of aliases (physical/alias.h) that nothing uses: their memory is free at the chunk's own
 * address again, and their mappings retire. A layout change: calls no driver.
 */
#ifndef MEND_MOVE_DISSOLVE_H
#define MEND_MOVE_DISSOLVE_H

#include "layout/state.h"

/* Ends all aliases without blocks and pins; not those whose memory waits for captured graphs, which
 * may know the address. *any: there was one. MEND_OK; MEND_ERROR_OUT_OF_HOST_MEMORY: the others
 * stay. The caller holds both locks. */
mend_result mend_dissolve_aliases(mend_heap *heap, bool *any);

#endif
