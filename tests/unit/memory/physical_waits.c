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

/* Earlier waits of the memory wait for no later work of their streams. */
WAITS_TEST(physical_waits, a_free_stamps_the_users_alone)
{
    mend_waits waits = {0};
    mend_waits_add(r->env, &waits, (mend_stamp){5, 1});
    mend_waits_add(r->env, &waits, (mend_stamp){7, 2});
    mend_waits_add_user(r->env, &waits, 3);
    r->states[2].is_unpassed = r->states[3].is_unpassed = true;
    mend_waits_end_uses(r->env, &waits, 0, 512, 1);
    r->states[1].passed_epoch = 5;
    r->states[2].passed_epoch = 7;
    EXPECT_FALSE(mend_waits_drop_passed(r->env, &waits));
    r->states[3].passed_epoch = OPEN_EPOCH;
    EXPECT_TRUE(mend_waits_drop_passed(r->env, &waits));
}
