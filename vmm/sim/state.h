/*
 * The state of a simulated device, shared by the files of this room.
 *
 * One lock guards everything; every function here is called with it held. Work on a stream has a
 * known completion time from the moment it is queued, so that the future is one ordered set of
 * items: letting the clock run means taking the items that are due, in order, judging each and
 * carrying it out (work.c). Whatever breaks a rule of the driver goes through mend_sim_refuse.
 */
#ifndef MEND_SIM_STATE_H
#define MEND_SIM_STATE_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/mutex.h"
#include "base/pointer_map.h"
#include "base/slab.h"
#include "base/tree.h"
#include "driver/driver.h"
#include "mend/mend_sim.h"

/* A plain or asynchronous allocation takes whole blocks of this size from the device. */
#define MEND_SIM_PLAIN_BLOCK_BYTES (UINT64_C(2) << 20)

enum { MEND_SIM_MOST_DEVICES = 16, MEND_SIM_CONTEXT_DEPTH = 64, MEND_SIM_EXPLANATION_BYTES = 512 };

/* A range in the words of an explanation: RANGE_FORMAT with RANGE_OF(address, size). */
#define RANGE_FORMAT            "[0x%" PRIx64 ", 0x%" PRIx64 ") (%" PRIu64 " bytes)"
#define RANGE_OF(address, size) (address), (address) + (size), (size)

/* ---- addresses ------------------------------------------------------------------------------ */

/* A range of addresses: a gap, a reservation, or the place of a plain allocation. */
typedef struct mend_sim_range {
    mend_tree_node by_address;
    mend_tree_node by_size; /* gaps only */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t mapping_count;
    bool plain;
} mend_sim_range;

/* Physical memory that a handle, a mapping or an exported file holds. */
typedef struct mend_sim_chunk {
    uint64_t size_bytes;
    uint64_t charged_bytes; /* what it takes from the device */
    uint64_t file_offset;   /* of its bytes, when content is kept */
    uint64_t handle_count;
    uint64_t mapping_count;
    uint64_t share_count;
    int device;
    int share_types;
    bool rdma;
    bool plain;
} mend_sim_chunk;

typedef struct mend_sim_mapping {
    mend_tree_node by_address;
    uint64_t address;
    uint64_t size_bytes;
    mend_sim_chunk *chunk;
    mend_sim_range *range;
    uint64_t access_devices;  /* bit n: device n may use it */
    uint64_t access_ns;       /* since when */
    uint64_t access_sequence; /* and after which host call */
    bool asynchronous;        /* made by async_alloc */
    bool freeing;             /* async_free was called, its place in the stream is not reached */
} mend_sim_mapping;

/* ---- streams and work ----------------------------------------------------------------------- */

typedef struct mend_sim_capture mend_sim_capture; /* captures.h */
typedef struct mend_sim_node mend_sim_node;

/* The legacy stream takes turns with all streams of its context but the non-blocking ones. */
typedef enum mend_sim_stream_kind {
    MEND_SIM_STREAM_LEGACY,
    MEND_SIM_STREAM_PER_THREAD,
    MEND_SIM_STREAM_BLOCKING,
    MEND_SIM_STREAM_NON_BLOCKING
} mend_sim_stream_kind;

typedef struct mend_sim_stream {
    mend_list link; /* of all streams */
    uint64_t id;
    uintptr_t handle; /* 0: one that nobody created, the legacy stream or one of a thread */
    mend_sim_stream_kind kind;
    int device;
    int context;      /* its number: that of the device's primary one, or of a green one */
    uint64_t tail_ns; /* when all that is queued on it is done */
    uint64_t *queue;  /* when each of the last operations is done, as a ring; NULL: no limit */
    uint64_t queued;  /* operations so far */
    mend_sim_capture *capture; /* NULL: none */
    mend_sim_node *tip;        /* what its next captured work comes after; NULL: nothing */
} mend_sim_stream;

typedef struct mend_sim_event {
    uintptr_t handle;
    int context;         /* its number */
    uint64_t ready_ns;   /* when the work before the last record is done; 0: never recorded */
    uint64_t capture_id; /* not 0: last recorded in this capture */
    mend_sim_node *tip;  /* there, after this; means nothing once the capture has ended */
} mend_sim_event;

typedef enum mend_sim_item_kind {
    MEND_SIM_ITEM_TOUCH,
    MEND_SIM_ITEM_WRITE_TAG,
    MEND_SIM_ITEM_VERIFY_TAG,
    MEND_SIM_ITEM_SPIN,
    MEND_SIM_ITEM_WRITE_WORDS,
    MEND_SIM_ITEM_VERIFY_WORDS,
    MEND_SIM_ITEM_COPY,
    MEND_SIM_ITEM_FILL,
    MEND_SIM_ITEM_ASYNC_FREE
} mend_sim_item_kind;

/* One piece of queued work. Its range is granule_count granules of granule_bytes, stride apart. */
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
    uint64_t source;         /* COPY: from the device; 0: from the host */
    void *staged;            /* COPY from the host: the bytes, owned */
    void *host;              /* COPY to the host */
    const void *host_source; /* COPY from the host, where nothing was staged */
} mend_sim_item;

/* What belongs to one thread of the program. */
typedef struct mend_sim_thread {
    mend_list link;
    uint64_t number;
    int depth;
    int contexts[MEND_SIM_CONTEXT_DEPTH]; /* their numbers, the current one last */
    mend_capture_mode capture_mode;
    mend_sim_stream *streams[MEND_SIM_MOST_DEVICES]; /* handle 2, made at first use */
} mend_sim_thread;

/* ---- the device ----------------------------------------------------------------------------- */

/* Objects named by handles whose values are used again after destruction, as drivers do. */
typedef struct mend_sim_slot {
    void *object;
    size_t next_vacant;
} mend_sim_slot;

typedef struct mend_sim_handles {
    uintptr_t base;
    mend_sim_slot *slots;
    size_t count;
    size_t capacity;
    size_t vacant; /* index + 1 of the slot to use next; 0: none was given back */
} mend_sim_handles;

typedef struct mend_sim_device {
    uint64_t charged_bytes; /* by chunks and plain allocations */
    uint64_t foreign_bytes;
    uint64_t dirty_bytes; /* given back and not clean yet, at clean_ns */
    uint64_t clean_ns;    /* up to when cleaning has been accounted for */
    uint64_t open_count;
    uint64_t tail_ns;          /* when all that is queued on its streams is done */
    uint64_t blocking_tail_ns; /* and on those that take turns with the legacy stream */
    mend_sim_stream *legacy;
    int memory_file; /* -1: no content */
    uint64_t file_bytes;
} mend_sim_device;

/* Who hears of the calls. */
typedef struct mend_sim_watch {
    mend_sim_call_observer observer; /* NULL: nobody */
    void *context;
} mend_sim_watch;

/* A fault that stands; see mend_sim_fault. */
typedef struct mend_sim_standing_fault {
    struct mend_sim_standing_fault *next;
    int call; /* -1: any */
    mend_sim_fault rule;
} mend_sim_standing_fault;

struct mend_sim {
    mend_driver table;
    mend_mutex mutex;
    mend_sim_config config;                           /* defaults filled in */
    mend_sim_price price[MEND_DRIVER_CALL_COUNT + 1]; /* by call, and one that is of none */
    mend_sim_price compared_price[MEND_DRIVER_CALL_COUNT + 1]; /* by the second list */

    mend_sim_device devices[MEND_SIM_MOST_DEVICES];
    uint64_t space_base; /* addresses from here */
    uint64_t space_bytes;
    uint64_t space_high; /* none at or above was ever given out */
    mend_tree gaps;
    mend_tree gaps_by_size;
    mend_tree ranges; /* taken: reservations and plain allocations */
    mend_tree mappings;
    mend_pointer_map chunks; /* by handle */
    uint64_t last_handle;
    mend_list shares; /* exports that somebody still holds open */
    uint64_t last_share_id;

    mend_list streams;
    mend_list threads;
    mend_sim_handles stream_handles;
    mend_sim_handles event_handles;
    uint64_t last_stream_id;
    uint64_t last_capture_id;
    mend_list captures; /* begun and not ended */
    mend_list keepers;  /* see keepers.c */

    mend_tree items; /* by completion */
    uint64_t now_ns;
    uint64_t sequence;
    uint64_t event_delay_ns;

    mend_slab range_slab, chunk_slab, mapping_slab, stream_slab, event_slab, item_slab, thread_slab;
    mend_slab capture_slab, graph_slab, node_slab, share_slab;

    mend_sim_standing_fault *faults;
    uint64_t fallible_calls;
    mend_status broken; /* not OK: the sticky error every call answers */
    bool stopped;       /* no call does anything any more */

    /* The call under way: what its price is made of. */
    mend_driver_call call;
    uint64_t bill_bytes;
    uint64_t bill_mappings;
    uint64_t bill_scrub_ns; /* waited, whether the call did its work or not */

    atomic_bool watched; /* an observer is set: the lock tells which */
    mend_sim_watch watch;

    mend_sim_ledger ledger;
    char first_violation[MEND_SIM_EXPLANATION_BYTES];
};

/* ---- violation.c, call.c -------------------------------------------------------------------- */

/* Records a violation, explained in words, and returns `status`. */
__attribute__((format(printf, 3, 4))) mend_status mend_sim_refuse(mend_sim *sim, mend_status status,
                                                                  const char *format, ...);

/* Every call of the table runs between these two. begin takes the lock and lets faults and the
 * sticky error answer; end charges the price where `status` is an answer of a call that did its
 * work, lets the lock go and returns the status of the call. */
mend_status mend_sim_call_begin(mend_sim *sim, mend_driver_call call, uint64_t size_bytes);
mend_status mend_sim_call_end(mend_sim *sim, mend_status status);

/* ---- handles.c ------------------------------------------------------------------------------ */

void mend_sim_handles_init(mend_sim_handles *handles, uintptr_t base);
void mend_sim_handles_clear(mend_sim_handles *handles);
bool mend_sim_handles_reserve(mend_sim_handles *handles);
uintptr_t mend_sim_handles_add(mend_sim_handles *handles, void *object);
void *mend_sim_handles_find(const mend_sim_handles *handles, uintptr_t handle);
void mend_sim_handles_remove(mend_sim_handles *handles, uintptr_t handle);

/* ---- addresses.c ---------------------------------------------------------------------------- */

mend_status mend_sim_space_init(mend_sim *sim);

/* Takes the smallest gap that fits; size and alignment are multiples of the page. NULL: none, or
 * malloc failed. */
mend_sim_range *mend_sim_range_take(mend_sim *sim, uint64_t size_bytes, uint64_t alignment_bytes);
void mend_sim_range_give(mend_sim *sim, mend_sim_range *range);

/* The taken range that contains the address; NULL: none. */
mend_sim_range *mend_sim_range_at(const mend_sim *sim, uint64_t address);

/* The address belongs to the device's space, mapped or not; any other is one of the host. */
bool mend_sim_is_device_address(const mend_sim *sim, uint64_t address);

mend_status mend_sim_reserve(mend_sim *sim, uint64_t size_bytes, uint64_t alignment_bytes,
                             uint64_t *address);
mend_status mend_sim_address_free(mend_sim *sim, uint64_t address, uint64_t size_bytes);

/* ---- chunks.c ------------------------------------------------------------------------------- */

/* Takes memory from the device; NULL: not enough, or malloc failed. The caller adds what holds it.
 */
mend_sim_chunk *mend_sim_chunk_take(mend_sim *sim, int device, uint64_t size_bytes, bool plain);

/* Gives the memory back when nothing holds it any more. */
void mend_sim_chunk_drop(mend_sim *sim, mend_sim_chunk *chunk);

mend_status mend_sim_create_chunk(mend_sim *sim, uint64_t size_bytes,
                                  const mend_chunk_properties *properties,
                                  mend_chunk_handle *handle);
mend_status mend_sim_release(mend_sim *sim, mend_chunk_handle handle);

/* One more handle; the caller made room for it in sim->chunks. */
mend_chunk_handle mend_sim_chunk_add_handle(mend_sim *sim, mend_sim_chunk *chunk);

/* ---- shares.c ------------------------------------------------------------------------------- */

void mend_sim_shares_init(mend_sim *sim);
void mend_sim_shares_clear(mend_sim *sim);

/* Lets go of memory whose exports were closed since the last time. */
void mend_sim_shares_sweep(mend_sim *sim);

mend_status mend_sim_export(mend_sim *sim, mend_chunk_handle handle, int share_type, void *out);
mend_status mend_sim_import(mend_sim *sim, const void *shared, int share_type,
                            mend_chunk_handle *handle);

/* ---- mappings.c ----------------------------------------------------------------------------- */

void mend_sim_mappings_init(mend_sim *sim);

/* The mapping that contains the address; NULL: none. */
mend_sim_mapping *mend_sim_mapping_at(const mend_sim *sim, uint64_t address);

/* Makes a chunk visible at an address that is free; the caller reserved a mapping in the slab. */
mend_sim_mapping *mend_sim_mapping_add(mend_sim *sim, mend_sim_range *range, uint64_t address,
                                       mend_sim_chunk *chunk);
void mend_sim_mapping_remove(mend_sim *sim, mend_sim_mapping *mapping);
void mend_sim_mapping_allow(mend_sim *sim, mend_sim_mapping *mapping, uint64_t devices);

mend_status mend_sim_map(mend_sim *sim, uint64_t address, uint64_t size_bytes,
                         uint64_t offset_bytes, mend_chunk_handle handle);
mend_status mend_sim_unmap(mend_sim *sim, uint64_t address, uint64_t size_bytes);
mend_status mend_sim_set_access(mend_sim *sim, uint64_t address, uint64_t size_bytes,
                                const int *devices, int device_count);

/* Takes away what plain_alloc or async_alloc made. */
void mend_sim_plain_drop(mend_sim *sim, mend_sim_mapping *mapping);

/* ---- plain.c -------------------------------------------------------------------------------- */

mend_status mend_sim_plain_alloc(mend_sim *sim, uint64_t size_bytes, uint64_t *address);
mend_status mend_sim_plain_free(mend_sim *sim, uint64_t address);
mend_status mend_sim_async_alloc(mend_sim *sim, uint64_t size_bytes, mend_stream handle,
                                 uint64_t *address);
mend_status mend_sim_async_free(mend_sim *sim, uint64_t address, mend_stream handle);

/* ---- contexts.c ----------------------------------------------------------------------------- */

/* The calling thread's record; NULL: malloc failed. */
mend_sim_thread *mend_sim_thread_get(mend_sim *sim);

/* Contexts are numbers: the primary ones are those of their devices; green contexts, which share
 * all but their streams and events with the primary one of their device, come behind. */
static inline int mend_sim_device_of(int context)
{
    return context % MEND_SIM_MOST_DEVICES;
}

/* The device of the current context, and the context itself, or a refusal. */
mend_status mend_sim_current_device(mend_sim *sim, int *device);
mend_status mend_sim_current_context(mend_sim *sim, int *context);
mend_context mend_sim_context_of(int context);

/* Another device can be given access to the memory of this one. */
bool mend_sim_can_reach(const mend_sim *sim, int other, int device);
mend_status mend_sim_context_device(mend_sim *sim, int *device);
mend_status mend_sim_device_open(mend_sim *sim, int device, mend_device_info *info);
mend_status mend_sim_device_close(mend_sim *sim, int device);
mend_status mend_sim_context_push(mend_sim *sim, mend_context context);
mend_status mend_sim_context_pop(mend_sim *sim);

/* ---- streams.c ------------------------------------------------------------------------------ */

/* NULL: malloc failed. */
mend_sim_stream *mend_sim_stream_make(mend_sim *sim, int context, mend_sim_stream_kind kind);

/* It takes turns with the legacy stream. */
static inline bool mend_sim_stream_is_blocking(const mend_sim_stream *stream)
{
    return stream->kind == MEND_SIM_STREAM_PER_THREAD || stream->kind == MEND_SIM_STREAM_BLOCKING;
}

/* NULL, the legacy stream's handle, or that of the stream each thread has. */
bool mend_sim_stream_is_default(mend_stream handle);
mend_status mend_sim_stream_find_default(mend_sim *sim, mend_sim_thread *thread, int device,
                                         mend_stream handle, mend_sim_stream **stream);

/* The stream of a handle; default streams are those of the current context. Refuses an unknown
 * one. */
mend_status mend_sim_stream_find(mend_sim *sim, mend_stream handle, mend_sim_stream **stream);

/* The same for calls that use the stream: the legacy stream may be out of use. */
mend_status mend_sim_stream_find_for_use(mend_sim *sim, mend_stream handle,
                                         mend_sim_stream **stream);

/* The same for calls that need a current context, whatever the stream. */
mend_status mend_sim_stream_find_for_work(mend_sim *sim, mend_stream handle,
                                          mend_sim_stream **stream);
mend_status mend_sim_event_find(mend_sim *sim, mend_event handle, mend_sim_event **event);

/* An operation is to be queued: where the queue is full the host waits until there is room. The
 * device may be broken by what happened meanwhile. */
mend_status mend_sim_stream_make_room(mend_sim *sim, mend_sim_stream *stream);

/* When the next operation of the stream could start; and makes that later. */
uint64_t mend_sim_stream_tail(const mend_sim *sim, const mend_sim_stream *stream);
void mend_sim_stream_extend(mend_sim *sim, mend_sim_stream *stream, uint64_t until_ns);

mend_status mend_sim_stream_drop(mend_sim *sim, mend_stream handle);
mend_status mend_sim_stream_query(mend_sim *sim, mend_stream handle);
mend_status mend_sim_stream_wait_host(mend_sim *sim, mend_stream handle);

/* What a record on the stream now marks, and a wait for such a mark. */
mend_status mend_sim_event_mark(mend_sim *sim, mend_sim_event *event, mend_sim_stream *stream);
mend_status mend_sim_stream_wait_mark(mend_sim *sim, mend_sim_stream *stream,
                                      const mend_sim_event *event);

mend_status mend_sim_stream_wait_event(mend_sim *sim, mend_stream handle, mend_event event);
mend_status mend_sim_stream_info(mend_sim *sim, mend_stream handle, mend_stream_info *info);
mend_status mend_sim_context_wait_host(mend_sim *sim);
mend_status mend_sim_event_make(mend_sim *sim, mend_event *handle);
mend_status mend_sim_event_record(mend_sim *sim, mend_event handle, mend_stream stream);
mend_status mend_sim_event_query(mend_sim *sim, mend_event handle);
mend_status mend_sim_event_wait_host(mend_sim *sim, mend_event handle);
mend_status mend_sim_event_drop(mend_sim *sim, mend_event handle);

/* ---- items.c, clock.c ----------------------------------------------------------------------- */

void mend_sim_items_init(mend_sim *sim);
void mend_sim_items_clear(mend_sim *sim);
void mend_sim_item_drop(mend_sim *sim, mend_sim_item *item);

/* Adds work of item->device with a known completion time. The caller reserved an item in the slab,
 * and lets the clock run for what is due already. */
void mend_sim_item_add(mend_sim *sim, const mend_sim_stream *stream, const mend_sim_item *item,
                       uint64_t start_ns, uint64_t complete_ns);

/* The item reads or writes something of the range. */
bool mend_sim_item_touches(const mend_sim_item *item, uint64_t address, uint64_t size);

/* Lets the clock run to `until_ns` (or stand, if it is later already): what is due completes. */
void mend_sim_run_until(mend_sim *sim, uint64_t until_ns);

/* ---- user.c, work.c ------------------------------------------------------------------------- */

/* The stream of a handle as the functions of mend_sim.h take it: a default stream is that of the
 * current context, or of device 0 where none is current. */
mend_status mend_sim_stream_find_for_user(mend_sim *sim, mend_stream handle,
                                          mend_sim_stream **stream);

/* What such a function answers: `status`, or that the device is lost. */
mend_result mend_sim_result_for_user(const mend_sim *sim, mend_status status);

/* Queues a copy of `item` (kind, range and values are set) on the stream; it runs for
 * `duration_ns`, or until `finish_ns` if that is later. Where the stream is captured, the item and
 * its duration are recorded instead. Owns item->staged from then on. */
mend_status mend_sim_queue(mend_sim *sim, mend_sim_stream *stream, const mend_sim_item *item,
                           uint64_t duration_ns, uint64_t finish_ns);

mend_status mend_sim_launch_kernel(mend_sim *sim, mend_stream handle, const mend_kernel *kernel);
mend_status mend_sim_copy(mend_sim *sim, uint64_t destination, uint64_t source, uint64_t size_bytes,
                          mend_stream handle);
mend_status mend_sim_fill(mend_sim *sim, uint64_t address, uint8_t value, uint64_t size_bytes,
                          mend_stream handle);

/* ---- judge.c -------------------------------------------------------------------------------- */

/* Judges what an item touches as it completes. ILLEGAL_ADDRESS, with an explanation. */
mend_status mend_sim_judge(mend_sim *sim, const mend_sim_item *item);

/* ---- prices.c, faults.c --------------------------------------------------------------------- */

/* NULL: the reference list, and no second one. */
void mend_sim_prices_apply(mend_sim *sim, const mend_sim_prices *prices,
                           const mend_sim_prices *compared);

/* Adds the price of the call under way to ledger and clock; of one that failed only its wait. */
void mend_sim_charge(mend_sim *sim, bool did_its_work);

/* The answer of the first fault that matches; OK: none does. */
mend_status mend_sim_fault_answer(mend_sim *sim, mend_driver_call call, uint64_t size_bytes);
bool mend_sim_call_can_fail(mend_driver_call call);

/* Why no call of this kind can do anything any more: stopped, or broken; OK: it can. */
mend_status mend_sim_out_of_order(const mend_sim *sim, mend_driver_call call);

/* Memory came back to a device: ends the faults that waited for it. */
void mend_sim_faults_released(mend_sim *sim);
void mend_sim_faults_drop_all(mend_sim *sim);

/* The table's member of this number ("set_access"). */
const char *mend_sim_call_member(mend_driver_call call);

#endif
