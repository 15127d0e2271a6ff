/*
 * The table's signatures as rows, from which decorators make their functions: X(member, bytes,
 * parameters, arguments). `bytes` is the size that the call is about, 0 if it has none; `arguments`
 * passes the same call to the table `inner`. The order is that of the struct.
 */
#ifndef MEND_DRIVER_FORWARD_H
#define MEND_DRIVER_FORWARD_H

#include <assert.h>

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

#endif
