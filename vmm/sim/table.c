/* The table: every function runs between mend_sim_call_begin and mend_sim_call_end. */
#include <inttypes.h>

#include "base/align.h"
#include "sim/captures.h"
#include "sim/host.h"
#include "sim/scrub.h"
#include "sim/shares.h"
#include "sim/state.h"
#include "sim/table.h"
#include "sim/watch.h"

/* The body of a table function. `work` computes the status, unless begin has answered already. */
#define CALL(member, size, work)                                                                   \
    mend_sim *sim = driver->state;                                                                 \
    const mend_sim_watch watch = mend_sim_watch_begin(sim, MEND_CALL_##member);                    \
    mend_status status = mend_sim_call_begin(sim, MEND_CALL_##member, size);                       \
    if (status == MEND_DRIVER_OK) {                                                                \
        status = work;                                                                             \
    }                                                                                              \
    status = mend_sim_call_end(sim, status);                                                       \
    mend_sim_watch_end(&watch, MEND_CALL_##member);                                                \
    return status

static mend_status count_devices(const mend_sim *sim, int *count)
{
    *count = sim->config.device_count;
    return MEND_DRIVER_OK;
}

static mend_status memory_info(mend_sim *sim, uint64_t *free_bytes, uint64_t *total_bytes)
{
    int device = 0;
    mend_status status = mend_sim_current_device(sim, &device);
    if (status == MEND_DRIVER_OK) {
        *free_bytes = mend_sim_free_bytes(sim, device);
        *total_bytes = sim->config.memory_bytes;
    }
    return status;
}

static mend_status stream_create(mend_sim *sim, mend_stream *stream)
{
    int context = 0;
    mend_status status = mend_sim_current_context(sim, &context);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    mend_sim_stream *made = mend_sim_stream_make(sim, context, MEND_SIM_STREAM_NON_BLOCKING);
    if (made == NULL) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    *stream = (mend_stream)made->handle;
    return MEND_DRIVER_OK;
}

static mend_status table_device_count(const mend_driver *driver, int *count)
{
    CALL(device_count, 0, count_devices(sim, count));
}

static mend_status table_device_open(const mend_driver *driver, int device, mend_device_info *info)
{
    CALL(device_open, 0, mend_sim_device_open(sim, device, info));
}

static mend_status table_device_close(const mend_driver *driver, int device)
{
    CALL(device_close, 0, mend_sim_device_close(sim, device));
}

static mend_status table_memory_info(const mend_driver *driver, uint64_t *free_bytes,
                                     uint64_t *total_bytes)
{
    CALL(memory_info, 0, memory_info(sim, free_bytes, total_bytes));
}

static mend_status table_context_push(const mend_driver *driver, mend_context context)
{
    CALL(context_push, 0, mend_sim_context_push(sim, context));
}

static mend_status table_context_pop(const mend_driver *driver)
{
    CALL(context_pop, 0, mend_sim_context_pop(sim));
}

static mend_status table_context_device(const mend_driver *driver, int *device)
{
    CALL(context_device, 0, mend_sim_context_device(sim, device));
}

static mend_status table_context_synchronize(const mend_driver *driver)
{
    CALL(context_synchronize, 0, mend_sim_context_wait_host(sim));
}

static mend_status table_exchange_capture_mode(const mend_driver *driver, mend_capture_mode *mode)
{
    CALL(exchange_capture_mode, 0, mend_sim_exchange_capture_mode(sim, mode));
}

static mend_status table_reserve(const mend_driver *driver, uint64_t size_bytes,
                                 uint64_t alignment_bytes, uint64_t hint, uint64_t *address)
{
    (void)hint;
    CALL(reserve, size_bytes, mend_sim_reserve(sim, size_bytes, alignment_bytes, address));
}

static mend_status table_address_free(const mend_driver *driver, uint64_t address,
                                      uint64_t size_bytes)
{
    CALL(address_free, size_bytes, mend_sim_address_free(sim, address, size_bytes));
}

static mend_status table_create(const mend_driver *driver, uint64_t size_bytes,
                                const mend_chunk_properties *properties, mend_chunk_handle *handle)
{
    CALL(create, size_bytes, mend_sim_create_chunk(sim, size_bytes, properties, handle));
}

static mend_status table_release(const mend_driver *driver, mend_chunk_handle handle)
{
    CALL(release, 0, mend_sim_release(sim, handle));
}

static mend_status table_map(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                             uint64_t offset_bytes, mend_chunk_handle handle)
{
    CALL(map, size_bytes, mend_sim_map(sim, address, size_bytes, offset_bytes, handle));
}

static mend_status table_unmap(const mend_driver *driver, uint64_t address, uint64_t size_bytes)
{
    CALL(unmap, size_bytes, mend_sim_unmap(sim, address, size_bytes));
}

static mend_status table_set_access(const mend_driver *driver, uint64_t address,
                                    uint64_t size_bytes, const int *devices, int device_count,
                                    mend_access access)
{
    CALL(set_access, size_bytes,
         mend_sim_set_access(sim, address, size_bytes, devices, device_count, access));
}

static mend_status table_export_handle(const mend_driver *driver, mend_chunk_handle handle,
                                       int share_type, void *out)
{
    CALL(export_handle, 0, mend_sim_export(sim, handle, share_type, out));
}

static mend_status table_import_handle(const mend_driver *driver, const void *shared,
                                       int share_type, mend_chunk_handle *handle)
{
    CALL(import_handle, 0, mend_sim_import(sim, shared, share_type, handle));
}

static mend_status table_plain_alloc(const mend_driver *driver, uint64_t size_bytes,
                                     uint64_t *address)
{
    CALL(plain_alloc, size_bytes, mend_sim_plain_alloc(sim, size_bytes, address));
}

static mend_status table_plain_free(const mend_driver *driver, uint64_t address)
{
    CALL(plain_free, 0, mend_sim_plain_free(sim, address));
}

static mend_status table_async_alloc(const mend_driver *driver, uint64_t size_bytes,
                                     mend_stream stream, uint64_t *address)
{
    CALL(async_alloc, size_bytes, mend_sim_async_alloc(sim, size_bytes, stream, address));
}

static mend_status table_async_free(const mend_driver *driver, uint64_t address, mend_stream stream)
{
    CALL(async_free, 0, mend_sim_async_free(sim, address, stream));
}

static mend_status table_host_alloc(const mend_driver *driver, uint64_t size_bytes, void **pointer)
{
    CALL(host_alloc, size_bytes, mend_sim_host_alloc(sim, size_bytes, pointer));
}

static mend_status table_host_free(const mend_driver *driver, void *pointer)
{
    CALL(host_free, 0, mend_sim_host_free(sim, pointer));
}

static mend_status table_copy(const mend_driver *driver, uint64_t destination, uint64_t source,
                              uint64_t size_bytes, mend_stream stream)
{
    CALL(copy, size_bytes, mend_sim_copy(sim, destination, source, size_bytes, stream));
}

static mend_status table_fill(const mend_driver *driver, uint64_t address, uint8_t value,
                              uint64_t size_bytes, mend_stream stream)
{
    CALL(fill, size_bytes, mend_sim_fill(sim, address, value, size_bytes, stream));
}

static mend_status table_launch(const mend_driver *driver, mend_stream stream,
                                const mend_kernel *kernel)
{
    CALL(launch, 0, mend_sim_launch_kernel(sim, stream, kernel));
}

static mend_status table_stream_create(const mend_driver *driver, mend_stream *stream)
{
    CALL(stream_create, 0, stream_create(sim, stream));
}

static mend_status table_stream_destroy(const mend_driver *driver, mend_stream stream)
{
    CALL(stream_destroy, 0, mend_sim_stream_drop(sim, stream));
}

static mend_status table_stream_query(const mend_driver *driver, mend_stream stream)
{
    CALL(stream_query, 0, mend_sim_stream_query(sim, stream));
}

static mend_status table_stream_synchronize(const mend_driver *driver, mend_stream stream)
{
    CALL(stream_synchronize, 0, mend_sim_stream_wait_host(sim, stream));
}

static mend_status table_stream_wait(const mend_driver *driver, mend_stream stream,
                                     mend_event event)
{
    CALL(stream_wait, 0, mend_sim_stream_wait_event(sim, stream, event));
}

static mend_status table_stream_get_info(const mend_driver *driver, mend_stream stream,
                                         mend_stream_info *info)
{
    CALL(stream_get_info, 0, mend_sim_stream_info(sim, stream, info));
}

static mend_status table_stream_get_capture(const mend_driver *driver, mend_stream stream,
                                            uint64_t *id)
{
    CALL(stream_get_capture, 0, mend_sim_stream_capture(sim, stream, id));
}

static mend_status table_stream_is_behind(const mend_driver *driver, mend_stream stream,
                                          mend_stream before, bool *is_behind)
{
    CALL(stream_is_behind, 0, mend_sim_stream_behind(sim, stream, before, is_behind));
}

static mend_status table_capture_keep(const mend_driver *driver, mend_stream stream,
                                      mend_capture_ended ended, void *context)
{
    CALL(capture_keep, 0, mend_sim_capture_keep(sim, stream, ended, context));
}

static mend_status table_event_create(const mend_driver *driver, mend_event *event)
{
    CALL(event_create, 0, mend_sim_event_make(sim, event));
}

static mend_status table_event_record(const mend_driver *driver, mend_event event,
                                      mend_stream stream)
{
    CALL(event_record, 0, mend_sim_event_record(sim, event, stream));
}

static mend_status table_context_record(const mend_driver *driver, mend_event event)
{
    CALL(context_record, 0, mend_sim_context_record(sim, event));
}

static mend_status table_event_query(const mend_driver *driver, mend_event event)
{
    CALL(event_query, 0, mend_sim_event_query(sim, event));
}

static mend_status table_event_synchronize(const mend_driver *driver, mend_event event)
{
    CALL(event_synchronize, 0, mend_sim_event_wait_host(sim, event));
}

static mend_status table_event_destroy(const mend_driver *driver, mend_event event)
{
    CALL(event_destroy, 0, mend_sim_event_drop(sim, event));
}

static uint64_t table_clock_ns(const mend_driver *driver)
{
    return mend_sim_now_ns(driver->state);
}

static void table_pause(const mend_driver *driver, uint64_t duration_ns)
{
    mend_sim_advance(driver->state, duration_ns);
}

static const char *table_status_name(const mend_driver *driver, mend_status status)
{
    (void)driver;
    return mend_status_name(status);
}

void mend_sim_table_fill(mend_sim *sim)
{
    sim->table = (mend_driver){
        .state = sim,
        .name = "sim",
#define X(member, name, bytes, parameters, arguments) .member = table_##member,
        MEND_DRIVER_CALLS(X)
#undef X
            .clock_ns = table_clock_ns,
        .pause = table_pause,
        .status_name = table_status_name,
    };
}
