/* Waits of memory: stamps are added, merged and dropped, and never lost. */
#include "memory/waits.h"

#include <string.h>

#include "tests/support/kit.h"
#include "tests/support/test.h"

enum { STREAMS = 4, OPEN_EPOCH = 10 };

typedef struct rig {
    mend_stream_state states[STREAMS];
    mend_streams streams;
    mend_slab nodes;
    mend_wait_env env;
} rig;

static bool open_rig(rig *r)
{
    memset(r, 0, sizeof(*r));
    for (int i = 0; i < STREAMS; i++) {
        r->states[i] = (mend_stream_state){.known = true, .open = true, .open_epoch = OPEN_EPOCH};
    }
    r->streams = (mend_streams){
        .items = r->states, .count = STREAMS, .capacity = STREAMS, .may_be_several = true};
    mend_slab_init(&r->nodes, sizeof(mend_wait));
    EXPECT_TRUE(mend_slab_reserve(&r->nodes, 32));
    r->env = (mend_wait_env){&r->streams, &r->nodes};
    return true;
}

static void close_rig(rig *r)
{
    EXPECT_U64_EQ(0, r->nodes.used_count);
    mend_slab_clear(&r->nodes);
}

#define WAITS_TEST(suite, name) KIT_CASE(suite, name, rig, r, open_rig(r), close_rig(r))

WAITS_TEST(physical_waits, keep_the_later_stamp_of_each_stream)
{
    mend_waits waits = {0};
    static const mend_stamp stamps[] = {{5, 1}, {7, 2}, {3, 1}, {9, 2}, {6, 1}, {8, 2}};
    for (size_t i = 0; i < sizeof(stamps) / sizeof(stamps[0]); i++) {
        mend_waits_add(r->env, &waits, stamps[i]);
    }
    EXPECT_U64_EQ(1, r->nodes.used_count);
    r->states[1].passed_epoch = 5;
    r->states[2].passed_epoch = 8;
    EXPECT_FALSE(mend_waits_drop_passed(r->env, &waits));
    r->states[1].passed_epoch = 6; /* the first stamp goes, the other takes its place */
    EXPECT_FALSE(mend_waits_drop_passed(r->env, &waits));
    EXPECT_U64_EQ(0, r->nodes.used_count);
    EXPECT_FALSE(mend_waits_are_ready(r->env.streams, &waits, 1, 0));
    EXPECT_TRUE(mend_waits_are_ready(r->env.streams, &waits, 2, 0));
    r->states[2].passed_epoch = 9;
    EXPECT_TRUE(mend_waits_drop_passed(r->env, &waits));
    EXPECT_TRUE(mend_waits_are_ready(r->env.streams, &waits, MEND_STREAM_UNKNOWN, 0));
}

WAITS_TEST(physical_waits, every_stamp_must_be_ready)
{
    mend_waits waits = {0};
    mend_waits_add(r->env, &waits, (mend_stamp){5, 1});
    mend_waits_add(r->env, &waits, (mend_stamp){OPEN_EPOCH, 2});
    EXPECT_FALSE(mend_waits_are_ready(r->env.streams, &waits, 1, 0));
    EXPECT_FALSE(mend_waits_are_ready(r->env.streams, &waits, 2, 0));
    /* An epoch with a fence can be waited for, an open one has none yet. */
    static mend_fence first_fence = {.epoch = 6};
    r->states[1].fences = &first_fence;
    r->states[1].fence_count = 1;
    EXPECT_TRUE(mend_waits_are_ready(r->env.streams, &waits, 2, MEND_ANY_FENCE));
    EXPECT_FALSE(mend_waits_are_ready(r->env.streams, &waits, 3, MEND_ANY_FENCE));
    static mend_fence second_fence = {.epoch = OPEN_EPOCH};
    r->states[2].fences = &second_fence;
    r->states[2].fence_count = 1;
    EXPECT_TRUE(mend_waits_are_ready(r->env.streams, &waits, 3, MEND_ANY_FENCE));
    mend_waits_add(r->env, &waits, (mend_stamp){1, MEND_STREAM_UNKNOWN});
    EXPECT_FALSE(mend_waits_are_ready(r->env.streams, &waits, 3, MEND_ANY_FENCE));
    mend_waits_clear(r->env, &waits);
}
