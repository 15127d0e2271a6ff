#include "tests/unit/host/host_rig.h"

bool host_rig_open_with(host_rig *r, mend_unwatched_driver *unwatched, uint64_t keep_free_bytes)
{
    *r = (host_rig){0};
    mend_world_init(&r->w);
    r->w.sim_config.memory_bytes = HOST_DEVICE;
    r->w.sim_config.host_chunk_bytes = 2 * HOST_LIMIT;
    r->w.pool_config.host_bytes = HOST_LIMIT;
    r->w.pool_config.keep_free_bytes = keep_free_bytes;
    return unwatched == NULL ? kit_open(&r->w) : kit_open_unwatched(&r->w, unwatched);
}

bool host_rig_open(host_rig *r)
{
    return host_rig_open_with(r, NULL, 0);
}

bool host_rig_fill(host_rig *r)
{
    for (int i = 0; i < HOST_BLOCKS; i++) {
        mend_set_sleep_tag(i % 2 == 0 ? 1 : 2);
        r->blocks[i] = kit_alloc_written(&r->w, HOST_BLOCK, r->w.streams[0]);
    }
    mend_set_sleep_tag(0);
    EXPECT_STATS(&r->w, reserved_bytes, HOST_DEVICE);
    return !mend_test_has_failed();
}

void host_rig_overflow(host_rig *r, uint64_t size_bytes)
{
    EXPECT_INT_EQ(0, mend_set_host_allowed(1));
    mend_set_sleep_tag(3);
    r->there = kit_alloc_written(&r->w, size_bytes, r->w.streams[0]);
    mend_set_sleep_tag(0);
    EXPECT_INT_EQ(1, mend_set_host_allowed(0));
}

bool host_rig_is_on_host(host_rig *r, const void *block)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_OK(mend_get_block_info(r->w.pool, block, &info));
    return info.is_on_host != 0;
}

int host_rig_count_on_host(host_rig *r)
{
    int count = 0;
    for (int i = 0; i < HOST_BLOCKS; i++) {
        count += r->blocks[i] != NULL && host_rig_is_on_host(r, r->blocks[i]);
    }
    return count;
}

void host_rig_close(host_rig *r)
{
    EXPECT_TRUE(mend_world_check(&r->w));
    kit_release_row(&r->w, r->blocks, HOST_BLOCKS, HOST_BLOCK, r->w.streams[0]);
    EXPECT_TRUE(mend_world_check(&r->w));
    mend_sim_advance(r->w.sim, 1000000);
    EXPECT_OK(mend_trim(r->w.pool, 0, MEND_TRIM_WAIT, NULL));
    if (r->there == NULL) {
        EXPECT_STATS(&r->w, host_bytes, 0);
        EXPECT_LEDGER(&r->w, host_chunks, 0);
    }
    kit_close(&r->w);
}
