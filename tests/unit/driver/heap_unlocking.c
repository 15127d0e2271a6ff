/*
 * The heap's way to the driver: every call of the table reaches the inner one and its answer comes
 * back, the calls that may take long let go of the lock meanwhile, and the first status by which
 * the context is lost is remembered.
 */
#include "driver/unlocking.h"

#include <string.h>

#include "driver/forward.h"
#include "tests/support/test.h"

/* An inner driver that answers what the test says, and notes each call and whether the lock was
 * free then. */
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

/* The arguments belong to the inner call; here they only need to be used. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
/* NOLINTBEGIN(misc-unused-parameters) */
#define X(member, call_bytes, parameters, arguments)                                               \
    static mend_status note_##member parameters                                                    \
    {                                                                                              \
        return note(driver, MEND_CALL_##member);                                                   \
    }
MEND_DRIVER_SIGNATURES(X)
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

static void recorder_init(recorder *r)
{
    memset(r, 0, sizeof(*r));
    r->table = (mend_driver){
        .state = r,
        .name = "recorder",
#define X(member, call_bytes, parameters, arguments) .member = note_##member,
        MEND_DRIVER_SIGNATURES(X)
#undef X
            .clock_ns = note_clock_ns,
        .pause = note_pause,
        .status_name = note_status_name,
    };
    mend_mutex_init(&r->lock, MEND_RANK_POOL);
    mend_unlocking_init(&r->unlocking, &r->table, &r->lock);
}

/* Each member, called with zeros through the decorator, the lock being held. */
#define EXPECT_PASSED(long_call, member, ...)                                                      \
    do {                                                                                           \
        int mend_calls = r.calls;                                                                  \
        EXPECT_INT_EQ(r.answer, door->member(door, ##__VA_ARGS__));                                \
        EXPECT_INT_EQ(mend_calls + 1, r.calls);                                                    \
        EXPECT_INT_EQ(MEND_CALL_##member, r.last_call);                                            \
        EXPECT_INT_EQ(long_call, r.lock_was_free);                                                 \
    } while (0)

MEND_TEST(heap_unlocking, long_calls_let_go_of_the_lock_and_others_keep_it)
{
    recorder r;
    recorder_init(&r);
    const mend_driver *door = &r.unlocking.table;
    r.answer = MEND_DRIVER_NOT_READY;
    mend_mutex_lock(&r.lock);
    EXPECT_PASSED(true, memory_info, NULL, NULL);
    EXPECT_PASSED(true, context_synchronize);
    EXPECT_PASSED(true, event_synchronize, NULL);
    EXPECT_PASSED(true, stream_synchronize, NULL);
    EXPECT_PASSED(true, host_alloc, 0, NULL);
    EXPECT_PASSED(true, host_free, NULL);
    EXPECT_PASSED(true, reserve, 0, 0, 0, NULL);
    EXPECT_PASSED(true, address_free, 0, 0);
    EXPECT_PASSED(true, create, 0, NULL, NULL);
    EXPECT_PASSED(true, release, 0);
    EXPECT_PASSED(true, map, 0, 0, 0, 0);
    EXPECT_PASSED(true, unmap, 0, 0);
    EXPECT_PASSED(true, set_access, 0, 0, NULL, 0, MEND_ACCESS_READ);

    EXPECT_PASSED(false, device_count, NULL);
    EXPECT_PASSED(false, device_open, 0, NULL);
    EXPECT_PASSED(false, device_close, 0);
    EXPECT_PASSED(false, context_push, NULL);
    EXPECT_PASSED(false, context_pop);
    EXPECT_PASSED(false, context_device, NULL);
    EXPECT_PASSED(false, exchange_capture_mode, NULL);
    EXPECT_PASSED(false, export_handle, 0, 0, NULL);
    EXPECT_PASSED(false, import_handle, NULL, 0, NULL);
    EXPECT_PASSED(false, plain_alloc, 0, NULL);
    EXPECT_PASSED(false, plain_free, 0);
    EXPECT_PASSED(false, async_alloc, 0, NULL, NULL);
    EXPECT_PASSED(false, async_free, 0, NULL);
    EXPECT_PASSED(false, copy, 0, 0, 0, NULL);
    EXPECT_PASSED(false, fill, 0, 0, 0, NULL);
    EXPECT_PASSED(false, launch, NULL, NULL);
    EXPECT_PASSED(false, stream_create, NULL);
    EXPECT_PASSED(false, stream_destroy, NULL);
    EXPECT_PASSED(false, stream_query, NULL);
    EXPECT_PASSED(true, stream_wait, NULL, NULL);
    EXPECT_PASSED(false, stream_get_info, NULL, NULL);
    EXPECT_PASSED(false, stream_get_capture, NULL, NULL);
    EXPECT_PASSED(false, capture_keep, NULL, NULL, NULL);
    EXPECT_PASSED(false, event_create, NULL);
    EXPECT_PASSED(true, event_record, NULL, NULL);
    EXPECT_PASSED(false, event_query, NULL);
    EXPECT_PASSED(false, event_destroy, NULL);
    mend_mutex_unlock(&r.lock);
    EXPECT_INT_EQ(MEND_DRIVER_CALL_COUNT, r.calls);
    mend_mutex_destroy(&r.lock);
}

MEND_TEST(heap_unlocking, the_first_loss_is_remembered_and_names_pass_through)
{
    recorder r;
    recorder_init(&r);
    const mend_driver *door = &r.unlocking.table;
    EXPECT_STR_EQ("recorder", door->name);
    EXPECT_U64_EQ(41, door->clock_ns(door));
    mend_mutex_lock(&r.lock);
    r.answer = MEND_DRIVER_OUT_OF_MEMORY;
    EXPECT_PASSED(true, unmap, 0, 0);
    EXPECT_INT_EQ(MEND_DRIVER_OK, r.unlocking.lost);
    EXPECT_STR_EQ("the answer", door->status_name(door, MEND_DRIVER_OUT_OF_MEMORY));
    r.answer = MEND_DRIVER_ILLEGAL_ADDRESS;
    EXPECT_PASSED(false, event_query, NULL);
    r.answer = MEND_DRIVER_DEINITIALIZED;
    EXPECT_PASSED(true, unmap, 0, 0);
    mend_mutex_unlock(&r.lock);
    EXPECT_INT_EQ(MEND_DRIVER_ILLEGAL_ADDRESS, r.unlocking.lost);
    mend_mutex_destroy(&r.lock);
}

MEND_TEST(heap_unlocking, a_pause_lets_go_of_the_lock)
{
    recorder r;
    recorder_init(&r);
    const mend_driver *door = &r.unlocking.table;
    mend_mutex_lock(&r.lock);
    door->pause(door, 7);
    EXPECT_FALSE(mend_mutex_try_lock(&r.lock)); /* held again */
    mend_mutex_unlock(&r.lock);
    EXPECT_TRUE(r.lock_was_free);
    EXPECT_U64_EQ(7, r.paused_ns);
    mend_mutex_destroy(&r.lock);
}
