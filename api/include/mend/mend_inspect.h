/* Views of a pool: its regions, its owners and its history. */
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

/* The kind of a region. */
typedef enum mend_region_kind {
    MEND_REGION_LIVE = 1,    /* a live block */
    MEND_REGION_FREE = 2,    /* free memory, known to be idle */
    MEND_REGION_WAITING = 3, /* free memory that work or graphs may still use */
    MEND_REGION_PAGE = 4     /* a committed page of a range: like a block */
} mend_region_kind;

/* A stretch of mapped memory in one state: a live block, a page, or free memory. It may span
 * several chunks. */
typedef struct mend_region {
    void *address;
    uint64_t size_bytes;         /* of a block: rounded up to 512 */
    void *segment;               /* start of the contiguous mapped addresses around it */
    int kind;                    /* a mend_region_kind */
    int is_small;                /* 1: in the small zone, which has small chunks */
    int is_pinned;               /* 1: in a chunk with a pin or an export (mend_pin) */
    int is_for_graphs;           /* 1: reserved for captured graphs */
    uint64_t requested_bytes;    /* of a block: the size asked for */
    mend_stream stream;          /* of a block: as allocated. Of waiting memory: the stream that may
                                  * still use it. MEND_NO_STREAM: none, several, or an unregistered
                                  * one */
    mend_graph_pool *graph_pool; /* its graph pool. NULL: none */
    uint64_t tag;                /* of a block: its tag. 0: none */
    int is_unmapped;             /* 1: at least a part is unusable (mend_compact) */
    int is_asleep;               /* 1: at least a part sleeps */
    int contents_dropped;        /* 1: a sleep dropped contents of the block (mend_backup) */
    uint32_t scope;              /* of a block or page: number of its scope (mend_scope_info). 0:
                                  * none */
    uint32_t stack;              /* of a block: number of its stack (mend_stack_set_source). 0:
                                  * none */
    uint64_t sleep_tag;          /* of a block or page: its sleep tag. 0: none */
    int is_pending;              /* 1: waiting memory that another stream than its own may still
                                  * use */
} mend_region;

/*
 * List all mapped and sleeping memory of the pool by rising address, as one consistent picture,
 * without retired mappings and imported memory. The regions of a segment follow each other without
 * a gap. Waiting memory may be idle by now, because the call does not ask the driver.
 *
 *     mend_region regions[1024];
 *     size_t count;
 *     mend_get_regions(pool, regions, sizeof regions[0], 1024, &count);
 *
 * Fills `regions` with *count elements of `region_bytes` each: pass sizeof(mend_region). If there
 * are more than `capacity`, only *count is set, to their number: call again with a larger array.
 * `regions` may be NULL if `capacity` is 0. The time is proportional to the blocks, chunks and
 * pieces of free memory. Waits for a thread that changes mappings. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (`region_bytes` is 0 or ends inside a field).
 */
MEND_API mend_result mend_get_regions(mend_pool *pool, mend_region *regions, size_t region_bytes,
                                      size_t capacity, size_t *count);

/* ---- scopes ---------------------------------------------------------------------------------- */

/* For mend_scope_push. */
enum {
    /* The scope also applies to threads without a scope of their own, and encloses scopes that they
     * begin, until its pop: for a backward pass in other threads. The last push with this flag
     * applies. */
    MEND_SCOPE_OF_ALL_THREADS = 1
};

/*
 * Begin a scope of this thread, inside its current one. Until mend_scope_pop, blocks and pages that
 * the thread allocates, in any pool, count for this path of names. The same path is the same scope
 * in every thread. The first 63 bytes of `name` are copied. `flags` is 0 or
 * MEND_SCOPE_OF_ALL_THREADS.
 *
 *     mend_scope_push("step", 0);
 *     mend_scope_push("forward", 0); // the scope "step/forward"
 *     mend_scope_pop();
 *     mend_scope_pop();
 *
 * Each push needs one pop, even if the push failed: memory then counts for the outer scope. You may
 * call it before there is a pool. A child of fork keeps the scopes, but no scope of all threads.
 * Takes a lock of the process. An allocation or a free costs one addition for each scope around it.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (`name` is NULL or "", or other flags);
 * MEND_ERROR_OUT_OF_HOST_MEMORY (also if the process has 65,535 paths).
 */
MEND_API mend_result mend_scope_push(const char *name, unsigned flags);

/*
 * End the innermost scope of the calling thread. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (the thread
 * is in no scope).
 */
MEND_API mend_result mend_scope_pop(void);

/* The memory of one pool in a scope and its inner scopes, counted as live_bytes of mend_stats. */
typedef struct mend_scope_info {
    const char *name; /* its last name, valid as long as the process */
    uint32_t number;  /* its number in the process, from 1 */
    uint32_t around;  /* number of the scope around it */
    uint64_t live_bytes;
    uint64_t own_live_bytes; /* of these, outside of inner scopes */
    uint64_t own_live_blocks;
    uint64_t peak_live_bytes;     /* most live_bytes since mend_reset_peak_stats */
    uint64_t allocations;         /* blocks and pages, ever */
    uint64_t pool_peak_bytes;     /* most live bytes of the whole pool after an allocation in it */
    uint64_t pool_reserved_bytes; /* most reserved_bytes at such a moment */
} mend_scope_info;

/*
 * List the scopes in which the pool has allocated, outer ones first. Array and `capacity` as in
 * mend_get_regions. Blocks the allocation lock for a time proportional to the number of scopes.
 * Results as mend_get_regions.
 */
MEND_API mend_result mend_get_scopes(mend_pool *pool, mend_scope_info *scopes, size_t scope_bytes,
                                     size_t capacity, size_t *count);

/* ---- names ----------------------------------------------------------------------------------- */

/* The things that you can name. */
typedef enum mend_name_kind {
    MEND_NAME_TAG = 1,    /* a tag of a block or a range, or a sleep tag */
    MEND_NAME_STREAM = 2, /* a stream, by its handle */
    MEND_NAME_STACK = 3   /* a stack of mend_stack_set_source */
} mend_name_kind;

/*
 * Name a number: owners, messages, the log, traces and snapshots then say "kv cache" instead of
 * "tag 7". `number` is the tag, or the handle of the stream. The first 127 bytes of the name are
 * copied. A second name replaces the first, and "" removes it. A destroyed stream keeps its name
 * for the next one with its handle.
 *
 *     mend_set_name(MEND_NAME_TAG, 7, "kv cache");
 *
 * Names are of the process: you need no pool, and a child of fork keeps them. Takes a lock of the
 * process.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (also another kind); MEND_ERROR_OUT_OF_HOST_MEMORY (also
 * after 65,535 names).
 */
MEND_API mend_result mend_set_name(mend_name_kind kind, uint64_t number, const char *name);

/* ---- stacks ---------------------------------------------------------------------------------- */

/*
 * Return a number for the stack of the calling thread: 1 to 65,535 (higher ones count as 65,535),
 * or 0 if you do not know it. Name each number once with MEND_NAME_STACK ("train.py:41 step").
 * Allocations call it, several threads at once and without a lock. It may call Mend. Its own
 * allocations have no stack.
 */
typedef uint32_t (*mend_stack_source)(void *context, uint64_t size_bytes);

/*
 * Number the stacks of allocations, in all pools of the process: of each block from `every_bytes`
 * on, and of one smaller block in each such sum of bytes of a thread. NULL ends it. `context` is
 * borrowed and passed to the source. Another thread may still be inside the previous source when
 * this returns. A child of fork keeps it.
 *
 * Off, it costs three instructions for each allocation. On, it costs 100, and for a sampled block
 * 175 and the source. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (`every_bytes` is 0 with a source);
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_stack_set_source(mend_stack_source source, void *context,
                                           uint64_t every_bytes);

/* ---- owners ---------------------------------------------------------------------------------- */

/* Keys for mend_get_owners. */
enum { MEND_BY_SCOPE = 1, MEND_BY_TAG = 2, MEND_BY_STREAM = 4, MEND_BY_STACK = 8 };

/*
 * List the owners of the pool's memory, in falling order of bytes. `by` is a sum of MEND_BY_...,
 * and 0 means scope, tag and stack. Blocks without any of these are grouped by size. A block
 * without a tag counts for its sleep tag, here and in all statistics by tag. Blocks beyond 1,024
 * owners count as blocks of up to a power of two.
 *
 *     mend_owner owners[10];
 *     size_t count;
 *     mend_get_owners(pool, MEND_BY_TAG, owners, sizeof owners[0], 10, &count);
 *
 * An owner may leak (growth_bytes) if it has kept blocks from at least half of the time: of 24
 * equal stretches of allocations, without the first four and the last. Each half must have a
 * quarter of the growth, which must reach 1 MiB and 0.5 % of the peak. At least half of all blocks
 * must have been freed, because a program first builds up its permanent memory.
 *
 * Array as in mend_get_regions, but of more than `capacity` the largest are listed, and *count is
 * the number of all. Blocks the allocation lock for some 130 instructions for each live block.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY (0.3 MiB, during the call).
 */
MEND_API mend_result mend_get_owners(mend_pool *pool, unsigned by, mend_owner *owners,
                                     size_t owner_bytes, size_t capacity, size_t *count);

/* ---- history --------------------------------------------------------------------------------- */

/* The kind of an event. */
typedef enum mend_event_kind {
    MEND_EVENT_ALLOC = 1,               /* a block was allocated, for `stream` */
    MEND_EVENT_FREE = 2,                /* a block was freed, on `stream` */
    MEND_EVENT_MAP = 3,                 /* addresses became free memory of the pool */
    MEND_EVENT_UNMAP = 4,               /* free memory left: its chunk moves, or is released */
    MEND_EVENT_CREATE = 5,              /* a chunk was created. No address */
    MEND_EVENT_RELEASE = 6,             /* a chunk was released to the driver. No address */
    MEND_EVENT_COMPACT = 7,             /* the live blocks of a chunk were copied out of it */
    MEND_EVENT_OUT_OF_MEMORY = 8,       /* a request failed: its size and stream. No address */
    MEND_EVENT_HOST_WAIT = 9,           /* the CPU waited for the GPU */
    MEND_EVENT_STREAM_WAIT = 10,        /* `stream` was made to wait for another on the GPU */
    MEND_EVENT_TRIM = 11,               /* a trim ended: the released bytes. No address */
    MEND_EVENT_LIMIT = 12,              /* a limit was set: its bytes. No address */
    MEND_EVENT_PIN = 13,                /* a range was pinned */
    MEND_EVENT_UNPIN = 14,              /* a pin was undone */
    MEND_EVENT_GRAPH_POOL_DESTROY = 15, /* `graph_pool` was destroyed */
    MEND_EVENT_SLEEP = 16,              /* a chunk with its blocks went to sleep */
    MEND_EVENT_WAKE = 17,               /* its addresses are usable again */
    MEND_EVENT_COMMIT = 18,             /* pages of a range were committed, for `stream` */
    MEND_EVENT_DECOMMIT = 19,           /* pages of a range were decommitted, on `stream` */
    MEND_EVENT_EXCHANGE = 20,           /* these addresses are of another chunk now */
    MEND_EVENT_KINDS
} mend_event_kind;

/* The cause of an event. Of ALLOC: the step that found memory for it. Of OUT_OF_MEMORY: the limit
 * or the device. Of others, except FREE: their call. */
typedef enum mend_event_cause {
    MEND_CAUSE_NONE = 0,             /* another call */
    MEND_CAUSE_HIT = 1,              /* a cached block of this size */
    MEND_CAUSE_RUN = 2,              /* free mapped memory */
    MEND_CAUSE_MOVED = 4,            /* idle chunks, mapped elsewhere */
    MEND_CAUSE_CREATED = 5,          /* new chunks */
    MEND_CAUSE_STREAM_WAITED = 6,    /* a stream waits for another on the GPU */
    MEND_CAUSE_HOST_WAITED = 7,      /* the CPU waited for the GPU */
    MEND_CAUSE_LIMIT_REFUSED = 10,   /* the limit, or its owners */
    MEND_CAUSE_DEVICE_REFUSED = 11,  /* the driver had no memory */
    MEND_CAUSE_REQUEST = 12,         /* an allocation, or a commit of pages */
    MEND_CAUSE_TRIM = 13,            /* mend_trim */
    MEND_CAUSE_LIMIT = 14,           /* mend_set_limit */
    MEND_CAUSE_BACKGROUND_TRIM = 15, /* mend_trim with MEND_TRIM_BY_POLICY, or the background
                                      * thread */
    MEND_CAUSE_PEER = 16,            /* another pool asked for memory */
    MEND_CAUSE_COMPACT = 17,         /* mend_compact */
    MEND_CAUSE_SLEEP = 18,           /* mend_sleep, mend_wake and mend_prepare_checkpoint */
    MEND_CAUSES
} mend_event_cause;

/* One event of a pool. Fields that its kind does not mention are 0 or MEND_NO_STREAM. */
typedef struct mend_history_event {
    uint64_t sequence;   /* its number in the pool, from 1 */
    uint64_t time_ns;    /* CLOCK_MONOTONIC, or the clock of a simulated device */
    int kind;            /* a mend_event_kind */
    int is_for_graphs;   /* 1: a block that belongs to captured graphs */
    void *address;       /* its start */
    uint64_t size_bytes; /* of a block: rounded up to 512 */
    mend_stream stream;
    mend_graph_pool *graph_pool; /* of a block. Use it only to compare, because it may be destroyed
                                  * by now */
    uint64_t tag;                /* of a block, or of the range of pages. Without one: the sleep
                                  * tag */
    uint64_t requested_bytes;    /* of a block: the size asked for */
    uint64_t chunk;              /* the number of its chunk in the pool, which is unique. 0: none,
                                  * as asleep, or several */
    uint64_t duration_ns;        /* of ALLOC: the time to find memory, if none was free. Of others,
                                  * except FREE: the time of slow driver calls since the last event
                                  * that has a duration */
    uint32_t scope;              /* of a block: number of its scope */
    int cause;                   /* a mend_event_cause */
    uint32_t stack;              /* of a block: number of its stack. 0: none */
} mend_history_event;

/*
 * Record the last `capacity_events` events of the pool from now on, in host memory (104 bytes
 * each). 0 stops it and frees the memory. Another capacity keeps the newest events that fit.
 * Sequence numbers go on over stops and starts. Each event reads the clock. Recording does not
 * change addresses or driver calls.
 *
 *     mend_history_start(pool, 65536);
 *     mend_history_event events[256];
 *     uint64_t cursor = 0;
 *     size_t count;
 *     mend_history_read(pool, &cursor, events, sizeof events[0], 256, &count);
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST (you
 * can still read events).
 */
MEND_API mend_result mend_history_start(mend_pool *pool, uint64_t capacity_events);

/*
 * Read at most `capacity` events from *cursor on, the oldest first, and advance *cursor. 0 means
 * the oldest event that the pool still has. *count is their number. Each reader has its own cursor.
 * A gap in the sequence numbers means that events were overwritten first.
 *
 * Events are in the order in which they took effect: MAP of the memory, ALLOC, FREE, UNMAP. Steps
 * that a call undoes are there too. Blocks the allocation lock for at most 256 events at a time.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (`event_bytes` is 0 or ends inside a field, or *cursor is
 * not of this pool).
 */
MEND_API mend_result mend_history_read(mend_pool *pool, uint64_t *cursor,
                                       mend_history_event *events, size_t event_bytes,
                                       size_t capacity, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
