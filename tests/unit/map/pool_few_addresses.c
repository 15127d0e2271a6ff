/* Devices with few addresses for their memory: no zone holds addresses that another needs. Random
 * programs in three times the memory: tests/sim. */
#include "mend/mend_range.h"
#include "tests/support/kit.h"

/* As a program has them that sets nothing. */
static bool open_default(mend_world *w, uint64_t memory_bytes, uint64_t address_bytes)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = memory_bytes;
    w->sim_config.address_bytes = address_bytes;
    w->sim_config.page_bytes = 2 * MEND_MIB;
    w->sim_config.content = MEND_SIM_CONTENT_NONE;
    w->pool_config = (mend_pool_config)MEND_POOL_CONFIG_INIT;
    return kit_open(w);
}

/* Whichever zone comes first, the other finds addresses, up to the last byte of the memory. A pool
 * takes four times its memory: 128 TiB are there for all pools of a process, and for others. */
static const struct {
    uint64_t memory_bytes, address_bytes;
} devices[] = {{64 * MEND_MIB, 4 * MEND_GIB},
               {64 * MEND_MIB, 192 * MEND_MIB},
               {16 * MEND_GIB, 256 * MEND_GIB},
               {16 * MEND_GIB, 128 * MEND_GIB},
               {16 * MEND_GIB, 48 * MEND_GIB},
               {24 * MEND_GIB, MEND_TIB},
               {16 * MEND_GIB, 0}};
KIT_EACH(pool_few_addresses, each_zone_has_what_it_needs, size_t, i,
         2 * sizeof(devices) / sizeof(devices[0]),
         open_default(w, devices[i / 2].memory_bytes, devices[i / 2].address_bytes))
{
    const uint64_t memory_bytes = devices[i / 2].memory_bytes;
    kit_alloc(w, i % 2 == 0 ? 1024 : 8 * MEND_MIB, NULL);
    kit_alloc(w, i % 2 == 0 ? 8 * MEND_MIB : 1024, NULL);
    if (devices[i / 2].address_bytes == 0) {
        EXPECT_STATS(w, address_bytes, 4 * memory_bytes);
    }
    kit_alloc(w, memory_bytes - mend_world_stats(w).reserved_bytes, NULL);
}

/* Blocks that were freed lie in all addresses: their idle chunks are unmapped for a range. */
KIT_SET_TEST(pool_few_addresses, a_range_finds_those_of_idle_chunks,
             w->sim_config.memory_bytes = 96 * MEND_MIB,
             w->sim_config.address_bytes = 128 * MEND_MIB)
{
    mend_range *range = NULL;
    kit_free(w, kit_alloc(w, 80 * MEND_MIB, NULL), NULL);
    EXPECT_OK(mend_range_create(w->pool, 64 * MEND_MIB, NULL, &range));
    EXPECT_OK(mend_range_commit(range, 0, 64 * MEND_MIB, NULL));
    EXPECT_TRUE(mend_world_check(w));
    for (int i = 0; i < 2; i++) { /* and those of a closed one, which was busy as it was closed */
        mend_range_info info = MEND_RANGE_INFO_INIT;
        EXPECT_OK(mend_range_get_info(range, &info));
        kit_launch(w, NULL, MEND_SIM_WORK_TOUCH, info.base, 1, 0, mend_sim_now_ns(w->sim) + 1000);
        EXPECT_OK(mend_range_destroy(range, NULL));
        mend_sim_advance(w->sim, 1000);
        EXPECT_OK(i == 0 ? mend_range_create(w->pool, 64 * MEND_MIB, NULL, &range) : MEND_OK);
        EXPECT_OK(i == 0 ? mend_range_commit(range, 0, 1, NULL) : MEND_OK);
    }
}

/* ... and for a block. Without any the request says so. */
KIT_SET_TEST(pool_few_addresses, a_block_finds_those_of_idle_chunks_or_none,
             w->sim_config.address_bytes = 32 * MEND_MIB)
{
    kit_alloc(w, 2 * MEND_MIB, NULL);
    kit_free(w, kit_alloc(w, 4096, NULL), NULL);
    EXPECT_REFUSAL(OUT_OF_ADDRESS_SPACE, "no range of addresses is left for 34603008 bytes",
                   mend_alloc(w->pool, 33 * MEND_MIB, NULL, &(void *){NULL}));
    kit_alloc(w, 30 * MEND_MIB - 128 * MEND_KIB, NULL);
}

/* A second pool of the device takes all there is, and has nothing left in it when the first one
 * needs addresses: whether it has released its memory or not. */
KIT_EACH(pool_few_addresses, a_peer_pool_gives_those_it_does_not_use, int, keeps_memory, 2,
         open_default(w, 64 * MEND_MIB, 192 * MEND_MIB))
{
    mend_pool *peer_pool = kit_pool(w);
    void *small = kit_alloc_from(peer_pool, 1024, NULL);
    EXPECT_OK(mend_free(peer_pool, kit_alloc_from(peer_pool, 8 * MEND_MIB, NULL), NULL));
    EXPECT_OK(mend_free(peer_pool, small, NULL));
    EXPECT_OK(keeps_memory ? MEND_OK : mend_trim(peer_pool, 0, MEND_TRIM_IDLE, NULL));
    kit_alloc(w, 64 * MEND_MIB, NULL);
    EXPECT_OK(mend_pool_destroy(peer_pool));
}

/* The message names remedies. */
KIT_SET_TEST(pool_few_addresses, ranges_come_before_blocks_or_reservations_are_smaller,
             w->sim_config.address_bytes = 256 * MEND_MIB)
{
    mend_range *large = NULL;
    kit_alloc(w, 8 * MEND_MIB, NULL);
    EXPECT_ERROR(OUT_OF_ADDRESS_SPACE, mend_range_create(w->pool, 300 * MEND_MIB, NULL, &large));
    kit_expect_words("create ranges before blocks, or set a smaller address_reservation_bytes");
}
