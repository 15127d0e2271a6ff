/* Shared by the files of a running program: its world, and the users of each block. */
#ifndef MEND_TESTS_INTERLEAVE_ARENA_H
#define MEND_TESTS_INTERLEAVE_ARENA_H

#include "tests/interleave/program.h"

#define ARENA_PAGE_BYTES  (UINT64_C(64) << 10)
#define ARENA_CHUNK_BYTES (UINT64_C(256) << 10)

typedef struct arena arena;

typedef struct arena_pool {
    mend_pool *pool; /* NULL: there is none, or not for new operations */
    int users;       /* operations under way */
} arena_pool;

typedef struct arena_stream {
    mend_stream handle;
    int users;
    uint64_t named; /* so often */
} arena_stream;

typedef struct arena_slot {
    void *pointer; /* NULL: empty */
    uint64_t size_bytes;
    uint64_t tag; /* 0: its memory was not written */
    int pool;
    int stream;
    bool is_busy;                /* an operation under way allocates or frees the block */
    int users;                   /* operations under way */
    mend_graph_pool *graph_pool; /* it was allocated in */
    uint32_t declared;           /* streams, a bit each */
} arena_slot;

typedef struct arena_graph_pool {
    mend_graph_pool *graph_pool;
    int pool;
    int users; /* operations under way that name it */
    bool is_begun;
    bool is_busy;
    bool is_going; /* behind the work of a stream */
} arena_graph_pool;

typedef struct arena_callback {
    arena *arena;
    int number;
    bool is_added; /* from before it is added until its removal has returned */
    bool is_busy;  /* being added or removed */
} arena_callback;

/* Memory that a thread's allocation could have had when it last released the pool. */
typedef struct arena_thread {
    int pool; /* of the allocation. -1: none */
    bool has_room;
    uint64_t room_bytes;
} arena_thread;

struct arena {
    const program *program;
    program_outcome *outcome;
    mend_sim *sim;
    arena_pool pools[PROGRAM_POOLS];
    arena_stream streams[PROGRAM_STREAMS];
    arena_slot slots[PROGRAM_SLOTS];
    arena_graph_pool graph_pools[PROGRAM_GRAPH_POOLS];
    arena_callback callbacks[PROGRAM_CALLBACKS];
    arena_thread threads[SCHEDULE_THREADS + 1]; /* the last: of the test's own thread */
    uint64_t last_tag;
    int quiet_calls;       /* under way, during which nothing may be launched */
    bool has_lost_memory;  /* a pool was destroyed whose driver took not everything back */
    int restorations;      /* under way, each with a graph pool of its own */
    bool has_peer_pools;   /* there are, or were, several pools */
    bool is_broken;        /* the context is lost, or about to be */
    bool has_failed_calls; /* driver calls may fail */
    bool has_slept;        /* so some blocks may sleep now */
};

/* The first finding stays. */
__attribute__((format(printf, 2, 3))) void arena_find(arena *a, const char *format, ...);

arena_thread *arena_self(arena *a);

/* A call that may fail only where driver calls do, or `is_fine`. */
void arena_expect(arena *a, const char *call, mend_result result, bool is_fine);

/* An operation under way uses these, so that no other ends them. NULL: it is ending. */
mend_pool *arena_enter_pool(arena *a, int pool);
void arena_leave_pool(arena *a, int pool);
void arena_enter_stream(arena *a, int stream);
void arena_leave_stream(arena *a, int stream);

/* The operation does not apply. */
void arena_skip(arena *a);

/* Work on a block, unless it sleeps, or another thread's call may move it. What was not written is
 * not read. */
void arena_launch(arena *a, arena_slot *slot, int stream, mend_sim_work_kind kind);

/* The program's own order between two streams. */
void arena_stream_waits(arena *a, int stream, int other);

bool arena_open_pool(arena *a, int pool);
void arena_alloc(arena *a, const program_op *op);
void arena_free(arena *a, const program_op *op);
void arena_share(arena *a, const program_op *op);
void arena_forget(arena *a, const program_op *op);
void arena_replace_stream(arena *a, const program_op *op);
void arena_do(arena *a, const program_op *op);
void arena_do_all(arena *a, const program_list *list);

/* checker.c: at each point, after an allocation was refused, and at the end. */
void arena_watch(void *context, int thread);
void arena_check_refusal(arena *a, uint64_t size_bytes);
void arena_check_device(arena *a);
void arena_end(arena *a);

#endif
