/*
 * Mend: a CUDA memory allocator that makes fragmentation harmless.
 *
 * A pool allocates blocks of device memory. When free memory is scattered, it maps free chunks next
 * to each other. A live block never changes its address.
 *
 * Results. Functions that can fail return a mend_result. On failure outputs are untouched, the pool
 * is as it was before the call, and mend_get_last_error() gives the reason. No function aborts,
 * exits or prints, except the log (mend_log_set_sink). A call on a pool or a graph pool may also
 * return MEND_ERROR_FORKED.
 *
 * Threads. Every call is thread-safe, except create and destroy of the same pool. Only one thread
 * of a pool at a time changes mappings: in allocations that no free memory serves, trim, limit,
 * unregister, release, destroy and validate. Such a call may wait for another thread, which may
 * wait for the GPU. "Never waits" in a comment is about the call itself. A call whose comment
 * mentions neither the driver nor the GPU makes no driver call, unless it works as another one.
 *
 * Structs. All sizes are bytes. A struct that begins with `size_t struct_size` starts from its
 * macro: `mend_stats stats = MEND_STATS_INIT;`. A struct_size of 0, or one that ends inside a
 * member, is MEND_ERROR_INVALID_ARGUMENT. 0 in any other field means the documented default. A call
 * fills the fields that caller and library both know, and refuses a config of a newer version.
 * Elements of arrays have no struct_size: you pass their size. Later versions may add fields at the
 * end, and values of enums.
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
    int device;                         /* ordinal of the device */
    int allow_stream_waits;             /* 0: default, on. -1: the pool never makes one stream wait
                                         * for another (for kernels that spin on each other) */
    const mend_driver *driver;          /* NULL: CUDA. Borrowed: it must outlive the pool */
    uint64_t limit_bytes;               /* most physical memory that the pool may hold, at least a
                                         * page of the device (2 MiB on known ones). More than the
                                         * device has means all of it. 0: all of the device. If the
                                         * device uses host memory: nine tenths of the free memory
                                         * when the pool is created */
    uint64_t address_reservation_bytes; /* addresses to reserve at a time for small or for large
                                         * requests, at most 2^60. 0: twice the device's memory.
                                         * Less if the driver has fewer, down to the size of one
                                         * block */
    int strategy;                       /* 1: fewest driver calls, in large chunks. 5: least memory,
                                         * in small chunks. 0: 3. The costs: docs/tuning.md */
    int detect_destroyed_streams;       /* 1: you destroy streams without mend_unregister_stream.
                                         * Each call asks the driver whether the handle still means
                                         * the same stream (not before CUDA 12.0), and each free
                                         * records an event. Streams declared by mend_record_stream
                                         * must live until the block is freed. If a stream was
                                         * captured during a free, unregister it, or use it again,
                                         * before you destroy it: otherwise the memory stays
                                         * reserved. 0: off */
    int limit_percent;                  /* 1 to 100: the limit as a percentage of the device's
                                         * memory, if limit_bytes is 0. 0: limit_bytes applies */
    int log_level;                      /* a mend_log_level: without a sink, log lines of the
                                         * process from this level on go to standard error. 0: each
                                         * kind of warning once, except those that a result reports.
                                         * -1: none */
    int capture_checks;                 /* 0: default, on. -1: only while a graph pool is begun, the
                                         * pool asks the driver whether a created stream is
                                         * captured. For programs that capture only in graph pools,
                                         * or not at all */
    int rdma;       /* 0: default, on: GPUDirect RDMA can register the memory. -1: off */
    uint64_t peers; /* other devices that may access the memory. 0: default, those that can reach it
                     * and have a pool of the same driver in this process. MEND_PEERS_NONE: none.
                     * Otherwise bit n: device n, from the start, and no others (but see
                     * mend_enable_peer). Each device makes mapping more expensive */
    int shareable;  /* MEND_SHAREABLE_ON (1): other processes can import the memory, by file
                     * descriptors (mend_share.h). MEND_SHAREABLE_FABRIC (2): also by fabric
                     * handles, if the device has them. The log warns if the driver refuses them.
                     * MEND_SHAREABLE_AUTO (3): on if the device supports it. 0: off */
    uint64_t soft_limit_bytes;     /* above this the pool grows only after waits, compaction and
                                    * the pressure callbacks. No request fails because of it. No
                                    * effect from the limit on. 0: none */
    uint64_t min_free_bytes;       /* memory of the device that the pool leaves free: it creates no
                                    * chunk that would leave less, and MEND_TRIM_BY_POLICY releases
                                    * memory while less is free. Asks the driver before each
                                    * creation. 0: none */
    uint64_t idle_ms;              /* a thread of the library trims by policy. MEND_TRIM_BY_POLICY
                                    * also releases memory that no block has used for this long, by
                                    * the driver's clock (a simulated device has its own). 0:
                                    * none */
    const char *shared_limit_file; /* path of a file on a local disk, created if missing, by which
                                    * processes share one limit_bytes, the same in each. NULL:
                                    * none */
    int allow_context_fences;    /* 0: default, on. -1: off, for unseen captures: docs/tuning.md */
    const char *record;          /* path of a file of at most 256 MiB to which a thread writes all
                                  * events, with a number appended if another pool has it. The
                                  * oldest events are dropped. NULL: as MEND_RECORD says */
    const char *observe;         /* observers, joined by commas: "top" shows statistics to libmend
                                  * top. A path from / on gets the blocks at SIGUSR2
                                  * (docs/history.md). "poison" and "guard" find wrong writes
                                  * (docs/troubleshooting.md). NULL: none */
    uint64_t in_one_chunk_bytes; /* blocks from this size on are in_one_chunk (mend_alloc_options),
                                  * unless they have an address. 0: none */
    int plain;                   /* 1: all blocks are plain (mend_alloc_options). 0: off */
    int growth_percent;          /* 100 to 10000 % of the most live bytes: before the pool grows
                                  * above it, a stream waits on the device for the oldest freed
                                  * memory of others (docs/tuning.md). 0: it grows */
} mend_pool_config;
#define MEND_POOL_CONFIG_INIT                                                                      \
    {                                                                                              \
        sizeof(mend_pool_config), 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0,      \
            NULL, NULL, 0, 0, 0                                                                    \
    }

/*
 * Create a pool, which you own until mend_pool_destroy. NULL for `config` means device 0 with all
 * defaults. Opens the driver and the primary context of the device. Allocates no physical memory
 * yet.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a field of the config or MEND_CONF is wrong, and
 * mend_get_last_error names it); MEND_ERROR_NO_DRIVER; MEND_ERROR_NO_DEVICE;
 * MEND_ERROR_NOT_SUPPORTED (a device of `peers` cannot reach the memory, or the device cannot share
 * memory as `shareable` asks); MEND_ERROR_SYSTEM (the system refuses a file or a thread);
 * MEND_ERROR_OUT_OF_MEMORY (too little memory to let this device use a pool of another device);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST.
 *
 * Without virtual memory management in the driver, the pool passes each request to cuMemAllocAsync
 * or cuMemAlloc, and the log warns. Limits of these blocks: mend_alloc_options.plain.
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
 * with a warning in the log. NULL succeeds. No other call on the pool or its graph pools may be in
 * progress or follow. Most later calls return MEND_ERROR_INVALID_ARGUMENT.
 *
 * MEND_OK; MEND_ERROR_CAPTURING (a capture forbids the wait: the pool is unchanged, so destroy it
 * after the capture); MEND_ERROR_SYSTEM (as MEND_ERROR_CAPTURING, and a thread of the pool did not
 * start again); MEND_ERROR_DRIVER (the pool is gone, and the driver keeps the memory that it
 * refused to release or that work may use); MEND_ERROR_CORRUPTION (the pool is gone:
 * mend_pool_config.observe found a wrong write).
 */
MEND_API mend_result mend_pool_destroy(mend_pool *pool);

/* ---- blocks ---------------------------------------------------------------------------------- */

/*
 * Allocate device memory. The size is rounded up to a multiple of 512 bytes, and the address is a
 * multiple of 512. You own the block until mend_free.
 *
 *     void *weights;
 *     mend_result result = mend_alloc(pool, 3ull << 30, stream, &weights);
 *
 * Streams: use the block in any work that you queue on `stream` after this call. `stream` may wait
 * on the device for the last use of reused memory on another stream (allow_stream_waits). With
 * MEND_NO_STREAM every stream may use the block at once. The pool then uses only idle memory, and
 * may wait for the GPU if it cannot grow.
 *
 * Context: the memory is in the primary context of the pool's device. The context of the calling
 * thread stays current. A stream of another device keeps the primary context of that device open,
 * and waits for the whole context include it.
 *
 * Cost: asks the driver whether a created or per-thread stream is captured (capture_checks),
 * without waiting. Calls the driver otherwise only for an unknown stream, the first use in a
 * capture, and if no free memory fits. Waits for the GPU only before it runs out of memory, or to
 * bound memory freed with MEND_NO_STREAM (allow_context_fences).
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (size 0 or above 2^60, pool or pointer NULL,
 * MEND_EVERY_STREAM); MEND_ERROR_OUT_OF_MEMORY; MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_OUT_OF_ADDRESS_SPACE; MEND_ERROR_UNKNOWN_STREAM (the stream is invalid, or its context
 * is neither primary nor green. For a destroyed stream the driver may give another answer,
 * MEND_ERROR_DRIVER, or end the process); MEND_ERROR_CAPTURING (detect_destroyed_streams is set and
 * the stream's capture is invalid); MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_alloc(mend_pool *pool, uint64_t size_bytes, mend_stream stream,
                                void **pointer);

/* Options of an allocation besides its size and its stream. */
typedef struct mend_alloc_options {
    size_t struct_size;
    uint64_t alignment_bytes;    /* a power of two up to 2^40. 512 if it is below. 0: 512 */
    mend_graph_pool *graph_pool; /* the block belongs to this graph pool, whether it is begun or
                                  * not. NULL: to the graph pool that is begun on the stream, if
                                  * any */
    uint64_t tag;                /* your own number for the block. 0: none */
    void *address;               /* the block begins there: the memory must be mapped, free, and
                                  * usable on the stream (in the graph pool) at once. NULL:
                                  * anywhere */
    int in_one_chunk;            /* 1: the block lies in one physical allocation, and pins it
                                  * (mend_pin). 0: as in_one_chunk_bytes or mend_set_alloc_options
                                  * says */
    int plain;                   /* 1: the block is a cuMemAlloc of its own, not mapped memory: for
                                  * cudaIpcGetMemHandle and libraries such as older MPI. 0: as the
                                  * pool or mend_set_alloc_options says */
    uint64_t sleep_tag;          /* the block sleeps by this number (mend_sleep). 0: that of
                                  * mend_set_alloc_options, or else `tag` */
} mend_alloc_options;
#define MEND_ALLOC_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_alloc_options), 0, NULL, 0, NULL, 0, 0, 0                                      \
    }

/*
 * Allocate device memory with options. Everything not named here is as for mend_alloc. With an
 * address the pool takes the memory there or fails. A block in one chunk may wait for a thread that
 * changes mappings.
 *
 * A plain block costs a driver call, and its free waits for all work of the device, as cuMemFree.
 * It counts in the limit. Idle chunks of the pools of the device are released if the driver has too
 * little memory. A plain block cannot sleep, move, be exported or pinned, or belong to a graph
 * pool. For it, mend_free and mend_record_stream with a captured stream are
 * MEND_ERROR_NOT_SUPPORTED. A plain pointer that was freed is MEND_ERROR_FOREIGN_POINTER.
 *
 * Results as mend_alloc; MEND_ERROR_INVALID_ARGUMENT (also a wrong alignment, a graph pool of
 * another pool or with MEND_NO_STREAM, an address that is not aligned or with in_one_chunk);
 * MEND_ERROR_OUT_OF_ADDRESS_SPACE (also if the memory at the address is not available);
 * MEND_ERROR_NOT_SUPPORTED (a plain block with an address, an alignment above 512, a graph pool or
 * a captured stream).
 */
MEND_API mend_result mend_alloc_with(mend_pool *pool, uint64_t size_bytes, mend_stream stream,
                                     const mend_alloc_options *options, void **pointer);

/*
 * Set the options of all later allocations of the calling thread, from any pool and by any hook.
 * Each block gets at least this alignment, in_one_chunk, plain and sleep tag. NULL resets them.
 * *before (may be NULL) gets the earlier options, to restore them later.
 *
 * The sleep tag also applies to pages of ranges that the thread commits. A page without one has the
 * sleep tag of the thread that created its range, or else mend_range_options.tag. The sleep tag of
 * a block never changes. A page keeps its sleep tag until its decommit. Where memory has no tag,
 * mend_get_owners, events and recordings use its sleep tag. Blocks with a sleep tag lie in separate
 * chunks, so that these can sleep. Blocks that have it by their own options do so once the pool has
 * slept. They share chunks where a request would wait or fail otherwise.
 *
 * Alignment and in_one_chunk do not affect blocks at an address, mend_set_allocator, and devices
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
 * With MEND_NO_STREAM the memory stays unavailable until a wait for all work of the context, and of
 * other devices whose streams the pool has seen. That wait happens only when the memory is needed.
 * NULL succeeds. Safe during process exit, after the CUDA driver has shut down.
 *
 * The stream must still exist: the call asks the driver whether it is captured. May record an
 * event, which waits for the GPU while the stream's queue is full.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM included); MEND_ERROR_FOREIGN_POINTER;
 * MEND_ERROR_INTERIOR_POINTER; MEND_ERROR_DOUBLE_FREE; MEND_ERROR_UNKNOWN_STREAM;
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER (the driver could not identify the stream);
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_free(mend_pool *pool, void *pointer, mend_stream stream);

/* A live block. */
typedef struct mend_block_info {
    size_t struct_size;
    void *base;                  /* the pointer that mend_alloc returned */
    uint64_t requested_bytes;    /* the size asked for */
    uint64_t usable_bytes;       /* bytes that may be used, from base */
    mend_stream stream;          /* the stream it was allocated for */
    mend_pool *pool;             /* the pool it belongs to */
    int is_unmapped;             /* 1: it lost its mapping and cannot be used (mend_compact) */
    uint64_t tag;                /* of mend_alloc_options. 0: none */
    mend_graph_pool *graph_pool; /* its graph pool. NULL: none, or a graph of a capture outside of
                                  * graph pools */
    uint64_t sleep_tag;          /* it sleeps and wakes by this number (mend_sleep.h). 0: none */
    int is_asleep;        /* 1: it, or a part of it, sleeps, and cannot be used before mend_wake */
    int contents_dropped; /* 1: a sleep dropped contents of it (mend_backup) */
    uint32_t scope;       /* number of its scope (mend_scope_push). 0: none */
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
 * the work that is queued on `stream` at mend_free. A stream of another device may access the block
 * as a peer. Default and per-thread handles mean the streams of the pool's device. Repeating the
 * call is harmless. Calls the driver only for the stream, as mend_alloc.
 *
 *     mend_alloc(pool, 64 << 20, compute, &block); // written on `compute`
 *     mend_record_stream(pool, block, copies);     // and read on `copies`
 *     mend_free(pool, block, compute);             // after both are queued
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_NO_STREAM, MEND_EVERY_STREAM);
 * MEND_ERROR_FOREIGN_POINTER; MEND_ERROR_INTERIOR_POINTER; MEND_ERROR_DOUBLE_FREE;
 * MEND_ERROR_ASLEEP (wake the block first); MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_CAPTURING (as
 * mend_alloc); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_record_stream(mend_pool *pool, void *pointer, mend_stream stream);

/*
 * Unregister a stream before you destroy it. The pool records an event for the waits that it still
 * has on the stream. An unknown stream succeeds. Blocks that were allocated on the stream stay
 * valid, so free them on another stream. A thread that used its per-thread stream calls this before
 * it ends. Otherwise the memory stays unavailable until a wait for the whole context. If the
 * stream's queue is full, the call waits for the GPU, without the lock that cached allocations
 * need.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_NO_STREAM and MEND_EVERY_STREAM included);
 * MEND_ERROR_CAPTURING (the stream is being captured); MEND_ERROR_UNKNOWN_STREAM;
 * MEND_ERROR_DRIVER; MEND_ERROR_OUT_OF_HOST_MEMORY (the event could not be recorded: call again
 * before you destroy the stream); MEND_ERROR_DEVICE_LOST.
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
 * *released_bytes (may be NULL) counts bytes that other processes can use now, except exported
 * memory that importers hold (mend_stats.importers_bytes).
 *
 *     uint64_t released;
 *     mend_trim(pool, 0, MEND_TRIM_IDLE, &released); // before another program needs the GPU
 *
 * In every mode it waits for a thread that changes mappings. MEND_TRIM_IDLE calls the driver, but
 * never waits for the GPU. Chunks with work in flight stay, and so do mapped chunks while the pool
 * knows of a capture.
 *
 * MEND_TRIM_WAIT then waits for the oldest work that empty chunks need, no longer than necessary.
 * It waits for the whole context only if memory was freed without a stream. It does not wait for
 * work on partly used chunks, for memory freed during the call, or for graphs: memory of graph
 * pools stays. Other threads can use free mapped memory meanwhile.
 *
 * MEND_TRIM_BY_POLICY never waits for the GPU. It releases chunks that no block has used for
 * mend_pool_config.idle_ms, as far as earlier calls with this mode saw. It also releases idle
 * chunks if less than min_free_bytes of the device is free, if processes of the same
 * shared_limit_file wait for memory, or above the soft limit. Call it at the end of a step. With
 * idle_ms a thread of the library calls it. With nothing to release it takes two locks, and asks
 * the driver or the file only with min_free_bytes or shared_limit_file.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_CAPTURING (MEND_TRIM_WAIT alone: a stream is
 * being captured, so trim after the capture); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. Memory released before an error stays released.
 */
MEND_API mend_result mend_trim(mend_pool *pool, uint64_t keep_bytes, mend_trim_mode mode,
                               uint64_t *released_bytes);

/*
 * Set the most physical memory that the pool may hold, in bytes. 0 means the limit of
 * mend_pool_config. More than the device has means all of it, less than a page that the pool takes
 * no more memory. The pool releases memory above the limit where it can, as mend_trim. The limit is
 * set even if that fails. Results as mend_trim.
 */
MEND_API mend_result mend_set_limit(mend_pool *pool, uint64_t limit_bytes);

/* How much memory could be allocated from a pool. */
typedef struct mend_available {
    size_t struct_size;
    uint64_t now_bytes;           /* a request up to this size needs no wait for the GPU */
    uint64_t after_waiting_bytes; /* a request up to this size succeeds after the wait for the GPU
                                   * that mend_alloc makes before it runs out of memory */
    uint64_t graph_pool_bytes;    /* free, but reserved for graphs. Not in the two fields above,
                                   * unless the stream belongs to that graph pool */
    uint64_t device_free_bytes;   /* free memory of the device, which others may take */
    uint64_t pinned_bytes;        /* free, in chunks that only pins hold in place. It serves
                                   * requests there, and cannot be joined with other memory */
} mend_available;
#define MEND_AVAILABLE_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_available), 0, 0, 0, 0, 0                                                      \
    }

/*
 * Estimate how much memory a request on `stream` with alignment 512 can get. MEND_NO_STREAM means a
 * block for any stream. The estimate is not too large while no other process or pool takes memory,
 * and a larger request may succeed. It counts the longest free stretch, or all empty chunks and the
 * growth that the limit and the device allow. A quota that the driver does not show counts once the
 * driver has refused memory for it. It does not count memory that others would release or
 * compaction would gain. With few addresses, a request of this size can fail with
 * MEND_ERROR_OUT_OF_ADDRESS_SPACE.
 *
 * Takes no memory. The time is proportional to the pieces of free memory. Calls the driver for the
 * device's free memory, to identify the stream, to record and query events, and to unmap retired
 * mappings. Waits for a thread that changes mappings, but never for the GPU. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM included); MEND_ERROR_UNKNOWN_STREAM;
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_CAPTURING (as mend_alloc); MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_get_available(mend_pool *pool, mend_stream stream,
                                        mend_available *available);

/* ---- pressure callbacks ---------------------------------------------------------------------- */

/*
 * Free memory that the program can do without, on any pool, and return whether you freed any. The
 * pool calls it before an allocation would wait for the GPU or run out of memory, and before the
 * pool would grow above its soft limit. Each callback is called once for an allocation, or once for
 * each of the two limits. `needed_bytes` is the requested size, or the bytes that a commit adds.
 * Memory beside live blocks, or with work in flight, may not help.
 *
 * Threads: the pool holds no lock. Several threads may be inside the callback at once. It may call
 * the pool, but not destroy it. It must not wait for another thread that allocates from the pool.
 * An allocation inside a callback calls no callbacks.
 */
typedef int (*mend_pressure_callback)(void *context, mend_pool *pool, uint64_t needed_bytes);

/*
 * Add a pressure callback. The pool calls callbacks in the order of their addition, until there is
 * memory. A callback that is added during that time is called from the next time on. `context` is
 * borrowed.
 *
 *     int evict(void *cache, mend_pool *pool, uint64_t needed_bytes); // frees blocks of the cache
 *     mend_add_pressure_callback(pool, evict, cache);
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (this pair of callback and context is already added);
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_add_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                                void *context);

/*
 * Remove a pressure callback. Waits for other threads that are inside the callback, so two
 * callbacks must not remove each other. After it returns, the callback does not run, except in the
 * calling thread if that is inside it. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (it was not added).
 */
MEND_API mend_result mend_remove_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                                   void *context);

/* ---- compaction ------------------------------------------------------------------------------ */

/* When a pass of mend_compact ends. 0 in any field: no limit. */
typedef struct mend_compact_limits {
    size_t struct_size;
    uint64_t gained_bytes; /* end after gaining this much */
    uint64_t copied_bytes; /* most bytes to copy */
    uint64_t driver_calls; /* most driver calls. Each compaction counts with the most calls that it
                            * may need */
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
    uint64_t gained_bytes;     /* memory that can be mapped at any address now, and could not
                                * before */
    uint64_t copied_bytes;     /* bytes copied for that */
    uint64_t compactions;      /* chunks freed by copying their live blocks */
    uint64_t driver_calls;     /* driver calls made */
    uint64_t free_empty_bytes; /* bytes of empty chunks at the end, which can be mapped at any
                                * address */
} mend_compact_report;
#define MEND_COMPACT_REPORT_INIT                                                                   \
    {                                                                                              \
        sizeof(mend_compact_report), MEND_COMPACT_DONE, 0, 0, 0, 0, 0                              \
    }

/*
 * Empty partly used chunks by copying their live blocks to smaller ones, mapped at the same
 * addresses. Pointers and contents stay. `limits` and `report` may be NULL. Waits for all work of
 * the context.
 *
 *     mend_compact_limits limits = MEND_COMPACT_LIMITS_INIT;
 *     limits.duration_ns = 5000000;
 *     mend_compact(pool, &limits, NULL); // between two steps, while the GPU is idle
 *
 * During the call, no work may run or be launched that touches memory of the pool: kernels, copies
 * or graphs of any thread, context, device or process. Blocks that other threads free meanwhile
 * must not be in use. Other threads may allocate and free, and begin no capture. Chunks that are
 * pinned, or have memory of a graph pool, stay as they are.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_CAPTURING (a stream is being captured);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. After an error finished
 * moves stay, and no block has changed. One exception: if the driver unmaps a chunk and then
 * refuses to map the copy, its blocks are unusable until a later call maps them. Their bytes are
 * kept. mend_get_block_info marks them (is_unmapped), and mend_stats counts them.
 */
MEND_API mend_result mend_compact(mend_pool *pool, const mend_compact_limits *limits,
                                  mend_compact_report *report);

/* ---- pins ------------------------------------------------------------------------------------ */

/*
 * Pin `size_bytes` of mapped memory from `pointer` on. Use it for memory that a network card or a
 * collective library has registered. Until mend_unpin, the chunks of the range keep their address
 * and their physical memory. You may free blocks there, and their memory serves later requests in
 * place. Ranges may overlap and be pinned several times: pins count.
 *
 *     mend_pin(pool, buffer, size_bytes); // then register the buffer
 *
 * Pin few, large ranges: free memory in pinned chunks cannot move to where it is needed. May wait
 * for a thread that changes mappings, never for the GPU. Pins end with the pool. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (size_bytes is 0 or too large); MEND_ERROR_FOREIGN_POINTER (some of
 * the range is not mapped memory of this pool); MEND_ERROR_ASLEEP (some of it sleeps);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_FORKED; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_pin(mend_pool *pool, const void *pointer, uint64_t size_bytes);

/*
 * Undo one mend_pin of exactly this range. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (no such pin is
 * left); MEND_ERROR_FORKED; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_unpin(mend_pool *pool, const void *pointer, uint64_t size_bytes);

/* ---- observe --------------------------------------------------------------------------------- */

/*
 * Fill *stats with one consistent snapshot. The cost does not grow with the pool's contents, except
 * for graph_pool_bytes while there are graph pools.
 *
 *     mend_stats stats = MEND_STATS_INIT;
 *     mend_get_stats(pool, &stats);
 *     uint64_t free_bytes = stats.reserved_bytes - stats.live_bytes;
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_get_stats(mend_pool *pool, mend_stats *stats);

/*
 * Fill *usage with the process's use of the device, for the statistics of a framework. `outside`
 * may be NULL. Otherwise `outside->now` is the program's use of the device outside of the pool from
 * this call on. It counts in every row and its peak, so call again after each change. While freed
 * memory is pending, the call asks the driver whether the work has ended, unless another thread
 * changes mappings. MEND_OK; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_get_usage(mend_pool *pool, const mend_usage *outside, mend_usage *usage);

/*
 * Set each peak_... field, and the peaks of mend_get_usage, to its current value. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_reset_peak_stats(mend_pool *pool);

/*
 * Check every invariant of the pool. For tests: a library that is built for release has none
 * (MEND_VALIDATE). The time is proportional to the pool's contents. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NOT_SUPPORTED; MEND_ERROR_INTERNAL (mend_get_last_error
 * names the broken invariant).
 */
MEND_API mend_result mend_validate(mend_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
