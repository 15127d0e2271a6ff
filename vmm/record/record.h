/* The observers of a pool: its history, a recording, the page that others read, snapshots, scopes,
 * owners, regions, and ranges for a profiler. */
#ifndef MEND_RECORD_RECORD_H
#define MEND_RECORD_RECORD_H

#include <stdbool.h>

#include "layout/feature.h"
#include "mend/mend.h"
#include "mend/mend_inspect.h"
#include "record/live_page.h"
#include "record/recording.h"

/* ---- history.c ------------------------------------------------------------------------------- */

/* Events on their way from a heap to the recorder without a lock or a wait: if the ring is full
 * they are lost, and counted. The thread that holds the heap's `state` lock writes, the recorder
 * reads. The capacities are powers of two. */
enum { MEND_EVENT_RING_ROOM = 65536, MEND_EVENT_RING_FAILURES = 16 };

typedef struct mend_event_ring {
    mend_history_event *events;
    int bell; /* a file that is written when the reader must not tarry */
    _Atomic(uint64_t) written;
    _Atomic(uint64_t) read;
    _Atomic(uint64_t) lost;
    _Atomic(uint64_t) failures_written;
    _Atomic(uint64_t) failures_read;
    mend_event_failure failures[MEND_EVENT_RING_FAILURES];
} mend_event_ring;

/* The oldest event, which stays until mend_event_ring_pass. NULL: there is none. */
const mend_history_event *mend_event_ring_next(mend_event_ring *ring);
void mend_event_ring_pass(mend_event_ring *ring);

/* A ring of the last events of a pool, which overwrites the oldest. Events have unique numbers, so
 * each reader remembers its place, and sees missed events. A recording gets the same events through
 * a ring of its own. Guarded by the heap's `state` lock. */
typedef struct mend_history {
    mend_listener listener;
    mend_events *heard;
    mend_history_event *events;
    uint64_t capacity;          /* events. 0: no ring */
    uint64_t held;              /* events in the ring */
    uint64_t next;              /* number of the next event, from 1 */
    mend_event_ring *recording; /* NULL: none */
} mend_history;

/* It hears MEND_TOLD_.... Guarded by the heap's `state` lock. */
typedef struct mend_scopes {
    mend_listener listener;
    const mend_heap *heap;
    mend_scope_info *of; /* by number. 0 is unused */
    uint32_t capacity;
} mend_scopes;

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

/* Off. */
void mend_history_init(mend_history *history, mend_events *heard);

/* Goes on in `events`, of `capacity`, with the newest events that fit there. NULL and 0: off.
 * Returns the events before, for the caller to free. */
mend_history_event *mend_history_exchange(mend_history *history, mend_history_event *events,
                                          uint64_t capacity);

/* From now on events go to this ring, too. */
void mend_history_record(mend_history *history, mend_event_ring *recording);

/* Writes up to `capacity` events from *cursor on, each `event_bytes` behind the one before, moves
 * *cursor behind them, and returns their number. */
size_t mend_history_copy(const mend_history *history, uint64_t *cursor, void *events,
                         size_t event_bytes, size_t capacity);

/* ---- regions.c ------------------------------------------------------------------------------- */

/* Writes the memory of the pool to PATH.1, or with the first number above *number that no file has.
 * *number is then that number. A failure is a warning of the log. The caller holds no lock. */
void mend_pool_snapshot(mend_pool *pool, const char *path, unsigned *number);

/* ---- owners.c -------------------------------------------------------------------------------- */

/* The owners of a heap's memory: its live blocks and pages summed by scope and tag, or else by
 * size, the age of the oldest, and suspected leaks. Found by a walk over all of them on request:
 * only the number of each block's birth is recorded before. Guarded by the heap's `state` lock. */

/* How many there can be: those by scope, tag and size, and the classes of
 * size that the rest counts for. */
enum { MEND_OWNERS_OWN = 1024, MEND_OWNERS_MOST = MEND_OWNERS_OWN + 64 };

/* The default keys of owners. */
enum {
    MEND_BY_DEFAULT = MEND_BY_SCOPE | MEND_BY_TAG | MEND_BY_STACK,
    MEND_BY_ANY = MEND_BY_DEFAULT | MEND_BY_STREAM
};

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

/*
 * A sum of all live blocks, and, unless `unused` is NULL, there of all reserved bytes that are not
 * live, for a stream that owns nothing. It may be made in steps: the caller holds `state` in each,
 * and not in between, so that other threads wait only briefly. Of memory that comes, goes or moves
 * meanwhile some counts twice or not.
 *
 * Begins one, told apart `by` (MEND_BY_..., not 0), without a lock. NULL: no host memory.
 */
typedef struct mend_owners_sum mend_owners_sum;
mend_owners_sum *mend_owners_begin(unsigned by, mend_live_free *unused);

/* Adds some `spans` more, in whole chunks. False: all are summed. */
bool mend_owners_add(mend_owners_sum *of, const mend_heap *heap, size_t spans);

/* Writes the same as mend_owners_find, and ends the sum. */
void mend_owners_end(mend_owners_sum *of, const mend_heap *heap, mend_owner *largest,
                     size_t capacity, mend_owner *suspect, size_t *total);

/* So many at a time take some 50 us. */
enum { MEND_SPANS_OF_A_STEP = 2048 };

/* Writes the owners with most bytes, told apart `by` (MEND_BY_..., not 0), up to `capacity`, in
 * falling order of bytes, and to `suspect` the one that grew most, or one of 0 bytes. `total`: how
 * many there are. False: the host has no memory for the sums, and nothing is written. O(blocks).
 * The caller holds `state`. */
bool mend_owners_find(const mend_heap *heap, unsigned by, mend_owner *largest, size_t capacity,
                      mend_owner *suspect, size_t *total);

/* Steady growth, by the same rule in a recording and in a running pool. Work is divided into
 * stretches of equally many events. The permanent memory of an owner in each of them is its line.
 * Temporary blocks come and go above it. A line that rises, and does not come back, is growth. */

/* The first stretches, in which programs build up their permanent memory, do not count. Nor does a
 * program of few events. */
enum {
    MEND_GROWTH_STRETCHES = 24,
    MEND_GROWTH_WARM_UP = 4,
    MEND_GROWTH_JUDGED = MEND_GROWTH_STRETCHES - MEND_GROWTH_WARM_UP,
    MEND_GROWTH_LEAST_EVENTS = 240,
    /* So many blocks of one owner are no single pass through the layers of a model. */
    MEND_GROWTH_MANY_BLOCKS = 384
};

/* The growth of a line. 0 if it is below 1 MiB or 0.5 % of `peak_bytes`, or not steady. Steady
 * means: at least half of the steps go up, it never falls by more than a quarter of the growth, and
 * each half has a quarter. A late begin is an unfinished step. */
uint64_t mend_growth_judge(const uint64_t least_bytes[MEND_GROWTH_STRETCHES], uint64_t peak_bytes);

/* ---- explain.c ------------------------------------------------------------------------------- */

/* The hook of the table. */
void mend_explain(mend_heap *heap, const mend_unserved *unserved,
                  mend_owner owners[MEND_OWNERS_TOLD], char *text, size_t text_bytes);

/* ---- recorder.c ------------------------------------------------------------------------------ */

/* Starts to record, see mend_pool_config.record. The path is copied. MEND_ERROR_SYSTEM: no file, or
 * no thread; MEND_ERROR_OUT_OF_HOST_MEMORY. After a failure the pool ends. */
mend_result mend_recorder_start(mend_observers *observers, const char *path, uint64_t keep_bytes);
void mend_recorder_stop(mend_observers *observers);

/* ---- publisher.c ----------------------------------------------------------------------------- */

/* Starts to publish the pool and to write snapshots, as it is observed. MEND_ERROR_SYSTEM: no file,
 * no thread, or no signal; MEND_ERROR_OUT_OF_HOST_MEMORY. After a failure the pool ends. */
mend_result mend_publisher_start(mend_observers *observers);

/* Ends that, if there is a publisher, and waits for its thread. The caller holds no lock. */
void mend_publisher_stop(mend_observers *observers);

/* Wants a page at once, of a pool that is published. */
void mend_publisher_ring(const mend_observers *observers);

/* SIGUSR2, by which people ask a pool for a snapshot. */

/* From now on SIGUSR2 writes to `bell`, an eventfd that does not block, and then calls the
 * program's own handler, if there is one. A child of fork has the handler that the program had. The
 * caller holds no lock, and the code stays loaded. False: MEND_BELLS bells are there, or another
 * handler has come above Mend's, which may or may not call it. */
bool mend_signals_hear(int bell);

/* No more, and no thread writes to it when this returns. With the last bell the program has its own
 * handler back, unless it has set another meanwhile. */
void mend_signals_miss(int bell);

/* ---- nvtx.c ---------------------------------------------------------------------------------- */

/* Loads the profiler that NVTX_INJECTION64_PATH names, once in a process, before its first pool.
 * Not in a program with more rights than its user. The caller holds no lock. */
void mend_nvtx_load(void);

/* ---- observers.c ----------------------------------------------------------------------------- */

/* The hooks of the table. */
mend_result mend_observers_hear(mend_pool *pool, mend_moment moment,
                                const mend_pool_config *config);
void mend_observers_count(const mend_heap *heap, mend_stats *stats);

#endif
