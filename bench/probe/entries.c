/*
 * The driver's entry points: whether cuGetProcAddress returns the functions that programs link to.
 * And cuCtxRecordEvent, an event for all work of a context: its cost, its waits, and its behavior
 * beside a full queue. Its place beside captures is in the capture matrix.
 */
#include <dlfcn.h>
#include <string.h>

#include "probe/questions.h"
#include "probe/range.h"

/* ---- pointers -------------------------------------------------------------------------------- */

/* X(name, version, suffix, parameters) as in cuda_abi.h. */
static void probe_pointers(probe *p)
{
    static const struct {
        const char *name;
        const char *symbol;
        size_t offset;
    } known[] = {
#define X(name, version, suffix, parameters)                                                       \
    {#name, #name suffix, offsetof(mend_cu_functions, name)},
        MEND_CU_FUNCTIONS(X) MEND_CU_OPTIONAL_FUNCTIONS(X)
#undef X
    };
    const size_t count = sizeof(known) / sizeof(known[0]);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    unsigned same = 0;
    unsigned missing = 0;
    for (size_t i = 0; library != NULL && i < count; i++) {
        void *ours = NULL;
        void *linked = dlsym(library, known[i].symbol);
        memcpy(&ours, (const char *)p->raw + known[i].offset, sizeof(ours));
        same += ours == linked ? 1 : 0;
        missing += ours == NULL ? 1 : 0;
        if (ours != linked || ours == NULL) {
            mend_json record = probe_record(p, "pointer");
            mend_json_string(&record, "name", known[i].name);
            mend_json_bool(&record, "found", ours != NULL);
            mend_json_bool(&record, "same", ours == linked);
            probe_record_end(p, &record);
            printf("%s: %s\n", known[i].symbol,
                   ours == NULL     ? "the driver has none"
                   : linked == NULL ? "only cuGetProcAddress has it"
                                    : "another function by dlsym");
        }
    }
    mend_json record = probe_record(p, "pointers");
    mend_json_integer(&record, "asked", count);
    mend_json_integer(&record, "same", same);
    mend_json_integer(&record, "missing", missing);
    probe_record_end(p, &record);
    printf("of %zu functions %u are the same by cuGetProcAddress and dlsym, %u are missing\n",
           count, same, missing);
}

/* ---- an event for all work of a context ------------------------------------------------------ */

enum { MOST_STREAMS = 256, RECORDS = 200 };

static mend_status spin(const probe *p, mend_stream stream, uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    return p->driver->launch(p->driver, stream, &kernel);
}

static void report_cost(probe *p, const char *call, unsigned streams, bool busy,
                        probe_samples *samples, mend_status status)
{
    mend_json record = probe_record(p, "record_event");
    mend_json_string(&record, "call", call);
    mend_json_integer(&record, "streams", streams);
    mend_json_bool(&record, "busy", busy);
    mend_json_string(&record, "status", probe_name(p, status));
    probe_record_samples(&record, samples);
    probe_record_end(p, &record);
    printf("%s with %u streams, %s: median %.2f us, p99 %.2f, max %.2f (%s)\n", call, streams,
           busy ? "busy" : "idle", (double)probe_quantile_ns(samples, 50) / 1000,
           (double)probe_quantile_ns(samples, 99) / 1000,
           (double)probe_quantile_ns(samples, 100) / 1000, probe_name(p, status));
}

/* Both ways to record, with the streams idle or each with a kernel. */
static mend_status time_records(probe *p, mend_event event, const mend_stream *streams,
                                unsigned count, bool busy)
{
    static probe_samples of_context;
    static probe_samples of_stream;
    mend_status status = MEND_DRIVER_OK;
    of_context.count = 0;
    of_stream.count = 0;
    for (unsigned i = 0; busy && status == MEND_DRIVER_OK && i < count; i++) {
        status = spin(p, streams[i], 20 * UINT64_C(1000000));
    }
    for (int i = 0; status == MEND_DRIVER_OK && i < (p->quick ? 4 : RECORDS); i++) {
        uint64_t began_ns = probe_now_ns(p);
        status = p->raw->cuCtxRecordEvent(p->info.context, event);
        probe_sample(&of_context, probe_now_ns(p) - began_ns);
        began_ns = probe_now_ns(p);
        if (status == MEND_DRIVER_OK) {
            status = p->driver->event_record(p->driver, event, streams[0]);
        }
        probe_sample(&of_stream, probe_now_ns(p) - began_ns);
    }
    report_cost(p, "cuCtxRecordEvent", count, busy, &of_context, status);
    report_cost(p, "cuEventRecord", count, busy, &of_stream, status);
    mend_status waited = p->driver->context_synchronize(p->driver);
    return status != MEND_DRIVER_OK ? status : waited;
}

/* Does the event cover work on a non-blocking stream, and does another stream wait for it? */
static mend_status probe_meaning(probe *p, mend_event event, const mend_stream *streams)
{
    const mend_driver *driver = p->driver;
    const uint64_t work_ns = (p->quick ? 1 : 100) * UINT64_C(1000000);
    mend_status status = spin(p, streams[0], work_ns);
    uint64_t began_ns = probe_now_ns(p);
    if (status == MEND_DRIVER_OK) {
        status = p->raw->cuCtxRecordEvent(p->info.context, event);
    }
    uint64_t recorded_ns = probe_now_ns(p) - began_ns;
    mend_status asked = driver->event_query(driver, event);
    mend_status waits = driver->stream_wait(driver, streams[1], event);
    uint64_t returned_ns = probe_now_ns(p) - began_ns;
    mend_status waiting = driver->stream_query(driver, streams[1]);
    /* Work that is queued after the record is not part of it. */
    if (status == MEND_DRIVER_OK) {
        status = spin(p, streams[2], 3 * work_ns);
    }
    if (status == MEND_DRIVER_OK) {
        status = driver->event_synchronize(driver, event);
    }
    uint64_t passed_ns = probe_now_ns(p) - began_ns;
    mend_status later = driver->stream_query(driver, streams[2]);
    mend_json record = probe_record(p, "context_event");
    mend_json_string(&record, "status", probe_name(p, status));
    mend_json_integer(&record, "work_ns", work_ns);
    mend_json_integer(&record, "record_ns", recorded_ns);
    mend_json_string(&record, "query_at_once", probe_name(p, asked));
    mend_json_string(&record, "stream_wait", probe_name(p, waits));
    mend_json_integer(&record, "returned_ns", returned_ns);
    mend_json_string(&record, "waiting_stream", probe_name(p, waiting));
    mend_json_integer(&record, "passed_ns", passed_ns);
    mend_json_string(&record, "later_work_when_passed", probe_name(p, later));
    probe_record_end(p, &record);
    printf("an event of the context beside a kernel of %.0f ms: recorded in %.1f us, at once %s, a "
           "stream that waits %s and is %s, passed after %.1f ms, work queued later %s\n",
           (double)work_ns / 1e6, (double)recorded_ns / 1000, probe_name(p, asked),
           probe_name(p, waits), probe_name(p, waiting), (double)passed_ns / 1e6,
           probe_name(p, later));
    mend_status waited = driver->context_synchronize(driver);
    return status != MEND_DRIVER_OK ? status : waited;
}

/* 900 launches behind a kernel: does recording wait for space in queues? */
static mend_status probe_beside_queue(probe *p, mend_event event, const mend_stream *streams)
{
    const uint64_t head_ns = (p->quick ? 1 : 200) * UINT64_C(1000000);
    mend_status status = spin(p, streams[0], head_ns);
    for (int i = 0; status == MEND_DRIVER_OK && i < (p->quick ? 8 : 900); i++) {
        status = spin(p, streams[0], 0);
    }
    uint64_t began_ns = probe_now_ns(p);
    if (status == MEND_DRIVER_OK) {
        status = p->raw->cuCtxRecordEvent(p->info.context, event);
    }
    uint64_t recorded_ns = probe_now_ns(p) - began_ns;
    mend_json record = probe_record(p, "context_event_beside_queue");
    mend_json_string(&record, "status", probe_name(p, status));
    mend_json_integer(&record, "record_ns", recorded_ns);
    probe_record_end(p, &record);
    printf("an event of the context beside 900 queued launches: %.1f us (%s)\n",
           (double)recorded_ns / 1000, probe_name(p, status));
    mend_status waited = p->driver->context_synchronize(p->driver);
    return status != MEND_DRIVER_OK ? status : waited;
}

void probe_entries(probe *p)
{
    static const unsigned counts[] = {4, 32, MOST_STREAMS};
    const mend_driver *driver = p->driver;
    mend_stream streams[MOST_STREAMS] = {NULL};
    mend_event event = NULL;
    unsigned made = 0;
    probe_pointers(p);
    if (p->raw->cuCtxRecordEvent == NULL) {
        printf("the driver has no cuCtxRecordEvent\n");
        return;
    }
    mend_status status = driver->event_create(driver, &event);
    for (size_t i = 0; i < 3 && status == MEND_DRIVER_OK && !probe_is_over(p); i++) {
        while (made < counts[i] && status == MEND_DRIVER_OK) {
            status = driver->stream_create(driver, &streams[made]);
            made += status == MEND_DRIVER_OK ? 1 : 0;
        }
        for (int busy = 0; busy < 2 && status == MEND_DRIVER_OK; busy++) {
            status = time_records(p, event, streams, made, busy == 1);
        }
    }
    if (status == MEND_DRIVER_OK) {
        status = probe_meaning(p, event, streams);
    }
    if (status == MEND_DRIVER_OK) {
        status = probe_beside_queue(p, event, streams);
    }
    probe_expect(p, "an event of the context", status);
    if (event != NULL) {
        driver->event_destroy(driver, event);
    }
    while (made > 0) {
        driver->stream_destroy(driver, streams[--made]);
    }
}
