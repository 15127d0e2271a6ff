/* The calls of the capture matrix, by the driver's own entry points. */
#include "probe/capture_calls.h"

static mend_status get_id(const probe *p, capture_setting *s)
{
    unsigned long long id = 0;
    return p->raw->cuStreamGetId != NULL ? p->raw->cuStreamGetId(s->target, &id)
                                         : MEND_DRIVER_NOT_SUPPORTED;
}

static mend_status get_context(const probe *p, capture_setting *s)
{
    mend_context context = NULL;
    return p->raw->cuStreamGetCtx(s->target, &context);
}

static mend_status get_capture_info(const probe *p, capture_setting *s)
{
    mend_cu_capture_status capture = 0;
    mend_cu_id id = 0;
    return p->raw->cuStreamGetCaptureInfo(s->target, &capture, &id, NULL, NULL, NULL);
}

static mend_status record_event(const probe *p, capture_setting *s)
{
    return p->raw->cuEventRecord(s->fresh, s->target);
}

static mend_status wait_event(const probe *p, capture_setting *s)
{
    return p->raw->cuStreamWaitEvent(s->target, s->recorded, 0);
}

static mend_status query_stream(const probe *p, capture_setting *s)
{
    return p->raw->cuStreamQuery(s->target);
}

static mend_status query_event(const probe *p, capture_setting *s)
{
    return p->raw->cuEventQuery(s->recorded);
}

static mend_status create_event(const probe *p, capture_setting *s)
{
    p->raw->cuEventDestroy(s->fresh);
    s->fresh = NULL;
    return p->raw->cuEventCreate(&s->fresh, MEND_CU_EVENT_NO_TIMING);
}

static mend_status reserve(const probe *p, capture_setting *s)
{
    mend_cu_address address = 0;
    mend_status status = p->raw->cuMemAddressReserve(&address, p->page_bytes, 0, 0, 0);
    if (status == MEND_DRIVER_OK) {
        s->made = address;
        s->made_what = MADE_ADDRESSES;
    }
    return status;
}

static mend_status create(const probe *p, capture_setting *s)
{
    mend_cu_chunk_properties properties = {.type = MEND_CU_ALLOCATION_PINNED,
                                           .location = {MEND_CU_LOCATION_DEVICE, 0}};
    mend_cu_chunk chunk = 0;
    mend_status status = p->raw->cuMemCreate(&chunk, p->page_bytes, &properties, 0);
    if (status == MEND_DRIVER_OK) {
        s->made = chunk;
        s->made_what = MADE_CHUNK;
    }
    return status;
}

static mend_status map(const probe *p, capture_setting *s)
{
    mend_status status = p->raw->cuMemMap(s->address, p->page_bytes, 0, s->chunk, 0);
    s->mapped = status == MEND_DRIVER_OK;
    return status;
}

static mend_status set_access(const probe *p, capture_setting *s)
{
    const mend_cu_access access = {{MEND_CU_LOCATION_DEVICE, 0}, MEND_CU_ACCESS_READ_WRITE};
    return p->raw->cuMemSetAccess(s->address, p->page_bytes, &access, 1);
}

static mend_status unmap(const probe *p, capture_setting *s)
{
    mend_status status = p->raw->cuMemUnmap(s->address, p->page_bytes);
    s->mapped = status != MEND_DRIVER_OK;
    return status;
}

static mend_status release(const probe *p, capture_setting *s)
{
    mend_status status = p->raw->cuMemRelease(s->chunk);
    s->chunk = status == MEND_DRIVER_OK ? 0 : s->chunk;
    return status;
}

static mend_status plain_alloc(const probe *p, capture_setting *s)
{
    mend_cu_address address = 0;
    mend_status status = p->raw->cuMemAlloc(&address, p->page_bytes);
    if (status == MEND_DRIVER_OK) {
        s->made = address;
        s->made_what = MADE_MEMORY;
    }
    return status;
}

static mend_status get_memory_info(const probe *p, capture_setting *s)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    (void)s;
    return p->raw->cuMemGetInfo(&free_bytes, &total_bytes);
}

/* Where the driver has none it is not tried: NOT_FOUND. */
static mend_status record_context(const probe *p, capture_setting *s)
{
    return p->raw->cuCtxRecordEvent != NULL ? p->raw->cuCtxRecordEvent(p->info.context, s->fresh)
                                            : MEND_DRIVER_NOT_FOUND;
}

static mend_status synchronize_context(const probe *p, capture_setting *s)
{
    (void)s;
    return p->raw->cuCtxSynchronize();
}

static const capture_call calls[] = {
    {"StreamGetId", true, false, get_id},
    {"StreamGetCtx", true, false, get_context},
    {"StreamGetCaptureInfo", true, false, get_capture_info},
    {"StreamQuery", true, false, query_stream},
    {"StreamWaitEvent", true, false, wait_event},
    {"EventRecord", true, false, record_event},
    {"EventQuery", false, false, query_event},
    {"EventCreate", false, false, create_event},
    {"MemAddressReserve", false, false, reserve},
    {"MemCreate", false, false, create},
    {"MemMap", false, false, map},
    {"MemSetAccess", false, true, set_access},
    {"MemUnmap", false, true, unmap},
    {"MemRelease", false, false, release},
    {"MemAlloc", false, false, plain_alloc},
    {"MemGetInfo", false, false, get_memory_info},
    {"CtxSynchronize", false, false, synchronize_context},
    {"CtxRecordEvent", false, false, record_context},
};

const capture_call *capture_calls(size_t *count)
{
    *count = sizeof(calls) / sizeof(calls[0]);
    return calls;
}

static mend_status open_events(const probe *p, capture_setting *s)
{
    const mend_driver *driver = p->driver;
    mend_status status = driver->event_create(driver, &s->recorded);
    if (status == MEND_DRIVER_OK) {
        status = driver->event_create(driver, &s->fresh);
    }
    if (status == MEND_DRIVER_OK) {
        status = driver->event_record(driver, s->recorded, s->other);
    }
    return status == MEND_DRIVER_OK ? driver->event_synchronize(driver, s->recorded) : status;
}

static mend_status open_memory(const probe *p, capture_setting *s, bool maps)
{
    const mend_driver *driver = p->driver;
    const mend_chunk_properties properties = {0};
    mend_chunk_handle chunk = 0;
    mend_status status = driver->reserve(driver, p->page_bytes, 0, 0, &s->address);
    if (status == MEND_DRIVER_OK) {
        status = driver->create(driver, p->page_bytes, &properties, &chunk);
        s->chunk = chunk;
    }
    if (status == MEND_DRIVER_OK && maps) {
        status = map(p, s);
    }
    return status;
}

mend_status capture_setting_open(const probe *p, capture_setting *setting, const capture_call *call,
                                 capture_target target, bool captures_blocking)
{
    *setting = (capture_setting){0};
    mend_status status = p->program.stream_create(
        &setting->captured, captures_blocking ? 0 : MEND_CU_STREAM_NON_BLOCKING);
    if (status == MEND_DRIVER_OK) {
        status = p->driver->stream_create(p->driver, &setting->other);
    }
    if (status == MEND_DRIVER_OK) {
        status = open_events(p, setting);
    }
    if (status == MEND_DRIVER_OK) {
        status = open_memory(p, setting, call->needs_mapping);
    }
    setting->target = target == TARGET_CAPTURED ? setting->captured
                      : target == TARGET_OTHER  ? setting->other
                                                : MEND_STREAM_LEGACY;
    return status;
}

void capture_setting_close(const probe *p, capture_setting *s)
{
    const mend_driver *driver = p->driver;
    if (s->mapped) {
        driver->unmap(driver, s->address, p->page_bytes);
    }
    if (s->chunk != 0) {
        driver->release(driver, s->chunk);
    }
    if (s->address != 0) {
        driver->address_free(driver, s->address, p->page_bytes);
    }
    if (s->made_what == MADE_ADDRESSES) {
        driver->address_free(driver, s->made, p->page_bytes);
    } else if (s->made_what == MADE_CHUNK) {
        driver->release(driver, s->made);
    } else if (s->made_what == MADE_MEMORY) {
        driver->plain_free(driver, s->made);
    }
    if (s->recorded != NULL) {
        driver->event_destroy(driver, s->recorded);
    }
    if (s->fresh != NULL) {
        driver->event_destroy(driver, s->fresh);
    }
    if (s->other != NULL) {
        driver->stream_destroy(driver, s->other);
    }
    if (s->captured != NULL) {
        driver->stream_destroy(driver, s->captured);
    }
}
