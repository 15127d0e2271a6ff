/* A pool's share of a limit: its wants, as others see them, and the length of its waits. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "quota/quota.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"
#include "tests/support/patience.h"

/* One with 900 of 1000 bytes, which it may release, and one that waits for 300 in another
 * thread. */
typedef struct scene {
    char path[64];
    mend_world w;
    mend_quota giver;
    mend_quota waiter;
    bool has_room;
    atomic_bool is_over;
} scene;

static bool open_scene(scene *s)
{
    *s = (scene){.has_room = false};
    snprintf(s->path, sizeof(s->path), "/tmp/mend-quota-%ld", (long)getpid());
    unlink(s->path);
    if (!kit_open_default(&s->w)) {
        return false;
    }
    EXPECT_OK(mend_quota_open(&s->giver, s->w.driver, 0, s->path, 1000));
    EXPECT_OK(mend_quota_open(&s->waiter, s->w.driver, 0, s->path, 1000));
    EXPECT_TRUE(mend_shared_limit_file_claim(&s->giver.slot, 900));
    s->giver.others.offer(&s->giver.others, 0, true, 0); /* as a background thread at first */
    return !mend_test_has_failed();
}

static void close_giver(scene *s)
{
    mend_quota_close(&s->giver);
    unlink(s->path);
    kit_close(&s->w);
}

/* After the end of a wait, no process releases memory for it any more. */
static void close_scene(scene *s)
{
    uint64_t newest;
    EXPECT_U64_EQ(0, mend_shared_limit_file_wanted_by_others(&s->giver.slot, &newest));
    mend_quota_close(&s->waiter);
    close_giver(s);
}

static void *wait_for_room(void *argument)
{
    scene *s = argument;
    s->has_room = s->waiter.others.wait(&s->waiter.others, 300);
    atomic_store(&s->is_over, true);
    return NULL;
}

/* The giver hears of the wait. The waiter holds its lock until it sleeps, so it has looked when the
 * lock is free. */
static void wait_and_give(scene *r, uint64_t most_bytes)
{
    pthread_t thread;
    const mend_wants before = r->giver.others.ask(&r->giver.others);
    mend_wants wants = before;
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, wait_for_room, r));
    while (wants.newest == before.newest && !atomic_load(&r->is_over)) {
        wants = r->giver.others.ask(&r->giver.others);
        sched_yield();
    }
    mend_mutex_lock(&r->waiter.mutex);
    mend_shared_limit_file_give(&r->giver.slot, mend_min_u64(wants.bytes, most_bytes));
    mend_shared_limit_file_offer(&r->giver.slot, 0, true, wants.newest);
    mend_mutex_unlock(&r->waiter.mutex);
    pthread_join(thread, NULL);
}

#define QUOTA_TEST(suite, name) KIT_BARE_TEST(suite, name, scene, open_scene(r), close_scene(r))

/* With some of it, the request is tried again. What comes late is not waited for. */
KIT_RIG_EACH(share_quota, a_request_waits_for_what_others_give, int, i, 3, scene, r, open_scene(r),
             close_scene(r))
{
    mend_test_let_patience_end(i == 2);
    wait_and_give(r, i == 1 ? 50 : UINT64_MAX);
    mend_test_let_patience_end(false);
    EXPECT_INT_EQ(i < 2, r->has_room);
}

/* One thread waits for 300 bytes. Another has got its bytes. */
KIT_BARE_TEST(share_quota, others_hear_of_all_threads_that_wait, scene, open_scene(r),
              (mend_quota_close(&r->waiter), close_giver(r)))
{
    uint64_t newest;
    r->waiter.wanted_bytes = 300;
    EXPECT_TRUE(r->waiter.others.wait(&r->waiter.others, 50));
    EXPECT_U64_EQ(200, mend_shared_limit_file_wanted_by_others(&r->giver.slot, &newest));
}

/* However often a creation is refused, its pool has no more memory of the host. */
QUOTA_TEST(share_quota, refused_claims_leave_nothing)
{
    const mend_driver *driver = &r->waiter.pass.table;
    const mend_chunk_properties properties = {0};
    mend_chunk_handle handle;
    uint64_t address;
    const int64_t before = mend_test_live_host_allocations();
    for (int i = 0; i < 3; i++) {
        EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, driver->create(driver, 101, &properties, &handle));
        EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, driver->plain_alloc(driver, 101, &address));
    }
    EXPECT_U64_EQ(0, r->waiter.sizes.promised_count + r->waiter.plain_sizes.promised_count);
    mend_quota_close(&r->waiter);
    EXPECT_INT_EQ(before, mend_test_live_host_allocations());
    EXPECT_OK(mend_quota_open(&r->waiter, r->w.driver, 0, r->path, 1000));
}

/* The device misses more than others wait for, or less. */
QUOTA_TEST(share_quota, the_larger_lack_is_wanted)
{
    const mend_driver *driver = r->w.driver;
    r->giver.others.min_free_bytes = 64 * MEND_MIB;
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_push(driver, r->w.info.context));
    mend_sim_set_foreign_bytes(r->w.sim, 0, 10 * MEND_MIB);
    EXPECT_U64_EQ(10 * MEND_MIB, r->giver.others.ask(&r->giver.others).bytes);
    mend_sim_set_foreign_bytes(r->w.sim, 0, 100);
    EXPECT_U64_EQ(100, r->giver.others.ask(&r->giver.others).bytes);
    mend_shared_limit_file_want(&r->waiter.slot, 300);
    EXPECT_U64_EQ(200, r->giver.others.ask(&r->giver.others).bytes);
    kit_fail(&r->w, "memory_info", 0, 1, MEND_DRIVER_UNKNOWN); /* none is known */
    EXPECT_U64_EQ(200, r->giver.others.ask(&r->giver.others).bytes);
    mend_shared_limit_file_want(&r->waiter.slot, 0);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_pop(driver));
}

QUOTA_TEST(share_quota, memory_of_the_driver_is_claimed_while_it_lives)
{
    const mend_chunk_properties properties = {0};
    mend_chunk_handle handle;
    uint64_t address = 0;
    const mend_driver *driver = &r->waiter.pass.table;
    const uint64_t *claimed_bytes = &r->waiter.slot.own.claimed_bytes;
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_push(driver, r->w.info.context));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->plain_alloc(driver, 100, &address));
    kit_fail(&r->w, "plain_free", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_INT_EQ(MEND_DRIVER_UNKNOWN, driver->plain_free(driver, address));
    EXPECT_U64_EQ(100, *claimed_bytes);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->plain_free(driver, address));
    EXPECT_U64_EQ(0, *claimed_bytes);
    kit_fail(&r->w, "plain_alloc", 0, 1, MEND_DRIVER_OUT_OF_MEMORY);
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, driver->plain_alloc(driver, 100, &address));
    EXPECT_U64_EQ(0, *claimed_bytes);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->async_alloc(driver, 100, r->w.streams[0], &address));
    EXPECT_U64_EQ(100, *claimed_bytes);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->async_free(driver, address, r->w.streams[0]));
    EXPECT_U64_EQ(0, *claimed_bytes);
    r->waiter.others.min_free_bytes = r->w.sim_config.memory_bytes - 50;
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, driver->plain_alloc(driver, 100, &address));
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, driver->create(driver, 100, &properties, &handle));
    kit_fail(&r->w, "memory_info", 0, 2, MEND_DRIVER_UNKNOWN); /* so the driver decides */
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->plain_alloc(driver, 100, &address));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->plain_free(driver, address));
    r->waiter.others.min_free_bytes = 0;
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_pop(driver));
}

/* The least of both: 100 bytes of the limit are left, and all or none of the device. */
QUOTA_TEST(share_quota, what_is_free_is_free_of_the_device_and_of_the_limit)
{
    const mend_driver *driver = r->waiter.others.driver;
    const uint64_t memory_bytes = r->w.sim_config.memory_bytes;
    r->waiter.others.min_free_bytes = 1;
    for (int is_full = 0; is_full < 2; is_full++) {
        uint64_t free_bytes = 77;
        uint64_t total_bytes = 0;
        mend_sim_set_foreign_bytes(r->w.sim, 0, is_full ? memory_bytes : 0);
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_push(driver, r->w.info.context));
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->memory_info(driver, &free_bytes, &total_bytes));
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_pop(driver));
        EXPECT_U64_EQ(is_full ? 0 : 100, free_bytes);
    }
    mend_sim_set_foreign_bytes(r->w.sim, 0, 0);
}
