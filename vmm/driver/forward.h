/*
 * The table's signatures as rows, from which decorators make their functions: X(member, bytes,
 * parameters, arguments). `bytes` is the size that the call is about, 0 if it has none; `arguments`
 * passes the same call to the table `inner`. The order is that of the struct.
 */
#ifndef MEND_DRIVER_FORWARD_H
#define MEND_DRIVER_FORWARD_H

#include <assert.h>

#include "base/history.h"
#include "base/mutex.h"
#include "base/pointer_map.h"
#include "driver/driver.h"

/* clang-format off */
#define MEND_DRIVER_SIGNATURES(X)                                                                  \
    X(device_count, 0, (const mend_driver *driver, int *count), (inner, count))                    \
    X(device_open, 0, (const mend_driver *driver, int device, mend_device_info *info),             \
      (inner, device, info))                                                                       \
    X(device_close, 0, (const mend_driver *driver, int device), (inner, device))                   \
    X(memory_info, 0, (const mend_driver *driver, uint64_t *free_bytes, uint64_t *total_bytes),    \
      (inner, free_bytes, total_bytes))                                                            \
    X(context_push, 0, (const mend_driver *driver, mend_context context), (inner, context))        \
    X(context_pop, 0, (const mend_driver *driver), (inner))                                        \
    X(context_device, 0, (const mend_driver *driver, int *device), (inner, device))                \
    X(context_synchronize, 0, (const mend_driver *driver), (inner))                                \
    X(exchange_capture_mode, 0, (const mend_driver *driver, mend_capture_mode *mode),              \
      (inner, mode))                                                                               \
    X(reserve, size_bytes,                                                                         \
      (const mend_driver *driver, uint64_t size_bytes, uint64_t alignment_bytes, uint64_t hint,    \
       uint64_t *address),                                                                         \
      (inner, size_bytes, alignment_bytes, hint, address))                                         \
    X(address_free, size_bytes,                                                                    \
      (const mend_driver *driver, uint64_t address, uint64_t size_bytes),                          \
      (inner, address, size_bytes))                                                                \
    X(create, size_bytes,                                                                          \
      (const mend_driver *driver, uint64_t size_bytes, const mend_chunk_properties *properties,    \
       mend_chunk_handle *handle),                                                                 \
      (inner, size_bytes, properties, handle))                                                     \
    X(release, 0, (const mend_driver *driver, mend_chunk_handle handle), (inner, handle))          \
    X(map, size_bytes,                                                                             \
      (const mend_driver *driver, uint64_t address, uint64_t size_bytes, uint64_t offset_bytes,    \
       mend_chunk_handle handle),                                                                  \
      (inner, address, size_bytes, offset_bytes, handle))                                          \
    X(unmap, size_bytes, (const mend_driver *driver, uint64_t address, uint64_t size_bytes),       \
      (inner, address, size_bytes))                                                                \
    X(set_access, size_bytes,                                                                      \
      (const mend_driver *driver, uint64_t address, uint64_t size_bytes, const int *devices,       \
       int device_count, mend_access access),                                                      \
      (inner, address, size_bytes, devices, device_count, access))                                 \
    X(export_handle, 0,                                                                            \
      (const mend_driver *driver, mend_chunk_handle handle, int share_type, void *out),            \
      (inner, handle, share_type, out))                                                            \
    X(import_handle, 0,                                                                            \
      (const mend_driver *driver, const void *shared, int share_type, mend_chunk_handle *handle),  \
      (inner, shared, share_type, handle))                                                         \
    X(plain_alloc, size_bytes,                                                                     \
      (const mend_driver *driver, uint64_t size_bytes, uint64_t *address),                         \
      (inner, size_bytes, address))                                                                \
    X(plain_free, 0, (const mend_driver *driver, uint64_t address), (inner, address))              \
    X(async_alloc, size_bytes,                                                                     \
      (const mend_driver *driver, uint64_t size_bytes, mend_stream stream, uint64_t *address),     \
      (inner, size_bytes, stream, address))                                                        \
    X(async_free, 0, (const mend_driver *driver, uint64_t address, mend_stream stream),            \
      (inner, address, stream))                                                                    \
    X(host_alloc, size_bytes, (const mend_driver *driver, uint64_t size_bytes, void **pointer),    \
      (inner, size_bytes, pointer))                                                                \
    X(host_free, 0, (const mend_driver *driver, void *pointer), (inner, pointer))                  \
    X(copy, size_bytes,                                                                            \
      (const mend_driver *driver, uint64_t destination, uint64_t source, uint64_t size_bytes,      \
       mend_stream stream),                                                                        \
      (inner, destination, source, size_bytes, stream))                                            \
    X(fill, size_bytes,                                                                            \
      (const mend_driver *driver, uint64_t address, uint8_t value, uint64_t size_bytes,            \
       mend_stream stream),                                                                        \
      (inner, address, value, size_bytes, stream))                                                 \
    X(launch, 0, (const mend_driver *driver, mend_stream stream, const mend_kernel *kernel),       \
      (inner, stream, kernel))                                                                     \
    X(stream_create, 0, (const mend_driver *driver, mend_stream *stream), (inner, stream))         \
    X(stream_destroy, 0, (const mend_driver *driver, mend_stream stream), (inner, stream))         \
    X(stream_query, 0, (const mend_driver *driver, mend_stream stream), (inner, stream))           \
    X(stream_synchronize, 0, (const mend_driver *driver, mend_stream stream), (inner, stream))     \
    X(stream_wait, 0, (const mend_driver *driver, mend_stream stream, mend_event event),           \
      (inner, stream, event))                                                                      \
    X(stream_get_info, 0,                                                                          \
      (const mend_driver *driver, mend_stream stream, mend_stream_info *info),                     \
      (inner, stream, info))                                                                       \
    X(stream_get_capture, 0, (const mend_driver *driver, mend_stream stream, uint64_t *id),        \
      (inner, stream, id))                                                                         \
    X(stream_is_behind, 0,                                                                         \
      (const mend_driver *driver, mend_stream stream, mend_stream before, bool *is_behind),        \
      (inner, stream, before, is_behind))                                                          \
    X(capture_keep, 0,                                                                             \
      (const mend_driver *driver, mend_stream stream, mend_capture_ended ended, void *context),    \
      (inner, stream, ended, context))                                                             \
    X(event_create, 0, (const mend_driver *driver, mend_event *event), (inner, event))             \
    X(event_record, 0, (const mend_driver *driver, mend_event event, mend_stream stream),          \
      (inner, event, stream))                                                                      \
    X(context_record, 0, (const mend_driver *driver, mend_event event), (inner, event))            \
    X(event_query, 0, (const mend_driver *driver, mend_event event), (inner, event))               \
    X(event_synchronize, 0, (const mend_driver *driver, mend_event event), (inner, event))         \
    X(event_destroy, 0, (const mend_driver *driver, mend_event event), (inner, event))
/* clang-format on */

#define MEND_DRIVER_ROW(member, bytes, parameters, arguments) +1
static_assert(0 MEND_DRIVER_SIGNATURES(MEND_DRIVER_ROW) == MEND_DRIVER_CALL_COUNT,
              "each call has a row");
#undef MEND_DRIVER_ROW

/* ---- passing.c ------------------------------------------------------------------------------- */

/* The first member of the decorator, which must not move: `state` of the table is its address. */
typedef struct mend_passing {
    mend_driver table;
    const mend_driver *inner;
} mend_passing;

void mend_passing_init(mend_passing *passing, const mend_driver *inner);

/* ---- unlocking.c ----------------------------------------------------------------------------- */

/*
 * The heap's way to the driver: a decorator of the table that releases a lock around the calls that
 * may take long, so that other threads go on allocating from free memory meanwhile.
 *
 * The caller of every function holds the lock. After a call that may take long, everything that the
 * lock guards may have changed.
 */

typedef struct mend_unlocking {
    mend_driver table; /* its `state` is this structure, which must not move */
    const mend_driver *inner;
    mend_mutex *lock;
    mend_history *history; /* gets the time of calls that release the lock; NULL: none */
    mend_status lost;      /* the first status that is fatal (mend_status_is_fatal), or OK */
} mend_unlocking;

/* Remembers a fatal status of a driver call made without the table; returns `status`. The caller
 * holds the lock. */
mend_status mend_unlocking_remember(mend_unlocking *unlocking, mend_status status);

/* Both are borrowed. These calls release the lock: create, release, map, unmap, set_access,
 * reserve, address_free, memory_info, the calls that wait for the GPU, and those that may wait for
 * space in a stream's queue (event_record, stream_wait). All others keep it. */
void mend_unlocking_init(mend_unlocking *unlocking, const mend_driver *inner, mend_mutex *lock);

/* ---- traced.c -------------------------------------------------------------------------------- */

/* A decorator that counts, measures and times the calls of a driver. */

typedef struct mend_call_counter {
    uint64_t calls;
    uint64_t failures; /* calls that did not return OK; a query's NOT_READY is not counted */
    uint64_t bytes;    /* of successful calls that have a size */
    uint64_t total_ns; /* by the inner table's clock */
    uint64_t max_ns;
} mend_call_counter;

typedef struct mend_driver_counters {
    mend_call_counter call[MEND_DRIVER_CALL_COUNT];
    uint64_t host_syncs; /* calls in which the host waits for the GPU, plain_free included */
} mend_driver_counters;

/* `inner` is borrowed and must outlive the decorator. Thread-safe: the counters are copied under a
 * lock. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_traced_driver_create(const mend_driver *inner, mend_driver **traced);
void mend_traced_driver_get(const mend_driver *traced, mend_driver_counters *counters);
void mend_traced_driver_destroy(mend_driver *traced);

/* ---- plain.c --------------------------------------------------------------------------------- */

/*
 * A reservation has its memory from the start. A chunk is a number alone, and to map it is to say
 * which part of a reservation counts as used: no driver call, and no bytes move. So the bytes at an
 * address stay whatever is unmapped and mapped there, and memory that is free in one reservation
 * cannot continue another. Memory is not shared with other processes or devices, and has no second
 * address.
 */

/* Drivers allocate plain memory in steps of this, whatever is asked for. */
#define MEND_PLAIN_STEP_BYTES (UINT64_C(2) << 20)

typedef struct mend_plain {
    mend_passing pass;       /* first; this structure must not move */
    mend_mutex mutex;        /* guards the rest; never held while the inner table runs */
    mend_pointer_map ranges; /* from a reservation's address to what it was made of */
    mend_pointer_map sizes;  /* from a chunk's handle to its bytes */
    uint64_t range_bytes;    /* allocated for all reservations */
    uint64_t chunk_bytes;    /* of all chunks */
    uint64_t limit_bytes;    /* for range_bytes */
    uint64_t last_handle;
} mend_plain;

/* `limit_bytes`: most bytes to allocate. */
void mend_plain_init(mend_plain *plain, const mend_driver *inner, uint64_t limit_bytes);
void mend_plain_set_limit(mend_plain *plain, uint64_t limit_bytes);

/* All reservations are freed, or stay with the driver. */
void mend_plain_end(mend_plain *plain);

/* Says of an open device what this driver can do for it. */
void mend_plain_describe(mend_device_info *info);

#endif
