/*
 * Mend: a CUDA memory allocator that makes fragmentation harmless.
 *
 * A pool allocates blocks of device memory. When free memory is scattered, it maps free chunks next
 * to each other. A live block never changes its address.
 *
 * Results. Functions that can fail return a mend_result. On failure outputs are untouched, the pool
 * is as it was before the call, and mend_get_last_error() gives the reason. No function aborts,
 * exits or prints, except the log (mend_log_set_sink). A call on a pool, a graph pool or a range
 * may also return MEND_ERROR_FORKED.
 *
 * Threads. Every call is thread-safe, except create and destroy of the same pool. Only one thread
 * of a pool at a time changes mappings: in allocations that no free memory serves, trim, limit,
 * available, pin, unregister, release, destroy and validate. Such a call may wait for another
 * thread, which may wait for the GPU. "Never waits" in a comment is about the call itself. A call
 * makes no driver call if its comment mentions neither the driver nor the GPU.
 *
 * Structs. All sizes are bytes. A struct that begins with `size_t struct_size` starts from its
 * macro: `mend_stats stats = MEND_STATS_INIT`. A struct_size of 0, or one that ends inside a
 * member, is MEND_ERROR_INVALID_ARGUMENT. 0 in any other field means the default, and in a field
 * that a call fills: none. A call fills the fields that both sides know, and refuses a config of a
 * newer version. Elements of arrays have no struct_size: you pass their size. Later versions may
 * add fields at the end, and values of enums.
 *
 * A switch is an int: 0 is its default, 1 on, and -1 off, which is the default of most.
 */
#ifndef MEND_MEND_H
#define MEND_MEND_H

#include <stddef.h>
#include <stdint.h>

#include "mend/mend_graph_pools.h"
#include "mend/mend_inspect.h"
#include "mend/mend_results.h"
#include "mend/mend_stats.h"
#include "mend/mend_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- lifecycle ------------------------------------------------------------------------------- */

/* The settings of a pool. A field that is 0 takes its value from MEND_CONF of the environment
 * (docs/tuning.md), or else its default. */
typedef struct mend_pool_config {
    size_t struct_size;
    int device;                         /* ordinal of the device. Negative: an invalid argument. One
                                         * that the driver does not have: MEND_ERROR_NO_DEVICE */
    int allow_stream_waits;             /* 0: default, on. -1: no stream waits for another (for
                                         * kernels that spin on each other) */
    const mend_driver *driver;          /* NULL: CUDA. Borrowed: it must outlive the pool */
    uint64_t limit_bytes;               /* most physical memory of the pool, at least a page of the
                                         * device (usually 2 MiB). 0, or more than the device has:
                                         * all of it. On a device that uses host memory 0 means nine
                                         * tenths of the memory that is free at creation */
    uint64_t address_reservation_bytes; /* addresses to reserve at a time, at most 2^60. 0: twice
                                         * the device's memory. Less if the driver has fewer */
    int strategy;                       /* from 1 (fewest driver calls) to 5 (least memory). 0: 3.
                                         * Costs: docs/tuning.md */
    int detect_destroyed_streams;       /* 1: you destroy streams without mend_unregister_stream.
                                         * Each call asks the driver whether the handle is still the
                                         * same stream (from CUDA 12.0 on), and each free records an
                                         * event. Streams declared by mend_record_stream must live
                                         * until the block is freed. A stream that was captured
                                         * during a free must be unregistered, or used again, or the
                                         * memory stays reserved */
    int limit_percent;                  /* 1 to 100: the limit in percent of the device's memory, if
                                         * limit_bytes is 0 */
    int log_level;                      /* a mend_log_level: lines from it on go to standard error,
                                         * if there is no sink. 0: each kind of warning once,
                                         * without those that a result reports. -1: none */
    int capture_checks;                 /* 0: default, on. -1: the pool asks the driver whether a
                                         * created stream is captured only while a graph pool is
                                         * begun. For programs that capture in no other way */
    int rdma;       /* 0: default, on: GPUDirect RDMA can register the memory. -1: off */
    uint64_t peers; /* other devices that may access the memory. 0: those that can reach it and have
                     * a pool of this process. MEND_PEERS_NONE: none. Otherwise bit n: device n, and
                     * only these (but see mend_enable_peer). Each device makes mapping more
                     * expensive */
    int shareable;  /* whether other processes can import the memory (mend_share.h):
                     * MEND_SHAREABLE_ON, MEND_SHAREABLE_FABRIC or MEND_SHAREABLE_AUTO. 0: default,
                     * off. -1: off, whatever MEND_CONF says */
    uint64_t soft_limit_bytes;     /* above this the pool grows only after waits and the pressure
                                    * callbacks. No request fails because of it */
    uint64_t min_free_bytes;       /* memory of the device that the pool leaves free. It asks the
                                    * driver before each creation. MEND_TRIM_BY_POLICY releases
                                    * memory while less is free */
    uint64_t idle_ms;              /* a thread of the library trims by policy, which releases memory
                                    * that no block has used for this long (by the driver's
                                    * clock), at most 10^9. 0: no thread */
    const char *shared_limit_file; /* path of a file on a local disk, created if missing, by which
                                    * processes share one limit_bytes, the same in each */
    int allow_context_fences;    /* 0: default, on. -1: off, for unseen captures: docs/tuning.md */
    const char *record;          /* path of a file of at most 256 MiB to which a thread writes the
                                  * newest events, with a number appended if another pool has it */
    const char *observe;         /* observers, joined by commas: "top" for libmend top, a path from
                                  * / on that gets the blocks at SIGUSR2 (docs/history.md), "poison"
                                  * and "guard" against wrong writes (docs/troubleshooting.md) */
    uint64_t in_one_chunk_bytes; /* blocks from this size on are in_one_chunk, unless they have an
                                  * address */
    int plain;                   /* 1: all blocks are plain (mend_alloc_options) */
    int growth_percent;          /* 100 to 10000 % of the most live bytes: before the pool grows
                                  * above it, a stream waits on the device for the oldest freed
                                  * memory of others */
} mend_pool_config;
#define MEND_POOL_CONFIG_INIT                                                                      \
    {                                                                                              \
        sizeof(mend_pool_config), 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0,      \
            NULL, NULL, 0, 0, 0                                                                    \
    }

/*
 * Create a pool, which you own until mend_pool_destroy. NULL for `config` means device 0 with all
 * defaults. Opens the driver and the primary context of the device, and allocates nothing yet.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a field or MEND_CONF is wrong: the message names it);
 * MEND_ERROR_NO_DRIVER; MEND_ERROR_NO_DEVICE; MEND_ERROR_NOT_SUPPORTED (by `peers` or `shareable`);
 * MEND_ERROR_SYSTEM (the system refuses a file or a thread); MEND_ERROR_OUT_OF_MEMORY (for access
 * to the pool of another device); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST.
 *
 * Without virtual memory in the driver, the pool passes each request to cuMemAllocAsync or
 * cuMemAlloc, with the limits of plain blocks, and the log warns.
 *
 *     mend_pool *pool;
 *     mend_pool_config config = MEND_POOL_CONFIG_INIT;
 *     config.limit_bytes = 8ull << 30;
 *     mend_error error = MEND_ERROR_INIT;
 *     if (mend_pool_create(&config, &pool) != MEND_OK && mend_get_last_error(&error) == MEND_OK)
 *         fprintf(stderr, "%s\n", error.message);
 */
MEND_API mend_result mend_pool_create(const mend_pool_config *config, mend_pool **pool);

/*
 * Destroy a pool and release its memory. Waits for all work of the context. Frees live blocks too,
 * and the log warns. NULL succeeds. No other call on the pool or its graph pools may be in progress
 * or follow.
 *
 * MEND_OK; MEND_ERROR_CAPTURING (the pool is unchanged: destroy it after the capture);
 * MEND_ERROR_SYSTEM (the same, and a thread of the pool did not start again); MEND_ERROR_DRIVER
 * (the pool is gone, but the driver still has memory that it refused to release);
 * MEND_ERROR_CORRUPTION (the pool is gone: `observe` found a wrong write).
 */
MEND_API mend_result mend_pool_destroy(mend_pool *pool);

/* ---- blocks ---------------------------------------------------------------------------------- */

/*
 * Allocate device memory: size and address are multiples of 512 bytes. You own the block until
 * mend_free.
 *
 *     void *weights;
 *     mend_result result = mend_alloc(pool, 3ull << 30, stream, &weights);
 *
 * Streams: use the block in any work that you queue on `stream` after this call. `stream` may wait
 * on the device for other streams' use of the memory (allow_stream_waits). With MEND_NO_STREAM
 * every stream may use the block at once: the pool takes idle memory, and may wait for the GPU if
 * it cannot grow.
 *
 * Context: the memory is in the primary context of the pool's device. The thread's current context
 * stays. A stream of another device keeps that device's primary context open, and waits for the
 * whole context include it.
 *
 * Cost: asks the driver whether a created or per-thread stream is captured (capture_checks). Makes
 * other driver calls only for an unknown stream, the first use in a capture, and if no free memory
 * fits. Waits for the GPU only before it runs out of memory, or to bound memory freed with
 * MEND_NO_STREAM (allow_context_fences).
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (NULL, size 0 or above 2^60, MEND_EVERY_STREAM);
 * MEND_ERROR_OUT_OF_MEMORY; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_OUT_OF_ADDRESS_SPACE;
 * MEND_ERROR_UNKNOWN_STREAM (invalid, or its context is neither primary nor green. For a destroyed
 * stream the driver may fail or end the process); MEND_ERROR_CAPTURING (with
 * detect_destroyed_streams, the stream's capture is invalid); MEND_ERROR_NOT_SUPPORTED (a plain
 * block: mend_alloc_with); MEND_ERROR_CORRUPTION (`observe` found a write after a free: no block is
 * allocated, and a later call can get the memory. The statistics count an allocation and a free);
 * MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_alloc(mend_pool *pool, uint64_t size_bytes, mend_stream stream,
                                void **pointer);

/* Options of an allocation. */
typedef struct mend_alloc_options {
    size_t struct_size;
    uint64_t alignment_bytes;    /* a power of two up to 2^40, raised to 512 */
    mend_graph_pool *graph_pool; /* the block belongs to this graph pool, begun or not. NULL: to a
                                  * graph pool that is begun on the stream */
    uint64_t tag;                /* your own number for the block */
    void *address;               /* the block begins there: the memory must be mapped, free, and
                                  * usable on the stream (in the graph pool) at once */
    int in_one_chunk;            /* 1: the block lies in one physical allocation of its own, which
                                  * is empty and not pinned or new, and pins it (mend_pin). -1: it
                                  * may lie in several */
    int plain;                   /* 1: the block is a cuMemAlloc of its own, for cudaIpcGetMemHandle
                                  * and libraries such as older MPI. -1: it is not, unless all
                                  * blocks of the pool are */
    uint64_t sleep_tag;          /* the block sleeps by this number (mend_sleep). 0: by `tag` */
} mend_alloc_options;
#define MEND_ALLOC_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_alloc_options), 0, NULL, 0, NULL, 0, 0, 0                                      \
    }

/*
 * Allocate device memory with options, otherwise as mend_alloc. Fields that are 0 take their value
 * from mend_set_alloc_options, then from the pool. With an address the pool takes the memory there
 * or fails. A block in one chunk may wait for a thread that changes mappings.
 *
 * A plain block costs a driver call, and its free waits for all work of its own device alone. It
 * counts in the limit, and not in the soft limit. If the driver has too little memory, idle chunks
 * of all pools of the device are released. A plain block cannot sleep, move, be exported or pinned,
 * or belong to a graph pool. Other devices can use it only after cudaDeviceEnablePeerAccess.
 * mend_free and mend_record_stream with a captured stream are MEND_ERROR_NOT_SUPPORTED, and a
 * pointer that was freed MEND_ERROR_FOREIGN_POINTER.
 *
 * Results as mend_alloc; MEND_ERROR_INVALID_ARGUMENT (also a wrong alignment, a graph pool of
 * another pool or with MEND_NO_STREAM, an address not aligned or with in_one_chunk);
 * MEND_ERROR_OUT_OF_ADDRESS_SPACE (also if the address is not available); MEND_ERROR_NOT_SUPPORTED
 * (a plain block with an address, an alignment above 512, a graph pool or a captured stream).
 */
MEND_API mend_result mend_alloc_with(mend_pool *pool, uint64_t size_bytes, mend_stream stream,
                                     const mend_alloc_options *options, void **pointer);

/*
 * Set options of all later allocations of the calling thread, from any pool and by any hook:
 * alignment (at least), in_one_chunk, plain and sleep tag. NULL resets them. *before (may be NULL)
 * gets the earlier options, to restore them later.
 *
 * The sleep tag also applies to pages of ranges that the thread commits. A page without one has the
 * sleep tag of the thread that created its range, or else mend_range_options.tag. A block or page
 * keeps its sleep tag until it is freed. Owners, events and recordings show it where there is no
 * tag. Blocks with a sleep tag lie in separate chunks, so that these can sleep, but share chunks
 * where a request would wait or fail otherwise. Blocks that have it by their own options do so once
 * the pool has slept.
 *
 * Alignment and in_one_chunk have no effect on blocks at an address, on mend_set_allocator, and
 * without virtual memory. No lock. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (also if a graph pool, a
 * tag or an address is set).
 */
MEND_API mend_result mend_set_alloc_options(const mend_alloc_options *options,
                                            mend_alloc_options *before);

/*
 * Free a block in stream order. Call it after you have queued the last work that uses the block on
 * `stream`. Declare other streams that use it first, with mend_record_stream. The same stream can
 * get the memory at once, other streams when the GPU has passed this point.
 *
 * With MEND_NO_STREAM the memory is reused only after a wait for all work of the context, and of
 * other devices whose streams the pool has seen. NULL succeeds. Safe during process exit, after the
 * driver has shut down.
 *
 * The stream must still exist: the call asks the driver whether it is captured. May record an
 * event, which waits while the stream's queue is full.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (also MEND_EVERY_STREAM); MEND_ERROR_FOREIGN_POINTER;
 * MEND_ERROR_INTERIOR_POINTER; MEND_ERROR_DOUBLE_FREE; MEND_ERROR_UNKNOWN_STREAM;
 * MEND_ERROR_CORRUPTION (`observe` found a write past the end. It is reported once: free the block
 * again); MEND_ERROR_NOT_SUPPORTED (a plain block with a captured stream); MEND_ERROR_CAPTURING (a
 * plain block whose free must wait); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_free(mend_pool *pool, void *pointer, mend_stream stream);

/* A live block. */
typedef struct mend_block_info {
    size_t struct_size;
    void *base;               /* its start */
    uint64_t requested_bytes; /* the size asked for */
    uint64_t usable_bytes;    /* bytes that you may use */
    mend_stream stream;       /* the stream it was allocated for */
    mend_pool *pool;          /* the pool it belongs to */
    int is_unmapped;          /* 1: unusable, as it lost its mapping (mend_compact) */
    uint64_t tag;
    mend_graph_pool *graph_pool; /* NULL: none, or a capture outside of graph pools */
    uint64_t sleep_tag;
    int is_asleep;        /* 1: at least a part of it sleeps */
    int contents_dropped; /* 1: a sleep dropped contents of it (mend_backup) */
    uint32_t scope;       /* number of its scope (mend_scope_push) */
} mend_block_info;
#define MEND_BLOCK_INFO_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_block_info), NULL, 0, 0, NULL, NULL, 0, 0, NULL, 0, 0, 0, 0                    \
    }

/*
 * Describe the live block that contains `pointer`, at its start or inside. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_FOREIGN_POINTER; MEND_ERROR_DOUBLE_FREE (the memory is
 * free).
 */
MEND_API mend_result mend_get_block_info(mend_pool *pool, const void *pointer,
                                         mend_block_info *info);

/* ---- streams --------------------------------------------------------------------------------- */

/*
 * Declare that `stream` also uses a block, until it is freed. The pool reuses the memory only after
 * the work that is queued on `stream` at mend_free. The stream may be of a peer device. Default and
 * per-thread handles mean streams of the pool's device. You may repeat the call. Calls the driver
 * only for the stream, as mend_alloc.
 *
 *     mend_alloc(pool, 64 << 20, compute, &block); // written on `compute`
 *     mend_record_stream(pool, block, copies);     // and read on `copies`
 *     mend_free(pool, block, compute);             // after both are queued
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_NO_STREAM, MEND_EVERY_STREAM);
 * MEND_ERROR_FOREIGN_POINTER; MEND_ERROR_INTERIOR_POINTER; MEND_ERROR_DOUBLE_FREE;
 * MEND_ERROR_ASLEEP; MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_CAPTURING (as mend_alloc);
 * MEND_ERROR_NOT_SUPPORTED (as mend_free); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_record_stream(mend_pool *pool, void *pointer, mend_stream stream);

/*
 * Unregister a stream before you destroy it. The pool records an event for its waits on the stream.
 * An unknown stream succeeds. Blocks that were allocated on the stream stay valid: free them on
 * another stream. Uses that you declared on the stream end here: declare them again
 * (mend_record_stream) before you queue more work. A thread that used its per-thread stream calls
 * this before it ends. Otherwise the memory stays unavailable until a wait for the whole context. A
 * full queue of the stream makes the call wait.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_NO_STREAM and MEND_EVERY_STREAM included);
 * MEND_ERROR_CAPTURING; MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_DRIVER; MEND_ERROR_OUT_OF_HOST_MEMORY
 * (call again before you destroy the stream); MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_unregister_stream(mend_pool *pool, mend_stream stream);

/* ---- memory in total ------------------------------------------------------------------------- */

/* Which empty chunks a trim releases. */
typedef enum mend_trim_mode {
    MEND_TRIM_IDLE = 0,     /* idle chunks. Right after a free there is often none */
    MEND_TRIM_WAIT = 1,     /* all chunks: the call waits for the work that uses them */
    MEND_TRIM_BY_POLICY = 2 /* idle chunks that the settings of the pool leave to others */
} mend_trim_mode;

/*
 * Release empty chunks to the driver, the largest first, until at most `keep_bytes` stay reserved.
 * *released_bytes (may be NULL) counts them, without exported memory, which importers may hold
 * (mend_stats.importers_bytes).
 *
 *     uint64_t released;
 *     mend_trim(pool, 0, MEND_TRIM_IDLE, &released); // before another program needs the GPU
 *
 * MEND_TRIM_IDLE calls the driver, but never waits for the GPU. Chunks with work in flight stay,
 * and so do mapped chunks while the pool knows of a capture.
 *
 * MEND_TRIM_WAIT also waits for the oldest work that empty chunks need, as long as necessary, and
 * for the whole context only if memory was freed without a stream. It does not wait for work on
 * partly used chunks, for memory freed meanwhile, or for graphs: memory of graph pools stays. Other
 * threads can use free mapped memory meanwhile.
 *
 * MEND_TRIM_BY_POLICY never waits for the GPU. It releases chunks that no block has used for
 * mend_pool_config.idle_ms, as far as earlier calls saw. It also releases idle chunks if less than
 * min_free_bytes of the device is free, if processes of the same shared_limit_file wait for memory,
 * or above the soft limit. Call it at the end of a step, unless a thread of the library does
 * (idle_ms). With nothing to release it takes two locks, and asks the driver or the file only for
 * min_free_bytes or shared_limit_file.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_CAPTURING (MEND_TRIM_WAIT alone);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. Memory released before
 * an error stays released.
 */
MEND_API mend_result mend_trim(mend_pool *pool, uint64_t keep_bytes, mend_trim_mode mode,
                               uint64_t *released_bytes);

/*
 * Set the most physical memory of the pool, in bytes. 0 means the limit of mend_pool_config, and
 * less than a page that the pool takes no more memory. The pool releases memory above the limit
 * where it can, as mend_trim. The limit is set even if that fails. Results as mend_trim.
 */
MEND_API mend_result mend_set_limit(mend_pool *pool, uint64_t limit_bytes);

/* How much memory could be allocated from a pool. */
typedef struct mend_available {
    size_t struct_size;
    uint64_t now_bytes;           /* a request up to this size does not wait for the GPU */
    uint64_t after_waiting_bytes; /* a request up to this size succeeds, after a wait for the GPU */
    uint64_t graph_pool_bytes;    /* free, but reserved for graphs. In the two fields above only if
                                   * the stream belongs to that graph pool */
    uint64_t device_free_bytes;   /* free memory of the device, which others may take */
    uint64_t pinned_bytes;        /* free, in chunks that only pins hold in place: usable there
                                   * alone */
} mend_available;
#define MEND_AVAILABLE_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_available), 0, 0, 0, 0, 0                                                      \
    }

/*
 * Estimate how much memory a request on `stream` can get. MEND_NO_STREAM means a block for any
 * stream. The estimate is not too large while no other process or pool takes memory, but with few
 * addresses such a request can fail with MEND_ERROR_OUT_OF_ADDRESS_SPACE, and one in_one_chunk
 * needs a chunk of its own. A larger request may succeed, by memory that others release or
 * compaction gains. A quota that the driver does not show counts once the driver has refused a
 * chunk for it.
 *
 * The time is proportional to the pieces of free memory. Calls the driver, but never waits for the
 * GPU. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (also MEND_EVERY_STREAM); MEND_ERROR_UNKNOWN_STREAM;
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_CAPTURING (as mend_alloc); MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_get_available(mend_pool *pool, mend_stream stream,
                                        mend_available *available);

/* ---- pressure callbacks ---------------------------------------------------------------------- */

/*
 * Free memory that the program can do without, on any pool, and return whether you freed any. The
 * pool calls it before an allocation would wait for the GPU or run out of memory, and before the
 * pool would grow above its soft limit: once for each of the two. `needed_bytes` is the requested
 * size, or the bytes that a commit adds. Memory beside live blocks, or with work in flight, may not
 * help.
 *
 * Several threads may call it at once, without a lock. It may call the pool, but not destroy it,
 * and must not wait for another thread that allocates from the pool. An allocation inside a
 * callback calls no callbacks.
 */
typedef int (*mend_pressure_callback)(void *context, mend_pool *pool, uint64_t needed_bytes);

/*
 * Add a pressure callback. The pool calls callbacks in the order of their addition, until there is
 * memory. `context` is borrowed.
 *
 *     int evict(void *cache, mend_pool *pool, uint64_t needed_bytes); // frees blocks of the cache
 *     mend_add_pressure_callback(pool, evict, cache);
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (this pair is already added); MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_add_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                                void *context);

/*
 * Remove a pressure callback. Waits for other threads that are inside it, so two callbacks must not
 * remove each other. Afterwards it does not run, except in the calling thread if that is inside it.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (it was not added).
 */
MEND_API mend_result mend_remove_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                                   void *context);

/* ---- compaction ------------------------------------------------------------------------------ */

/* When a pass of mend_compact ends. 0 in any field: no limit. */
typedef struct mend_compact_limits {
    size_t struct_size;
    uint64_t gained_bytes; /* end after gaining this much */
    uint64_t copied_bytes; /* most bytes to copy */
    uint64_t driver_calls; /* most driver calls */
    uint64_t duration_ns;  /* begin no chunk after this time */
} mend_compact_limits;
#define MEND_COMPACT_LIMITS_INIT                                                                   \
    {                                                                                              \
        sizeof(mend_compact_limits), 0, 0, 0, 0                                                    \
    }

/* Why a pass ended. */
typedef enum mend_compact_stop {
    MEND_COMPACT_DONE = 0, /* no partly used chunk is left that would gain a page */
    MEND_COMPACT_GAINED,   /* gained_bytes is reached */
    MEND_COMPACT_BYTES,    /* the next chunk would exceed copied_bytes */
    MEND_COMPACT_CALLS,    /* the next chunk would exceed driver_calls */
    MEND_COMPACT_TIME,     /* duration_ns has passed */
    MEND_COMPACT_NO_ROOM   /* no free memory is left to copy to */
} mend_compact_stop;

/* The report of a pass. */
typedef struct mend_compact_report {
    size_t struct_size;
    mend_compact_stop stop;
    uint64_t gained_bytes;     /* memory that can be mapped at any address now */
    uint64_t copied_bytes;     /* bytes copied for that */
    uint64_t compactions;      /* chunks freed by copying their live blocks */
    uint64_t driver_calls;     /* driver calls made */
    uint64_t free_empty_bytes; /* bytes of empty chunks at the end */
} mend_compact_report;
#define MEND_COMPACT_REPORT_INIT                                                                   \
    {                                                                                              \
        sizeof(mend_compact_report), MEND_COMPACT_DONE, 0, 0, 0, 0, 0                              \
    }

/*
 * Empty partly used chunks: copy their live blocks to smaller ones, mapped at the same addresses.
 * Pointers and contents stay. `limits` and `report` may be NULL. Calls the driver, and waits for
 * all work of the context.
 *
 *     mend_compact_limits limits = MEND_COMPACT_LIMITS_INIT;
 *     limits.duration_ns = 5000000;
 *     mend_compact(pool, &limits, NULL); // between two steps, while the GPU is idle
 *
 * During the call, no work may run or be launched that touches memory of the pool: kernels, copies
 * or graphs of any thread, context, device or process. Other threads may allocate, free blocks that
 * are not in use, and begin no capture. Chunks that are pinned, or have memory of a graph pool,
 * stay as they are.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_CAPTURING; MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. After an error no block has changed, with one
 * exception: if the driver unmaps a chunk and then refuses to map the copy, its blocks are unusable
 * (is_unmapped) until a later call maps them. Their bytes are kept.
 */
MEND_API mend_result mend_compact(mend_pool *pool, const mend_compact_limits *limits,
                                  mend_compact_report *report);

/* ---- pins ------------------------------------------------------------------------------------ */

/*
 * Pin `size_bytes` of mapped memory from `pointer` on, which a network card or a collective library
 * has registered. Until mend_unpin, its chunks keep their address and their physical memory. You
 * may free blocks there, and their memory serves later requests in place. Pins count, and may
 * overlap.
 *
 *     mend_pin(pool, buffer, size_bytes); // then register the buffer
 *
 * Pin few, large ranges: free memory in pinned chunks cannot move to where it is needed. Never
 * waits for the GPU. Pins end with the pool. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (size_bytes is 0
 * or too large); MEND_ERROR_FOREIGN_POINTER (a part is not mapped memory of this pool);
 * MEND_ERROR_ASLEEP; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_pin(mend_pool *pool, const void *pointer, uint64_t size_bytes);

/*
 * Undo one mend_pin of exactly this range. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (no such pin is
 * left); MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_unpin(mend_pool *pool, const void *pointer, uint64_t size_bytes);

/* ---- observe --------------------------------------------------------------------------------- */

/*
 * Fill *stats with one consistent snapshot. The cost grows with the pool's contents only while
 * there are graph pools.
 *
 *     mend_stats stats = MEND_STATS_INIT;
 *     mend_get_stats(pool, &stats);
 *     uint64_t free_bytes = stats.free_bytes;
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_get_stats(mend_pool *pool, mend_stats *stats);

/* Set each peak_... field to its present value. MEND_OK; MEND_ERROR_INVALID_ARGUMENT. */
MEND_API mend_result mend_reset_peak_stats(mend_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
