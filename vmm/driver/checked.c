/*
 * Asks the ledger before each call and tells it after. Calls that have no rule beyond their own
 * arguments are passed on as they are.
 */
#include "driver/checked.h"

#include <stdlib.h>

#include "base/error.h"
#include "driver/checked_ledger.h"
#include "driver/forward.h"

typedef struct checked_driver {
    mend_driver table; /* its `state` is this structure */
    const mend_driver *inner;
    mend_breach_handler handler;
    void *context;
    mend_checked_books books;
} checked_driver;

static checked_driver *checked_of(const mend_driver *driver)
{
    return driver->state;
}

/* The answer to a call that does not reach the inner table. */
static mend_status refuse(checked_driver *checked, mend_driver_call call, const char *rule)
{
    if (rule == mend_checked_no_memory) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    mend_checked_count_breach(&checked->books);
    if (checked->handler != NULL) {
        checked->handler(checked->context, call, rule);
    }
    return MEND_DRIVER_INVALID_VALUE;
}

static mend_status refuse_handle(checked_driver *checked, mend_driver_call call, const char *rule)
{
    refuse(checked, call, rule);
    return MEND_DRIVER_INVALID_HANDLE;
}

/* The end of a call that gave an address, or gave one back: the record goes with the outcome. */
static mend_status entered(checked_driver *checked, mend_tree *tree, mend_checked_record *record,
                           mend_status status, const uint64_t *address)
{
    bool done = status == MEND_DRIVER_OK;
    mend_checked_enter(&checked->books, tree, record, done ? *address : 0, done);
    return status;
}

static mend_status taken(checked_driver *checked, mend_tree *tree, mend_checked_record *record,
                         mend_status status)
{
    mend_checked_taken(&checked->books, tree, record, status == MEND_DRIVER_OK);
    return status;
}

/* ---- calls without a ledger's rule ------------------------------------------------------- */

#define X(member, bytes, parameters, arguments)                                                    \
    static mend_status pass_##member parameters                                                    \
    {                                                                                              \
        const mend_driver *inner = checked_of(driver)->inner;                                      \
        return inner->member arguments;                                                            \
    }
MEND_DRIVER_SIGNATURES(X)
#undef X

static uint64_t checked_clock_ns(const mend_driver *driver)
{
    const mend_driver *inner = checked_of(driver)->inner;
    return inner->clock_ns(inner);
}

static void checked_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const mend_driver *inner = checked_of(driver)->inner;
    inner->pause(inner, duration_ns);
}

static const char *checked_status_name(const mend_driver *driver, mend_status status)
{
    const mend_driver *inner = checked_of(driver)->inner;
    return inner->status_name(inner, status);
}

/* ---- devices ----------------------------------------------------------------------------- */

static mend_status checked_device_open(const mend_driver *driver, int device,
                                       mend_device_info *info)
{
    mend_status status = pass_device_open(driver, device, info);
    if (status == MEND_DRIVER_OK) {
        mend_checked_opened(&checked_of(driver)->books, device, info);
    }
    return status;
}

static mend_status checked_device_close(const mend_driver *driver, int device)
{
    checked_driver *checked = checked_of(driver);
    const char *rule = mend_checked_close_begin(&checked->books, device);
    if (rule != NULL) {
        return refuse(checked, MEND_CALL_device_close, rule);
    }
    mend_status status = pass_device_close(driver, device);
    mend_checked_close_end(&checked->books, device, status == MEND_DRIVER_OK);
    return status;
}

static mend_status checked_exchange_capture_mode(const mend_driver *driver, mend_capture_mode *mode)
{
    if ((unsigned)*mode > (unsigned)MEND_CAPTURE_MODE_RELAXED) {
        return refuse(checked_of(driver), MEND_CALL_exchange_capture_mode,
                      "a capture mode is one of the three");
    }
    return pass_exchange_capture_mode(driver, mode);
}

/* ---- addresses and chunks ---------------------------------------------------------------- */

static mend_status checked_reserve(const mend_driver *driver, uint64_t size_bytes,
                                   uint64_t alignment_bytes, uint64_t hint, uint64_t *address)
{
    checked_driver *checked = checked_of(driver);
    mend_checked_record *record = NULL;
    const char *rule =
        mend_checked_reserve_begin(&checked->books, size_bytes, alignment_bytes, &record);
    if (rule != NULL) {
        return refuse(checked, MEND_CALL_reserve, rule);
    }
    return entered(checked, &checked->books.reservations, record,
                   pass_reserve(driver, size_bytes, alignment_bytes, hint, address), address);
}

static mend_status checked_address_free(const mend_driver *driver, uint64_t address,
                                        uint64_t size_bytes)
{
    checked_driver *checked = checked_of(driver);
    mend_checked_record *record = NULL;
    const char *rule = mend_checked_free_begin(&checked->books, address, size_bytes, &record);
    if (rule != NULL) {
        return refuse(checked, MEND_CALL_address_free, rule);
    }
    return taken(checked, &checked->books.reservations, record,
                 pass_address_free(driver, address, size_bytes));
}

static mend_status checked_create(const mend_driver *driver, uint64_t size_bytes,
                                  const mend_chunk_properties *properties,
                                  mend_chunk_handle *handle)
{
    mend_checked_books *books = &checked_of(driver)->books;
    mend_checked_chunk *chunk = NULL;
    const char *rule = mend_checked_create_begin(books, size_bytes, properties, &chunk);
    if (rule != NULL) {
        return refuse(checked_of(driver), MEND_CALL_create, rule);
    }
    mend_status status = pass_create(driver, size_bytes, properties, handle);
    bool done = status == MEND_DRIVER_OK;
    mend_checked_create_end(books, chunk, done ? *handle : 0, done);
    return status;
}

static mend_status checked_release(const mend_driver *driver, mend_chunk_handle handle)
{
    mend_checked_books *books = &checked_of(driver)->books;
    mend_checked_chunk *chunk = NULL;
    const char *rule = mend_checked_release_begin(books, handle, &chunk);
    if (rule != NULL) {
        return refuse(checked_of(driver), MEND_CALL_release, rule);
    }
    mend_status status = pass_release(driver, handle);
    mend_checked_release_end(books, chunk, status == MEND_DRIVER_OK);
    return status;
}

static mend_status checked_map(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                               uint64_t offset_bytes, mend_chunk_handle handle)
{
    mend_checked_books *books = &checked_of(driver)->books;
    mend_checked_mapping *mapping = NULL;
    const char *rule =
        mend_checked_map_begin(books, address, size_bytes, offset_bytes, handle, &mapping);
    if (rule != NULL) {
        return refuse(checked_of(driver), MEND_CALL_map, rule);
    }
    mend_status status = pass_map(driver, address, size_bytes, offset_bytes, handle);
    mend_checked_map_end(books, mapping, status == MEND_DRIVER_OK);
    return status;
}

static mend_status checked_unmap(const mend_driver *driver, uint64_t address, uint64_t size_bytes)
{
    mend_checked_books *books = &checked_of(driver)->books;
    const char *rule = mend_checked_unmap_begin(books, address, size_bytes);
    if (rule != NULL) {
        return refuse(checked_of(driver), MEND_CALL_unmap, rule);
    }
    mend_status status = pass_unmap(driver, address, size_bytes);
    mend_checked_unmap_end(books, address, size_bytes, status == MEND_DRIVER_OK);
    return status;
}

static mend_status checked_set_access(const mend_driver *driver, uint64_t address,
                                      uint64_t size_bytes, const int *devices, int device_count)
{
    mend_checked_books *books = &checked_of(driver)->books;
    const char *rule = mend_checked_access_begin(books, address, size_bytes, devices, device_count);
    if (rule != NULL) {
        return refuse(checked_of(driver), MEND_CALL_set_access, rule);
    }
    mend_status status = pass_set_access(driver, address, size_bytes, devices, device_count);
    mend_checked_access_end(books, address, size_bytes, status == MEND_DRIVER_OK);
    return status;
}

static mend_status checked_export_handle(const mend_driver *driver, mend_chunk_handle handle,
                                         int share_type, void *out)
{
    const char *rule = mend_checked_export(&checked_of(driver)->books, handle, share_type);
    return rule != NULL ? refuse(checked_of(driver), MEND_CALL_export_handle, rule)
                        : pass_export_handle(driver, handle, share_type, out);
}

static mend_status checked_import_handle(const mend_driver *driver, const void *shared,
                                         int share_type, mend_chunk_handle *handle)
{
    mend_checked_books *books = &checked_of(driver)->books;
    mend_checked_chunk *chunk = NULL;
    const char *rule = mend_checked_import_begin(books, share_type, &chunk);
    if (rule != NULL) {
        return refuse(checked_of(driver), MEND_CALL_import_handle, rule);
    }
    mend_status status = pass_import_handle(driver, shared, share_type, handle);
    bool done = status == MEND_DRIVER_OK;
    mend_checked_create_end(books, chunk, done ? *handle : 0, done);
    return status;
}

/* ---- the driver's own allocators --------------------------------------------------------- */

static const char no_stream[] = "MEND_NO_STREAM is no stream";
static const char unknown_allocation[] = "only an address the driver allocated can be freed";

static mend_status checked_plain_alloc(const mend_driver *driver, uint64_t size_bytes,
                                       uint64_t *address)
{
    checked_driver *checked = checked_of(driver);
    mend_checked_record *record = NULL;
    const char *rule = mend_checked_allocate_begin(size_bytes, &record);
    if (rule != NULL) {
        return refuse(checked, MEND_CALL_plain_alloc, rule);
    }
    return entered(checked, &checked->books.allocations, record,
                   pass_plain_alloc(driver, size_bytes, address), address);
}

static mend_status checked_plain_free(const mend_driver *driver, uint64_t address)
{
    checked_driver *checked = checked_of(driver);
    mend_tree *allocations = &checked->books.allocations;
    mend_checked_record *record = mend_checked_take(&checked->books, allocations, address);
    if (record == NULL) {
        return refuse(checked, MEND_CALL_plain_free, unknown_allocation);
    }
    return taken(checked, allocations, record, pass_plain_free(driver, address));
}

static mend_status checked_async_alloc(const mend_driver *driver, uint64_t size_bytes,
                                       mend_stream stream, uint64_t *address)
{
    checked_driver *checked = checked_of(driver);
    mend_checked_record *record = NULL;
    if (stream == MEND_NO_STREAM) {
        return refuse_handle(checked, MEND_CALL_async_alloc, no_stream);
    }
    const char *rule = mend_checked_allocate_begin(size_bytes, &record);
    if (rule != NULL) {
        return refuse(checked, MEND_CALL_async_alloc, rule);
    }
    return entered(checked, &checked->books.allocations, record,
                   pass_async_alloc(driver, size_bytes, stream, address), address);
}

static mend_status checked_async_free(const mend_driver *driver, uint64_t address,
                                      mend_stream stream)
{
    checked_driver *checked = checked_of(driver);
    mend_tree *allocations = &checked->books.allocations;
    if (stream == MEND_NO_STREAM) {
        return refuse_handle(checked, MEND_CALL_async_free, no_stream);
    }
    mend_checked_record *record = mend_checked_take(&checked->books, allocations, address);
    if (record == NULL) {
        return refuse(checked, MEND_CALL_async_free, unknown_allocation);
    }
    return taken(checked, allocations, record, pass_async_free(driver, address, stream));
}

/* ---- work and streams -------------------------------------------------------------------- */

/* OK, or the refusal of a call on a stream. */
static mend_status judge(checked_driver *checked, mend_driver_call call, mend_stream stream,
                         const char *rule)
{
    if (stream == MEND_NO_STREAM) {
        return refuse_handle(checked, call, no_stream);
    }
    return rule != NULL ? refuse(checked, call, rule) : MEND_DRIVER_OK;
}

static mend_status checked_copy(const mend_driver *driver, uint64_t destination, uint64_t source,
                                uint64_t size_bytes, mend_stream stream)
{
    checked_driver *checked = checked_of(driver);
    const char *rule = mend_checked_touch(&checked->books, destination, size_bytes);
    if (rule == NULL) {
        rule = mend_checked_touch(&checked->books, source, size_bytes);
    }
    mend_status status = judge(checked, MEND_CALL_copy, stream, rule);
    return status != MEND_DRIVER_OK ? status
                                    : pass_copy(driver, destination, source, size_bytes, stream);
}

static mend_status checked_fill(const mend_driver *driver, uint64_t address, uint8_t value,
                                uint64_t size_bytes, mend_stream stream)
{
    checked_driver *checked = checked_of(driver);
    mend_status status = judge(checked, MEND_CALL_fill, stream,
                               mend_checked_touch(&checked->books, address, size_bytes));
    return status != MEND_DRIVER_OK ? status
                                    : pass_fill(driver, address, value, size_bytes, stream);
}

static mend_status checked_launch(const mend_driver *driver, mend_stream stream,
                                  const mend_kernel *kernel)
{
    checked_driver *checked = checked_of(driver);
    mend_status status =
        judge(checked, MEND_CALL_launch, stream, mend_checked_launch(&checked->books, kernel));
    return status != MEND_DRIVER_OK ? status : pass_launch(driver, stream, kernel);
}

static mend_status checked_stream_destroy(const mend_driver *driver, mend_stream stream)
{
    checked_driver *checked = checked_of(driver);
    if (stream == NULL || stream == MEND_STREAM_LEGACY || stream == MEND_STREAM_PER_THREAD) {
        return refuse_handle(checked, MEND_CALL_stream_destroy,
                             "the driver's own streams are not destroyed");
    }
    mend_status status = judge(checked, MEND_CALL_stream_destroy, stream, NULL);
    return status != MEND_DRIVER_OK ? status : pass_stream_destroy(driver, stream);
}

static mend_status checked_stream_query(const mend_driver *driver, mend_stream stream)
{
    mend_status status = judge(checked_of(driver), MEND_CALL_stream_query, stream, NULL);
    return status != MEND_DRIVER_OK ? status : pass_stream_query(driver, stream);
}

static mend_status checked_stream_synchronize(const mend_driver *driver, mend_stream stream)
{
    mend_status status = judge(checked_of(driver), MEND_CALL_stream_synchronize, stream, NULL);
    return status != MEND_DRIVER_OK ? status : pass_stream_synchronize(driver, stream);
}

static mend_status checked_stream_get_info(const mend_driver *driver, mend_stream stream,
                                           mend_stream_info *info)
{
    mend_status status = judge(checked_of(driver), MEND_CALL_stream_get_info, stream, NULL);
    return status != MEND_DRIVER_OK ? status : pass_stream_get_info(driver, stream, info);
}

/* ---- events ------------------------------------------------------------------------------ */

static const char unknown_event[] = "an event is used between its creation and its destruction";

/* OK, or the refusal of a call on an event and a stream (any where the call has none). */
static mend_status judge_event(checked_driver *checked, mend_driver_call call, mend_event event,
                               mend_stream stream)
{
    if (!mend_checked_knows(&checked->books, &checked->books.events, (uintptr_t)event)) {
        return refuse_handle(checked, call, unknown_event);
    }
    return judge(checked, call, stream, NULL);
}

static mend_status checked_stream_wait(const mend_driver *driver, mend_stream stream,
                                       mend_event event)
{
    mend_status status = judge_event(checked_of(driver), MEND_CALL_stream_wait, event, stream);
    return status != MEND_DRIVER_OK ? status : pass_stream_wait(driver, stream, event);
}

static mend_status checked_event_record(const mend_driver *driver, mend_event event,
                                        mend_stream stream)
{
    mend_status status = judge_event(checked_of(driver), MEND_CALL_event_record, event, stream);
    return status != MEND_DRIVER_OK ? status : pass_event_record(driver, event, stream);
}

static mend_status checked_event_query(const mend_driver *driver, mend_event event)
{
    mend_status status = judge_event(checked_of(driver), MEND_CALL_event_query, event, NULL);
    return status != MEND_DRIVER_OK ? status : pass_event_query(driver, event);
}

static mend_status checked_event_synchronize(const mend_driver *driver, mend_event event)
{
    mend_status status = judge_event(checked_of(driver), MEND_CALL_event_synchronize, event, NULL);
    return status != MEND_DRIVER_OK ? status : pass_event_synchronize(driver, event);
}

static mend_status checked_event_create(const mend_driver *driver, mend_event *event)
{
    mend_checked_books *books = &checked_of(driver)->books;
    mend_checked_record *record = NULL;
    const char *rule = mend_checked_record_begin(&record);
    if (rule != NULL) {
        return refuse(checked_of(driver), MEND_CALL_event_create, rule);
    }
    mend_status status = pass_event_create(driver, event);
    bool done = status == MEND_DRIVER_OK;
    mend_checked_enter(books, &books->events, record, done ? (uintptr_t)*event : 0, done);
    return status;
}

static mend_status checked_event_destroy(const mend_driver *driver, mend_event event)
{
    checked_driver *checked = checked_of(driver);
    mend_tree *events = &checked->books.events;
    mend_checked_record *record = mend_checked_take(&checked->books, events, (uintptr_t)event);
    if (record == NULL) {
        return refuse_handle(checked, MEND_CALL_event_destroy, unknown_event);
    }
    return taken(checked, events, record, pass_event_destroy(driver, event));
}

/* ---- the table --------------------------------------------------------------------------- */

/* clang-format off */
#define CHECKED_CALLS(X)                                                                           \
    X(device_open) X(device_close) X(exchange_capture_mode) X(reserve) X(address_free) X(create)   \
    X(release) X(map) X(unmap) X(set_access) X(export_handle) X(import_handle) X(plain_alloc)      \
    X(plain_free) X(async_alloc) X(async_free) X(copy) X(fill) X(launch) X(stream_destroy)         \
    X(stream_query) X(stream_synchronize) X(stream_get_info) X(stream_wait) X(event_create)        \
    X(event_record) X(event_query) X(event_synchronize) X(event_destroy)
/* clang-format on */

static void fill_table(mend_driver *table)
{
#define X(member, bytes, parameters, arguments) table->member = pass_##member;
    MEND_DRIVER_SIGNATURES(X)
#undef X
#define X(member) table->member = checked_##member;
    CHECKED_CALLS(X)
#undef X
    table->clock_ns = checked_clock_ns;
    table->pause = checked_pause;
    table->status_name = checked_status_name;
}

mend_result mend_checked_driver_create(const mend_driver *inner, mend_breach_handler handler,
                                       void *context, mend_driver **checked)
{
    checked_driver *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no memory for a driver's ledger");
    }
    fill_table(&created->table);
    created->table.state = created;
    created->table.name = inner->name;
    created->inner = inner;
    created->handler = handler;
    created->context = context;
    mend_checked_books_init(&created->books);
    *checked = &created->table;
    return MEND_OK;
}

void mend_checked_driver_get_ledger(const mend_driver *checked, mend_checked_ledger *ledger)
{
    mend_checked_books_read(&checked_of(checked)->books, ledger);
}

void mend_checked_driver_destroy(mend_driver *checked)
{
    if (checked == NULL) {
        return;
    }
    checked_driver *self = checked_of(checked);
    mend_checked_books_clear(&self->books);
    free(self);
}
