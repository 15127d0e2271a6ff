/*
 * Mend: a CUDA memory allocator that makes fragmentation harmless.
 *
 * A pool hands out blocks of device memory. Addresses come from large reserved ranges, physical
 * memory from chunks that belong to no place; free chunks are mapped, from wherever they lie, into
 * whatever contiguous range a request needs. A live block never changes its address.
 *
 * Conventions. All sizes are bytes. Fallible functions return a mend_result; on failure outputs are
 * untouched, the pool is as it was before the call, and mend_last_error() says why. No function
 * aborts, exits or prints (but for the log, where log_level asks for it). Every call is
 * thread-safe, except create and destroy of the same pool. Besides the results its comment names, a
 * call on a pool or a group may answer MEND_ERROR_FORKED. An allocation that no free memory serves
 * takes turns on its pool with the calls that give memory back (trim, limit, forget, release,
 * destroy) and with the audit: each of these may have to wait for another thread, which may be
 * waiting for the GPU. "Never waits" speaks of what a call does.
 *
 * Structs that may grow begin with `size_t struct_size`, set by their MEND_..._INIT macro: a
 * struct_size of 0, or one that ends inside of a member, is MEND_ERROR_INVALID_ARGUMENT; 0 in any
 * other field means the documented default. A struct to be filled is filled as far as caller and
 * library both know it; a config of a newer version than the library is refused.
 */
#ifndef MEND_MEND_H
#define MEND_MEND_H

#include <stddef.h>
#include <stdint.h>

#include "mend/mend_results.h"
#include "mend/mend_stats.h"
#include "mend/mend_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- lifecycle ------------------------------------------------------------------------------- */

/* How a pool is to be. Fields left at 0 come from MEND_CONF of the environment where it names them
 * (docs/configuration.md), else they mean the default. */
typedef struct mend_pool_config {
    size_t struct_size;
    int device;                /* ordinal of the device */
    int allow_stream_waits;    /* 0: default, on. -1: off, the pool never makes one stream wait for
                                  another (for kernels that spin on each other) */
    const mend_driver *driver; /* NULL: CUDA. Borrowed; must outlive the pool */
    uint64_t limit_bytes;      /* most physical memory the pool may hold; more than the device has:
                                  all of it; less than a page of the device (2 MiB on those known):
                                  refused. 0: all of the device; of one whose memory is the host's,
                                  nine tenths of what is free when the pool is created */
    uint64_t chunk_bytes;      /* usual size of a chunk of the large zone; 0: chosen from the limit.
                                  Rounded up to a page. Sizes of chunks and of reserve_bytes: at
                                  most 2^60 */
    uint64_t small_chunk_bytes;   /* the same for the small zone; 0: 8 MiB, less for small limits */
    uint64_t small_request_bytes; /* requests up to this size go to the small zone; 0: 1 MiB */
    uint64_t reserve_bytes; /* addresses reserved at a time for requests of one kind, small or large
                               ones; 0: twice the device's memory. Fewer where the driver has not so
                               many, down to what one block needs */
    int streams_may_vanish; /* 1: streams are destroyed without mend_forget_stream. The pool asks
                               the driver at each call whether a handle still means the stream it
                               knows (which drivers before CUDA 12.0 cannot tell), and records an
                               event at each free. Streams declared by mend_record_stream must
                               live until the block is freed; if a stream was captured during a
                               free, forget it or use it once more before it ends, else the memory
                               stays reserved. 0: off */
    int knows_all_streams;  /* 1: every stream that uses the pool's memory is told to the pool, so
                               that MEND_NO_STREAM waits for the fences of those it knows instead
                               of the whole context. 0: off */
    int audit_level;        /* debug builds of the library only, which end the program when a pool
                               contradicts itself. 1: the sums are checked after each call that may
                               have changed the pool, 2: every invariant. 0: off */
    int front_cache;        /* 0: default, on. -1: off, what was freed last is not kept as it is for
                               the next request of its size, which costs time and changes nothing
                               else */
    int compact_when_full; /* 1: before an allocation fails, the pool may copy live blocks together,
                              as mend_defrag does. Set it only if no GPU work is launched while an
                              allocation is in progress. A little memory under the limit is kept for
                              the copies, until nothing else is left. 0: off */
    int low_pressure_percent; /* 1 to 100: while more than this percentage of the limit is not
                                 reserved, the pool prefers fewer driver calls (large chunks), then
                                 less waste (small chunks). A larger value saves memory and costs
                                 driver time. 0: 95 */
    int limit_percent;        /* 1 to 100: limit_bytes, as a part of the device's memory; then
                                 limit_bytes is 0. 0: limit_bytes says it */
    int log_level;      /* a mend_log_level: from now on lines of the process's log that matter
                           as much or more go to standard error, where the program set no sink.
                           Warnings: out of memory, a limit below what is held, blocks that
                           live when a pool is destroyed. Info: pools, waits of the host. 0:
                           nothing is written */
    int capture_checks; /* 0: default, on. -1: for a program that captures in groups alone, or not
                           at all: the driver is not asked at each call on a created stream
                           whether that stream is captured, but while a group is begun */
    int rdma;           /* 0: default, on: physical memory is made so that it can be registered
                           for GPUDirect RDMA, where the device can. -1: off */
    uint64_t peers;     /* other devices that may use the pool's memory. 0: default, those that
                           can reach it and on which the process has a pool of the same driver,
                           from when it has. MEND_PEERS_NONE: none. Else bit n: device n, from
                           the beginning, and no other. Each makes mapping dearer */
} mend_pool_config;
#define MEND_POOL_CONFIG_INIT                                                                      \
    {                                                                                              \
        sizeof(mend_pool_config), 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0       \
    }

/*
 * Creates a pool, which the caller owns until mend_pool_destroy. `config` NULL means device 0
 * with all defaults. Opens the driver and the primary context of the device; takes no physical
 * memory yet. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a field, or MEND_CONF of the environment, is
 * outside what it takes; mend_last_error says which and what is possible); MEND_ERROR_NO_DRIVER;
 * MEND_ERROR_NO_DEVICE; MEND_ERROR_NOT_SUPPORTED (no virtual memory management);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER.
 */
MEND_API mend_result mend_pool_create(const mend_pool_config *config, mend_pool **pool);

/*
 * Destroys a pool: waits for the context's work, unmaps and releases everything, blocks still live
 * included (of which the log tells, as a warning), and frees the host's memory. NULL succeeds. No
 * other call on the pool or its groups may be under way or follow. MEND_OK; MEND_ERROR_CAPTURING (a
 * capture forbids the wait: the pool is as it was, destroy it after the capture); MEND_ERROR_DRIVER
 * (the driver refused something: the pool is gone all the same, with its host memory; what work may
 * still be using stays with the driver).
 */
MEND_API mend_result mend_pool_destroy(mend_pool *pool);

/* ---- allocate -------------------------------------------------------------------------------- */

/*
 * Allocates `size_bytes` of device memory (no pinned host or managed memory), rounded up to a
 * multiple of 512 and aligned to 512, for use in the order of `stream` from now on. The block is of
 * the pool's device, in its primary context, whichever device or context is current in the calling
 * thread, and that one is current again when the call returns. *pointer is owned by the caller
 * until mend_free. On a created or per-thread stream it asks the driver whether the stream is
 * captured (see groups; capture_checks), a question that never waits. May call the driver to get to
 * know a stream and when no free memory fits; never waits on the host for the GPU unless the
 * alternative is out of memory. Memory of other streams is handed out only after its last use,
 * which may make `stream` wait on the device (allow_stream_waits). With MEND_NO_STREAM the block
 * may be used on every stream at once: the pool uses only idle memory for it. If it can grow no
 * further, the call may wait for the GPU. A created stream may be of another device: the pool holds
 * that one's primary context open from then on, and waits for it where it waits for its own.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (size 0 or above 2^60, pool or pointer NULL,
 * MEND_EVERY_STREAM); MEND_ERROR_OUT_OF_MEMORY; MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_OUT_OF_ADDRESSES; MEND_ERROR_UNKNOWN_STREAM (of a context that is no device's primary
 * one, nor a green one, or the driver does not know it); MEND_ERROR_CAPTURING (streams may vanish,
 * and the capture of this one was spoilt: nobody can tell it before that has ended);
 * MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_alloc(mend_pool *pool, uint64_t size_bytes, mend_stream stream,
                                void **pointer);

/* The same with an alignment: a power of two up to 2^40; below 512 it means 512. Results as
 * mend_alloc; MEND_ERROR_INVALID_ARGUMENT for other alignments too. */
MEND_API mend_result mend_alloc_aligned(mend_pool *pool, uint64_t size_bytes,
                                        uint64_t alignment_bytes, mend_stream stream,
                                        void **pointer);

/*
 * Frees a block. The caller asserts that all use of it precedes this point of `stream`, or was
 * declared by mend_record_stream. The memory is at once usable for the same stream, and for others
 * when the GPU has passed this point. With MEND_NO_STREAM it is held until a synchronisation of the
 * whole context, and of those of other devices whose streams the pool has seen, which is made only
 * when the memory is needed. NULL succeeds and does nothing.
 * Safe during process exit, after the CUDA driver has shut down.
 * Asks whether the stream is captured, as mend_alloc does, so that the stream must be there: one
 * that ended is named no more. May record an event; never waits.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM included); MEND_ERROR_FOREIGN_POINTER;
 * MEND_ERROR_INTERIOR_POINTER; MEND_ERROR_DOUBLE_FREE; MEND_ERROR_UNKNOWN_STREAM;
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER (the driver did not tell of the stream);
 * MEND_ERROR_DEVICE_LOST. After any error the block is as it was.
 */
MEND_API mend_result mend_free(mend_pool *pool, void *pointer, mend_stream stream);

/*
 * Declares that `stream` uses the block too, up to the moment it is freed: the memory is handed on
 * only after the work queued on `stream` at mend_free. The stream may be of another device, which
 * uses the block as a peer; the handles of default and per-thread streams mean those of the pool's
 * device. Idempotent. No driver call but to get to know a stream: one the pool has not seen, or the
 * per-thread stream. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (MEND_NO_STREAM and MEND_EVERY_STREAM included); the pointer errors
 * of mend_free; MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_CAPTURING (as mend_alloc);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_record_stream(mend_pool *pool, void *pointer, mend_stream stream);

/*
 * To be called before a stream is destroyed: records what the pool still waits for on it, so that
 * its memory can be handed on later. A stream the pool has not seen succeeds. Blocks that were
 * allocated on it stay valid and are freed on another stream. A thread that used its per-thread
 * stream calls this before it ends: nobody else can record an event there, so that its memory would
 * be held until the whole context has been waited for. Records an event; while the queue of the
 * stream is full, that waits for the GPU, without the lock that cached allocations take.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_NO_STREAM and MEND_EVERY_STREAM included);
 * MEND_ERROR_CAPTURING (it is being captured), MEND_ERROR_UNKNOWN_STREAM,
 * MEND_ERROR_DRIVER, MEND_ERROR_OUT_OF_HOST_MEMORY (the event could not be recorded: call again
 * before destroying the stream); MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_forget_stream(mend_pool *pool, mend_stream stream);

/* A live block. */
typedef struct mend_block_info {
    size_t struct_size;
    void *base;               /* the pointer mend_alloc gave */
    uint64_t requested_bytes; /* the size asked for */
    uint64_t usable_bytes;    /* bytes that may be used from base */
    mend_stream stream;       /* the stream it was allocated for */
    mend_pool *pool;          /* the pool it belongs to */
    int is_unmapped;          /* 1: a compaction could not map it again, it cannot be used now; see
                                 mend_defrag */
} mend_block_info;
#define MEND_BLOCK_INFO_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_block_info), NULL, 0, 0, NULL, NULL, 0                                         \
    }

/* Describes the live block that contains `pointer`, at its start or inside. No driver call.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_FOREIGN_POINTER; MEND_ERROR_DOUBLE_FREE (the
 * memory is free). */
MEND_API mend_result mend_get_block_info(mend_pool *pool, const void *pointer,
                                         mend_block_info *info);

/* ---- room ------------------------------------------------------------------------------------ */

/*
 * Gives empty chunks back to the driver until at most `keep_bytes` stay reserved, the largest
 * first. Calls the driver, but never waits for the GPU: what is still in flight stays, and so does
 * what is mapped while a capture is known. *released_bytes (may be NULL) counts bytes that others
 * can use now. Right after a free whose work still runs it is often 0: mend_trim_wait waits for the
 * work. MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. What went back before an error has gone back.
 */
MEND_API mend_result mend_trim(mend_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes);

/*
 * As mend_trim, and where that leaves more than `keep_bytes`, the host waits for the GPU: for the
 * oldest work that empty chunks wait for, then it gives back, and so on, no further than is
 * needed; for the whole context only where memory was freed without a stream. Not waited for is
 * work that uses only partly used chunks, what is freed meanwhile, and graphs: the memory of groups
 * stays. Other threads use what is mapped and free meanwhile; those that need room, or give it
 * back, wait for their turn. Results as mend_trim; MEND_ERROR_CAPTURING (a stream is being
 * captured, which forbids to wait and to unmap: trim when the capture has ended). What went back
 * before an error has gone back.
 */
MEND_API mend_result mend_trim_wait(mend_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes);

/* Sets the most physical memory the pool may hold, in bytes (0: as mend_pool_config; more than the
 * device has: all of it). From then on the pool grows no further than this; of what is reserved
 * above it, it gives back what it can, as mend_trim. The limit is set even where that fails.
 * Results as mend_trim. */
MEND_API mend_result mend_set_limit(mend_pool *pool, uint64_t limit_bytes);

/* How much could be had of a pool. */
typedef struct mend_room {
    size_t struct_size;
    uint64_t now_bytes;           /* the largest request that the pool can serve without letting the
                                     host wait; on a stream 512 bytes more would wait or fail */
    uint64_t after_waiting_bytes; /* at least so much when the host has waited for the GPU, as
                                     mend_alloc does before it runs out of memory */
    uint64_t group_bytes;         /* free, but held for graphs; in neither of the above, unless it
                                     is the stream's own group that asks */
    uint64_t device_free_bytes;   /* what the device has free, for whoever takes it */
} mend_room;
#define MEND_ROOM_INIT                                                                             \
    {                                                                                              \
        sizeof(mend_room), 0, 0, 0, 0                                                              \
    }

/*
 * Fills *room for a request on `stream` (MEND_NO_STREAM: for use on any), of alignment 512, as far
 * as the pool can serve it by itself: what is free, what the limit allows, and what the device has.
 * Not counted is what other pools of the device and pressure callbacks would give back, and what
 * compactions would gain (compact_when_full). True at that moment: another thread or process may
 * take it. Nothing is allocated. Takes a time proportional to the free memory's pieces, some fifty
 * times. Calls the driver as an allocation that finds no room: to ask for the device's memory, to
 * get to know the stream, to record and query events and to unmap what is not used any more; never
 * waits for the GPU. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM included);
 * MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_CAPTURING (as mend_alloc);
 * MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_get_room(mend_pool *pool, mend_stream stream, mend_room *room);

/* How far a pass of mend_defrag goes. 0 in any field: no bound. */
typedef struct mend_defrag_limits {
    size_t struct_size;
    uint64_t gained_bytes; /* enough is gained */
    uint64_t copied_bytes; /* most bytes copied */
    uint64_t driver_calls; /* most calls of the driver, counted before as if none could be spared */
    uint64_t duration_ns;  /* no chunk is begun with later than this */
} mend_defrag_limits;
#define MEND_DEFRAG_LIMITS_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_defrag_limits), 0, 0, 0, 0                                                     \
    }

/* Why a pass ended. */
typedef enum mend_defrag_stop {
    MEND_DEFRAG_DONE = 0, /* there is no partly used chunk left that would gain a page */
    MEND_DEFRAG_GAINED,   /* enough is gained */
    MEND_DEFRAG_BYTES,    /* more would copy too many bytes */
    MEND_DEFRAG_CALLS,    /* more would call the driver too often */
    MEND_DEFRAG_TIME,     /* the time is over */
    MEND_DEFRAG_NO_ROOM   /* there is no free memory that more could be copied to */
} mend_defrag_stop;

/* What a pass did. */
typedef struct mend_defrag_report {
    size_t struct_size;
    mend_defrag_stop stop;
    uint64_t gained_bytes;     /* free memory that is usable in any place now, and was not before */
    uint64_t copied_bytes;     /* copied for that */
    uint64_t compactions;      /* chunks freed by copying what lived in them */
    uint64_t driver_calls;     /* calls of the driver made */
    uint64_t free_empty_bytes; /* in chunks empty at the end, usable in any place */
} mend_defrag_report;
#define MEND_DEFRAG_REPORT_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_defrag_report), MEND_DEFRAG_DONE, 0, 0, 0, 0, 0                                \
    }

/*
 * Makes partly used chunks empty: what lives in them is copied to chunks no larger than it
 * needs, which are mapped at the same addresses. Pointers and contents stay. `limits` may be NULL:
 * none; `report` too. Waits for all work of the context. The caller asserts that from the beginning
 * of the call to its end no work runs or is launched that touches memory of the pool: kernels,
 * copies, graphs, of any thread, context, device or process; and blocks freed meanwhile by other
 * threads are not in use. Chunks with memory of a group are left alone. Other threads may
 * allocate and free.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_CAPTURING (a stream is being captured);
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: finished moves stay,
 * and no block has changed. One exception: if the driver unmaps a chunk and then refuses to map the
 * copy, its blocks are unusable until a later call, of this or of an allocation that makes room,
 * maps them. Their bytes are kept; mend_get_block_info marks them (is_unmapped), mend_stats counts
 * them.
 */
MEND_API mend_result mend_defrag(mend_pool *pool, const mend_defrag_limits *limits,
                                 mend_defrag_report *report);

/*
 * Called when an allocation would run out of memory, before it waits on the host for the GPU: the
 * callback frees what it can do without, on any pool. Each is called once for an allocation.
 * `needed_bytes` is the size asked for, `missing_bytes` how much of it the pool lacks as things
 * are: when so much more is empty and idle, in chunks or under the limit, the request is
 * served. What is freed beside live blocks, or for work under way, may bring less. Returns whether
 * it freed anything. No lock is held; the callback may call the pool, except to destroy it, and may
 * be called by several threads at once. It must not wait for another thread that allocates from the
 * pool. An allocation made inside a callback calls no callbacks.
 */
typedef int (*mend_pressure_callback)(void *context, mend_pool *pool, uint64_t needed_bytes,
                                      uint64_t missing_bytes);

/* Adds a callback; they are asked in the order they were added, until room is found; one that is
 * added meanwhile, from the next time on. The same pair of callback and context may be added once;
 * `context` is borrowed. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (it is added
 * already); MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_add_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                                void *context);

/* Removes it. When this returns, the callback is not running and will not be called any more,
 * unless it is this thread that runs it: it waits for other threads that do, so that two callbacks
 * may not remove each other. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (it was not
 * added). */
MEND_API mend_result mend_remove_pressure_callback(mend_pool *pool, mend_pressure_callback callback,
                                                   void *context);

/* ---- groups: memory of captured graphs ------------------------------------------------------- */

/*
 * A captured graph uses its blocks at every replay, long after they were freed in its capture, and
 * perhaps on another stream. So blocks allocated for a capture belong to a group: they are made
 * only of memory that is idle, of new chunks, or of what was freed on the same stream in the same
 * group; what is freed stays with the group and stays mapped, until the group is released.
 *
 * A group may serve several captures, and their graphs may be launched in any order: they share
 * memory, so they must not run at the same time, and a graph that reads what another one left in a
 * block is launched after it, with none in between that may use the memory again.
 *
 * Captures outside of groups are safe, too. What is allocated on a captured stream, and what is
 * freed or declared there (mend_free, mend_record_stream) while it is captured, is kept for the
 * graph, as if each capture had a group of its own, until the graph and all that was instantiated
 * from it are destroyed and have run to their ends: the driver tells when. A block that is live
 * then stays so. Graphs that are to share memory need a group. Without a stream (MEND_NO_STREAM)
 * nobody knows of the capture: name the stream there.
 */

/* Creates a group, which ends with its release, or with the pool. No driver call. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_group_create(mend_pool *pool, mend_group **group);

/* From now on allocations and frees on `stream` (MEND_EVERY_STREAM: on all) belong to the group;
 * call it before the capture begins. Of frees outside of a capture those of blocks of the group:
 * other blocks are freed as ever. Of several groups that take the same stream the one begun last is
 * used. Until mend_group_end the pool asks the driver whether the stream is captured before it
 * waits for the context: the stream must live so long, or be forgotten (mend_forget_stream). No
 * driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (begun already, or MEND_NO_STREAM);
 * MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_group_begin(mend_group *group, mend_stream stream);

/* No more allocations belong to the group; what it holds stays. No driver call. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (it was not begun); MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_group_end(mend_group *group);

/*
 * Gives the group's memory back and frees the group, which no other call may be using. The caller
 * asserts that no graph which uses it will be launched any more, and that all launches, and all
 * work outside of captures on blocks freed in the group, precede this point of `stream`
 * (MEND_NO_STREAM: the memory is held until a synchronisation of the whole context). Blocks still
 * live stay so, and are freed as ever. May record an event; never waits. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (it is begun, or MEND_EVERY_STREAM); MEND_ERROR_CAPTURING
 * (`stream` is being captured); MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. The group is as it was after an error.
 */
MEND_API mend_result mend_group_release(mend_group *group, mend_stream stream);

/* ---- observe --------------------------------------------------------------------------------- */

/* Fills *stats with one consistent picture. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_get_stats(mend_pool *pool, mend_stats *stats);

/* Sets every peak_... to its current value. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT.
 */
MEND_API mend_result mend_reset_peak_stats(mend_pool *pool);

/*
 * Checks every invariant of the pool from scratch, in a time proportional to all it holds; waits
 * for another thread that is making room. For tests and for hunting errors. No driver call.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_INVARIANT (mend_last_error says what is wrong).
 */
MEND_API mend_result mend_audit(mend_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
