/* The views of a pool: its memory, region by region, its owners, and its history.
 * mend.h includes this file. */
#ifndef MEND_MEND_INSPECT_H
#define MEND_MEND_INSPECT_H

#include <stddef.h>
#include <stdint.h>

#include "mend/mend_results.h"
#include "mend/mend_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- regions --------------------------------------------------------------------------------- */

/* The kind of a region. Later versions may add kinds. */
typedef enum mend_region_kind {
    MEND_REGION_LIVE = 1,    /* a live block */
    MEND_REGION_FREE = 2,    /* free memory, and known to be idle */
    MEND_REGION_WAITING = 3, /* free memory that work or graphs may still use */
    MEND_REGION_PAGE = 4     /* a committed page of a range (mend_range.h): like a block */
} mend_region_kind;

/* A stretch of mapped memory in one state: a live block or page, or free memory of which each byte
 * has the same fields. It may span several chunks. Fields may be added at the end. */
typedef struct mend_region {
    void *address;
    uint64_t size_bytes;         /* of a block: rounded up to 512 */
    void *segment;               /* the start of the contiguous mapped addresses of its zone that it
                                  * lies in */
    int kind;                    /* a mend_region_kind */
    int is_small;                /* 1: in the small zone, whose chunks are small */
    int is_pinned;               /* 1: in a chunk with a pin or an export (a block: one of its
                                  * chunks is); see mend_pin */
    int is_for_graphs;           /* 1: kept for captured graphs: for those of `graph_pool`, or, if
                                  * that is NULL, of a capture outside of graph pools */
    uint64_t requested_bytes;    /* of a block: the size asked for; 0: free memory */
    mend_stream stream;          /* of a block: the stream that it was allocated for. Of waiting
                                  * memory: the stream that may still use it. MEND_NO_STREAM: none,
                                  * several, or one that the program has forgotten */
    mend_graph_pool *graph_pool; /* the graph pool that the memory belongs to; NULL: none */
    uint64_t tag;                /* of a block: the tag that it was allocated with; 0: none */
    int is_unmapped;             /* 1: a compaction could not map it again (of a block: a part of
                                  * it), and it cannot be used now; see mend_compact */
    int is_asleep;               /* 1: it sleeps (of a block: a part of it); see mend_sleep */
    int contents_dropped;        /* of a block: 1: a sleep dropped contents of it: see
                                  * mend_backup */
    uint32_t scope;              /* of a block or page: number of the scope that it was allocated in
                                  * (mend_scope_info); 0: none */
    uint32_t stack;              /* of a block: the number of its stack (mend_stack_set_source); 0:
                                  * none */
    uint64_t sleep_tag;          /* of a block or page: as in mend_block_info; 0: none */
    int is_pending;              /* 1: waiting memory that the stream which freed it cannot have
                                  * yet: another one may still use it (mend_record_stream) */
} mend_region;

/*
 * Lists all mapped and all sleeping memory of the pool by rising address, as one consistent
 * picture: the regions of a segment follow each other without a gap. Free regions that touch differ
 * in a field. Retired mappings, memory of other processes (mend_import), and empty chunks that are
 * mapped nowhere are in no region. Waits of a region are those that the pool knows without asking
 * the driver: waiting memory may be idle by now.
 *
 * Fills `regions` with *count elements of `region_bytes` each: pass sizeof(mend_region). If there
 * are more than `capacity`, only *count is set, to their number; call again with more room, because
 * the pool may have changed. `regions` may be NULL if `capacity` is 0. The time is proportional to
 * the number of blocks, chunks and pieces of free memory. Waits for a thread that makes room; no
 * driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (`region_bytes` is 0 or ends inside a field).
 */
MEND_API mend_result mend_get_regions(mend_pool *pool, mend_region *regions, size_t region_bytes,
                                      size_t capacity, size_t *count);

/* ---- scopes ---------------------------------------------------------------------------------- */

/* For mend_scope_push. */
enum {
    /* What threads allocate that are in no scope of their own counts for this scope, and for those
     * that the thread begins inside it, until its pop: for frameworks that run a part of a step in
     * threads of theirs, as PyTorch its backward pass. If several threads do so, the last call of
     * one of them applies. */
    MEND_SCOPE_OF_ALL_THREADS = 1
};

/*
 * Begins a scope of the calling thread, inside the one that it is in: until mend_scope_pop the
 * blocks and pages that it allocates, in any pool, count for this path of names, as "step" and
 * "forward" in it. The same path is the same scope, in every thread. `name` is copied; of a longer
 * one the first 63 bytes count, less a cut character of UTF-8. `flags`: 0 or
 * MEND_SCOPE_OF_ALL_THREADS.
 *
 * Each push needs one pop, a failed one too: memory allocated between them counts for the scope
 * around. May be called before there is a pool. Takes a lock of the process for a look into a table
 * of names; an allocation or a free costs one addition for each scope around it, and outside of all
 * scopes nothing. No driver call. A child of fork keeps the scopes,
 * but no scope of all threads.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (`name` is NULL or ""; other flags);
 * MEND_ERROR_OUT_OF_HOST_MEMORY (or the process has 65,535 paths).
 */
MEND_API mend_result mend_scope_push(const char *name, unsigned flags);

/*
 * End the innermost scope of the calling thread. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (the thread
 * is in no scope).
 */
MEND_API mend_result mend_scope_pop(void);

/* The memory allocated in one pool in a scope and in the scopes inside it. Bytes of blocks are
 * rounded up to 512, as live_bytes of mend_stats. Fields may be added at the end. */
typedef struct mend_scope_info {
    const char *name;             /* its last name; valid as long as the process */
    uint32_t number;              /* its number in the process, from 1 */
    uint32_t around;              /* the number of the scope around it; 0: none */
    uint64_t live_bytes;          /* now, by whichever thread they are freed */
    uint64_t own_live_bytes;      /* of these, not in the scopes inside it */
    uint64_t own_live_blocks;     /* their number */
    uint64_t peak_live_bytes;     /* most live_bytes: see mend_reset_peak_stats */
    uint64_t allocations;         /* blocks and pages, ever */
    uint64_t pool_peak_bytes;     /* most live bytes of the whole pool just after an allocation in
                                   * it, since mend_reset_peak_stats */
    uint64_t pool_reserved_bytes; /* most reserved_bytes of the pool at such a moment */
} mend_scope_info;

/*
 * Lists the scopes in which something was allocated in the pool, by their numbers: a scope comes
 * before those inside it. Blocks that were allocated outside of all scopes are in none. Array and
 * `capacity` as of mend_get_regions, with sizeof(mend_scope_info). Holds the lock that allocations
 * need for a time proportional to the number of scopes; no driver call. Results as
 * mend_get_regions.
 */
MEND_API mend_result mend_get_scopes(mend_pool *pool, mend_scope_info *scopes, size_t scope_bytes,
                                     size_t capacity, size_t *count);

/* ---- names ----------------------------------------------------------------------------------- */

/* The things that a program gives names to. Later versions may add kinds. */
typedef enum mend_name_kind {
    MEND_NAME_TAG = 1,    /* a tag of mend_alloc_options or of a range, or a sleep tag */
    MEND_NAME_STREAM = 2, /* a stream, by its handle */
    MEND_NAME_STACK = 3   /* a stack of mend_stack_set_source */
} mend_name_kind;

/*
 * Names a number of the process, for people: owners, the message of out of memory, the log,
 * recordings and snapshots say "kv cache" instead of "tag 7". `number` is the tag, or the handle of
 * the stream cast to it. The name is copied; of a longer one the first 127 bytes count, as for a
 * scope. A second name for a number takes the place of the first, ""
 * takes it away. Streams that are destroyed keep theirs: name the next one that has the handle.
 *
 * Call it once for each number, before or after there is a pool. Takes a lock of the process for a
 * look into a table; costs allocations nothing. A child of fork keeps the names. No driver call.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (another kind; `name` is NULL);
 * MEND_ERROR_OUT_OF_HOST_MEMORY (or 65,535 names were given, second ones included).
 */
MEND_API mend_result mend_set_name(mend_name_kind kind, uint64_t number, const char *name);

/* ---- stacks ---------------------------------------------------------------------------------- */

/*
 * Says where in the program the calling thread is: a number from 1 to 65,535 that the program gives
 * to that stack of calls, which it names once by MEND_NAME_STACK ("train.py:41 step"); higher ones
 * count as 65,535; 0: it does not know. Called by mend_alloc and mend_alloc_with in the thread that
 * allocates, before they look for memory, without a lock; several threads at once. It may call
 * Mend. Its own allocations have no stack.
 */
typedef uint32_t (*mend_stack_source)(void *context, uint64_t size_bytes);

/*
 * From now on each block of at least `every_bytes` has the number that `source` says, and of
 * smaller ones that by which those of a thread come to that sum: so all large blocks have one, and
 * the small ones a sample by bytes. Others have none. Regions, events, recordings and owners say
 * it. Of the process, for all pools; NULL ends it. `context` is borrowed, and passed to the source;
 * another thread may still be inside the previous one when this returns. A child of fork keeps it.
 *
 * Off, it costs three instructions an allocation. On, a block that is not asked about costs 100,
 * another one 175 and the source. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT
 * (`every_bytes` is 0 with a source); MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_stack_set_source(mend_stack_source source, void *context,
                                           uint64_t every_bytes);

/* ---- owners ---------------------------------------------------------------------------------- */

/* The keys of mend_get_owners: any of these together. */
enum { MEND_BY_SCOPE = 1, MEND_BY_TAG = 2, MEND_BY_STREAM = 4, MEND_BY_STACK = 8 };

/*
 * Lists the owners of the pool's memory, in falling order of bytes: see mend_owner. `by` is a sum
 * of MEND_BY_...; 0: scope, tag and stack. Blocks that have none of these are told apart by their
 * size; a stream each block has, MEND_NO_STREAM is one. A block without a tag of its own counts for
 * its sleep tag (mend_alloc_options), here and in all other figures by tag. Blocks beyond 1,024
 * owners count as blocks of up to a power of two. An owner is a suspect of a leak if it has kept
 * blocks of at least half of the time: of 24 stretches of equally many allocations, without the
 * first four and the last, a quarter of the growth in either half, 1 MiB and 0.5 % of the peak at
 * least; and if at least half of all blocks have been freed, because at first a program builds up
 * what it keeps.
 *
 * Array and `capacity` as of mend_get_regions, with sizeof(mend_owner); but if there are more, the
 * largest are listed, and *count is the number of all. Holds the lock that allocations need for a
 * time proportional to the number of live blocks (some 130 instructions each); no driver call.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY (0.3 MiB, for the time of the
 * call).
 */
MEND_API mend_result mend_get_owners(mend_pool *pool, unsigned by, mend_owner *owners,
                                     size_t owner_bytes, size_t capacity, size_t *count);

/* ---- history --------------------------------------------------------------------------------- */

/* The kind of an event. Later versions may add kinds. */
typedef enum mend_event_kind {
    MEND_EVENT_ALLOC = 1,         /* a block was allocated, for `stream` */
    MEND_EVENT_FREE = 2,          /* a block was freed, on `stream` */
    MEND_EVENT_MAP = 3,           /* addresses entered the regions of the pool, as free memory */
    MEND_EVENT_UNMAP = 4,         /* free memory left them: its chunk moves, or goes back */
    MEND_EVENT_CREATE = 5,        /* a chunk was created; no address */
    MEND_EVENT_RELEASE = 6,       /* a chunk was given back to the driver; no address */
    MEND_EVENT_COMPACT = 7,       /* the live blocks of a chunk were copied out of it */
    MEND_EVENT_OUT_OF_MEMORY = 8, /* a request failed: its size and stream; no address */
    MEND_EVENT_HOST_WAIT = 9,     /* the host waited for the GPU */
    MEND_EVENT_STREAM_WAIT = 10,  /* `stream` was made to wait for another on the GPU */
    MEND_EVENT_TRIM = 11,         /* a trim ended: the bytes it gave back; no address */
    MEND_EVENT_LIMIT = 12,        /* a limit was set: its bytes; no address */
    MEND_EVENT_PIN = 13,          /* a range was pinned */
    MEND_EVENT_UNPIN = 14,        /* a pin was undone */
    MEND_EVENT_GRAPH_POOL_DESTROY = 15, /* `graph_pool` was destroyed: the pointer is no longer
                                         * valid */
    MEND_EVENT_SLEEP = 16,              /* a chunk with its blocks went to sleep: see mend_sleep */
    MEND_EVENT_WAKE = 17,     /* its addresses are usable again, in this or another chunk */
    MEND_EVENT_COMMIT = 18,   /* pages of a range were committed, for `stream` */
    MEND_EVENT_DECOMMIT = 19, /* pages of a range were decommitted, on `stream` */
    MEND_EVENT_EXCHANGE = 20, /* the memory at these addresses is in another chunk now */
    MEND_EVENT_KINDS
} mend_event_kind;

/* Why an event happened. Of ALLOC: the dearest step that made room for it, in the order of these
 * numbers; of OUT_OF_MEMORY: what refused the memory; of others but FREE: the call that they are a
 * part of. Later versions may add causes. */
typedef enum mend_event_cause {
    MEND_CAUSE_NONE = 0,             /* a call that is not named here */
    MEND_CAUSE_HIT = 1,              /* the front cache had a block of this size */
    MEND_CAUSE_RUN = 2,              /* free memory that was mapped */
    MEND_CAUSE_MOVED = 4,            /* idle chunks were mapped elsewhere */
    MEND_CAUSE_CREATED = 5,          /* chunks were created */
    MEND_CAUSE_STREAM_WAITED = 6,    /* a stream waits for another on the GPU */
    MEND_CAUSE_HOST_WAITED = 7,      /* the host waited for the GPU */
    MEND_CAUSE_LIMIT_REFUSED = 10,   /* the limit, or its owners */
    MEND_CAUSE_DEVICE_REFUSED = 11,  /* the driver, which had no memory */
    MEND_CAUSE_REQUEST = 12,         /* an allocation, or a commit of pages */
    MEND_CAUSE_TRIM = 13,            /* mend_trim */
    MEND_CAUSE_LIMIT = 14,           /* mend_set_limit */
    MEND_CAUSE_BACKGROUND_TRIM = 15, /* the same with MEND_TRIM_BY_POLICY, or the background
                                      * thread */
    MEND_CAUSE_PEER = 16,            /* another pool asked for memory */
    MEND_CAUSE_COMPACT = 17,         /* mend_compact */
    MEND_CAUSE_SLEEP = 18,           /* mend_sleep, mend_wake and mend_prepare_checkpoint */
    MEND_CAUSES
} mend_event_cause;

/* One event of a pool. A field that its kind does not mention is 0, and `stream` MEND_NO_STREAM.
 * Fields may be added at the end. */
typedef struct mend_history_event {
    uint64_t sequence;           /* from 1, one more with each event of the pool */
    uint64_t time_ns;            /* CLOCK_MONOTONIC; on a simulated device its clock */
    int kind;                    /* a mend_event_kind */
    int is_for_graphs;           /* of a block: 1: it belongs to captured graphs */
    void *address;               /* where a block or a range begins */
    uint64_t size_bytes;         /* of a block: rounded up to 512 */
    mend_stream stream;          /* see the kind */
    mend_graph_pool *graph_pool; /* of a block: its graph pool, or NULL; it may be released by now,
                                  * so use it only to compare */
    uint64_t tag;                /* of a block: the tag that it was allocated with; of pages: the
                                  * tag of their range; without one the sleep tag; 0: none */
    uint64_t requested_bytes;    /* of a block: the size asked for */
    uint64_t chunk;              /* of memory: the number of its chunk in the pool, which the chunk
                                  * keeps when it moves, and which no other gets; of a block: of the
                                  * chunk in which it begins. 0: none, or several */
    uint64_t duration_ns;        /* of ALLOC: how long it took to make room for it, with waits for
                                  * threads that make room, too; 0: there was room. Of others but
                                  * FREE: how long slow calls of the driver took since the last
                                  * event that says so */
    uint32_t scope;              /* of a block: the number of the scope that it was allocated in */
    int cause;                   /* a mend_event_cause */
    uint32_t stack;              /* of a block: the number of its stack; 0: none */
} mend_history_event;

/*
 * Keep the last `capacity_events` events of the pool from now on, in host memory (104 bytes each).
 * 0 stops the history and frees the memory. With another capacity, it keeps the newest events that
 * fit. Sequence numbers go on over stops and starts. Each event reads the clock. Recording does not
 * change addresses or driver calls. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT;
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST (kept events can still be read). After an
 * error nothing has changed.
 */
MEND_API mend_result mend_history_start(mend_pool *pool, uint64_t capacity_events);

/*
 * Reads events from *cursor on, the oldest first, and moves *cursor behind them; *count is their
 * number. Begin with a *cursor of 0: the oldest event that the pool still has. Each reader has a
 * cursor of its own, so several read independently. Events that were overwritten before they were
 * read are a gap in the sequence numbers. `events` has room for `capacity` elements of
 * `event_bytes` each: pass sizeof(mend_history_event). 0 events: nothing happened since, or the
 * history is off.
 *
 * Events of a pool are in the order in which they took effect: a block's ALLOC comes behind the MAP
 * of its memory and before its FREE, and UNMAP behind that. What a call does and undoes again is
 * there, too: a chunk that could not be moved leaves and comes back. No driver call; holds the lock
 * that allocations need for no more than 256 events at a time. MEND_OK; MEND_ERROR_INVALID_ARGUMENT
 * (`event_bytes` is 0 or ends inside a field; *cursor is not one of this pool).
 */
MEND_API mend_result mend_history_read(mend_pool *pool, uint64_t *cursor,
                                       mend_history_event *events, size_t event_bytes,
                                       size_t capacity, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
