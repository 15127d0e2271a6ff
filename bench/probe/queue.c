/*
 * A stream whose queue is full: after how many launches one blocks, and whether recording an event
 * and making a stream wait block there as well, and for how long.
 */
#include "probe/questions.h"
#include "probe/range.h"

enum { MOST_LAUNCHES = 16384 };
static const uint64_t blocks_ns = 5 * UINT64_C(1000000); /* no call takes that long by itself */

/* A long kernel and `count` short ones behind it. Stops at the first that blocks, and tells how
 * many did not. */
static mend_status fill_queue(const probe *p, mend_stream stream, uint64_t head_ns, unsigned count,
                              unsigned *passed)
{
    const mend_kernel head = {.kind = MEND_KERNEL_SPIN, .duration_ns = head_ns};
    const mend_kernel nothing = {.kind = MEND_KERNEL_SPIN};
    mend_status status = p->driver->launch(p->driver, stream, &head);
    *passed = 0;
    while (status == MEND_DRIVER_OK && *passed < count) {
        uint64_t began_ns = probe_now_ns(p);
        status = p->driver->launch(p->driver, stream, &nothing);
        if (probe_now_ns(p) - began_ns > blocks_ns) {
            break;
        }
        ++*passed;
    }
    return status;
}

static mend_status time_call(const probe *p, mend_stream stream, mend_event event, bool waits,
                             uint64_t *duration_ns)
{
    uint64_t began_ns = probe_now_ns(p);
    mend_status status = waits ? p->driver->stream_wait(p->driver, stream, event)
                               : p->driver->event_record(p->driver, event, stream);
    *duration_ns = probe_now_ns(p) - began_ns;
    return status;
}

static void probe_full(probe *p, mend_stream stream, mend_stream other, unsigned depth, bool waits)
{
    const mend_driver *driver = p->driver;
    const uint64_t head_ns = UINT64_C(300000000);
    mend_event event = NULL;
    unsigned passed = 0;
    uint64_t empty_ns = 0;
    uint64_t longest_ns = 0;
    mend_status status = driver->event_create(driver, &event);
    /* A wait for an event that has passed may queue nothing: the work before this one goes on. */
    const mend_kernel before = {.kind = MEND_KERNEL_SPIN, .duration_ns = 2 * head_ns};
    if (status == MEND_DRIVER_OK && waits) {
        status = driver->launch(driver, other, &before);
    }
    if (status == MEND_DRIVER_OK) {
        status = driver->event_record(driver, event, other);
    }
    if (status == MEND_DRIVER_OK && !waits) {
        status = time_call(p, stream, event, waits, &empty_ns);
    }
    if (status == MEND_DRIVER_OK) {
        status = fill_queue(p, stream, head_ns, depth > 8 ? depth - 8 : depth, &passed);
    }
    for (int i = 0; status == MEND_DRIVER_OK && i < 16; i++) {
        uint64_t duration_ns = 0;
        status = time_call(p, stream, event, waits, &duration_ns);
        longest_ns = mend_max_u64(longest_ns, duration_ns);
    }
    driver->stream_synchronize(driver, stream);
    if (event != NULL) {
        driver->event_destroy(driver, event);
    }
    const char *what = waits ? "stream_wait" : "event_record";
    mend_json record = probe_record(p, "full_queue");
    mend_json_string(&record, "call", what);
    mend_json_integer(&record, "launches_before", passed);
    mend_json_integer(&record, "idle_ns", empty_ns);
    mend_json_integer(&record, "longest_of_16_ns", longest_ns);
    mend_json_bool(&record, "blocks", longest_ns > blocks_ns);
    probe_record_end(p, &record);
    printf("%s on a queue of %u: %s (%.1f us; on an empty one %.1f us)\n", what, passed,
           longest_ns > blocks_ns ? "blocks" : "does not block", (double)longest_ns / 1000,
           (double)empty_ns / 1000);
    probe_expect(p, what, status);
}

void probe_queue(probe *p)
{
    const mend_driver *driver = p->driver;
    mend_stream stream = NULL;
    mend_stream other = NULL;
    unsigned depth = 0;
    if (!probe_expect(p, "a stream", driver->stream_create(driver, &stream))) {
        return;
    }
    bool open = probe_expect(p, "a stream", driver->stream_create(driver, &other));
    if (open && probe_expect(p, "launches",
                             fill_queue(p, stream, UINT64_C(1000000000),
                                        p->quick ? 256 : MOST_LAUNCHES, &depth))) {
        driver->stream_synchronize(driver, stream);
        mend_json record = probe_record(p, "queue_depth");
        mend_json_integer(&record, "launches", depth);
        probe_record_end(p, &record);
        printf("%u launches behind a running kernel before one blocks\n", depth);
        probe_full(p, stream, other, depth, false);
        probe_full(p, stream, other, depth, true);
    }
    driver->stream_synchronize(driver, stream);
    driver->stream_destroy(driver, stream);
    if (other != NULL) {
        driver->stream_destroy(driver, other);
    }
}
