/* Readers of a pool that live beside it: the thread that records, the page that others read,
 * snapshots, stacks and scopes, regions. */
#ifndef MEND_RECORD_RECORD_H
#define MEND_RECORD_RECORD_H

#include <stdbool.h>

#include "layout/feature.h"
#include "mend/mend.h"
#include "mend/mend_inspect.h"

/* ---- regions.c ------------------------------------------------------------------------------- */

/* Writes the regions, up to `capacity` of them, each `region_bytes` behind the one before, and
 * returns how many there are. The caller holds both locks of the heap. Allocates nothing and does
 * not call the driver. */
size_t mend_observe_regions(const mend_heap *heap, void *regions, size_t region_bytes,
                            size_t capacity);

/* ---- recorder.c ------------------------------------------------------------------------------ */

/* The hook of the observers: NVTX, the recording and the page begin and end with the pool. */
mend_result mend_observers_hear(mend_pool *pool, mend_moment moment,
                                const mend_pool_config *config);

/* Starts to record, see mend_pool_config.record; the path is copied. MEND_ERROR_SYSTEM: no file, or
 * no thread; MEND_ERROR_OUT_OF_HOST_MEMORY. Nothing is left then. */
mend_result mend_recorder_start(mend_pool *pool, const char *path, uint64_t keep_bytes);

/* The process ends: all that happened so far is written. Called as the library ends. */
void mend_recorders_end(void);

/* ---- publisher.c ----------------------------------------------------------------------------- */

/* Starts to publish the pool and to write snapshots, as it is observed. MEND_ERROR_SYSTEM: no file,
 * no thread, or no signal; MEND_ERROR_OUT_OF_HOST_MEMORY. Nothing is left then. */
mend_result mend_publisher_open(mend_pool *pool);

/* These do nothing for a pool without a publisher. */

/* Ends the thread, and waits until it has ended; the caller holds no lock. Starts it again:
 * MEND_ERROR_SYSTEM. Ends all that there is of one that is stopped. */
void mend_publisher_stop(mend_pool *pool);
mend_result mend_publisher_start(mend_pool *pool);
void mend_publisher_close(mend_pool *pool);

/* Wants a page at once, of a pool that is published. */
void mend_publisher_ring(const mend_pool *pool);

/* ---- snapshot.c ------------------------------------------------------------------------------ */

/* Writes what the pool holds to PATH.1, or with the first number above *number that no file has;
 * *number is then that. A failure is a warning of the log. The caller holds no lock. */
void mend_pool_snapshot(mend_pool *pool, const char *path, unsigned *number);

/* ---- views.c --------------------------------------------------------------------------------- */

/* Asks the source of stacks, if there is one, about the block that the thread allocates now. The
 * caller holds no lock. */
void mend_pool_ask_stack(uint64_t size_bytes);

#endif
