#include "tests/support/host_memory.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "driver/forward.h"

typedef struct watch {
    bool on;
    bool is_traced;
    uint64_t ways;
    uint64_t successes;
    uint64_t failures;
    uint64_t failed;
    uint64_t watched;
} watch;

static _Thread_local watch current;
static atomic_llong live; /* of all threads */

void mend_test_fail_host_memory_after(uint64_t successes, uint64_t failures)
{
    current.successes = successes;
    current.failures = failures;
    current.failed = 0;
    current.watched = 0;
    current.ways = 0;
}

void mend_test_heal_host_memory(void)
{
    current.failures = 0;
}

uint64_t mend_test_failed_host_allocations(void)
{
    return current.failed;
}

uint64_t mend_test_watched_host_allocations(void)
{
    return current.watched;
}

int64_t mend_test_live_host_allocations(void)
{
    return atomic_load(&live);
}

/* The addresses of all callers. Its caller allocates, the first time. */
static void trace(void)
{
    enum { DEEPEST = 64 };
    void *callers[DEEPEST];
    const int depth = backtrace(callers, DEEPEST);
    for (int i = 0; i < depth; i++) {
        current.ways = (current.ways ^ (uintptr_t)callers[i]) * 0x9e3779b97f4a7c15U;
        current.ways ^= current.ways >> 29;
    }
}

void mend_test_trace_host_memory(bool on)
{
    current.is_traced = on;
}

uint64_t mend_test_ways_to_host_memory(void)
{
    return current.ways;
}

void mend_test_watch_host_memory(bool on)
{
    current.on = on;
}

static bool fails(void)
{
    current.watched += current.on;
    if (current.on && current.is_traced) {
        current.on = false;
        trace();
        current.on = true;
    }
    if (!current.on || current.failures == 0) {
        return false;
    }
    if (current.successes > 0) {
        current.successes--;
        return false;
    }
    current.failures--;
    current.failed++;
    return true;
}

/* The linker's names for the functions that --wrap put these in front of. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *pointer);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *pointer);

static void *counted(void *made)
{
    atomic_fetch_add(&live, made != NULL);
    return made;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (fails()) {
        return NULL;
    }
    return old != NULL ? __real_realloc(old, size) : counted(__real_malloc(size));
}

void __wrap_free(void *pointer)
{
    atomic_fetch_sub(&live, pointer != NULL);
    __real_free(pointer);
}

#define X(member, name, bytes, parameters, arguments)                                              \
    static mend_status unwatched_##member parameters                                               \
    {                                                                                              \
        const mend_driver *inner = ((const mend_unwatched_driver *)driver->state)->inner;          \
        bool was_on = current.on;                                                                  \
        current.on = false;                                                                        \
        mend_status status = inner->member arguments;                                              \
        current.on = was_on;                                                                       \
        return status;                                                                             \
    }
MEND_DRIVER_CALLS(X)
#undef X

static uint64_t unwatched_clock_ns(const mend_driver *driver)
{
    const mend_driver *inner = ((const mend_unwatched_driver *)driver->state)->inner;
    return inner->clock_ns(inner);
}

static void unwatched_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const mend_driver *inner = ((const mend_unwatched_driver *)driver->state)->inner;
    inner->pause(inner, duration_ns);
}

static const char *unwatched_status_name(const mend_driver *driver, mend_status status)
{
    const mend_driver *inner = ((const mend_unwatched_driver *)driver->state)->inner;
    return inner->status_name(inner, status);
}

void mend_unwatched_driver_init(mend_unwatched_driver *driver, const mend_driver *inner)
{
    *driver = (mend_unwatched_driver){
        .table =
            {
#define X(member, name, bytes, parameters, arguments) .member = unwatched_##member,
                MEND_DRIVER_CALLS(X)
#undef X
                    .clock_ns = unwatched_clock_ns,
                .pause = unwatched_pause,
                .status_name = unwatched_status_name,
                .name = inner->name,
                .state = driver,
            },
        .inner = inner,
    };
}
