/*
 * Programs of a few threads over a simulated device and up to three pools on it: lists of
 * operations, plain numbers, which keep the rules of mend.h in every schedule. An operation that
 * does not apply when its turn comes (the slot is empty, the stream is just being destroyed) is
 * skipped.
 *
 * All that threads share here is touched by the one that runs alone, and never across a point.
 */
#ifndef MEND_TESTS_INTERLEAVE_PROGRAM_H
#define MEND_TESTS_INTERLEAVE_PROGRAM_H

#include "mend/mend.h"
#include "mend/mend_sim.h"
#include "tests/interleave/schedule.h"

enum {
    PROGRAM_POOLS = 3,
    PROGRAM_STREAMS = 4,
    PROGRAM_SLOTS = 10,
    PROGRAM_GRAPH_POOLS = 2,
    PROGRAM_CALLBACKS = 2,
    PROGRAM_OPS = 40,
    PROGRAM_FINDING_BYTES = 512
};

/* X(kind, the function of operations.c or blocks.c, which numbers it uses). A slot holds at most
 * one block, for any thread to take. */
#define PROGRAM_KINDS(X)                                                                           \
    X(ALLOC, arena_alloc)                   /* pool, slot, stream, bytes. Its memory is written */ \
    X(FREE, arena_free)                     /* slot. Verified, and freed on its stream */          \
    X(FREE_ELSEWHERE, arena_free)           /* slot, stream: which waits for the block's first */  \
    X(FREE_ANYWHEN, arena_free)             /* slot: freed without a stream */                     \
    X(SHARE, arena_share)                   /* slot, stream: declared, and verified there */       \
    X(TRIM, room)                           /* pool, bytes. An odd number of them: and waits */    \
    X(SET_LIMIT, room)                      /* pool, bytes */                                      \
    X(FORGET, arena_forget)                 /* pool, stream */                                     \
    X(REPLACE_STREAM, arena_replace_stream) /* stream: forgotten, destroyed, another made */       \
    X(GRAPH_POOL_BEGIN, begin_graph_pool)   /* graph pool, pool, stream. Made if need be */        \
    X(GRAPH_POOL_END, end_graph_pool)       /* graph pool */                                       \
    X(GRAPH_POOL_RELEASE, release_graph_pool) /* graph pool, stream, or none: bytes is even */     \
    X(ADD_CALLBACK, add_callback)             /* callback. On the first pool */                    \
    X(REMOVE_CALLBACK, remove_callback)                                                            \
    X(POOL_CREATE, create_pool)   /* pool, not the first */                                        \
    X(POOL_DESTROY, destroy_pool) /* pool, not the first */                                        \
    X(FAIL, fail_calls)           /* bytes: which call, after how many, how often */               \
    X(BREAK, break_context)       /* bytes: after how many calls the context is lost */            \
    X(ADVANCE, advance)           /* bytes: nanoseconds */                                         \
    X(VALIDATE, room)             /* pool */                                                       \
    X(LOOK, look)                 /* pool, slot: all that can be asked */                          \
    X(COMPACT, room)              /* pool, where calls are safe points */                          \
    X(PIN, pin)                   /* slot: pinned, a pause, unpinned */                            \
    X(RESTORE, restore) /* pool, stream, bytes: blocks of a graph pool, freed, restored */         \
    X(TELL, tell)       /* pool, bytes: its history begins or ends, and is read */                 \
    X(ALLOC_ANYWHERE, arena_alloc) /* as alloc, without a stream */                                \
    X(FREE_BY_THREAD, arena_free)  /* slot: on the stream of the thread, which ends with it */     \
    X(FORGET_OWN, forget_own)      /* pool: that stream */                                         \
    X(ALLOC_IN, arena_alloc)       /* as alloc, and graph pool: named */                           \
    X(FREE_IN, arena_free)         /* slot, graph pool: named */                                   \
    X(SLEEP, sleep)                /* pool, bytes: all blocks sleep, and wake */                   \
    X(PAGES, pages)                /* pool, stream, bytes: of a range, committed and decommitted */

typedef enum program_kind {
#define X(kind, act) PROGRAM_##kind,
    PROGRAM_KINDS(X)
#undef X
        PROGRAM_KIND_COUNT
} program_kind;

typedef struct program_op {
    program_kind kind;
    int pool;
    int slot;
    int stream;
    int graph_pool;
    int callback;
    uint64_t bytes;
} program_op;

typedef struct program_list {
    int count;
    program_op ops[PROGRAM_OPS];
} program_list;

typedef struct program {
    int threads;
    int pools; /* there from the beginning */
    uint64_t memory_bytes;
    uint64_t limit_bytes;    /* of each pool. 0: the device's */
    bool may_vanish;         /* detect_destroyed_streams */
    bool may_not_wait;       /* allow_stream_waits off */
    bool lacks_events;       /* the driver has none of the whole context */
    uint64_t unfenced_bytes; /* as in mend_placement (layout/state.h). 0: as the pool has it */
    program_list before;     /* run alone, before the threads begin */
    program_list work[SCHEDULE_THREADS];
    program_list in_callback[PROGRAM_CALLBACKS];
} program;

typedef struct program_outcome {
    char finding[PROGRAM_FINDING_BYTES]; /* "" when all is well */
    uint64_t allocations;
    uint64_t refused; /* for want of memory */
    uint64_t skipped;
    schedule_outcome schedule;
} program_outcome;

/* Runs it under a plan. False when something was found. */
bool program_run(const program *p, const schedule_plan *plan, const char *banner, FILE *trace,
                 program_outcome *outcome);

void program_print(FILE *out, const program *p);

#endif
