/*
 * Decorators of the table. One begins by passing all calls on to an inner table, and then puts its
 * own functions in the place of some. The first is the heap's way to the driver: it releases a lock
 * around the calls that may take long, so that other threads go on allocating from free memory
 * meanwhile, and remembers a status after which the context is lost.
 */
#include "driver/forward.h"

#define X(member, name, bytes, parameters, arguments)                                              \
    static mend_status passed_##member parameters                                                  \
    {                                                                                              \
        const mend_passing *passing = driver->state;                                               \
        const mend_driver *inner = passing->inner;                                                 \
        return inner->member arguments;                                                            \
    }
MEND_DRIVER_CALLS(X)
#undef X

static uint64_t passed_clock_ns(const mend_driver *driver)
{
    const mend_passing *passing = driver->state;
    return passing->inner->clock_ns(passing->inner);
}

static void passed_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const mend_passing *passing = driver->state;
    passing->inner->pause(passing->inner, duration_ns);
}

static const char *passed_status_name(const mend_driver *driver, mend_status status)
{
    const mend_passing *passing = driver->state;
    return passing->inner->status_name(passing->inner, status);
}

void mend_passing_init(mend_passing *passing, const mend_driver *inner)
{
    assert(inner != NULL);
    *passing = (mend_passing){
        .table =
            {
#define X(member, name, bytes, parameters, arguments) .member = passed_##member,
                MEND_DRIVER_CALLS(X)
#undef X
                    .clock_ns = passed_clock_ns,
                .pause = passed_pause,
                .status_name = passed_status_name,
                .state = passing,
                .name = inner->name,
            },
        .inner = inner,
    };
}

/* ---- the heap's way to the driver ------------------------------------------------------------ */

static bool may_take_long(mend_driver_call call)
{
    switch (call) {
    case MEND_CALL_memory_info:
    case MEND_CALL_context_synchronize:
    case MEND_CALL_event_synchronize:
    case MEND_CALL_stream_synchronize:
    case MEND_CALL_host_alloc:
    case MEND_CALL_host_free:
    case MEND_CALL_reserve:
    case MEND_CALL_address_free:
    case MEND_CALL_create:
    case MEND_CALL_release:
    case MEND_CALL_map:
    case MEND_CALL_unmap:
    case MEND_CALL_set_access:
    case MEND_CALL_context_record:
    case MEND_CALL_event_record: /* these two may wait for space in the stream's queue */
    case MEND_CALL_stream_wait:
        return true;
    default:
        return false;
    }
}

mend_status mend_unlocking_remember(mend_unlocking *unlocking, mend_status status)
{
    assert(mend_mutex_is_held(unlocking->lock));
    if (unlocking->lost == MEND_DRIVER_OK && mend_status_is_fatal(status)) {
        unlocking->lost = status;
    }
    return status;
}

/* Returns the time, if a history wants to know how long the call takes. */
static inline uint64_t begin(mend_unlocking *unlocking, mend_driver_call call, bool lets_go)
{
    assert(mend_mutex_is_held(unlocking->lock));
    ++*mend_process_driver_depth();
    if (!lets_go) {
        return MEND_HISTORY_NO_TIME;
    }
    const uint64_t began_ns = mend_history_now_ns(unlocking->history);
    mend_mutex_unlock(unlocking->lock);
    mend_nvtx_push(mend_driver_call_name(call));
    return began_ns;
}

static inline void end(mend_unlocking *unlocking, bool lets_go, uint64_t began_ns)
{
    if (lets_go) {
        mend_nvtx_pop();
        const mend_driver *inner = unlocking->pass.inner;
        const bool is_timed = began_ns != MEND_HISTORY_NO_TIME;
        const uint64_t took_ns = is_timed ? inner->clock_ns(inner) - began_ns : 0;
        mend_mutex_lock(unlocking->lock);
        if (is_timed) {
            unlocking->history->slow_ns += took_ns;
        }
    }
    assert(*mend_process_driver_depth() > 0);
    --*mend_process_driver_depth();
}

static void unlocking_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const mend_unlocking *unlocking = driver->state;
    mend_mutex_unlock(unlocking->lock);
    mend_nvtx_push("wait");
    unlocking->pass.inner->pause(unlocking->pass.inner, duration_ns);
    mend_nvtx_pop();
    mend_mutex_lock(unlocking->lock);
}

#define X(member, name, bytes, parameters, arguments)                                              \
    static mend_status unlocking_##member parameters                                               \
    {                                                                                              \
        mend_unlocking *unlocking = driver->state;                                                 \
        const mend_driver *inner = unlocking->pass.inner;                                          \
        const bool lets_go = may_take_long(MEND_CALL_##member);                                    \
        const uint64_t began_ns = begin(unlocking, MEND_CALL_##member, lets_go);                   \
        mend_status status = inner->member arguments;                                              \
        end(unlocking, lets_go, began_ns);                                                         \
        return mend_unlocking_remember(unlocking, status);                                         \
    }
MEND_DRIVER_CALLS(X)
#undef X

void mend_unlocking_init(mend_unlocking *unlocking, const mend_driver *inner, mend_mutex *lock)
{
    assert(inner != &unlocking->pass.table);
    assert(lock != NULL);
    *unlocking = (mend_unlocking){.lock = lock};
    mend_passing_init(&unlocking->pass, inner);
#define X(member, name, bytes, parameters, arguments)                                              \
    unlocking->pass.table.member = unlocking_##member;
    MEND_DRIVER_CALLS(X)
#undef X
    unlocking->pass.table.pause = unlocking_pause;
}
