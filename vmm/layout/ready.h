/* Whether free memory may be used by a stream, and what makes it so. */
#ifndef MEND_LAYOUT_READY_H
#define MEND_LAYOUT_READY_H

#include "layout/layout.h"

/* Everything in [address, address + size) of a run is ready for the stream; for
 * MEND_STREAM_UNKNOWN: is idle. Joins what has become idle on the way. */
bool mend_layout_is_ready(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes,
                          uint32_t stream, bool behind_wait);

/* Makes the stream wait, on the device, for whatever of the range is not ready. Reaches the driver.
 */
mend_result mend_layout_make_ready(mend_heap *heap, mend_run *run, uint64_t address,
                                   uint64_t size_bytes, uint32_t stream);

#endif
