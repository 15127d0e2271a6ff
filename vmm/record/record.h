/* Readers of a pool that live beside it: the thread that records, the page that others read,
 * snapshots, stacks and scopes, regions. */
#ifndef MEND_RECORD_RECORD_H
#define MEND_RECORD_RECORD_H

#include <stdbool.h>

#include "layout/feature.h"
#include "mend/mend.h"
#include "mend/mend_inspect.h"
#include "record/history.h"
#include "record/live_page.h"

/* ---- scopes.c -------------------------------------------------------------------------------- */

/* It hears MEND_TOLD_.... Guarded by the heap's `state` lock. */
typedef struct mend_scopes {
    mend_listener listener;
    const mend_heap *heap;
    mend_scope_info *of; /* by number. 0 is unused */
    uint32_t capacity;
} mend_scopes;

void mend_scopes_hear(mend_listener *listener, mend_history_event *event);

/* The observers of a pool, from its begin to its end. */
typedef struct mend_observers {
    mend_pool *pool;
    mend_history history;
    mend_scopes scopes;
    struct mend_recorder *recorder;   /* NULL: nothing is recorded */
    struct mend_publisher *publisher; /* NULL: none */
} mend_observers;

/* NULL: of a heap without a pool. */
mend_observers *mend_observers_of(const mend_heap *heap);

/* ---- observers.c ----------------------------------------------------------------------------- */

/* The hooks of the table. */
mend_result mend_observers_hear(mend_pool *pool, mend_moment moment,
                                const mend_pool_config *config);
void mend_observers_count(const mend_heap *heap, mend_stats *stats);

/* ---- regions.c ------------------------------------------------------------------------------- */

/* Writes the regions, up to `capacity` of them, each `region_bytes` behind the one before, and
 * returns how many there are. The caller holds both locks of the heap. Allocates nothing and does
 * not call the driver. */
size_t mend_observe_regions(const mend_heap *heap, void *regions, size_t region_bytes,
                            size_t capacity);

/* ---- free.c ---------------------------------------------------------------------------------- */

/* The reason why the asking stream cannot use a free byte. If there are several reasons, the last
 * in this list counts. An empty chunk has one reason for all its bytes, because it moves as a
 * whole. */
typedef enum mend_free_reason {
    MEND_FREE_IDLE,        /* nothing, and it may be unmapped */
    MEND_FREE_OWN,         /* none for this stream, but work of this stream may still use it */
    MEND_FREE_STREAMS,     /* work of other streams may still use it */
    MEND_FREE_STREAMLESS,  /* freed without a stream: only a wait for the context helps */
    MEND_FREE_GRAPH_POOLS, /* captured graphs may still use it */
    MEND_FREE_REASONS
} mend_free_reason;

/* The reason of a free span. MEND_STREAM_UNKNOWN means a stream that owns nothing. */
mend_free_reason mend_observe_reason(const mend_heap *heap, const mend_span *span, uint32_t asking);

/* All reserved bytes that are not live, for a stream that owns nothing: in steps of some `spans`,
 * between which the caller may release the two locks of the heap. *below is UINT64_MAX at first.
 * False: all are summed. Allocates nothing and does not call the driver. */
bool mend_observe_free(const mend_heap *heap, size_t spans, uint64_t *below, mend_live_free *sums);

/* ---- recorder.c ------------------------------------------------------------------------------ */

/* Starts to record, see mend_pool_config.record. The path is copied. MEND_ERROR_SYSTEM: no file, or
 * no thread; MEND_ERROR_OUT_OF_HOST_MEMORY. Nothing is left then. */
mend_result mend_recorder_start(mend_observers *observers, const char *path, uint64_t keep_bytes);
void mend_recorder_stop(mend_observers *observers);

/* The process ends: all that happened so far is written. Called as the library ends. */
void mend_recorders_end(void);

/* ---- publisher.c ----------------------------------------------------------------------------- */

/* Starts to publish the pool and to write snapshots, as it is observed. MEND_ERROR_SYSTEM: no file,
 * no thread, or no signal; MEND_ERROR_OUT_OF_HOST_MEMORY. After a failure the pool ends. */
mend_result mend_publisher_open(mend_observers *observers);

/* These do nothing for a pool without a publisher. */

/* Ends the thread, and waits until it has ended. The caller holds no lock. Starts it again:
 * MEND_ERROR_SYSTEM. Ends all that there is of one that is stopped. */
void mend_publisher_stop(mend_observers *observers);
mend_result mend_publisher_start(mend_observers *observers);
void mend_publisher_close(mend_observers *observers);

/* Wants a page at once, of a pool that is published. */
void mend_publisher_ring(const mend_observers *observers);

/* ---- snapshot.c ------------------------------------------------------------------------------ */

/* Writes the memory of the pool to PATH.1, or with the first number above *number that no file has.
 * *number is then that number. A failure is a warning of the log. The caller holds no lock. */
void mend_pool_snapshot(mend_pool *pool, const char *path, unsigned *number);

#endif
