/*
 * A simulated GPU with the same driver interface as CUDA: physical memory, addresses, mappings,
 * access rights, streams as queues of work on a virtual clock, events, prices and faults. It checks
 * every call and all work: whatever breaks a rule of the driver is counted as a violation and
 * explained in words. It is deterministic.
 *
 *     mend_sim_config config = MEND_SIM_CONFIG_INIT;
 *     config.memory_bytes = 1ull << 30;
 *     mend_sim *sim;
 *     mend_sim_create(&config, &sim);
 *     mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
 *     pool_config.driver = mend_sim_driver(sim);
 *
 * All calls are thread-safe except create and destroy of the same device. They do not set the error
 * that mend_get_last_error returns: mend_sim_last_message says why one failed.
 */
#ifndef MEND_MEND_SIM_H
#define MEND_MEND_SIM_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the device and its prices --------------------------------------------------------------- */

/* A simulated machine: its devices, their memory, their clock. */
typedef struct mend_sim mend_sim;

/* The price of a call on the simulated device: the sum of these parts, in nanoseconds. A part that
 * does not apply to a call counts as 0: mappings are those that the call covers (set_access,
 * unmap), MiB those of its size. */
typedef struct mend_sim_price {
    uint64_t call_ns;    /* once */
    uint64_t mapping_ns; /* for each mapping */
    uint64_t mib_ns;     /* for each MiB */
} mend_sim_price;

/* X(call): the calls that have a price, in the order of mend_sim_prices. Two are not
 * calls. `scrub`: the device cleans freed memory in the background, at this price for each MiB. A
 * creation that finds less clean memory than it needs waits for the rest; one that is refused waits
 * for all. `host_copy`: a `copy` with one side in the memory of the host. */
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

/* A price for each call. */
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

/* A built-in list by its name: "h200", "kvcached-a100" or "reference", the figures of public
 * measurements (docs/formats/replay.md). Any thread, no driver call. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT: NULL, or no such list; *prices is untouched. */
MEND_API mend_result mend_sim_prices_named(const char *name, mend_sim_prices *prices);

/* Whether the memory has bytes. */
typedef enum mend_sim_content {
    MEND_SIM_CONTENT_NONE = 0, /* no bytes: any size of device */
    MEND_SIM_CONTENT_BYTES = 1 /* real bytes at the real addresses: a second mapping shows the same,
                                * and a wild access crashes */
} mend_sim_content;

/* Whether memory can be shared by fabric handles (mend_share.h), across the processes of one user.
 */
typedef enum mend_sim_fabric {
    MEND_SIM_FABRIC_NONE = 0,   /* the device has none */
    MEND_SIM_FABRIC_WORKS = 1,  /* it has */
    MEND_SIM_FABRIC_REFUSED = 2 /* the device says that it has, and the driver refuses to create or
                                 * import such memory, as where IMEX channels are not set up */
} mend_sim_fabric;

/* Called at each violation, with an explanation, under the device's lock: it must not call the
 * simulated device, directly or indirectly. */
typedef void (*mend_sim_violation_handler)(void *context, const char *explanation);

/* The properties of a device. */
typedef struct mend_sim_config {
    size_t struct_size;
    uint64_t memory_bytes;    /* physical memory of each device; 0: 80 GiB. Rounded up to a page */
    uint64_t page_bytes;      /* granularity: a power of two, at least 512 B; with real bytes at
                               * least a page of the host; 0: 2 MiB */
    int device_count;         /* up to 16; 0: 1 */
    mend_sim_content content; /* whether the memory has bytes */
    uint64_t address_bytes;   /* addresses that can be reserved in total; 0: 128 TiB */
    int prices_advance_clock; /* 1: each call advances the virtual clock by its price */
    const mend_sim_prices *prices;           /* copied; NULL: the reference list */
    mend_sim_violation_handler on_violation; /* NULL: violations are only counted and kept */
    void *violation_context;                 /* passed to on_violation */
    int identity_in_capture;   /* 1: a thread in a capture mode that allows unsafe calls may ask for
                                * the identity of a captured stream; 0: no thread may */
    int peer_group;            /* devices reach each other's memory in groups of this many, by
                                * number; 0: all do; 1: none does */
    int is_integrated;         /* 1: the devices use the host's memory */
    int has_rdma;              /* 1: chunks can be created for RDMA */
    mend_sim_fabric fabric;    /* whether memory can be shared by fabric handles */
    uint64_t queue_entries;    /* operations that a stream's queue holds: a call that queues one
                                * more waits until the oldest is done. 0: no limit */
    int has_no_virtual_memory; /* 1: chunks cannot be created, as where a container or an old driver
                                * refuses them: only plain allocations work */
    uint64_t copy_ns;          /* how long each copy and each fill takes on its stream; 0: no time,
                                * so that a missing wait behind them shows nowhere */
    int fresh_is_zero;         /* with real bytes: work that reads chunks which nothing has written
                                * finds, 1: zeros; 0: bytes of 0xdb, because no driver promises
                                * zeros */
    int has_no_context_events; /* 1: no event covers a whole context, as before CUDA 12.5 */
    int has_no_memory_pools;   /* 1: cuMemAllocAsync is not supported, as on some virtual GPUs */
} mend_sim_config;
#define MEND_SIM_CONFIG_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_sim_config), 0, 0, 0, MEND_SIM_CONTENT_NONE, 0, 0, NULL, NULL, NULL, 0, 0, 0,  \
            0, MEND_SIM_FABRIC_NONE, 0, 0, 0, 0, 0, 0                                              \
    }

/* Creates a device, which the caller owns until mend_sim_destroy. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_create(const mend_sim_config *config, mend_sim **sim);

/* Destroys the device and everything in it. NULL does nothing. Read the ledger before, to see what
 * is left. */
MEND_API void mend_sim_destroy(mend_sim *sim);

/* The table for mend_pool_config.driver; valid as long as the device. */
MEND_API const mend_driver *mend_sim_driver(mend_sim *sim);

/* Called before and after every call through the table, in the thread that makes it, with the name
 * of the table's member ("set_access") and without a lock of the device. It may wait for other
 * threads, and may call the device; its calls through the table are observed too. */
typedef void (*mend_sim_call_observer)(void *context, const char *call, int is_after);

/* Replaces the observer; NULL removes it. The end of a call in progress is reported to the observer
 * that was notified of its beginning, so the context must be valid until then. */
MEND_API void mend_sim_set_call_observer(mend_sim *sim, mend_sim_call_observer observer,
                                         void *context);

/* ---- time and work --------------------------------------------------------------------------- */

/* The virtual clock, and how to advance it: due work completes, in order. */
MEND_API uint64_t mend_sim_now_ns(mend_sim *sim);
MEND_API void mend_sim_advance(mend_sim *sim, uint64_t duration_ns);

/* The kind of a stream. */
typedef struct mend_sim_stream_options {
    size_t struct_size;
    int device;      /* that of the stream; others than 0 must be open, by a pool of it or by
                      * device_open of the table */
    int is_blocking; /* 1: it and the legacy stream wait for each other's earlier work, as do
                      * per-thread streams and the legacy stream. 0: it runs beside that, as the
                      * table's */
    int green;       /* 1 to 7: it is of this green context of the device. Their memory is that of
                      * the device; a wait for the device's primary context includes them; an event
                      * recorded on such a stream must be of the stream's own context. 0: none */
} mend_sim_stream_options;
#define MEND_SIM_STREAM_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(mend_sim_stream_options), 0, 0, 0                                                   \
    }
enum { MEND_SIM_MOST_GREEN = 7 };

/* Creates a stream; `options` NULL: a non-blocking one of device 0. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_stream_create(mend_sim *sim, const mend_sim_stream_options *options,
                                            mend_stream *stream);

/* Destroys a stream. MEND_OK; MEND_ERROR_INVALID_ARGUMENT. */
MEND_API mend_result mend_sim_stream_destroy(mend_sim *sim, mend_stream stream);

/* Advances the clock until all work that is queued on the stream, and all that it waits for, is
 * complete, as cuStreamSynchronize does. Allowed where that call is: not while the stream is
 * captured, which invalidates the capture. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (an unknown stream,
 * or a capture forbids it); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_synchronize(mend_sim *sim, mend_stream stream);

/* The identity of a stream, as cuStreamGetId, cuStreamGetCtx and cuStreamGetGreenCtx report it. */
typedef struct mend_sim_identity {
    size_t struct_size;
    uint64_t id;   /* unique: no other stream ever has it */
    void *context; /* CUcontext of its own context */
    int is_green;  /* 1: that context is a green one */
} mend_sim_identity;
#define MEND_SIM_IDENTITY_INIT                                                                     \
    {                                                                                              \
        sizeof(mend_sim_identity), 0, NULL, 0                                                      \
    }

/* Asks for the identity, as a program does. Results are the driver's codes:
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while the stream is captured (see identity_in_capture); its
 * capture is then invalidated. */
MEND_API int mend_sim_stream_identity(mend_sim *sim, mend_stream stream,
                                      mend_sim_identity *identity);

typedef enum mend_sim_work_kind {
    MEND_SIM_WORK_TOUCH, /* the range must be mapped and accessible while it runs */
    MEND_SIM_WORK_WRITE, /* writes `tag` to the range: each 512 B granule gets (tag, its index) */
    MEND_SIM_WORK_VERIFY /* compares with what WRITE with the same tag wrote; counts differences */
} mend_sim_work_kind;

/* Work on a stream (a default stream is that of the current context, or of device 0 if there is
 * none). It starts when all work queued before it, and all events waited for, are done. It
 * completes at `finish_ns` of the virtual clock, or when it can start if that is later. At
 * completion its range is judged, and its bytes are written or compared. On a captured stream it is
 * recorded, and `finish_ns` is ignored. */
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

/* Queues a copy of a piece of work. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (an unknown stream or
 * kind, or the legacy stream while a capture makes it unusable); MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_launch(mend_sim *sim, mend_stream stream, const mend_sim_work *work);

/* The time on the virtual clock at which the work that an event marks is complete; 0: the event was
 * never recorded. MEND_OK; MEND_ERROR_INVALID_ARGUMENT: NULL, not an event, or an event that was
 * last recorded in a capture; *time_ns is untouched. */
MEND_API mend_result mend_sim_event_time(mend_sim *sim, void *event, uint64_t *time_ns);

/* The contents of a range of addresses. */
typedef struct mend_sim_place {
    size_t struct_size;
    int is_of_device;  /* 1: the first address is one of the simulated devices, mapped or not */
    int device;        /* the device that holds the memory mapped there; -1: none is mapped */
    int is_plain;      /* 1: it is of plain_alloc or async_alloc */
    int is_accessible; /* 1: the device that was named may access the complete range now */
} mend_sim_place;
#define MEND_SIM_PLACE_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_sim_place), 0, 0, 0, 0                                                         \
    }

/* Looks a range of at least one byte up, as `device` sees it. MEND_OK; MEND_ERROR_INVALID_ARGUMENT;
 * *place is untouched. */
MEND_API mend_result mend_sim_look_up(mend_sim *sim, int device, uint64_t address,
                                      uint64_t size_bytes, mend_sim_place *place);

/* ---- capture and graphs ---------------------------------------------------------------------- */

/* For which threads a capture forbids unsafe calls (to allocate and free plain memory, to query an
 * event). A thread whose own mode is relaxed may always make them. The modes are CUDA's. */
typedef enum mend_sim_capture_mode {
    MEND_SIM_CAPTURE_GLOBAL = 0,   /* for every thread; others are also allowed by the thread-local
                                    * mode */
    MEND_SIM_CAPTURE_THREAD_LOCAL, /* for the thread that began it */
    MEND_SIM_CAPTURE_RELAXED       /* for none */
} mend_sim_capture_mode;

/* Captured work, which can be launched many times. */
typedef struct mend_sim_graph mend_sim_graph;

/* Begins a capture on a stream: work launched on it, and on streams that wait for it, is recorded
 * instead of run. A call that a capture forbids is refused and invalidates it. While a blocking
 * stream is captured, the legacy stream of its context is unusable. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (the legacy stream, an unknown one, or one that is captured);
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_begin_capture(mend_sim *sim, mend_stream stream,
                                            mend_sim_capture_mode mode);

/* Ends the capture that was begun on this stream, on all its streams, and returns what was
 * recorded; `graph` may be NULL. MEND_OK; MEND_ERROR_INVALID_ARGUMENT: no capture was begun on the
 * stream, or another thread began it and it is not relaxed: nothing ended. MEND_ERROR_DRIVER: the
 * capture ended without a graph (*graph is NULL), because it was invalidated before, or because the
 * stream it began on does not wait for some of its work. */
MEND_API mend_result mend_sim_end_capture(mend_sim *sim, mend_stream stream,
                                          mend_sim_graph **graph);

/* Work launched on `stream` later waits for all work launched on `other`, as with an event of the
 * program. If `other` is captured, `stream` joins the capture. MEND_OK; MEND_ERROR_INVALID_ARGUMENT
 * (an unknown stream, or captures forbid it); MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_stream_wait(mend_sim *sim, mend_stream stream, mend_stream other);

/* Queues all work of the graph on a stream, as mend_sim_launch does: after the work queued there
 * before, in the recorded order, each piece with its recorded duration, and at least until
 * `finish_ns`. It is judged when it completes. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (NULL, an
 * unknown stream, or one that is captured or unusable); MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_graph_launch(mend_sim *sim, mend_sim_graph *graph, mend_stream stream,
                                           uint64_t finish_ns);

/* Work queued by launches still runs. NULL does nothing. */
MEND_API void mend_sim_graph_destroy(mend_sim *sim, mend_sim_graph *graph);

/* ---- checkpoints of the process -------------------------------------------------------------- */

/*
 * Checkpoints the process's memory on the device, as cuda-checkpoint does: waits for all queued
 * work, keeps the bytes of all memory, and gives the memory to others; what is read at its
 * addresses meanwhile is undefined. Until mend_sim_restore a call through the table is a violation:
 * a real process is stopped. Refused, with a reason, where other processes may know of the memory:
 * chunks that were created to be shared (whether the driver refuses those that were never exported
 * is not known: this takes the harder of two), exported and imported ones; and while a stream
 * captures. MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NOT_SUPPORTED (*reason, which may be
 * NULL, says why; static); MEND_ERROR_OUT_OF_HOST_MEMORY. After an error nothing has changed.
 */
MEND_API mend_result mend_sim_checkpoint(mend_sim *sim, const char **reason);

/* Restores it: all memory is taken again, with its bytes, at the same addresses, behind the same
 * handles. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (there is no checkpoint); MEND_ERROR_OUT_OF_MEMORY
 * (others hold the device's memory: try again later). */
MEND_API mend_result mend_sim_restore(mend_sim *sim);

/* ---- faults ---------------------------------------------------------------------------------- */

/* A rule that makes calls fail, once or several times. */
typedef struct mend_sim_fault {
    size_t struct_size;
    const char *call;     /* the table's member ("map", "set_access"); NULL: any call that can fail:
                           * all except context_pop, device_close, stream_destroy and
                           * event_destroy */
    int status;           /* the driver's code to return; 0: CUDA_ERROR_OUT_OF_MEMORY */
    uint64_t after_calls; /* matching calls that succeed first */
    uint64_t count;       /* matching calls that then fail; UINT64_MAX: all; 0: 1, or all with
                           * until_release */
    uint64_t above_bytes; /* only calls whose size is larger */
    int until_release;    /* 1: ends when any memory is released or freed */
    int sticky;           /* 1: all contexts are broken afterwards: every call returns `status`,
                           * except those that count devices, push, pop and close */
} mend_sim_fault;
#define MEND_SIM_FAULT_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_sim_fault), NULL, 0, 0, 0, 0, 0, 0                                             \
    }

/* Adds a fault; there may be several. A call checks them in the order in which they were added: the
 * first that matches counts the call in after_calls, or makes it fail. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (an unknown call, or one that cannot fail);
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_fail(mend_sim *sim, const mend_sim_fault *fault);

/* Removes all faults. Contexts that a sticky fault broke stay broken. */
MEND_API void mend_sim_clear_faults(mend_sim *sim);

/* Number of driver calls so far that could fail: the next one has position N+1. */
MEND_API uint64_t mend_sim_call_count(mend_sim *sim);

/* Simulates another process that holds this much of the device's memory, or all that is free. */
MEND_API void mend_sim_set_foreign_bytes(mend_sim *sim, int device, uint64_t bytes);

/* Simulates a quota of the process, as of MPS or HAMi: the device gives out this much memory and
 * refuses more, and what it reports as free does not show it. 0: no quota. */
MEND_API void mend_sim_set_quota(mend_sim *sim, int device, uint64_t bytes);

/* Delays the completion of every event by `delay_ns` after its work: the report is late, not the
 * work. */
MEND_API void mend_sim_set_event_delay(mend_sim *sim, uint64_t delay_ns);

/* Shuts the driver down, as it happens when a process exits: from now on every call of the table
 * returns CUDA_ERROR_DEINITIALIZED, does nothing and breaks no rule. Queued work is lost. It cannot
 * be undone. */
MEND_API void mend_sim_stop(mend_sim *sim);

/* ---- the ledger ------------------------------------------------------------------------------ */

/* The memory that the device has given out, and counts of events. */
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
    uint64_t driver_time_ns; /* sum of the prices of all calls */
    uint64_t host_syncs;     /* calls in which the host waited, plain_free included */
    uint64_t pending_work;   /* pieces of work queued and not complete */
    uint64_t content_errors; /* granules in which VERIFY found a difference */
    uint64_t violations;
    uint64_t captured_records; /* events recorded on captured streams: legal, but an allocator
                                * should not do it, because a stream that waits for one joins the
                                * capture */
    uint64_t rdma_chunks;      /* of chunks: created for RDMA */
    uint64_t scrub_wait_ns;    /* of driver_time_ns: waits of creations for clean memory */
    uint64_t queue_waits;      /* calls that waited for space in a stream's queue */
    uint64_t foreign_chunks;   /* imported from other simulated devices; not in chunks */
    uint64_t host_allocations; /* of host_alloc, and not freed */
    uint64_t host_bytes;       /* of these */
} mend_sim_ledger;
#define MEND_SIM_LEDGER_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_sim_ledger), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0, 0, 0                                                                          \
    }

/* Fills *ledger with one consistent snapshot. MEND_OK; MEND_ERROR_INVALID_ARGUMENT. */
MEND_API mend_result mend_sim_get_ledger(mend_sim *sim, mend_sim_ledger *ledger);

/* The cost of the calls of driver_time_ns by another list, without waits for clean memory. */
MEND_API uint64_t mend_sim_time_by(mend_sim *sim, const mend_sim_prices *prices);

/* Why the last call of this thread answered MEND_ERROR_INVALID_ARGUMENT, or which rule of the
 * driver it broke since; "" before. Never NULL; the thread's next failure writes over it. No lock.
 */
MEND_API const char *mend_sim_last_message(void);

/* The explanation of the first violation, "" if there is none; valid as long as the device. */
MEND_API const char *mend_sim_first_violation(mend_sim *sim);

#ifdef __cplusplus
}
#endif

#endif
