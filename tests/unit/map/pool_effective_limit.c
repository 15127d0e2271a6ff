/*
 * The effective limit: others hold a changing part of the device. The pool asks before its first
 * growth, follows the result, and finds memory that others release.
 */
#include <string.h>

#include "driver/driver.h"
#include "mend/mend_range.h"
#include "mend/mend_share.h"
#include "mend/mend_sleep.h"
#include "tests/support/kit.h"

enum { DEVICE_MIB = 16, OTHERS_MIB = 6, EFFECTIVE_LIMIT_MIB = DEVICE_MIB - OTHERS_MIB };

/* A device of 16 MiB of which others hold 6. The limit is all of it. */
typedef struct scene {
    mend_world w;
    unsigned creates;
    unsigned questions; /* cuMemGetInfo */
    uint64_t refusals;  /* of calls that failed */
} scene;

static void count(void *context, const char *call, int is_after)
{
    scene *s = context;
    s->creates += !is_after && strcmp(call, "create") == 0;
    s->questions += !is_after && strcmp(call, "memory_info") == 0;
}

static void others_hold(scene *s, uint64_t bytes)
{
    mend_sim_set_foreign_bytes(s->w.sim, 0, bytes);
}

static bool open_scene(scene *s)
{
    *s = (scene){0};
    if (!kit_open_with(&s->w, DEVICE_MIB * MEND_MIB, NULL)) {
        return false;
    }
    others_hold(s, OTHERS_MIB * MEND_MIB);
    mend_sim_set_call_observer(s->w.sim, count, s);
    return true;
}

static void close_scene(scene *s)
{
    mend_sim_set_call_observer(s->w.sim, NULL, NULL);
    kit_close(&s->w);
}

/* Allocates on the legacy stream, and counts the driver queries for that. */
static void *request(scene *s, mend_result expected, uint64_t size_bytes)
{
    void *pointer = NULL;
    const uint64_t before = mend_world_stats(&s->w).driver_failures;
    s->creates = s->questions = 0;
    EXPECT_RESULT(expected, mend_alloc(s->w.pool, size_bytes, NULL, &pointer));
    s->refusals = mend_world_stats(&s->w).driver_failures - before;
    return pointer;
}

static uint64_t effective_limit_mib(scene *s)
{
    return mend_world_stats(&s->w).effective_limit_bytes / MEND_MIB;
}

#define FRESH_TEST(suite, name) KIT_CASE(suite, name, scene, s, open_scene(s), close_scene(s))

/* 8 MiB live, and the pool knows that there are 2 more. */
FRESH_TEST(pool_effective_limit, is_asked_again_after_a_while)
{
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s));
    request(s, MEND_OK, 8 * MEND_MIB);
    EXPECT_U64_EQ(1, s->questions);
    EXPECT_U64_EQ(EFFECTIVE_LIMIT_MIB, effective_limit_mib(s));
    request(s, MEND_ERROR_OUT_OF_MEMORY, 4 * MEND_MIB);
    EXPECT_U64_EQ(0, s->creates);
    others_hold(s, 0);
    request(s, MEND_OK, MEND_MIB / 2);
    EXPECT_U64_EQ(0, s->questions); /* it goes without them */
    EXPECT_U64_EQ(EFFECTIVE_LIMIT_MIB, effective_limit_mib(s));
    for (uint64_t left = 8 * DEVICE_MIB; left > 0; left--) { /* half of the rest stays */
        void *block = request(s, MEND_OK, MEND_MIB / 2);
        kit_free(&s->w, block, NULL);
    }
    request(s, MEND_OK, MEND_MIB / 2);
    EXPECT_U64_EQ(EFFECTIVE_LIMIT_MIB, effective_limit_mib(s)); /* from a free run: no query */
    request(s, MEND_OK, MEND_MIB / 2);
    EXPECT_U64_EQ(1, s->questions);
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s));
}

/* ---- a quota that the driver enforces and does not show -------------------------------------- */

#define QUOTA_TEST(name)                                                                           \
    KIT_CASE(pool_effective_limit, name, scene, s, open_under_quota(s), close_scene(s))

static void quota(scene *s, uint64_t bytes)
{
    mend_sim_set_quota(s->w.sim, 0, bytes);
}

/* A quota of 10 MiB, of which 8 are live, and the pool has heard of it. */
static bool open_under_quota(scene *s)
{
    if (!open_scene(s)) {
        return false;
    }
    others_hold(s, 0);
    quota(s, EFFECTIVE_LIMIT_MIB * MEND_MIB);
    request(s, MEND_OK, 8 * MEND_MIB);
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s));
    request(s, MEND_ERROR_OUT_OF_MEMORY, 4 * MEND_MIB);
    return true;
}

QUOTA_TEST(a_quota_that_the_driver_hides_is_the_limit_that_was_met)
{
    mend_error error = MEND_ERROR_INIT;
    mend_available room = MEND_AVAILABLE_INIT;
    EXPECT_OK(mend_get_last_error(&error));
    EXPECT_TRUE(strstr(error.message, "set MEND_CONF=limit:10MiB") != NULL);
    EXPECT_OK(mend_get_available(s->w.pool, NULL, &room));
    EXPECT_U64_EQ(EFFECTIVE_LIMIT_MIB, effective_limit_mib(s));
    EXPECT_TRUE(room.now_bytes <= 2 * MEND_MIB);
    EXPECT_U64_EQ(DEVICE_MIB - 8, room.device_free_bytes / MEND_MIB);
    others_hold(s, 7 * MEND_MIB);
    EXPECT_OK(mend_get_available(s->w.pool, NULL, &room));
    EXPECT_U64_EQ(DEVICE_MIB - 7, effective_limit_mib(s));
}

/* Before a request fails, the driver is asked for just the missing bytes. */
QUOTA_TEST(what_a_hidden_quota_leaves_is_found)
{
    request(s, MEND_OK, 2 * MEND_MIB);
    EXPECT_U64_EQ(0, s->refusals);
    for (int i = 0; i < 2; i++) {
        request(s, MEND_ERROR_OUT_OF_MEMORY, MEND_MIB);
        EXPECT_U64_EQ(2, s->refusals); /* before the CPU stall, and after it */
    }
}

QUOTA_TEST(a_hidden_quota_that_grew_is_noticed)
{
    quota(s, 14 * MEND_MIB);
    request(s, MEND_OK, 4 * MEND_MIB);
    EXPECT_U64_EQ(0, s->refusals);
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s)); /* it gave more than it had refused */
    quota(s, 0);
    request(s, MEND_OK, 3 * MEND_MIB);
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s));
}

QUOTA_TEST(a_wake_notices_that_a_hidden_quota_grew)
{
    EXPECT_OK(mend_sleep(s->w.pool, NULL, NULL));
    request(s, MEND_OK, 4 * MEND_MIB);
    request(s, MEND_ERROR_OUT_OF_MEMORY, 7 * MEND_MIB);
    quota(s, 0);
    EXPECT_OK(mend_wake(s->w.pool, NULL, 0, NULL));
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s));
}

QUOTA_TEST(memory_that_goes_back_lifts_what_was_refused)
{
    EXPECT_OK(mend_trim(s->w.pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s));
}

/* Memory that another process had for a moment costs this request nothing, and no later one. */
QUOTA_TEST(a_refusal_for_a_moment_is_forgotten)
{
    quota(s, 0);
    EXPECT_OK(mend_trim(s->w.pool, 0, MEND_TRIM_IDLE, NULL));
    kit_fail(&s->w, "create", 0, 1, MEND_DRIVER_OUT_OF_MEMORY);
    request(s, MEND_OK, 4 * MEND_MIB);
    EXPECT_U64_EQ(1, s->refusals);
    request(s, MEND_OK, 4 * MEND_MIB);
    EXPECT_U64_EQ(0, s->refusals);
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s));
}

enum { QUOTA_BLOCKS = 400, QUOTA_REQUESTS = 3000 };

/* Blocks of up to 4 MiB that take 85 % of 256 MiB on a device of 768: the requests that fail. */
static int failures(mend_world *w)
{
    static struct {
        void *block;
        uint64_t size_bytes;
    } live[QUOTA_BLOCKS];
    uint64_t random = 1;
    uint64_t bytes = 0;
    int count = 0;
    int failed = 0;
    for (int i = 0; i < QUOTA_REQUESTS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        const uint64_t size_bytes = MEND_MIB / 8 + (random >> 33) % (4 * MEND_MIB);
        while (count == QUOTA_BLOCKS || bytes + size_bytes > 256 * MEND_MIB / 100 * 85) {
            random = random * UINT64_C(6364136223846793005) + 1;
            const int which = (int)((random >> 33) % (uint64_t)count);
            kit_free(w, live[which].block, NULL);
            bytes -= live[which].size_bytes;
            live[which] = live[--count];
        }
        live[count].size_bytes = size_bytes;
        if (mend_alloc(w->pool, size_bytes, NULL, &live[count].block) == MEND_OK) {
            bytes += live[count++].size_bytes;
        } else {
            failed++;
        }
    }
    return failed;
}

KIT_SET_TEST(pool_effective_limit, under_a_hidden_quota_what_fits_succeeds,
             (w->sim_config.memory_bytes = 768 * MEND_MIB,
              w->sim_config.content = MEND_SIM_CONTENT_NONE))
{
    mend_sim_set_quota(w->sim, 0, 256 * MEND_MIB);
    EXPECT_U64_EQ(0, failures(w));
    EXPECT_TRUE(mend_world_stats(w).driver_failures <= 40);
}

/* It is smaller than what sleeps. It goes, although the device reports enough. */
FRESH_TEST(pool_effective_limit, a_wake_that_a_hidden_quota_refuses_releases_what_is_idle)
{
    others_hold(s, 0);
    quota(s, 10 * MEND_MIB);
    mend_test_place(s->w.pool, &(mend_test_sizes){.chunk_bytes = 6 * MEND_MIB});
    kit_alloc(&s->w, 6 * MEND_MIB, NULL);
    EXPECT_OK(mend_sleep(s->w.pool, NULL, NULL));
    mend_test_place(s->w.pool, &(mend_test_sizes){.chunk_bytes = MEND_MIB});
    kit_free(&s->w, kit_alloc_with(&s->w, 5 * MEND_MIB, NULL, .in_one_chunk = 1), NULL);
    EXPECT_OK(mend_set_limit(s->w.pool, 5 * MEND_MIB));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(s->w.pool, NULL, 0, NULL));
    EXPECT_STATS(&s->w, reserved_bytes, 5 * MEND_MIB); /* in vain: it stays */
    EXPECT_OK(mend_set_limit(s->w.pool, 0));
    EXPECT_OK(mend_wake(s->w.pool, NULL, 0, NULL));
    EXPECT_STATS(&s->w, reserved_bytes, 6 * MEND_MIB, asleep_bytes, 0);
}

FRESH_TEST(pool_effective_limit, is_not_known_where_the_driver_does_not_say)
{
    kit_fail(&s->w, "memory_info", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    request(s, MEND_OK, 8 * MEND_MIB);
    request(s, MEND_ERROR_OUT_OF_MEMORY, 4 * MEND_MIB);
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s));
    mend_sim_clear_faults(s->w.sim);
}

/* Others take memory while the pool grows: it knows before the driver refuses any. */
FRESH_TEST(pool_effective_limit, is_asked_again_once_half_of_it_is_taken)
{
    others_hold(s, 0);
    request(s, MEND_OK, 6 * MEND_MIB);
    EXPECT_U64_EQ(DEVICE_MIB, effective_limit_mib(s));
    others_hold(s, OTHERS_MIB * MEND_MIB);
    request(s, MEND_OK, 3 * MEND_MIB);
    EXPECT_U64_EQ(0, s->questions);
    request(s, MEND_ERROR_OUT_OF_MEMORY, 2 * MEND_MIB);
    EXPECT_U64_EQ(EFFECTIVE_LIMIT_MIB, effective_limit_mib(s));
    EXPECT_U64_EQ(0, s->creates);
    request(s, MEND_OK, MEND_MIB);
}

FRESH_TEST(pool_effective_limit, is_asked_after_a_refusal)
{
    others_hold(s, 0);
    request(s, MEND_OK, 2 * MEND_MIB);
    others_hold(s, OTHERS_MIB * MEND_MIB);
    uint64_t refused = mend_world_stats(&s->w).driver_failures;
    request(s, MEND_ERROR_OUT_OF_MEMORY, 12 * MEND_MIB);
    EXPECT_U64_EQ(refused + 1, mend_world_stats(&s->w).driver_failures);
}
