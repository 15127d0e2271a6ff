#include "tests/model/lying_driver.h"

#include "driver/forward.h"

/* A call about which nothing is said passes through. */
static bool is_swallowed(mend_lie lie, mend_driver_call call)
{
    switch (lie) {
    case LIE_EVENTS_HAVE_PASSED:
        return call == MEND_CALL_event_query;
    case LIE_EVENT_WAITED_FOR:
        return call == MEND_CALL_event_synchronize;
    case LIE_CONTEXT_WAITED_FOR:
        return call == MEND_CALL_context_synchronize;
    case LIE_STREAM_WAITS:
        return call == MEND_CALL_stream_wait;
    case LIE_EVENT_RECORDED:
        return call == MEND_CALL_event_record;
    default:
        return false;
    }
}

#define X(member, call_bytes, parameters, arguments)                                               \
    static mend_status lying_##member parameters                                                   \
    {                                                                                              \
        const lying_driver *self = driver->state;                                                  \
        const mend_driver *inner = self->inner;                                                    \
        return is_swallowed(self->lie, MEND_CALL_##member) ? MEND_DRIVER_OK                        \
                                                           : inner->member arguments;              \
    }
MEND_DRIVER_SIGNATURES(X)
#undef X

static mend_status info_of_one_stream(const mend_driver *driver, mend_stream stream,
                                      mend_stream_info *info)
{
    mend_status status = lying_stream_get_info(driver, stream, info);
    if (status == MEND_DRIVER_OK && stream == MEND_STREAM_PER_THREAD) {
        info->id = UINT64_MAX;
    }
    return status;
}

static uint64_t lying_clock_ns(const mend_driver *driver)
{
    const lying_driver *self = driver->state;
    return self->inner->clock_ns(self->inner);
}

static void lying_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const lying_driver *self = driver->state;
    self->inner->pause(self->inner, duration_ns);
}

static const char *lying_status_name(const mend_driver *driver, mend_status status)
{
    const lying_driver *self = driver->state;
    return self->inner->status_name(self->inner, status);
}

void lying_driver_init(lying_driver *driver, const mend_driver *inner, mend_lie lie)
{
    *driver = (lying_driver){
        .table =
            {
                .state = driver,
                .name = inner->name,
#define X(member, call_bytes, parameters, arguments) .member = lying_##member,
                MEND_DRIVER_SIGNATURES(X)
#undef X
                    .clock_ns = lying_clock_ns,
                .pause = lying_pause,
                .status_name = lying_status_name,
            },
        .inner = inner,
        .lie = lie,
    };
    if (lie == LIE_ONE_STREAM) {
        driver->table.stream_get_info = info_of_one_stream;
    }
}
