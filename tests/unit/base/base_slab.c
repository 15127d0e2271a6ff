/* Objects of one size: room promised is room given, and no two objects share a byte. */
#include "base/slab.h"

#include <malloc.h>
#include <stdalign.h>
#include <string.h>

#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

enum { OBJECT_BYTES = 40, MOST = 400, STEPS = 4000 };

static bool all_bytes_are(const unsigned char *object, unsigned char value)
{
    for (size_t i = 0; i < OBJECT_BYTES; i++) {
        if (object[i] != value) {
            return false;
        }
    }
    return true;
}

#define SLAB_TEST(suite, name, object_bytes)                                                       \
    KIT_CASE(suite, name, mend_slab, slab, (mend_slab_init(slab, object_bytes), true),             \
             mend_slab_clear(slab))

SLAB_TEST(base_slab, is_unchanged_when_the_host_has_no_memory, OBJECT_BYTES)
{
    ASSERT_TRUE(mend_slab_reserve(slab, 1));
    const mend_slab before = *slab;
    mend_test_watch_host_memory(true);
    mend_test_fail_host_memory_after(0, 1);
    bool reserved = mend_slab_reserve(slab, before.free_count + 1);
    mend_test_watch_host_memory(false);
    EXPECT_FALSE(reserved);
    EXPECT_U64_EQ(1, mend_test_failed_host_allocations());
    EXPECT_TRUE(memcmp(&before, slab, sizeof(*slab)) == 0);
    EXPECT_TRUE(mend_slab_reserve(slab, before.free_count + 1));
}

MEND_TEST(base_slab, the_end_gives_its_host_memory_back)
{
    mend_slab slab;
    mend_slab_init(&slab, OBJECT_BYTES);
    const size_t before = mallinfo2().uordblks;
    ASSERT_TRUE(mend_slab_reserve(&slab, MOST));
    ASSERT_TRUE(mend_slab_reserve(&slab, 2 * MOST));
    mend_slab_clear(&slab);
    EXPECT_U64_EQ(before, mallinfo2().uordblks);
}

/* Every object is zero when taken, keeps its own pattern until it is given back, and is aligned. */
MEND_TEST(base_slab, objects_share_no_byte)
{
    mend_slab slab;
    mend_slab_init(&slab, OBJECT_BYTES);
    unsigned char *objects[MOST] = {NULL};
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        size_t i = (size_t)mend_test_random_below(&random, MOST);
        unsigned char pattern = (unsigned char)(1 + i % 255);
        if (objects[i] != NULL) {
            EXPECT_TRUE(all_bytes_are(objects[i], pattern));
            mend_slab_give(&slab, objects[i]);
            objects[i] = NULL;
            continue;
        }
        ASSERT_TRUE(mend_slab_reserve(&slab, 1));
        objects[i] = mend_slab_take(&slab);
        EXPECT_U64_EQ(0, (uintptr_t)objects[i] % alignof(max_align_t));
        EXPECT_TRUE(all_bytes_are(objects[i], 0));
        memset(objects[i], pattern, OBJECT_BYTES);
    }
    mend_slab_clear(&slab);
    EXPECT_U64_EQ(0, slab.free_count);
    EXPECT_U64_EQ(0, slab.used_count);
}

SLAB_TEST(base_slab, what_is_promised_is_left_when_others_took_theirs, 32)
{
    ASSERT_TRUE(mend_slab_promise(slab, 4));
    size_t others = slab->free_count - 2;
    ASSERT_TRUE(mend_slab_reserve(slab, others));
    for (size_t i = 0; i < others; i++) {
        mend_slab_take(slab);
    }
    EXPECT_TRUE(slab->free_count >= 4);
    mend_slab_end_promise(slab, 4);
}
