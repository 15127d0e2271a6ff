/* A block says that a sleep dropped its contents, until a sleep keeps all of it. */
#include "tests/unit/sleep/sleep_rig.h"

static bool is_dropped(mend_world *w, const void *memory)
{
    EXPECT_TRUE(mend_world_check(w));
    return kit_info(w, memory).contents_dropped != 0;
}

SLEEP_TEST(pool_sleep_dropped, the_next_block_there_does_not)
{
    sleep_rig_sleep(r, 2, MEND_DISCARD);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_STATS(w, dropped_bytes, SLEEP_BLOCKS / 2 * SLEEP_BLOCK);
    for (int i = 1; i < SLEEP_BLOCKS; i += 2) {
        void *dropped = r->blocks[i];
        kit_free(w, dropped, NULL);
        KIT_THREAD(.sleep_tag = 2);
        r->blocks[i] = kit_alloc_written(w, SLEEP_BLOCK, NULL);
        mend_set_alloc_options(NULL, NULL);
        EXPECT_PTR_EQ(dropped, r->blocks[i]);
        EXPECT_FALSE(is_dropped(w, r->blocks[i]));
    }
}

/* A block in two chunks, of which the first is pinned at times. */
static void put(mend_world *w, int keep)
{
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .others = keep, .skip_pinned = 1),
                         NULL));
}

KIT_SETTING(small_chunks, w->placement.chunk_bytes = MEND_MIB);

KIT_TEST_IN(pool_sleep_dropped, a_part_that_was_dropped_is_enough,
            kit_open_with(w, 16 * MEND_MIB, small_chunks))
{
    char *block = kit_alloc_written(w, 2 * MEND_MIB, NULL);
    EXPECT_STATS(w, chunks, 2);
    EXPECT_OK(mend_pin(w->pool, block, 512));
    put(w, MEND_DISCARD);
    EXPECT_TRUE(is_dropped(w, block));
    EXPECT_OK(mend_unpin(w->pool, block, 512));
    put(w, MEND_BACKUP_HOST); /* the other chunk, beside the dropped one */
    EXPECT_TRUE(is_dropped(w, block));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_write(w, NULL, block, 2 * MEND_MIB);
    EXPECT_OK(mend_pin(w->pool, block, 512));
    put(w, MEND_BACKUP_HOST); /* only one of them */
    EXPECT_TRUE(is_dropped(w, block));
    EXPECT_OK(mend_unpin(w->pool, block, 512));
    put(w, MEND_BACKUP_HOST); /* the other one */
    EXPECT_TRUE(is_dropped(w, block));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    put(w, MEND_BACKUP_HOST);
    EXPECT_FALSE(is_dropped(w, block));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, block, 2 * MEND_MIB, NULL);
}
