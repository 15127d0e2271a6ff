/* Whether a stream may use free memory, and how to make it so. */
#ifndef MEND_LAYOUT_READY_H
#define MEND_LAYOUT_READY_H

#include "layout/layout.h"

/* Whether all of [address, address + size) of a run is ready for the stream; for
 * MEND_STREAM_UNKNOWN: is idle. Joins spans of the run that have become idle. */
bool mend_layout_is_ready(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes,
                          uint32_t stream, bool behind_wait);

/* The same for an empty chunk; what is not mapped is ready. Remembers a stamp that holds it, so
 * that no search looks into the run again before that has passed. */
bool mend_layout_chunk_is_ready(mend_heap *heap, mend_chunk *chunk, uint32_t stream,
                                bool behind_wait);

/* Makes the stream wait, on the device, for each stamp of the range that is not ready. Calls the
 * driver. */
mend_result mend_layout_make_ready(mend_heap *heap, mend_run *run, uint64_t address,
                                   uint64_t size_bytes, uint32_t stream);

/* The most nodes of waits that it takes to cut a stretch out of its run and to put it elsewhere, if
 * nothing changes before. None in the usual case, where each span has one stamp; a change that
 * touches much counts them, because mend_layout_nodes_for has one for each chunk and stream. */
size_t mend_layout_count_waits(mend_heap *heap, mend_run *run, uint64_t from, uint64_t end);

#endif
