/* A decorator begins by passing all calls on to an inner table, and then puts its own functions in
 * the place of some. The heap's releases a lock around slow calls, so that other threads can
 * allocate from free memory, and remembers a status after which the context is lost. */
#include "driver/forward.h"

#define PASSED(type, member, parameters, arguments)                                                \
    static type passed_##member parameters                                                         \
    {                                                                                              \
        const mend_driver *inner = ((const mend_passing *)driver->state)->inner;                   \
        return inner->member arguments;                                                            \
    }
#define X(member, name, bytes, parameters, arguments)                                              \
    PASSED(mend_status, member, parameters, arguments)
MEND_DRIVER_CALLS(X)
#undef X
PASSED(uint64_t, clock_ns, (const mend_driver *driver), (inner))
PASSED(const char *, status_name, (const mend_driver *driver, mend_status status), (inner, status))

static void passed_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const mend_passing *passing = driver->state;
    passing->inner->pause(passing->inner, duration_ns);
}

static void passed_note_asleep(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                               const char *what)
{
    const mend_passing *passing = driver->state;
    passing->inner->note_asleep(passing->inner, address, size_bytes, what);
}

void mend_passing_init(mend_passing *passing, const mend_driver *inner)
{
    *passing = (mend_passing){
        .table =
            {
#define X(member, name, bytes, parameters, arguments) .member = passed_##member,
                MEND_DRIVER_CALLS(X)
#undef X
                    .clock_ns = passed_clock_ns,
                .pause = passed_pause,
                .note_asleep = inner->note_asleep != NULL ? passed_note_asleep : NULL,
                .status_name = passed_status_name,
                .state = passing,
                .name = inner->name,
            },
        .inner = inner,
    };
}

/* ---- the heap's way to the driver ------------------------------------------------------------ */

/* The calls that may take long: event_record and stream_wait for space in the stream's queue. */
/* clang-format off */
#define LONG(call) [MEND_CALL_##call] = true
static const bool takes_long[MEND_DRIVER_CALL_COUNT] = {
    LONG(memory_info), LONG(context_synchronize), LONG(event_synchronize), LONG(stream_synchronize),
    LONG(host_alloc), LONG(host_free), LONG(host_register), LONG(host_unregister), LONG(reserve),
    LONG(address_free), LONG(create), LONG(release), LONG(map), LONG(unmap), LONG(set_access),
    LONG(plain_alloc), LONG(plain_free), LONG(async_alloc), LONG(async_free), LONG(context_record),
    LONG(event_record), LONG(stream_wait)};
#undef LONG
/* clang-format on */

mend_status mend_unlocking_remember(mend_unlocking *unlocking, mend_answer answer)
{
    assert(mend_mutex_is_held(unlocking->lock));
    if (unlocking->lost == MEND_DRIVER_OK && mend_status_is_fatal(answer.status)) {
        unlocking->lost = answer.status;
        unlocking->lost_in = answer.call;
    }
    return answer.status;
}

/* A call on its way: the thread's depth, whether it released the lock, and when, if there is a
 * listener for the time. */
typedef struct passage {
    unsigned *depth;
    bool lets_go;
    uint64_t began_ns;
} passage;

static inline passage begin(mend_unlocking *unlocking, mend_driver_call call, const char *name)
{
    passage way = {&mend_process_driver_depth, takes_long[call], MEND_EVENTS_NO_TIME};
    assert(mend_mutex_is_held(unlocking->lock));
    ++*way.depth;
    if (way.lets_go) {
        way.began_ns = mend_events_now_ns(unlocking->events);
        mend_mutex_unlock(unlocking->lock);
        mend_profiler_push(name);
    }
    return way;
}

static inline mend_status end(mend_unlocking *unlocking, passage way, mend_answer answer)
{
    if (way.lets_go) {
        mend_profiler_pop();
        const mend_driver *inner = unlocking->pass.inner;
        const bool is_timed = way.began_ns != MEND_EVENTS_NO_TIME;
        const uint64_t took_ns = is_timed ? inner->clock_ns(inner) - way.began_ns : 0;
        mend_mutex_lock(unlocking->lock);
        if (is_timed) {
            unlocking->events->slow_ns += took_ns;
        }
    }
    assert(*way.depth > 0);
    --*way.depth;
    return answer.status == MEND_DRIVER_OK ? answer.status
                                           : mend_unlocking_remember(unlocking, answer);
}

static void unlocking_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const mend_unlocking *unlocking = driver->state;
    mend_mutex_unlock(unlocking->lock);
    mend_profiler_push("wait");
    unlocking->pass.inner->pause(unlocking->pass.inner, duration_ns);
    mend_profiler_pop();
    mend_mutex_lock(unlocking->lock);
}

#define X(member, name, bytes, parameters, arguments)                                              \
    static mend_status unlocking_##member parameters                                               \
    {                                                                                              \
        mend_unlocking *unlocking = driver->state;                                                 \
        const mend_driver *inner = unlocking->pass.inner;                                          \
        const passage way = begin(unlocking, MEND_CALL_##member, name);                            \
        return end(unlocking, way, MEND_ANSWER(member, inner->member arguments));                  \
    }
MEND_DRIVER_CALLS(X)
#undef X

const mend_driver *mend_unlocking_init(mend_unlocking *unlocking, const mend_driver *inner,
                                       mend_mutex *lock, mend_events *events)
{
    assert(inner != &unlocking->pass.table);
    assert(lock != NULL);
    *unlocking = (mend_unlocking){.lock = lock, .events = events};
    mend_passing_init(&unlocking->pass, inner);
#define X(member, name, bytes, parameters, arguments)                                              \
    unlocking->pass.table.member = unlocking_##member;
    MEND_DRIVER_CALLS(X)
#undef X
    unlocking->pass.table.pause = unlocking_pause;
    return &unlocking->pass.table;
}
