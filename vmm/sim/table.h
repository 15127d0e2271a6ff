/*
 * The calls of a simulated device: X(member of the driver's table, bytes to be billed, parameters,
 * arguments). Each is mend_sim_do_<member>.
 */
#ifndef MEND_SIM_TABLE_H
#define MEND_SIM_TABLE_H

#include "driver/driver.h"
#include "mend/mend_sim.h"

#define WITH(...) , __VA_ARGS__
#define MEND_SIM_CALLS(X)                                                                          \
    X(device_count, 0, WITH(int *count), WITH(count))                                              \
    X(device_open, 0, WITH(int device, mend_device_info *info), WITH(device, info))                \
    X(device_close, 0, WITH(int device), WITH(device))                                             \
    X(memory_info, 0, WITH(uint64_t *free_bytes, uint64_t *total_bytes),                           \
      WITH(free_bytes, total_bytes))                                                               \
    X(context_push, 0, WITH(mend_context context), WITH(context))                                  \
    X(context_pop, 0, , )                                                                          \
    X(context_device, 0, WITH(int *device), WITH(device))                                          \
    X(context_synchronize, 0, , )                                                                  \
    X(exchange_capture_mode, 0, WITH(mend_capture_mode *mode), WITH(mode))                         \
    X(reserve, bytes, WITH(uint64_t bytes, uint64_t alignment, uint64_t hint, uint64_t *address),  \
      WITH(bytes, alignment, hint, address))                                                       \
    X(address_free, bytes, WITH(uint64_t address, uint64_t bytes), WITH(address, bytes))           \
    X(create, bytes,                                                                               \
      WITH(uint64_t bytes, const mend_chunk_properties *properties, mend_chunk_handle *chunk),     \
      WITH(bytes, properties, chunk))                                                              \
    X(release, 0, WITH(mend_chunk_handle chunk), WITH(chunk))                                      \
    X(map, bytes,                                                                                  \
      WITH(uint64_t address, uint64_t bytes, uint64_t offset, mend_chunk_handle chunk),            \
      WITH(address, bytes, offset, chunk))                                                         \
    X(unmap, bytes, WITH(uint64_t address, uint64_t bytes), WITH(address, bytes))                  \
    X(set_access, bytes,                                                                           \
      WITH(uint64_t address, uint64_t bytes, const int *devices, int count, mend_access access),   \
      WITH(address, bytes, devices, count, access))                                                \
    X(export_handle, 0, WITH(mend_chunk_handle chunk, int share_type, void *out),                  \
      WITH(chunk, share_type, out))                                                                \
    X(import_handle, 0, WITH(const void *shared, int share_type, mend_chunk_handle *chunk),        \
      WITH(shared, share_type, chunk))                                                             \
    X(plain_alloc, bytes, WITH(uint64_t bytes, uint64_t *address), WITH(bytes, address))           \
    X(plain_free, 0, WITH(uint64_t address), WITH(address))                                        \
    X(async_alloc, bytes, WITH(uint64_t bytes, mend_stream stream, uint64_t *address),             \
      WITH(bytes, stream, address))                                                                \
    X(async_free, 0, WITH(uint64_t address, mend_stream stream), WITH(address, stream))            \
    X(host_alloc, bytes, WITH(uint64_t bytes, void **pointer), WITH(bytes, pointer))               \
    X(host_free, 0, WITH(void *pointer), WITH(pointer))                                            \
    X(host_register, bytes, WITH(void *pointer, uint64_t bytes), WITH(pointer, bytes))             \
    X(host_unregister, 0, WITH(void *pointer), WITH(pointer))                                      \
    X(copy, bytes,                                                                                 \
      WITH(uint64_t destination, uint64_t source, uint64_t bytes, mend_stream stream),             \
      WITH(destination, source, bytes, stream))                                                    \
    X(fill, bytes, WITH(uint64_t address, uint8_t value, uint64_t bytes, mend_stream stream),      \
      WITH(address, value, bytes, stream))                                                         \
    X(launch, 0, WITH(mend_stream stream, const mend_kernel *kernel), WITH(stream, kernel))        \
    X(stream_create, 0, WITH(mend_stream *stream), WITH(stream))                                   \
    X(stream_destroy, 0, WITH(mend_stream stream), WITH(stream))                                   \
    X(stream_query, 0, WITH(mend_stream stream), WITH(stream))                                     \
    X(stream_synchronize, 0, WITH(mend_stream stream), WITH(stream))                               \
    X(stream_wait, 0, WITH(mend_stream stream, mend_event event), WITH(stream, event))             \
    X(stream_get_info, 0, WITH(mend_stream stream, mend_stream_info *info), WITH(stream, info))    \
    X(stream_get_capture, 0, WITH(mend_stream stream, uint64_t *id), WITH(stream, id))             \
    X(stream_is_behind, 0, WITH(mend_stream stream, mend_stream before, bool *is_behind),          \
      WITH(stream, before, is_behind))                                                             \
    X(capture_keep, 0, WITH(mend_stream stream, mend_capture_ended ended, void *context),          \
      WITH(stream, ended, context))                                                                \
    X(event_create, 0, WITH(mend_event *event), WITH(event))                                       \
    X(event_record, 0, WITH(mend_event event, mend_stream stream), WITH(event, stream))            \
    X(context_record, 0, WITH(mend_event event), WITH(event))                                      \
    X(event_query, 0, WITH(mend_event event), WITH(event))                                         \
    X(event_synchronize, 0, WITH(mend_event event), WITH(event))                                   \
    X(event_destroy, 0, WITH(mend_event event), WITH(event))

#define X(member, bytes_billed, parameters, arguments)                                             \
    mend_status mend_sim_do_##member(mend_sim *sim parameters);
MEND_SIM_CALLS(X)
#undef X

void mend_sim_table_fill(mend_sim *sim);

#endif
