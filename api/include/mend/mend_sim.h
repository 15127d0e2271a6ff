/*
 * A simulated GPU, behind the same door as the CUDA driver: physical memory, addresses, mappings,
 * access rights, streams as queues of work on a virtual clock, events, prices and faults. It is a
 * judge: whatever breaks a rule of the driver is a violation, explained in words. Deterministic.
 *
 *     mend_sim_config config = MEND_SIM_CONFIG_INIT;
 *     config.memory_bytes = 1ull << 30;
 *     mend_sim *sim;
 *     mend_sim_create(&config, &sim);
 *     mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
 *     pool_config.driver = mend_sim_driver(sim);
 *
 * All calls are thread-safe except create and destroy of the same device. None sets what
 * mend_last_error tells.
 */
#ifndef MEND_MEND_SIM_H
#define MEND_MEND_SIM_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the device and its prices --------------------------------------------------------------- */

/* One simulated machine: its devices, their memory, their clock. */
typedef struct mend_sim mend_sim;

/* What a call costs on the simulated device: a sum of these parts, in nanoseconds. A part a call
 * has no use for does not count: mappings are those a call covers (set_access, unmap), MiB are
 * those of its size. */
typedef struct mend_sim_price {
    uint64_t call_ns;    /* once */
    uint64_t mapping_ns; /* for each mapping */
    uint64_t mib_ns;     /* for each MiB */
} mend_sim_price;

/* X(call): the calls that have a price. Order of mend_sim_prices. `scrub` is no call: the device
 * cleans memory that was given back, in the background, at its price for each MiB; a creation that
 * finds less clean memory than it needs waits for the rest, and one that is refused for all. */
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
    X(scrub)

/* A price for each call. */
typedef struct mend_sim_prices {
#define X(call) mend_sim_price call;
    MEND_SIM_PRICED_CALLS(X)
#undef X
} mend_sim_prices;

/* The frozen list "reference" (docs/formats/costs.md): figures of public measurements. */
MEND_API void mend_sim_reference_prices(mend_sim_prices *prices);

/* A built-in list by its name: "reference", or "per-mapping", in which access and unmapping cost by
 * the mapping (docs/formats/costs.md). Any thread, no driver call. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT, with *prices untouched: NULL, or no such list. */
MEND_API mend_result mend_sim_prices_named(const char *name, mend_sim_prices *prices);

/* What the memory holds. */
typedef enum mend_sim_content {
    MEND_SIM_CONTENT_NONE = 0, /* bookkeeping only: any size of device */
    MEND_SIM_CONTENT_BYTES = 1 /* real bytes at the real addresses: aliases alias, strays fault */
} mend_sim_content;

/* Called at each violation, with an explanation, under the device's lock: may not call the
 * simulated device, nor anything that does. */
typedef void (*mend_sim_violation_handler)(void *context, const char *explanation);

/* How a device is to be. */
typedef struct mend_sim_config {
    size_t struct_size;
    uint64_t memory_bytes;    /* physical memory of each device; 0: 80 GiB. Rounded up to a page */
    uint64_t page_bytes;      /* granularity, a power of two of at least 512 B, of at least a page
                                 of the host with real bytes; 0: 2 MiB */
    int device_count;         /* up to 16; 0: 1 */
    mend_sim_content content; /* what the memory holds */
    uint64_t address_bytes;   /* addresses that can be reserved in all; 0: 128 TiB */
    int prices_advance_clock; /* 1: the virtual clock moves by the price of each call */
    const mend_sim_prices *prices;           /* copied; NULL: the reference list */
    mend_sim_violation_handler on_violation; /* NULL: violations are only counted and kept */
    void *violation_context;                 /* handed to on_violation */
    int identity_in_capture; /* 1: who a captured stream is may be asked by a thread whose capture
                                mode lets it make unsafe calls; 0: by nobody */
    const mend_sim_prices *compared_prices; /* copied; NULL: none. A second list, by which the
                                               ledger counts the same calls */
    int peer_group;         /* devices reach each other's memory within groups of so many, by their
                               numbers; 0: all do; 1: none does */
    int is_integrated;      /* 1: the devices say that their memory is the host's */
    int has_rdma;           /* 1: chunks can be made for RDMA */
    uint64_t queue_entries; /* operations that a stream can hold: a call that queues one more waits
                               until the oldest is done. 0: any number */
} mend_sim_config;
#define MEND_SIM_CONFIG_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_sim_config), 0, 0, 0, MEND_SIM_CONTENT_NONE, 0, 0, NULL, NULL, NULL, 0, NULL,  \
            0, 0, 0, 0                                                                             \
    }

/* Makes a device, which the caller owns until mend_sim_destroy. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_create(const mend_sim_config *config, mend_sim **sim);

/* Destroys the device and all it holds. NULL does nothing. Ask the ledger before for what is left.
 */
MEND_API void mend_sim_destroy(mend_sim *sim);

/* The table for mend_pool_config.driver; lives as long as the device. */
MEND_API const mend_driver *mend_sim_driver(mend_sim *sim);

/* Called before and after every call through the table, in the thread that makes it, with the name
 * of the table's member ("set_access") and no lock of the device held: it may wait for other
 * threads, and may call the device (what it calls through the table is observed as well). */
typedef void (*mend_sim_call_observer)(void *context, const char *call, int is_after);

/* Replaces the observer; NULL removes it. A call under way tells its end to the one that heard its
 * beginning: a context must outlive those. */
MEND_API void mend_sim_set_call_observer(mend_sim *sim, mend_sim_call_observer observer,
                                         void *context);

/* ---- time and work --------------------------------------------------------------------------- */

/* The virtual clock, and letting it run: work whose time has come completes, in order. */
MEND_API uint64_t mend_sim_now_ns(mend_sim *sim);
MEND_API void mend_sim_advance(mend_sim *sim, uint64_t duration_ns);

/* Makes a stream of device 0, and ends one. As those of the table, the first is non-blocking: it
 * runs beside the legacy stream. With a blocking one the legacy stream takes turns: the work of
 * each waits for what was queued on the other before. So it does with the streams that each thread
 * has. MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_stream_create(mend_sim *sim, mend_stream *stream);
MEND_API mend_result mend_sim_stream_create_blocking(mend_sim *sim, mend_stream *stream);
MEND_API mend_result mend_sim_stream_destroy(mend_sim *sim, mend_stream stream);

/* Makes a stream of any device, as mend_sim_stream_create one of device 0. Results as there. */
MEND_API mend_result mend_sim_stream_create_on(mend_sim *sim, int device, mend_stream *stream);

/* Makes a stream of a green context of device 0, of which there are seven, numbered from 1. Memory
 * is that of the device; a wait for the device's primary context waits for it too; events recorded
 * on it must be of its own context. MEND_OK; MEND_ERROR_INVALID_ARGUMENT;
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
enum { MEND_SIM_MOST_GREEN = 7 };
MEND_API mend_result mend_sim_stream_create_green(mend_sim *sim, int green, mend_stream *stream);

/* Who a stream is, as cuStreamGetId, cuStreamGetCtx and cuStreamGetGreenCtx tell. */
typedef struct mend_sim_identity {
    uint64_t id;   /* which no other stream ever has */
    void *context; /* CUcontext of its own context */
    int is_green;  /* 1: that is a green one */
} mend_sim_identity;

/* Asks as a program does. Results as those of the driver, by its codes:
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while the stream is captured (see identity_in_capture), and
 * its capture is spoilt. */
MEND_API int mend_sim_stream_identity(mend_sim *sim, mend_stream stream,
                                      mend_sim_identity *identity);

typedef enum mend_sim_work_kind {
    MEND_SIM_WORK_TOUCH, /* needs the range mapped and accessible while it runs, nothing more */
    MEND_SIM_WORK_WRITE, /* writes `tag` to the range: each 512 B granule gets (tag, its index) */
    MEND_SIM_WORK_VERIFY /* compares with what WRITE of the same tag wrote; counts differences */
} mend_sim_work_kind;

/* Work on a stream (a default stream is that of the current context, or of device 0 where none is
 * current): it starts when all work queued before it (and all events waited for) is done, and
 * completes at `finish_ns` of the virtual clock or when it can start, whichever is later. Its range
 * is judged, and its bytes are written or compared, when it completes. On a captured stream it is
 * recorded, and `finish_ns` means nothing. */
typedef struct mend_sim_work {
    mend_sim_work_kind kind;
    uint64_t address;    /* the range */
    uint64_t size_bytes; /* its size */
    uint64_t tag;        /* for WRITE and VERIFY */
    uint64_t finish_ns;  /* the earliest time of its end */
} mend_sim_work;

/* Queues a piece of work, which is copied. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (an unknown stream
 * or kind, or the legacy stream while a capture puts it out of use); MEND_ERROR_OUT_OF_HOST_MEMORY;
 * MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_launch(mend_sim *sim, mend_stream stream, const mend_sim_work *work);

/* ---- capture and graphs ---------------------------------------------------------------------- */

/* To which threads a capture forbids calls that are unsafe beside it (making and freeing plain
 * memory, asking for an event): those whose own mode is not relaxed, in the modes of CUDA. */
typedef enum mend_sim_capture_mode {
    MEND_SIM_CAPTURE_GLOBAL = 0,   /* to every thread; others escape by the thread-local mode too */
    MEND_SIM_CAPTURE_THREAD_LOCAL, /* to the thread that began it */
    MEND_SIM_CAPTURE_RELAXED       /* to none */
} mend_sim_capture_mode;

/* Work that was captured, to be run again and again. */
typedef struct mend_sim_graph mend_sim_graph;

/* Puts a stream in capture: what is launched on it, and on streams that come to wait for it, is
 * recorded instead of run, and what capture forbids is refused and spoils the capture. While a
 * blocking stream is captured, the legacy stream of its context is out of use. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (the legacy stream, an unknown one, or one that is captured);
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_begin_capture(mend_sim *sim, mend_stream stream,
                                            mend_sim_capture_mode mode);

/* Ends the capture begun on this stream, of all its streams, and gives what was recorded; `graph`
 * may be NULL where nobody wants it. MEND_OK; MEND_ERROR_INVALID_ARGUMENT: no capture was begun on
 * the stream, or by another thread and not in the relaxed mode: nothing ended. MEND_ERROR_DRIVER:
 * the capture ended without a graph (*graph is NULL), since it was spoilt before, or some of its
 * work is not waited for by the stream it began on. */
MEND_API mend_result mend_sim_end_capture(mend_sim *sim, mend_stream stream,
                                          mend_sim_graph **graph);

/* Makes what is launched on `stream` later wait for all that was launched on `other`, as a program
 * does by an event of its own. Where `other` is captured, `stream` joins the capture. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (an unknown stream, or captures forbid it);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_stream_wait(mend_sim *sim, mend_stream stream, mend_stream other);

/* Queues all work of the graph on a stream, as mend_sim_launch does: after what was queued there
 * before, in the order recorded, each piece for as long as it was to run and at least until
 * `finish_ns`. It is judged then. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (NULL, an unknown stream,
 * one that is captured or out of use); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_sim_graph_launch(mend_sim *sim, mend_sim_graph *graph, mend_stream stream,
                                           uint64_t finish_ns);

/* Work queued by launches still runs. NULL does nothing. */
MEND_API void mend_sim_graph_destroy(mend_sim *sim, mend_sim_graph *graph);

/* ---- faults ---------------------------------------------------------------------------------- */

/* Calls that are to fail, once or for a while. */
typedef struct mend_sim_fault {
    size_t struct_size;
    const char *call;     /* the table's member ("map", "set_access"); NULL: any that can fail,
                             that is all but context_pop, device_close, stream_destroy and
                             event_destroy */
    int status;           /* the driver's code to answer; 0: CUDA_ERROR_OUT_OF_MEMORY */
    uint64_t after_calls; /* matching calls that pass first */
    uint64_t count;       /* matching calls that fail then; UINT64_MAX: for ever; 0: 1, or for
                             ever with until_release */
    uint64_t above_bytes; /* only calls whose size is larger */
    int until_release;    /* 1: ends when any memory is released or freed */
    int sticky;           /* 1: every context is broken from then on: all calls but those that
                             count devices, push, pop and close answer `status` */
} mend_sim_fault;
#define MEND_SIM_FAULT_INIT                                                                        \
    {                                                                                              \
        sizeof(mend_sim_fault), NULL, 0, 0, 0, 0, 0, 0                                             \
    }

/* Adds a fault; several may stand at once. A call asks them in the order they were added: one that
 * matches counts the call against after_calls, or answers it. MEND_OK; MEND_ERROR_INVALID_ARGUMENT
 * (an unknown call, or one that cannot fail); MEND_ERROR_OUT_OF_HOST_MEMORY. */
MEND_API mend_result mend_sim_fail(mend_sim *sim, const mend_sim_fault *fault);

/* Removes all faults. What a sticky one broke stays broken. */
MEND_API void mend_sim_clear_faults(mend_sim *sim);

/* Driver calls that could fail, made so far: position N+1 is the next. */
MEND_API uint64_t mend_sim_call_count(mend_sim *sim);

/* A second process that holds so many bytes of the device's memory, or as much as is free. */
MEND_API void mend_sim_set_foreign_bytes(mend_sim *sim, int device, uint64_t bytes);

/* Completes no event before `delay_ns` after its work: a slow report, not slow work. */
MEND_API void mend_sim_set_event_delay(mend_sim *sim, uint64_t delay_ns);

/* The driver has shut down, as it does when a process exits: from now on every call of the table
 * answers CUDA_ERROR_DEINITIALIZED, does nothing and breaks no rule. Queued work is gone. For good.
 */
MEND_API void mend_sim_stop(mend_sim *sim);

/* ---- the ledger ------------------------------------------------------------------------------ */

/* What the device has lent, and what it has seen. */
typedef struct mend_sim_ledger {
    size_t struct_size;
    uint64_t chunks; /* physical allocations that a handle, a mapping or an exported file holds */
    uint64_t chunk_bytes;
    uint64_t handles; /* of these, with a handle not released */
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
    uint64_t host_syncs;     /* calls that waited on the host, plain_free included */
    uint64_t pending_work;   /* queued and not complete */
    uint64_t content_errors; /* granules that VERIFY found different */
    uint64_t violations;
    uint64_t captured_records; /* events recorded on captured streams: legal, and yet no business of
                                  an allocator, for whoever waits for one joins the capture */
    uint64_t compared_time_ns; /* sum of the prices of all calls by compared_prices */
    uint64_t rdma_chunks;      /* of chunks, those made for RDMA */
    uint64_t scrub_wait_ns;    /* of driver_time_ns, what creations waited until memory was clean */
    uint64_t queue_waits;      /* calls that waited for room in a stream's queue */
} mend_sim_ledger;
#define MEND_SIM_LEDGER_INIT                                                                       \
    {                                                                                              \
        sizeof(mend_sim_ledger), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0                                                                                \
    }

/* Fills *ledger with one consistent picture. MEND_OK; MEND_ERROR_INVALID_ARGUMENT. */
MEND_API mend_result mend_sim_get_ledger(mend_sim *sim, mend_sim_ledger *ledger);

/* The explanation of the first violation, "" when there is none; lives as long as the device. */
MEND_API const char *mend_sim_first_violation(mend_sim *sim);

#ifdef __cplusplus
}
#endif

#endif
