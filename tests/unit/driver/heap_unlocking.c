/*
 * The heap's way to the driver: every call of the table reaches the inner one and its answer comes
 * back, the calls that may take long let go of the lock meanwhile, and the first status by which
 * the context is lost is remembered.
 */
#include "driver/forward.h"

#include <string.h>

#include "tests/support/kit.h"

/* An inner driver with the test's results, which notes each call and whether the lock was free
 * then. */
typedef struct recorder {
    mend_driver table;
    mend_unlocking unlocking;
    mend_mutex lock;
    mend_status answer;
    int calls;
    mend_driver_call last_call;
    bool lock_was_free;
    uint64_t paused_ns;
} recorder;

static mend_status note(const mend_driver *driver, mend_driver_call call)
{
    recorder *r = driver->state;
    r->calls++;
    r->last_call = call;
    r->lock_was_free = mend_mutex_try_lock(&r->lock);
    if (r->lock_was_free) {
        mend_mutex_unlock(&r->lock);
    }
    return r->answer;
}

/* The arguments belong to the inner call. Here they only need to be used. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
/* NOLINTBEGIN(misc-unused-parameters) */
#define X(member, name, bytes, parameters, arguments)                                              \
    static mend_status note_##member parameters                                                    \
    {                                                                                              \
        return note(driver, MEND_CALL_##member);                                                   \
    }
MEND_DRIVER_CALLS(X)
#undef X
/* NOLINTEND(misc-unused-parameters) */
#pragma GCC diagnostic pop

static uint64_t note_clock_ns(const mend_driver *driver)
{
    const recorder *r = driver->state;
    return 40 + (uint64_t)(r->calls == 0);
}

static void note_pause(const mend_driver *driver, uint64_t duration_ns)
{
    recorder *r = driver->state;
    r->paused_ns += duration_ns;
    note(driver, MEND_DRIVER_CALL_COUNT);
}

static const char *note_status_name(const mend_driver *driver, mend_status status)
{
    const recorder *r = driver->state;
    return status == r->answer ? "the answer" : "another";
}

/* The lock is held when a case begins and ends. */
static bool recorder_open(recorder *r)
{
    memset(r, 0, sizeof(*r));
    r->table = (mend_driver){
        .state = r,
        .name = "recorder",
#define X(member, name, bytes, parameters, arguments) .member = note_##member,
        MEND_DRIVER_CALLS(X)
#undef X
            .clock_ns = note_clock_ns,
        .pause = note_pause,
        .status_name = note_status_name,
    };
    mend_mutex_init(&r->lock, MEND_RANK_POOL);
    mend_unlocking_init(&r->unlocking, &r->table, &r->lock, NULL);
    mend_mutex_lock(&r->lock);
    return true;
}

static void recorder_close(recorder *r)
{
    mend_mutex_unlock(&r->lock);
    mend_mutex_destroy(&r->lock);
}

/* The members that let go of the lock, and the others, with zeros. */
/* clang-format off */
#define LONG_CALLS(X)                                                                              \
    X(memory_info, NULL, NULL) X(context_synchronize) X(event_synchronize, NULL)                   \
    X(stream_synchronize, NULL) X(host_alloc, 0, NULL) X(host_free, NULL)                          \
    X(host_register, NULL, 0) X(host_unregister, NULL)                                             \
    X(reserve, 0, 0, 0, NULL) X(address_free, 0, 0) X(create, 0, NULL, NULL) X(release, 0)         \
    X(map, 0, 0, 0, 0) X(unmap, 0, 0) X(set_access, 0, 0, NULL, 0, MEND_ACCESS_READ)               \
    X(plain_alloc, 0, NULL) X(plain_free, 0) X(async_alloc, 0, NULL, NULL) X(async_free, 0, NULL)  \
    X(stream_wait, NULL, NULL) X(event_record, NULL, NULL) X(context_record, NULL)
#define SHORT_CALLS(X)                                                                             \
    X(device_count, NULL) X(device_open, 0, NULL) X(device_close, 0) X(context_push, NULL)         \
    X(context_pop) X(context_device, NULL) X(exchange_capture_mode, NULL)                          \
    X(export_handle, 0, 0, NULL) X(import_handle, NULL, 0, NULL)                                   \
    X(copy, 0, 0, 0, NULL)   \
    X(fill, 0, 0, 0, NULL) X(launch, NULL, NULL) X(stream_create, NULL) X(stream_destroy, NULL)    \
    X(stream_query, NULL) X(stream_get_info, NULL, NULL) X(stream_get_capture, NULL, NULL)         \
    X(stream_is_behind, NULL, NULL, NULL)                                                          \
    X(capture_keep, NULL, NULL, NULL) X(event_create, NULL) X(event_query, NULL)                   \
    X(event_destroy, NULL)
/* clang-format on */

/* Each member, called through the decorator, the lock being held. */
#define EXPECT_PASSED(long_call, member, ...)                                                      \
    do {                                                                                           \
        int mend_calls = r->calls;                                                                 \
        EXPECT_INT_EQ(r->answer, door->member(door, ##__VA_ARGS__));                               \
        EXPECT_INT_EQ(mend_calls + 1, r->calls);                                                   \
        EXPECT_INT_EQ(MEND_CALL_##member, r->last_call);                                           \
        EXPECT_INT_EQ(long_call, r->lock_was_free);                                                \
    } while (0);
#define EXPECT_LONG(...)  EXPECT_PASSED(true, __VA_ARGS__)
#define EXPECT_SHORT(...) EXPECT_PASSED(false, __VA_ARGS__)

#define UNLOCKING_TEST(suite, name)                                                                \
    KIT_CASE(suite, name, recorder, r, recorder_open(r), recorder_close(r))

UNLOCKING_TEST(heap_unlocking, long_calls_let_go_of_the_lock_and_others_keep_it)
{
    const mend_driver *door = &r->unlocking.pass.table;
    r->answer = MEND_DRIVER_NOT_READY;
    LONG_CALLS(EXPECT_LONG)
    SHORT_CALLS(EXPECT_SHORT)
    EXPECT_INT_EQ(MEND_DRIVER_CALL_COUNT, r->calls);
    door->pause(door, 7);
    EXPECT_TRUE(r->lock_was_free && !mend_mutex_try_lock(&r->lock)); /* held again */
    EXPECT_U64_EQ(7, r->paused_ns);
}

UNLOCKING_TEST(heap_unlocking, the_first_loss_is_remembered_and_names_pass_through)
{
    const mend_driver *door = &r->unlocking.pass.table;
    EXPECT_STR_EQ("recorder", door->name);
    EXPECT_U64_EQ(41, door->clock_ns(door));
    r->answer = MEND_DRIVER_OUT_OF_MEMORY;
    EXPECT_LONG(unmap, 0, 0)
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->unlocking.lost);
    EXPECT_STR_EQ("the answer", door->status_name(door, MEND_DRIVER_OUT_OF_MEMORY));
    r->answer = MEND_DRIVER_ILLEGAL_ADDRESS;
    EXPECT_SHORT(event_query, NULL)
    r->answer = MEND_DRIVER_DEINITIALIZED;
    EXPECT_LONG(unmap, 0, 0)
    EXPECT_INT_EQ(MEND_DRIVER_ILLEGAL_ADDRESS, r->unlocking.lost);
}
