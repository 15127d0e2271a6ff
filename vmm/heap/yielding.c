#include "heap/yielding.h"

#include "driver/forward.h"

static bool may_take_long(mend_driver_call call)
{
    switch (call) {
    case MEND_CALL_memory_info:
    case MEND_CALL_context_synchronize:
    case MEND_CALL_event_synchronize:
    case MEND_CALL_reserve:
    case MEND_CALL_address_free:
    case MEND_CALL_create:
    case MEND_CALL_release:
    case MEND_CALL_map:
    case MEND_CALL_unmap:
    case MEND_CALL_set_access:
    case MEND_CALL_event_record: /* the queue of the stream may be full */
    case MEND_CALL_stream_wait:
        return true;
    default:
        return false;
    }
}

mend_status mend_yielding_remember(mend_yielding *yielding, mend_status status)
{
    if (yielding->lost == MEND_DRIVER_OK && mend_status_is_fatal(status)) {
        yielding->lost = status;
    }
    return status;
}

#define X(member, call_bytes, parameters, arguments)                                               \
    static mend_status yielding_##member parameters                                                \
    {                                                                                              \
        mend_yielding *yielding = driver->state;                                                   \
        const mend_driver *inner = yielding->inner;                                                \
        if (!may_take_long(MEND_CALL_##member)) {                                                  \
            return mend_yielding_remember(yielding, inner->member arguments);                      \
        }                                                                                          \
        mend_mutex_unlock(yielding->lock);                                                         \
        mend_status status = inner->member arguments;                                              \
        mend_mutex_lock(yielding->lock);                                                           \
        return mend_yielding_remember(yielding, status);                                           \
    }
MEND_DRIVER_SIGNATURES(X)
#undef X

static uint64_t yielding_clock_ns(const mend_driver *driver)
{
    const mend_yielding *yielding = driver->state;
    return yielding->inner->clock_ns(yielding->inner);
}

static void yielding_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const mend_yielding *yielding = driver->state;
    mend_mutex_unlock(yielding->lock);
    yielding->inner->pause(yielding->inner, duration_ns);
    mend_mutex_lock(yielding->lock);
}

static const char *yielding_status_name(const mend_driver *driver, mend_status status)
{
    const mend_yielding *yielding = driver->state;
    return yielding->inner->status_name(yielding->inner, status);
}

void mend_yielding_init(mend_yielding *yielding, const mend_driver *inner, mend_mutex *lock)
{
    *yielding = (mend_yielding){
        .table =
            {
#define X(member, call_bytes, parameters, arguments) .member = yielding_##member,
                MEND_DRIVER_SIGNATURES(X)
#undef X
                    .clock_ns = yielding_clock_ns,
                .pause = yielding_pause,
                .status_name = yielding_status_name,
                .state = yielding,
                .name = inner->name,
            },
        .inner = inner,
        .lock = lock,
    };
}
