/*
 * The state of a simulated device, shared by the files of this module.
 *
 * One lock guards everything. The caller of every function here holds it. Work on a stream has a
 * known completion time as soon as it is queued, so the future is one ordered set of items. When
 * the clock advances, the due items are taken in order, checked and run (work.c). Everything that
 * breaks a rule of the driver goes through mend_sim_refuse.
 */
#ifndef MEND_SIM_STATE_H
#define MEND_SIM_STATE_H

#include <stdatomic.h>

#include "base/pointer_map.h"
#include "base/slab.h"
#include "base/thread.h"
#include "base/tree.h"
#include "driver/driver.h"
#include "mend/mend_sim.h"
#include "sim/table.h"

/* A plain or asynchronous allocation takes complete blocks of this size from the device. */
#define MEND_SIM_PLAIN_BLOCK_BYTES (UINT64_C(2) << 20)

enum { MEND_SIM_MOST_DEVICES = 16, MEND_SIM_CONTEXT_DEPTH = 64, MEND_SIM_EXPLANATION_BYTES = 512 };

/* Ends the function with the answer of a step that is not OK. */
#define TRY(step)                                                                                  \
    do {                                                                                           \
        const mend_status answered = (step);                                                       \
        if (answered != MEND_DRIVER_OK) {                                                          \
            return answered;                                                                       \
        }                                                                                          \
    } while (0)

/* Ends the function where the host or the device has not enough. */
#define NEED(is_there) TRY((is_there) ? MEND_DRIVER_OK : MEND_DRIVER_OUT_OF_MEMORY)

/* Ends the function where a rule of the driver is broken: see mend_sim_refuse. */
#define FORBID(breach, status, ...)                                                                \
    do {                                                                                           \
        if (breach) {                                                                              \
            return mend_sim_refuse(sim, status, __VA_ARGS__);                                      \
        }                                                                                          \
    } while (0)

/* An address range in messages: RANGE_FORMAT with RANGE_OF(address, size). */
#define RANGE_FORMAT            "[0x%" PRIx64 ", 0x%" PRIx64 ") (%" PRIu64 " bytes)"
#define RANGE_OF(address, size) (address), (address) + (size), (size)

/* ---- addresses ------------------------------------------------------------------------------- */

/* A range of addresses: a gap, a reservation, or a plain allocation. */
typedef struct mend_sim_range {
    mend_tree_node by_address;
    mend_tree_node by_size; /* gaps only */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t mapping_count;
    bool plain;
} mend_sim_range;

/* Physical memory. A handle, a mapping, an exported file or an importer keeps it. */
typedef struct mend_sim_chunk {
    mend_list link; /* foreign: of all such chunks */
    uint64_t size_bytes;
    uint64_t charged_bytes; /* bytes taken from the device */
    uint64_t file_offset;   /* of its bytes, if content is kept */
    uint64_t filled_from;   /* bytes that are no hole of the file: see fresh.c */
    uint64_t filled_to;
    int memory_file;     /* foreign: of its bytes. -1: no content is kept */
    int held;            /* foreign: keeps the memory */
    mend_list by_fabric; /* of all chunks with a fabric handle */
    uint64_t fabric_id;  /* of its fabric handle. 0: it has none */
    int listener;        /* importers by that handle connect to it */
    uint64_t handle_count;
    uint64_t mapping_count;
    uint64_t share_count;
    int device, share_types;
    bool rdma, plain;
    void *image;  /* its bytes while the process is checkpointed. NULL: none are kept */
    bool foreign; /* of another simulated device, which may be in another process */
} mend_sim_chunk;

typedef struct mend_sim_mapping {
    mend_tree_node by_address;
    uint64_t address;
    uint64_t size_bytes;
    mend_sim_chunk *chunk;
    mend_sim_range *range;
    uint64_t access_devices;  /* bit n: device n may read it */
    uint64_t write_devices;   /* bit n: device n may write it, too */
    uint64_t access_ns;       /* since when */
    uint64_t access_sequence; /* and after which host call */
    bool asynchronous;        /* made by async_alloc */
    bool freeing;             /* async_free was called. The stream has not reached it yet */
} mend_sim_mapping;

/* ---- streams and work ------------------------------------------------------------------------ */

typedef struct mend_sim_capture mend_sim_capture; /* captures.h */
typedef struct mend_sim_node mend_sim_node;

/* The legacy stream and the blocking streams of its context wait for each other. */
typedef enum mend_sim_stream_kind {
    MEND_SIM_STREAM_LEGACY,
    MEND_SIM_STREAM_PER_THREAD,
    MEND_SIM_STREAM_BLOCKING,
    MEND_SIM_STREAM_NON_BLOCKING
} mend_sim_stream_kind;

typedef struct mend_sim_stream {
    mend_list link; /* of all streams */
    uint64_t id;
    uintptr_t handle; /* 0: a stream that was not created: the legacy stream or a per-thread one */
    mend_sim_stream_kind kind;
    int device;
    int context;      /* number of the device's primary context, or of a green one */
    uint64_t tail_ns; /* when all its queued work is done */
    uint64_t *queue;  /* ring of completion times of the last operations. NULL: the queue has no
                       * limit */
    uint64_t queued;  /* number of operations so far */
    mend_sim_capture *capture; /* NULL: not captured */
    mend_sim_node *tip;        /* the node that its next captured work comes after. NULL: none */
} mend_sim_stream;

typedef struct mend_sim_event {
    uintptr_t handle;
    int context;         /* number of the context */
    uint64_t ready_ns;   /* when the work before the last record is done. 0: never recorded */
    uint64_t capture_id; /* not 0: last recorded in this capture */
    mend_sim_node *tip;  /* the node that the record comes after. Of no use after the capture */
} mend_sim_event;

typedef enum mend_sim_item_kind {
    MEND_SIM_ITEM_TOUCH,
    MEND_SIM_ITEM_REWRITE, /* reads, and writes the same back */
    MEND_SIM_ITEM_WRITE_TAG,
    MEND_SIM_ITEM_VERIFY_TAG,
    MEND_SIM_ITEM_SPIN,
    MEND_SIM_ITEM_WRITE_WORDS,
    MEND_SIM_ITEM_VERIFY_WORDS,
    MEND_SIM_ITEM_COPY,
    MEND_SIM_ITEM_FILL,
    MEND_SIM_ITEM_ASYNC_FREE
} mend_sim_item_kind;

/* One piece of queued work. Its range is granule_count granules of granule_bytes, stride_bytes
 * apart. */
typedef struct mend_sim_item {
    mend_tree_node by_completion;
    mend_sim_item_kind kind;
    int device;
    uint64_t stream_id;
    uint64_t sequence;
    uint64_t start_ns;
    uint64_t complete_ns;
    uint64_t address;
    uint64_t granule_bytes;
    uint64_t stride_bytes;
    uint64_t granule_count;
    uint64_t value;          /* tag, word or byte */
    uint64_t mismatches;     /* VERIFY_WORDS: address of the counter */
    uint64_t hole;           /* where access was given again while it ran. 0: nowhere */
    uint64_t source;         /* COPY: device address. 0: the host is the source */
    void *staged;            /* COPY from the host: a copy of the bytes, owned */
    void *host;              /* COPY to the host: destination */
    const void *host_source; /* COPY from the host without a staged copy: source */
} mend_sim_item;

/* The state of one thread of the program. */
typedef struct mend_sim_thread {
    mend_list link;
    uint64_t number;
    int depth;
    int contexts[MEND_SIM_CONTEXT_DEPTH]; /* their numbers, the current one last */
    mend_capture_mode capture_mode;
    mend_sim_stream *streams[MEND_SIM_MOST_DEVICES]; /* of handle 2, made at first use */
} mend_sim_thread;

/* ---- the device ------------------------------------------------------------------------------ */

/* Objects named by handles. A destroyed object's handle is reused, as drivers do. */
typedef struct mend_sim_slot {
    void *object;
    size_t next_vacant;
} mend_sim_slot;

typedef struct mend_sim_handles {
    uintptr_t base;
    mend_sim_slot *slots;
    size_t count;
    size_t capacity;
    size_t vacant; /* index + 1 of the next slot to use. 0: none is free */
} mend_sim_handles;

typedef struct mend_sim_device {
    uint64_t charged_bytes; /* taken by chunks and plain allocations */
    uint64_t foreign_bytes, checkpointed_bytes;
    uint64_t quota_bytes; /* the most that may be charged. 0: no quota */
    uint64_t dirty_bytes; /* freed and not clean yet, at clean_ns */
    uint64_t clean_ns;    /* cleaning is accounted up to this time */
    uint64_t open_count;
    uint64_t tail_ns;          /* when all work queued on its streams is done */
    uint64_t blocking_tail_ns; /* the same for streams that wait for the legacy stream */
    mend_sim_stream *legacy;
    int memory_file; /* -1: no content is kept */
    uint64_t file_bytes;
} mend_sim_device;

/* The observer of calls. */
typedef struct mend_sim_watch {
    mend_sim_call_observer observer; /* NULL: none */
    void *context;
} mend_sim_watch;

/* A fault that is set. See mend_sim_fault. */
typedef struct mend_sim_standing_fault {
    struct mend_sim_standing_fault *next;
    int call; /* -1: any. MEND_DRIVER_CALL_COUNT: create, of memory of the host */
    mend_sim_fault rule;
} mend_sim_standing_fault;

enum { MEND_SIM_NOTE_BYTES = 72 };

typedef struct mend_sim_note {
    mend_tree_node by_address;
    uint64_t address;
    uint64_t size_bytes;
    char what[MEND_SIM_NOTE_BYTES];
} mend_sim_note;

/* The prices that are not of a call. See MEND_SIM_PRICED_CALLS. */
enum { MEND_CALL_scrub = MEND_DRIVER_CALL_COUNT, MEND_CALL_host_copy, MEND_SIM_PRICE_ROWS };

/* X(kind): a slab of each mend_sim_<kind>. */
#define MEND_SIM_SLABS(X)                                                                          \
    X(range)                                                                                       \
    X(chunk) X(mapping) X(stream) X(event) X(item) X(thread) X(capture) X(graph) X(node) X(note)

struct mend_sim {
    mend_driver table;
    mend_mutex mutex;
    mend_sim_config config;                    /* with defaults filled in */
    mend_sim_price price[MEND_SIM_PRICE_ROWS]; /* by call, and two that are no calls */
    uint64_t charged[MEND_SIM_PRICE_ROWS][3];  /* by them: calls, mappings and bytes */

    mend_sim_device devices[MEND_SIM_MOST_DEVICES];
    uint64_t space_base; /* first address of the device */
    uint64_t space_bytes;
    uint64_t space_high; /* no address at or above this was ever used */
    mend_tree gaps;
    mend_tree gaps_by_size;
    mend_tree ranges; /* taken ranges: reservations and plain allocations */
    mend_tree mappings;
    mend_tree notes;         /* of sleeping memory at unmapped addresses */
    mend_pointer_map chunks; /* by handle */
    uint64_t last_handle;
    mend_list shares;         /* holders of chunks: exported files that are open, and importers */
    mend_list fabric_exports; /* of chunks that have a fabric handle */
    int fabric_bell;          /* an epoll of their sockets: whether one has connected. -1: not
                               * known */
    uint64_t last_share_id;
    mend_list foreign_chunks;

    mend_list streams;
    mend_list threads;
    mend_sim_handles stream_handles;
    mend_sim_handles event_handles;
    uint64_t last_stream_id, last_capture_id;
    mend_list captures; /* begun and not ended */
    mend_list keepers;  /* see keepers.c */

    mend_tree items;     /* by completion time */
    mend_tree pinned;    /* memory of host_alloc and host_register, by address */
    bool registers_host; /* host_register works for devices that are opened from now on */
    uint64_t now_ns, sequence, event_delay_ns;

#define X(kind) mend_slab kind##_slab;
    MEND_SIM_SLABS(X)
#undef X
    mend_slab share_slab, pinned_slab; /* see foreign.c and host.c */

    mend_sim_standing_fault *faults;
    uint64_t fallible_calls;
    mend_status broken; /* not OK: the sticky error that every call returns */
    bool stopped;       /* every call does nothing from now on */
    bool checkpointed;  /* no call may be made: see checkpoint.c */

    /* The current call, and the parts of its cost. */
    mend_driver_call call;
    int bill_row; /* of the price: the call, or host_copy */
    uint64_t bill_bytes;
    uint64_t bill_mappings;
    uint64_t bill_scrub_ns; /* wait for clean memory. Billed even if the call fails */

    atomic_bool watched; /* an observer is set. It is read under the lock */
    mend_sim_watch watch;

    mend_sim_ledger ledger;
    char first_violation[MEND_SIM_EXPLANATION_BYTES];
};

/* ---- notes.c --------------------------------------------------------------------------------- */

/* Notes in words the sleeping memory there, or removes the note when memory is mapped there.
 * Without host memory it is not kept. */
void mend_sim_notes_init(mend_sim *sim);
void mend_sim_note_add(mend_sim *sim, uint64_t address, uint64_t size_bytes, const char *what);
void mend_sim_notes_remove(mend_sim *sim, uint64_t address, uint64_t size_bytes);

/* "": nothing is known. */
const char *mend_sim_note_at(const mend_sim *sim, uint64_t address);

/* ---- violation.c ----------------------------------------------------------------------------- */

/* Keeps the message for the thread (mend_sim_last_message). Returns MEND_ERROR_INVALID_ARGUMENT. */
mend_result mend_sim_invalid(const char *message);

/* Records a violation with its explanation, and returns `status`. */
__attribute__((format(printf, 3, 4))) mend_status mend_sim_refuse(mend_sim *sim, mend_status status,
                                                                  const char *format, ...);

/* ---- faults.c -------------------------------------------------------------------------------- */

/* The answer of the first fault that matches. OK: no fault matches. */
mend_status mend_sim_fault_answer(mend_sim *sim, mend_driver_call call, uint64_t size_bytes);

bool mend_sim_call_can_fail(mend_driver_call call);

/* Why calls of this kind fail: the device is stopped or broken. OK: they work. */
mend_status mend_sim_out_of_order(const mend_sim *sim, mend_driver_call call);

/* A device got memory back: ends the faults that last until then. */
void mend_sim_faults_released(mend_sim *sim);
void mend_sim_faults_drop_all(mend_sim *sim);

/* The name of a call's table member ("set_access"). */
const char *mend_sim_call_member(mend_driver_call call);

/* ---- handles.c ------------------------------------------------------------------------------- */

void mend_sim_handles_init(mend_sim_handles *handles, uintptr_t base);
void mend_sim_handles_clear(mend_sim_handles *handles);
bool mend_sim_handles_reserve(mend_sim_handles *handles);
uintptr_t mend_sim_handles_add(mend_sim_handles *handles, void *object);
void *mend_sim_handles_find(const mend_sim_handles *handles, uintptr_t handle);
void mend_sim_handles_remove(mend_sim_handles *handles, uintptr_t handle);

/* ---- addresses.c ----------------------------------------------------------------------------- */

mend_status mend_sim_space_init(mend_sim *sim);

/* Takes the smallest gap that fits. Size and alignment are multiples of the page. NULL: no gap
 * fits, or malloc failed. */
mend_sim_range *mend_sim_range_take(mend_sim *sim, uint64_t size_bytes, uint64_t alignment_bytes);
void mend_sim_range_give(mend_sim *sim, mend_sim_range *range);

/* The taken range that contains the address. NULL: none. */
mend_sim_range *mend_sim_range_at(const mend_sim *sim, uint64_t address);

/* Whether the address is one of the device, mapped or not. All others are of the host. */
bool mend_sim_is_device_address(const mend_sim *sim, uint64_t address);

/* ---- chunks.c -------------------------------------------------------------------------------- */

/* Takes memory from the device. NULL: not enough, or malloc failed. The caller adds the first
 * holder. */
mend_sim_chunk *mend_sim_chunk_take(mend_sim *sim, int device, uint64_t size_bytes, bool plain);

/* Frees the memory if nothing holds it any more. */
void mend_sim_chunk_drop(mend_sim *sim, mend_sim_chunk *chunk);
void mend_sim_chunk_close_files(const mend_sim_chunk *chunk); /* of a foreign one */

/* Adds a handle. The caller reserved its place in sim->chunks. */
mend_chunk_handle mend_sim_chunk_add_handle(mend_sim *sim, mend_sim_chunk *chunk);

/* ---- scrub.c --------------------------------------------------------------------------------- */

/* Free bytes of the device. */
uint64_t mend_sim_free_bytes(const mend_sim *sim, int device);

/* A device gets memory back. */
void mend_sim_scrub_given(mend_sim *sim, int device, uint64_t bytes);

/* Memory will be taken: bills the wait until this much is clean, or all of it if there is less. */
void mend_sim_scrub_for(mend_sim *sim, int device, uint64_t bytes);

/* ---- mappings.c ------------------------------------------------------------------------------ */

void mend_sim_mappings_init(mend_sim *sim);

/* The mapping that contains the address. NULL: none. */
mend_sim_mapping *mend_sim_mapping_at(const mend_sim *sim, uint64_t address);

static inline mend_sim_mapping *mend_sim_mapping_next(const mend_sim_mapping *mapping)
{
    return MEND_CONTAINER_OR_NULL(mend_tree_next(&mapping->by_address), mend_sim_mapping,
                                  by_address);
}

/* Maps a chunk at a free address. The caller reserved a mapping in the slab. */
mend_sim_mapping *mend_sim_mapping_add(mend_sim *sim, mend_sim_range *range, uint64_t address,
                                       mend_sim_chunk *chunk);
void mend_sim_mapping_allow(mend_sim *, mend_sim_mapping *, uint64_t devices, mend_access);

/* Removes an allocation of plain_alloc or async_alloc. */
void mend_sim_plain_drop(mend_sim *sim, mend_sim_mapping *mapping);

/* ---- contexts.c ------------------------------------------------------------------------------ */

/* The calling thread's record. NULL: malloc failed. */
mend_sim_thread *mend_sim_thread_get(mend_sim *sim);

/* OK, or the result of a creation with fabric handles. */
mend_status mend_sim_fabric_status(const mend_sim *sim);

/* Contexts are numbers. First come the primary contexts, one for each device. Then come green
 * contexts, which share everything with the primary one of their device except streams and
 * events. */
static inline int mend_sim_device_of(int context)
{
    return context % MEND_SIM_MOST_DEVICES;
}

/* The device of the current context, and the context itself. Refuses if none is current. */
mend_status mend_sim_current_device(mend_sim *sim, int *device);
mend_status mend_sim_current_context(mend_sim *sim, int *context);
mend_context mend_sim_context_of(int context);

/* Whether another device can be given access to the memory of this one. */
bool mend_sim_can_reach(const mend_sim *sim, int other, int device);

/* ---- streams.c ------------------------------------------------------------------------------- */

/* NULL: malloc failed. */
mend_sim_stream *mend_sim_stream_make(mend_sim *sim, int context, mend_sim_stream_kind kind);

/* Whether the stream and the legacy stream wait for each other. */
static inline bool mend_sim_stream_is_blocking(const mend_sim_stream *stream)
{
    return stream->kind == MEND_SIM_STREAM_PER_THREAD || stream->kind == MEND_SIM_STREAM_BLOCKING;
}

/* Whether the handle is NULL, the legacy stream or the per-thread stream. */
bool mend_sim_stream_is_default(mend_stream handle);
mend_status mend_sim_stream_find_default(mend_sim *sim, mend_sim_thread *thread, int device,
                                         mend_stream handle, mend_sim_stream **stream);

/* The stream of a handle. A default stream is of the current context. Refuses an unknown handle. */
mend_status mend_sim_stream_find(mend_sim *sim, mend_stream handle, mend_sim_stream **stream);

/* The same for calls that use the stream: the legacy stream may be unusable. */
mend_status mend_sim_stream_find_for_use(mend_sim *sim, mend_stream handle,
                                         mend_sim_stream **stream);

/* The same for calls that need a current context, whatever the stream. */
mend_status mend_sim_stream_find_for_work(mend_sim *sim, mend_stream handle,
                                          mend_sim_stream **stream);

/* Before an operation is queued: if the queue is full, the CPU waits for space. The device may be
 * broken afterwards. */
mend_status mend_sim_stream_make_room(mend_sim *sim, mend_sim_stream *stream);

/* When the next operation of the stream can start, and how to delay that. */
uint64_t mend_sim_stream_tail(const mend_sim *sim, const mend_sim_stream *stream);
void mend_sim_stream_extend(mend_sim *sim, mend_sim_stream *stream, uint64_t until_ns);

/* Records an event on a stream, and makes a stream wait for one. */
mend_status mend_sim_event_mark(mend_sim *sim, mend_sim_event *event, mend_sim_stream *stream);
mend_status mend_sim_stream_wait_mark(mend_sim *sim, mend_sim_stream *stream,
                                      const mend_sim_event *event);

/* ---- items.c, clock.c ------------------------------------------------------------------------ */

void mend_sim_items_init(mend_sim *sim);
void mend_sim_items_clear(mend_sim *sim);
void mend_sim_item_drop(mend_sim *sim, mend_sim_item *item);

/* Adds work of item->device with a known completion time. The caller reserved an item in the slab,
 * and ran the clock up to now. */
void mend_sim_item_add(mend_sim *sim, const mend_sim_stream *stream, const mend_sim_item *item,
                       uint64_t start_ns, uint64_t complete_ns);

/* Whether the item reads or writes a byte of the range. */
bool mend_sim_item_touches(const mend_sim_item *item, uint64_t address, uint64_t size);

/* Access to a mapping is given again, and the driver unmaps it first. Running work of these devices
 * that uses it sees a hole, and its check at completion fails. */
void mend_sim_items_mark_hole(mend_sim *, uint64_t address, uint64_t size, uint64_t devices);

/* Advances the clock to `until_ns` (if it is not later already), and completes the due work. */
void mend_sim_run_until(mend_sim *sim, uint64_t until_ns);

/* ---- user.c, work.c -------------------------------------------------------------------------- */

/* The stream of a handle for the functions of mend_sim.h: a default stream is of the current
 * context, or of device 0 if there is none. */
mend_status mend_sim_stream_find_for_user(mend_sim *sim, mend_stream handle,
                                          mend_sim_stream **stream);

/* The begin of such a function: takes the lock, and finds the stream. And its end: the result of
 * `status`, or that the device is lost. */
mend_status mend_sim_user_begin(mend_sim *sim, mend_driver_call call, mend_stream handle,
                                mend_sim_stream **stream);
mend_result mend_sim_user_end(mend_sim *sim, mend_status status);

/* Queues a copy of `item` (kind, range and values are set) on the stream. It runs for
 * `duration_ns`, or until `finish_ns` if that is later. If the stream is captured, the item and its
 * duration are recorded instead. Takes ownership of item->staged. */
mend_status mend_sim_queue(mend_sim *sim, mend_sim_stream *stream, const mend_sim_item *item,
                           uint64_t duration_ns, uint64_t finish_ns);

/* ---- content.c, fresh.c ---------------------------------------------------------------------- */

/* Of these each does nothing if the device keeps no content. */
mend_status mend_sim_content_open(mend_sim *sim);
void mend_sim_content_close(mend_sim *sim);
bool mend_sim_content_take(mend_sim *sim, mend_sim_chunk *chunk);
void mend_sim_content_give(mend_sim *sim, const mend_sim_chunk *chunk);
bool mend_sim_content_map(mend_sim *sim, const mend_sim_mapping *mapping);
bool mend_sim_content_unmap(mend_sim *sim, uint64_t address, uint64_t size_bytes);
bool mend_sim_content_allow(mend_sim *sim, uint64_t address, uint64_t size_bytes);

/* Fills unwritten memory that a checked item will read with poison, and runs the item. */
void mend_sim_fresh_fill_for(mend_sim *sim, const mend_sim_item *item);
void mend_sim_content_run(mend_sim *sim, const mend_sim_item *item);

/* Fills all of a chunk, before another process or the host sees it. */
void mend_sim_fresh_fill_chunk(mend_sim *sim, mend_sim_chunk *chunk);
enum { MEND_SIM_POISON = 0xdb };

/* ---- host.c ---------------------------------------------------------------------------------- */

void mend_sim_host_init(mend_sim *sim);
void mend_sim_host_clear(mend_sim *sim);

/* Whether the range is memory of host_alloc or host_register. */
bool mend_sim_host_is_pinned(const mend_sim *sim, const void *pointer, uint64_t size_bytes);

/* ---- checker.c ------------------------------------------------------------------------------- */

/* Checks the accesses of an item at its completion. ILLEGAL_ADDRESS, with an explanation. */
mend_status mend_sim_check_item(mend_sim *sim, const mend_sim_item *item);

/* ---- prices.c -------------------------------------------------------------------------------- */

/* NULL: the reference list. */
bool mend_sim_prices_apply(mend_sim *sim, const mend_sim_prices *prices);

/* Adds the price of the current call to ledger and clock. Of a failed call only its wait. */
void mend_sim_charge(mend_sim *sim, bool did_its_work);

#endif
