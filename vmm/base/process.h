/*
 * All state of the process beside pools: the log's sink, the loaded CUDA driver, the lists of pools
 * and of watched streams (the members), default pools and overrides, exports, names, the profiler,
 * listeners of SIGUSR2, the environment. State of a thread is in thread.h. Nothing else in the
 * library has a mutable variable of static lifetime, or reads the environment.
 *
 * A child of fork starts empty, with all locks free: no members, no log sink, no driver, no last
 * errors, no exports (their files are closed there). Only the names and the profiler stay. SIGUSR2
 * is the program's. A member that the child inherits must check for itself: see
 * mend_process_generation.
 */
#ifndef MEND_BASE_PROCESS_H
#define MEND_BASE_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/pointer_map.h"
#include "base/thread.h"
#include "base/tree.h"
#include "mend/mend.h"

/* ---- fork ------------------------------------------------------------------------------------ */

/* Called before anything is made that a child of fork must not inherit. From then on Mend notices
 * forks that go through libc. It does not notice a raw system call. MEND_OK;
 * MEND_ERROR_OUT_OF_HOST_MEMORY (does not set the thread's last error; call again). Thread-safe.
 * After the first success it costs one load. */
mend_result mend_process_prepare(void);

/* ---- members --------------------------------------------------------------------------------- */

/* Embedded in an object that others of its kind must find. The owner sets domain and device before
 * it joins, and may read the number. The functions below own the rest. */
typedef struct mend_process_member {
    mend_list link;
    const void *domain; /* scope of device numbers. The same number in another domain is another
                         * device */
    int device;
    unsigned visitors;
    uint64_t number; /* of the member, in order of joining. 0: it has not joined, or has left */
} mend_process_member;

/* Objects of one kind. */
typedef struct mend_process_members {
    mend_mutex mutex;
    pthread_cond_t visit_ended;
    mend_list list; /* in order of their numbers */
    uint64_t last_number;
} mend_process_members;

extern mend_process_members mend_process_pools __attribute__((visibility("hidden")));

/* Streams that will be captured, or were seen captured. The locks of a pool may be held while one
 * joins, leaves or is visited. */
extern mend_process_members mend_process_watches __attribute__((visibility("hidden")));

/* The caller of these holds no lock, or none above that of the members. The member was not
 * inherited through fork. */

/* After this, visitors may come from other threads. */
void mend_process_join(mend_process_members *members, mend_process_member *member);

/* Waits for visitors of the member. When it returns, no thread visits the member or will visit it.
 * A visitor of the same member may not call it. */
void mend_process_leave(mend_process_members *members, mend_process_member *member);

/* Returns the next member of a domain and device (domain NULL: of any), or NULL after the last.
 * *cursor is 0 at first. The member cannot leave until mend_process_visit_end. No lock is held in
 * between. Members may join and leave between two calls: a member that stays is visited exactly
 * once, and so is one that joins later, the visitor's own member included. */
mend_process_member *mend_process_visit_next(mend_process_members *members, const void *domain,
                                             int device, uint64_t *cursor);
void mend_process_visit_end(mend_process_members *members, mend_process_member *member);

/* Keeps the memory of the last pools that were destroyed, so that a late call finds out. Returns
 * the dropped one, or NULL. */
enum { MEND_POOLS_KEPT = 4 };
void *mend_process_bury(void *pool);

/* ---- devices --------------------------------------------------------------------------------- */

enum { MEND_DEVICE_LIMIT = 64 };

/* State of each device in the process, which `hooks` uses. */
typedef struct mend_process_devices {
    mend_mutex mutex; /* guards everything here. The atomic members may be read without it */
    struct {
        _Atomic(mend_pool *) pool; /* the default pool, or NULL. A child of fork inherits it, and
                                    * its calls fail as of any inherited pool */
        mend_pool_config config;   /* used to create it. struct_size 0: the defaults */
    } device[MEND_DEVICE_LIMIT];
    uint64_t config_changes; /* number of times that a config was set */

    /* Allocators set in the place of default pools. A child of fork has none. The last one was set
     * for all devices. */
    void *override[MEND_DEVICE_LIMIT + 1];
    atomic_uint override_count; /* overrides that are set, have calls in progress, or have blocks */
    mend_pointer_map blocks;    /* of overrides: from an address to the allocator */
} mend_process_devices;

extern mend_process_devices mend_process_own_devices __attribute__((visibility("hidden")));

/* ---- captures that the program announced -------------------------------------------------------
 *
 * Calls that would break a capture of any stream of a context wait while a graph pool of any pool
 * is begun, because its capture may begin at any time.
 */

/* A graph pool of a pool was begun, or is so no longer. And how many are, of all pools. */
void mend_process_note_begun(bool is_begun);
extern atomic_uint mend_process_begun_count __attribute__((visibility("hidden")));

/* Ends of graphs that drivers have reported: a pool looks at its graph pools only if there are new
 * ones. No lock, because they are counted inside the driver. */
extern atomic_uint mend_process_graph_ends __attribute__((visibility("hidden")));

/* Around a driver call that would spoil captures. False: not now, because a graph pool is begun, or
 * another such call is in progress. Leaves nothing to undo then. */
bool mend_process_begin_unsafe_call(void);
void mend_process_end_unsafe_call(void);

/* Waits for such a call that began before a graph pool was. The caller holds no lock. */
void mend_process_await_unsafe_call(void);

/* ---- exports --------------------------------------------------------------------------------- */

/* A chunk that importers may have: a file descriptor of the driver's. */
typedef struct mend_shared_chunk {
    int file;
    uint64_t size_bytes;
} mend_shared_chunk;

/* The parts of an export. */
typedef struct mend_fetched {
    uint64_t count; /* chunks */
    uint64_t all_bytes;
    uint64_t offset_bytes; /* from the start of the first chunk to the block */
    uint64_t size_bytes;   /* of the block */
} mend_fetched;

/* An export that importers may ask for. Its owner keeps it. */
typedef struct mend_published {
    mend_tree_node by_number;
    uint64_t number; /* never 0, never used again */
    mend_fetched all;
    const mend_shared_chunk *chunks;
} mend_published;

/* A connected importer. */
typedef struct mend_share_visitor {
    bool is_here;
    int socket;
    uint64_t number; /* of the export that it asks for. 0: it has not asked yet */
    size_t sent;     /* chunks sent */
    uint64_t since_ms;
} mend_share_visitor;

enum { MEND_SHARE_VISITORS = 16, MEND_SHARE_NAME_BYTES = 16 };

/* The exports of the process, which `share` uses. The mutex guards all of it, and no thread waits
 * for anything while it holds that: a fork takes it. */
typedef struct mend_process_shares {
    mend_mutex mutex;
    bool is_open; /* the socket exists, and a thread serves it until the process ends */
    int listener; /* the socket */
    unsigned char name[MEND_SHARE_NAME_BYTES]; /* of the socket: random */
    uint64_t key;                              /* random: a request for an export must have its
                                                * token */
    mend_tree published;                       /* by number */
    uint64_t last_number;
    mend_share_visitor visitors[MEND_SHARE_VISITORS];
} mend_process_shares;

extern mend_process_shares mend_process_own_shares __attribute__((visibility("hidden")));

/* ---- names ----------------------------------------------------------------------------------- */

enum { MEND_NAMES_MOST = 65535, MEND_NAME_BYTES = 128, MEND_SCOPE_NAME_BYTES = 64 };

/* A name of a number: of a tag, a stream or a stack, or a scope, which is a name inside another. */
typedef struct mend_name_entry {
    uint64_t number; /* of a scope: number of the scope around it. 0: none */
    uint32_t kind;   /* a mend_name_kind. Of a scope 0 */
    uint32_t next;   /* older, in its bucket. 0: the last */
    char name[MEND_NAME_BYTES];
} mend_name_entry;

enum { MEND_NAME_BUCKETS = 1024, MEND_NAME_PIECE = 256, MEND_NAME_PIECES = 257 };

/* Names (base/words.h). The mutex guards new entries. Entries up to the count never change. */
typedef struct mend_process_names {
    mend_mutex mutex;
    _Atomic(uint32_t) buckets[MEND_NAME_BUCKETS]; /* the index of the newest in each. 0: none */
    _Atomic(uint32_t) count;
    mend_name_entry *pieces[MEND_NAME_PIECES]; /* entries by index. NULL: not made yet */
} mend_process_names;

extern mend_process_names mend_process_own_names __attribute__((visibility("hidden")));
extern mend_process_names mend_process_own_scopes __attribute__((visibility("hidden")));

/* The source of stacks (mend_stack_set_source). The mutex guards the first two. */
typedef struct mend_process_stacks {
    mend_mutex mutex;
    mend_stack_source source;
    void *context;
    _Atomic(uint64_t) every_bytes; /* 0: off */
} mend_process_stacks;

extern mend_process_stacks mend_process_own_stacks __attribute__((visibility("hidden")));

/* Asks the source, if there is one, about the block that the thread allocates now. The caller holds
 * no lock. */
void mend_process_ask_stack(uint64_t size_bytes);

/* ---- profiler and SIGUSR2 -------------------------------------------------------------------- */

typedef void (*mend_nvtx_function)(void);

/* Numbers of functions below this. 0 is none. */
enum { MEND_NVTX_FUNCTIONS = 16 };

/* A profiler for NVTX. Written once, before there is a pool. */
typedef struct mend_nvtx {
    mend_mutex mutex;               /* guards the loading of it */
    bool is_loaded;                 /* or it was tried */
    void (*push)(const char *name); /* NULL: there is none */
    void (*pop)(void);
    void *domain;
    mend_nvtx_function functions[MEND_NVTX_FUNCTIONS];   /* NULL: the profiler does not want it */
    mend_nvtx_function *places[MEND_NVTX_FUNCTIONS + 1]; /* of these. NULL at either end */
    mend_nvtx_function unused;
    mend_nvtx_function *unused_places[MEND_NVTX_FUNCTIONS + 1]; /* for other tables of NVTX */
} mend_nvtx;
extern mend_nvtx mend_process_nvtx __attribute__((visibility("hidden")));

/* Slow steps, as spans of the thread's time: one pop for each push of a thread. The profiler,
 * called under locks, may not call Mend. */
static inline void mend_profiler_push(const char *name)
{
    if (mend_process_nvtx.push != NULL) {
        mend_process_nvtx.push(name);
    }
}
static inline void mend_profiler_pop(void)
{
    if (mend_process_nvtx.push != NULL) {
        mend_process_nvtx.pop();
    }
}

enum { MEND_BELLS = 64 };

/* Listeners of SIGUSR2 (base/thread.h). The mutex guards the first two. The handler takes none. */
typedef struct mend_process_signal {
    mend_mutex mutex;
    bool is_hooked;                                      /* the handler is Mend's */
    bool (*unhook)(struct mend_process_signal *process); /* takes it away, if it is on top */
    struct sigaction *over;                              /* the program's */
    atomic_bool is_known;                                /* that is whole */
    atomic_int bells[MEND_BELLS];                        /* files + 1. 0: none */
    atomic_uint count;                                   /* of signals */
    atomic_int handling;                                 /* handlers that look at these now */
} mend_process_signal;

extern mend_process_signal mend_process_own_signal __attribute__((visibility("hidden")));

/* ---- log and driver -------------------------------------------------------------------------- */

enum { MEND_LOG_KINDS = 32 };

/* Where log lines go (base/error.h). */
typedef struct mend_process_log {
    mend_mutex mutex;
    mend_log_sink sink; /* NULL: to standard error, */
    void *context;
    int shown; /* from this level on. -1: none. 0: of each kind of warning one */
    uint64_t told[MEND_LOG_KINDS]; /* the kinds that were shown so */
    int told_count;
} mend_process_log;
extern mend_process_log mend_process_own_log __attribute__((visibility("hidden")));

/* Returns the CUDA driver's table, from the first successful `load` in this process. A child of
 * fork loads it again, and the driver answers which calls work there. Thread-safe. */
mend_result mend_process_cuda_driver(mend_result (*load)(const mend_driver **driver),
                                     const mend_driver **driver);

/* A variable of the environment. NULL if it is not set or empty, or if the program runs with more
 * rights than its user. Valid until the environment changes. */
const char *mend_process_variable(const char *name);

#endif
