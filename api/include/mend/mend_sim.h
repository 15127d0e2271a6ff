/*
 * A simulated GPU with the driver interface of CUDA: physical memory, addresses, mappings, access
 * rights, streams with work on a virtual clock, events, costs and faults. It checks every call and
 * all work. It counts each broken rule of the driver as a violation, and explains it. It is
 * deterministic.
 *
 *     mend_sim_config config = MEND_SIM_CONFIG_INIT;
 *     config.memory_bytes = 1ull << 30;
 *     mend_sim *sim;
 *     mend_sim_create(&config, &sim);
 *     mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
 *     pool_config.driver = mend_sim_driver(sim);
 *
 * All calls are thread-safe except create and destroy of the same device. mend_sim_last_message
 * gives the reason of a failure, and mend_get_last_error does not.
 */
#ifndef MEND_MEND_SIM_H
#define MEND_MEND_SIM_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the device and its costs ------------------------------------------------------------- */

/* A simulated machine: its devices, their memory, their clock. */
typedef struct mend_sim mend_sim;

/* The cost of a driver call: the sum of these parts, in nanoseconds. A part that does not apply to
 * a call is 0. */
typedef struct mend_sim_price {
    uint64_t call_ns;    /* once */
    uint64_t mapping_ns; /* for each mapping that the call covers (set_access, unmap) */
    uint64_t mib_ns;     /* for each MiB of its size */
} mend_sim_price;

/* X(call): the calls that have a cost, in the order of mend_sim_prices. Two are not calls. `scrub`
 * is the cost for each MiB at which the device cleans freed memory in the background. A creation
 * waits until enough memory is clean, and a refused one for all memory. `host_copy` is a `copy`
 * with one side in host memory. */
#define MEND_SIM_PRICED_CALLS(X)                                                                   \
    X(reserve)                                                                                     \
    X(address_free)                                                                                \
    X(create)                                                                                      \
    X(release)                                                                                     \
    X(map)                                                                                         \
    X(unmap)                                                                                       \
    X(set_access)                                                                                  \
    X(plain_alloc)                                                                                 \
    X(plain_free)                                                                                  \
    X(async_alloc)                                                                                 \
    X(async_free)                                                                                  \
    X(event_record)                                                                                \
    X(event_query)                                                                                 \
    X(stream_wait)                                                                                 \
    X(synchronize)                                                                                 \
    X(memory_info)                                                                                 \
    X(copy)                                                                                        \
    X(scrub)                                                                                       \
    X(host_alloc)                                                                                  \
    X(host_free)                                                                                   \
    X(host_copy)

/* A cost table. */
typedef struct mend_sim_prices {
    size_t struct_size;
#define X(call) mend_sim_price call;
    MEND_SIM_PRICED_CALLS(X)
#undef X
} mend_sim_prices;
#define MEND_SIM_PRICES_ZERO(call)                                                                 \
    ,                                                                                              \
    {                                                                                              \
        0, 0, 0                                                                                    \
    }
#define MEND_SIM_PRICES_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_sim_prices) MEND_SIM_PRICED_CALLS(MEND_SIM_PRICES_ZERO)                        \
    }

/* Get a built-in cost table: "h200", "kvcached-a100" or "reference", from public measurements
 * (docs/formats/replay.md). MEND_OK; MEND_ERROR_INVALID_ARGUMENT (NULL, or no such table). */
MEND_API mend_result mend_sim_prices_named(const char *name, mend_sim_prices *prices);

/* Whether the memory has bytes. */
typedef enum mend_sim_content {
    MEND_SIM_CONTENT_NONE = 0, /* no bytes, so a device of any size */
    MEND_SIM_CONTENT_BYTES = 1 /* real bytes at real addresses. A wild access crashes */
} mend_sim_content;

/* Whether fabric handles can share memory across the processes of one user (mend_share.h). */
typedef enum mend_sim_fabric {
    MEND_SIM_FABRIC_NONE = 0,   /* no fabric handles */
    MEND_SIM_FABRIC_WORKS = 1,  /* fabric handles work */
    MEND_SIM_FABRIC_REFUSED = 2 /* the device reports them, but the driver refuses such memory, as
                                 * without IMEX channels */
} mend_sim_fabric;

/* Receive the explanation of a violation, under the device's lock: do not call the simulated
 * device, directly or indirectly. */
typedef void (*mend_sim_violation_handler)(void *context, const char *explanation);

/* The properties of a device. */
typedef struct mend_sim_config {
    size_t struct_size;
    uint64_t memory_bytes;    /* physical memory of each device, rounded up to a page, at most 2^62.
                               * 0: 80 GiB */
    uint64_t page_bytes;      /* page of the device: a power of two, at least 512, and with real
                               * bytes at least a page of the host. 0: 2 MiB */
    int device_count;         /* up to 16. 0: 1 */
    mend_sim_content content; /* whether the memory has bytes */
    uint64_t address_bytes;   /* addresses that can be reserved in total, a page to 2^62. 0:
                               * 128 TiB */
    int prices_advance_clock; /* 1: each call advances the virtual clock by its cost */
    const mend_sim_prices *prices;           /* copied. NULL: "reference" */
    mend_sim_violation_handler on_violation; /* NULL: violations are only counted and kept */
    void *violation_context;                 /* passed to on_violation */
    int identity_in_capture;   /* 1: a thread whose capture mode allows unsafe calls may ask for the
                                * identity of a captured stream. 0: no thread may */
    int peer_group;            /* devices reach each other's memory in groups of this many, by
                                * number. 0: all. 1: none */
    int is_integrated;         /* 1: the devices use the host's memory */
    int has_rdma;              /* 1: chunks can be created for RDMA */
    mend_sim_fabric fabric;    /* whether memory can be shared by fabric handles */
    uint64_t queue_entries;    /* length of a stream's queue, at most 2^20. A call that exceeds it
                                * waits until the oldest operation is done. 0: no limit */
    int has_no_virtual_memory; /* 1: chunks cannot be created, as in some containers or with an old
                                * driver. Plain allocations work */
    uint64_t copy_ns;          /* time of each copy and fill on its stream. 0 hides a missing wait
                                * for them */
    int fresh_is_zero;         /* with real bytes, memory that nothing has written has 1: zeros. 0:
                                * bytes of 0xdb, because no driver promises zeros */
    int has_no_context_events; /* 1: no event covers a whole context, as before CUDA 12.5 */
    int has_no_memory_pools;   /* 1: cuMemAllocAsync is not supported, as on some virtual GPUs */
} mend_sim_config;
#define MEND_SIM_CONFIG_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_sim_config), 0, 0, 0, MEND_SIM_CONTENT_NONE, 0, 0, NULL, NULL, NULL, 0, 0, 0,  \
            0, MEND_SIM_FABRIC_NONE, 0, 0, 0, 0, 0, 0                                              \
    }

/* Create a simulated machine, which you own until mend_sim_destroy. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_create(const mend_sim_config *config, mend_sim **sim);

/* Destroy it and everything in it. NULL does nothing. Read the ledger before, to see remaining
 * memory. */
MEND_API void mend_sim_destroy(mend_sim *sim);

/* Return the table for mend_pool_config.driver, valid as long as the device. */
MEND_API const mend_driver *mend_sim_driver(mend_sim *sim);

/* Observe a driver call, before and after it, in the calling thread and without a lock of the
 * device. `call` is the name of the table's member ("set_access"). It may wait for other threads,
 * and may call the device, which is observed too. */
typedef void (*mend_sim_call_observer)(void *context, const char *call, int is_after);

/* Set the observer, or remove it with NULL. A call in progress ends at the observer that saw its
 * beginning, so `context` must be valid until then. */
MEND_API void mend_sim_set_call_observer(mend_sim *sim, mend_sim_call_observer observer,
                                         void *context);

/* ---- time and work --------------------------------------------------------------------------- */

/* Read the virtual clock, or advance it, which completes due work in order. */
MEND_API uint64_t mend_sim_now_ns(mend_sim *sim);
MEND_API void mend_sim_advance(mend_sim *sim, uint64_t duration_ns);

/* The kind of a stream. */
typedef struct mend_sim_stream_options {
    size_t struct_size;
    int device;      /* device of the stream. A device other than 0 must be open, by a pool or by
                      * device_open of the table */
    int is_blocking; /* 1: it and the legacy stream wait for each other's earlier work, as
                      * per-thread streams do. 0: non-blocking */
    int green;       /* 1 to 7: green context of the stream. It shares the device's memory, and a
                      * wait for the primary context includes it. Events on the stream must be of
                      * its context. 0: none */
} mend_sim_stream_options;
#define MEND_SIM_STREAM_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(mend_sim_stream_options), 0, 0, 0                                                   \
    }
enum { MEND_SIM_MOST_GREEN = 7 };

/* Create a stream. NULL for `options` means a non-blocking one of device 0. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_stream_create(mend_sim *sim, const mend_sim_stream_options *options,
                                            mend_stream *stream);

/* Destroy a stream. MEND_OK; MEND_ERROR_INVALID_ARGUMENT. */
MEND_API mend_result mend_sim_stream_destroy(mend_sim *sim, mend_stream stream);

/* Advance the clock until all work on the stream, and all work that it waits for, is complete, as
 * cuStreamSynchronize. While the stream is captured it fails and invalidates the capture. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (an unknown stream, or a capture forbids it);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_synchronize(mend_sim *sim, mend_stream stream);

/* The identity of a stream, as cuStreamGetId, cuStreamGetCtx and cuStreamGetGreenCtx report it. */
typedef struct mend_sim_identity {
    size_t struct_size;
    uint64_t id;   /* unique for ever */
    void *context; /* CUcontext of its own context */
    int is_green;  /* 1: that context is a green one */
} mend_sim_identity;
#define MEND_SIM_IDENTITY_INIT                                                                     \
    {                                                                                              \
        sizeof(mend_sim_identity), 0, NULL, 0                                                      \
    }

/* Ask for the identity, as a program does. Returns the driver's codes. While the stream is captured
 * that is CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, which invalidates the capture
 * (identity_in_capture). */
MEND_API int mend_sim_stream_identity(mend_sim *sim, mend_stream stream,
                                      mend_sim_identity *identity);

typedef enum mend_sim_work_kind {
    MEND_SIM_WORK_TOUCH, /* the range must be mapped and accessible */
    MEND_SIM_WORK_WRITE, /* writes (`tag`, its index) to each 512-byte granule */
    MEND_SIM_WORK_VERIFY /* compares with a WRITE of the same tag, and counts differences */
} mend_sim_work_kind;

/* Work on a stream. A default stream is of the current context, or else of device 0. It starts when
 * all work queued before it, and all events waited for, are done. It completes at `finish_ns` of
 * the virtual clock, or later if it starts later. At completion its range is checked, and its bytes
 * are written or compared. On a captured stream it is recorded, and `finish_ns` is ignored. */
typedef struct mend_sim_work {
    size_t struct_size;
    mend_sim_work_kind kind;
    uint64_t address;    /* the range */
    uint64_t size_bytes; /* its size */
    uint64_t tag;        /* for WRITE and VERIFY */
    uint64_t finish_ns;  /* the earliest time of its completion */
} mend_sim_work;
#define MEND_SIM_WORK_INIT                                                                         \
    {                                                                                              \
        sizeof(mend_sim_work), MEND_SIM_WORK_TOUCH, 0, 0, 0, 0                                     \
    }

/* Queue a copy of a piece of work. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (an unknown stream or kind,
 * or the legacy stream while a capture makes it unusable); MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_launch(mend_sim *sim, mend_stream stream, const mend_sim_work *work);

/* Get the virtual time at which the work that an event marks is complete. 0: the event was never
 * recorded. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (NULL, not an event, or last recorded in a
 * capture). */
MEND_API mend_result mend_sim_event_time(mend_sim *sim, void *event, uint64_t *time_ns);

/* The contents of a range of addresses. */
typedef struct mend_sim_place {
    size_t struct_size;
    int is_of_device;  /* 1: the first address is of the simulated devices, mapped or not */
    int device;        /* device of the memory mapped there. -1: none */
    int is_plain;      /* 1: memory of plain_alloc or async_alloc */
    int is_accessible; /* 1: the named device may access the whole range now */
} mend_sim_place;
#define MEND_SIM_PLACE_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_sim_place), 0, 0, 0, 0                                                         \
    }

/* Look up a range of at least one byte, as `device` sees it. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT. */
MEND_API mend_result mend_sim_look_up(mend_sim *sim, int device, uint64_t address,
                                      uint64_t size_bytes, mend_sim_place *place);

/* ---- capture and graphs ---------------------------------------------------------------------- */

/* The threads for which a capture forbids unsafe calls, as in CUDA: to allocate and free plain
 * memory, and to query an event. A thread whose own mode is relaxed may always make them. */
typedef enum mend_sim_capture_mode {
    MEND_SIM_CAPTURE_GLOBAL = 0,   /* every thread that is not thread-local or relaxed */
    MEND_SIM_CAPTURE_THREAD_LOCAL, /* the thread that began it */
    MEND_SIM_CAPTURE_RELAXED       /* none */
} mend_sim_capture_mode;

/* Captured work, which can be launched many times. */
typedef struct mend_sim_graph mend_sim_graph;

/* Begin a capture: work on the stream, and on streams that wait for it, is recorded instead of run.
 * A call that a capture forbids is refused and invalidates it. While a blocking stream is captured,
 * the legacy stream of its context is unusable. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (the legacy
 * stream, an unknown one, or one that is captured); MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_begin_capture(mend_sim *sim, mend_stream stream,
                                            mend_sim_capture_mode mode);

/* End the capture that was begun on this stream, on all its streams. `graph` gets the recorded
 * work, and may be NULL. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (no capture was begun on the stream,
 * or another thread began it and it is not relaxed: nothing ended); MEND_ERROR_DRIVER (the capture
 * ended with *graph NULL, because it was invalidated, or because its first stream does not wait for
 * some of its work). */
MEND_API mend_result mend_sim_end_capture(mend_sim *sim, mend_stream stream,
                                          mend_sim_graph **graph);

/* Make later work on `stream` wait for all work launched on `other`. If `other` is captured,
 * `stream` joins the capture. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (an unknown stream, or captures
 * forbid it); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_stream_wait(mend_sim *sim, mend_stream stream, mend_stream other);

/* Queue all work of the graph, in the recorded order, each piece with its recorded duration, and at
 * least until `finish_ns`. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (NULL, an unknown stream, or one
 * that is captured or unusable); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_graph_launch(mend_sim *sim, mend_sim_graph *graph, mend_stream stream,
                                           uint64_t finish_ns);

/* Destroy a graph. Work queued by launches still runs. NULL does nothing. */
MEND_API void mend_sim_graph_destroy(mend_sim *sim, mend_sim_graph *graph);

/* ---- checkpoints of the process -------------------------------------------------------------- */

/*
 * Checkpoint the process's memory on the device, as cuda-checkpoint: wait for all queued work, save
 * the bytes of all memory, and release the memory. Its addresses read as undefined meanwhile. Until
 * mend_sim_restore a call through the table is a violation, because a real process is stopped.
 * Refused while a stream captures, and if other processes may know of memory: exported and imported
 * chunks, and chunks that were created to be shared (whether the driver refuses them before an
 * export is unknown). MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NOT_SUPPORTED (*reason,
 * which may be NULL, says why; static); MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
MEND_API mend_result mend_sim_checkpoint(mend_sim *sim, const char **reason);

/* Restore all memory, with its bytes, addresses and handles. MEND_OK; MEND_ERROR_INVALID_ARGUMENT
 * (there is no checkpoint); MEND_ERROR_OUT_OF_MEMORY (others hold the device's memory: try again
 * later). */
MEND_API mend_result mend_sim_restore(mend_sim *sim);

/* ---- faults ---------------------------------------------------------------------------------- */

/* A rule that makes calls fail, once or several times. */
typedef struct mend_sim_fault {
    size_t struct_size;
    const char *call;     /* the table's member ("map"). NULL: any call but context_pop,
                           * device_close, stream_destroy and event_destroy, which cannot fail */
    int status;           /* the driver's code to return. 0: CUDA_ERROR_OUT_OF_MEMORY */
    uint64_t after_calls; /* matching calls that succeed first */
    uint64_t count;       /* matching calls that then fail. UINT64_MAX: all. 0: 1, or all with
                           * until_release */
    uint64_t above_bytes; /* only calls whose size is larger */
    int until_release;    /* 1: ends when any memory is freed */
    int sticky;           /* 1: breaks all contexts: afterwards every call returns `status`, except
                           * those that count devices, push, pop and close */
} mend_sim_fault;
#define MEND_SIM_FAULT_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_sim_fault), NULL, 0, 0, 0, 0, 0, 0                                             \
    }

/*
 * Add a fault. A call checks the faults in the order of their addition. The first that matches
 * counts the call in after_calls, or makes it fail. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (an
 * unknown call, or one that cannot fail); MEND_ERROR_OUT_OF_HOST_MEMORY.
 *
 *     mend_sim_fault fault = MEND_SIM_FAULT_INIT;
 *     fault.call = "create";
 *     fault.after_calls = 3;
 *     mend_sim_fail(sim, &fault);
 */
MEND_API mend_result mend_sim_fail(mend_sim *sim, const mend_sim_fault *fault);

/* Remove all faults. Contexts that a sticky fault broke stay broken. */
MEND_API void mend_sim_clear_faults(mend_sim *sim);

/* Return the number of driver calls so far that could fail: the next one has position N+1. */
MEND_API uint64_t mend_sim_call_count(mend_sim *sim);

/* Simulate another process that holds this much of the device's memory, or all free memory. */
MEND_API void mend_sim_set_foreign_bytes(mend_sim *sim, int device, uint64_t bytes);

/* Simulate a quota of the process, as of MPS or HAMi: the device refuses more memory, and its free
 * memory does not show it. 0: no quota. */
MEND_API void mend_sim_set_quota(mend_sim *sim, int device, uint64_t bytes);

/* Report the completion of every event `delay_ns` late. The work itself is not late. */
MEND_API void mend_sim_set_event_delay(mend_sim *sim, uint64_t delay_ns);

/* Shut the driver down, as at the exit of a process: from now on every call of the table returns
 * CUDA_ERROR_DEINITIALIZED, does nothing and breaks no rule. Queued work is lost. You cannot undo
 * it. */
MEND_API void mend_sim_stop(mend_sim *sim);

/* ---- the ledger ------------------------------------------------------------------------------ */

/* The memory in use on the device, and counts of events. */
typedef struct mend_sim_ledger {
    size_t struct_size;
    uint64_t chunks; /* physical allocations held by a handle, a mapping or an exported file */
    uint64_t chunk_bytes;
    uint64_t handles; /* of these, with an unreleased handle */
    uint64_t mappings;
    uint64_t mapped_bytes;
    uint64_t accessible_bytes; /* mapped and with access */
    uint64_t peak_chunk_bytes;
    uint64_t peak_mappings;
    uint64_t reservations;
    uint64_t address_bytes;
    uint64_t plain_allocations;
    uint64_t plain_bytes;
    uint64_t events;
    uint64_t streams;        /* created and not destroyed */
    uint64_t contexts_open;  /* device_open without device_close */
    uint64_t driver_time_ns; /* sum of the costs of all calls */
    uint64_t host_syncs;     /* calls in which the CPU waited, plain_free included */
    uint64_t pending_work;   /* pieces of work queued and not complete */
    uint64_t content_errors; /* granules in which VERIFY found a difference */
    uint64_t violations;
    uint64_t captured_records; /* events recorded on captured streams: legal, but a stream that
                                * waits for one joins the capture, so an allocator should not */
    uint64_t rdma_chunks;      /* of chunks: created for RDMA */
    uint64_t scrub_wait_ns;    /* of driver_time_ns: waits of creations for clean memory */
    uint64_t queue_waits;      /* calls that waited for space in a stream's queue */
    uint64_t foreign_chunks;   /* imported from other simulated devices. Not in chunks */
    uint64_t host_allocations; /* of host_alloc, and not freed */
    uint64_t host_bytes;       /* of these */
} mend_sim_ledger;
#define MEND_SIM_LEDGER_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_sim_ledger), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0, 0, 0                                                                          \
    }

/* Get one consistent snapshot. MEND_OK; MEND_ERROR_INVALID_ARGUMENT. */
MEND_API mend_result mend_sim_get_ledger(mend_sim *sim, mend_sim_ledger *ledger);

/* Return driver_time_ns by another cost table, without waits for clean memory. */
MEND_API uint64_t mend_sim_time_by(mend_sim *sim, const mend_sim_prices *prices);

/* Return why the last call of this thread returned MEND_ERROR_INVALID_ARGUMENT, or which rule of
 * the driver it has broken since, "" before. Never NULL. The thread's next failure overwrites it.
 * No lock. */
MEND_API const char *mend_sim_last_message(void);

/* Return the explanation of the first violation, or "". Valid as long as the device. */
MEND_API const char *mend_sim_first_violation(mend_sim *sim);

#ifdef __cplusplus
}
#endif

#endif
