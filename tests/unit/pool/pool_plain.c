/* A device without virtual memory: the same interface over plain allocations. */
#include <string.h>

#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

#define PLAIN_TEST(suite, name, limit)                                                             \
    KIT_CASE(suite, name, mend_world, w, open_plain(w, limit), close_plain(w))

/* The pool's own sums hold, the device has the allocations that the pool knows, and no chunk. */
static void close_plain(mend_world *w)
{
    EXPECT_OK(mend_audit(w->pool));
    EXPECT_LEDGER(w, violations, 0, chunks, 0, mappings, 0, plain_allocations,
                  w->pool->heap.space.reservations_by_address.count);
    EXPECT_OK(mend_pool_destroy(w->pool));
    EXPECT_LEDGER(w, plain_allocations, 0, contexts_open, 0);
    mend_sim_destroy(w->sim);
}

static bool open_plain(mend_world *w, uint64_t limit_bytes)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = 16 * MEND_MIB;
    w->sim_config.has_no_virtual_memory = 1;
    w->sim_config.content = MEND_SIM_CONTENT_BYTES;
    w->pool_config.limit_bytes = limit_bytes;
    return mend_world_open(w);
}

PLAIN_TEST(pool_plain, the_limit_holds_for_what_the_driver_gave, 8 * MEND_MIB)
{
    void *blocks[64];
    int count = 0;
    mend_result result = MEND_OK;
    while (result == MEND_OK && count < 64) {
        result = mend_alloc(w->pool, 512 * MEND_KIB, NULL, &blocks[count]);
        count += result == MEND_OK;
    }
    EXPECT_ERROR(OUT_OF_MEMORY, result); /* not: out of addresses */
    EXPECT_TRUE(count >= 11);
    EXPECT_TRUE(mend_world_ledger(w).plain_bytes <= 8 * MEND_MIB);
    kit_free_row(w, blocks, count, NULL);
    EXPECT_OK(mend_set_limit(w->pool, 12 * MEND_MIB));
    kit_alloc(w, 11 * MEND_MIB, NULL);
}

/* What it holds is whole allocations, of which its blocks and free runs are a part. */
PLAIN_TEST(pool_plain, a_peer_pool_gives_whole_allocations, 0)
{
    mend_pool *peer = kit_pool(w);
    void *most = kit_alloc_from(peer, 10 * MEND_MIB, NULL);
    void *rest = kit_alloc_from(peer, 1500 * MEND_KIB, NULL);
    EXPECT_OK(mend_free(peer, most, NULL));
    EXPECT_OK(mend_trim(peer, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_OK(mend_free(peer, rest, NULL));
    EXPECT_LEDGER(w, plain_allocations, 1);
    kit_alloc(w, 12 * MEND_MIB, NULL);
    EXPECT_OK(mend_pool_destroy(peer));
}

/* However little is lacking: of one allocation nothing goes back before all does. */
PLAIN_TEST(pool_plain, a_peer_pool_gives_all_that_is_idle, 0)
{
    enum { PIECES = 20 };
    void *pieces[PIECES];
    mend_pool *peer = kit_pool(w);
    void *most = kit_alloc_from(peer, 10 * MEND_MIB, NULL);
    void *rest = kit_alloc_from(peer, 1500 * MEND_KIB, NULL);
    EXPECT_OK(mend_free(peer, most, NULL));
    EXPECT_OK(mend_trim(peer, 0, MEND_TRIM_IDLE, NULL));
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = kit_alloc_from(peer, 512 * MEND_KIB, NULL);
    }
    for (int i = 0; i < PIECES; i++) {
        EXPECT_OK(mend_free(peer, pieces[i], NULL));
    }
    EXPECT_OK(mend_free(peer, rest, NULL));
    EXPECT_LEDGER(w, plain_allocations, 1);
    kit_alloc(w, 4100 * MEND_KIB, NULL);
    EXPECT_OK(mend_pool_destroy(peer));
}

/* ... but of several no more than what is lacking takes. */
PLAIN_TEST(pool_plain, a_peer_pool_keeps_the_allocations_that_nobody_lacks, 0)
{
    void *blocks[3];
    mend_pool *peer = kit_pool(w);
    for (int i = 0; i < 3; i++) {
        blocks[i] = kit_alloc_from(peer, 3 * MEND_MIB, NULL);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(mend_free(peer, blocks[i], NULL));
    }
    mend_sim_set_foreign_bytes(w->sim, 0, 4 * MEND_MIB);
    kit_alloc(w, 3 * MEND_MIB, NULL);
    EXPECT_LEDGER(w, plain_allocations, 3);
    EXPECT_OK(mend_pool_destroy(peer));
}

/* ... and of those of several sizes the smallest that is enough; of one with a live block nothing,
 * and of none a part. Beside the 14 MiB of the pools a part of what a block takes is free. */
PLAIN_TEST(pool_plain, a_peer_pool_gives_whole_allocations_where_the_device_lacks_parts, 0)
{
    const uint64_t sizes[] = {3 * MEND_MIB, 1500 * MEND_KIB, 3 * MEND_MIB, 2500 * MEND_KIB,
                              1200 * MEND_KIB};
    void *blocks[5];
    mend_pool *peer = kit_pool(w);
    for (int i = 0; i < 5; i++) {
        blocks[i] = kit_alloc_from(peer, sizes[i], NULL);
    }
    for (int i = 0; i < 5; i++) {
        EXPECT_OK(i == 3 ? MEND_OK : mend_free(peer, blocks[i], NULL));
    }
    EXPECT_LEDGER(w, plain_bytes, 14 * MEND_MIB);
    mend_sim_set_foreign_bytes(w->sim, 0, 1 * MEND_MIB);
    kit_alloc(w, 1500 * MEND_KIB, NULL);
    EXPECT_LEDGER(w, plain_bytes, 14 * MEND_MIB);
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    kit_alloc(w, 3 * MEND_MIB, NULL);
    EXPECT_LEDGER(w, plain_bytes, 14 * MEND_MIB);
    EXPECT_STATS(w, peer_pool_trims, 2);
    EXPECT_OK(mend_pool_destroy(peer));
}

/* Of 16 MiB 7,104 KiB are live. */
PLAIN_TEST(pool_plain, a_hopeless_request_takes_nothing_from_a_peer_pool, 0)
{
    void *none = NULL;
    mend_pool *peer = kit_pool(w);
    kit_alloc(w, 64 * MEND_KIB, NULL);
    kit_alloc_from(peer, 7 * MEND_MIB, NULL);
    EXPECT_OK(mend_free(peer, kit_alloc_from(peer, 3 * MEND_MIB, NULL), NULL));
    EXPECT_LEDGER(w, plain_bytes, 14 * MEND_MIB);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 9 * MEND_MIB, NULL, &none));
    EXPECT_LEDGER(w, plain_bytes, 14 * MEND_MIB);
    kit_alloc(w, 5 * MEND_MIB, NULL);
    EXPECT_LEDGER(w, plain_bytes, 16 * MEND_MIB);
    EXPECT_OK(mend_pool_destroy(peer));
}

/* The limit has room for the block, but not for a further allocation. */
PLAIN_TEST(pool_plain, a_peer_pool_gives_nothing_where_the_limit_is_in_the_way, 4 * MEND_MIB)
{
    void *none = NULL;
    w->pool_config.limit_bytes = 0;
    mend_pool *peer = kit_pool(w);
    EXPECT_OK(mend_free(peer, kit_alloc_from(peer, 3 * MEND_MIB, NULL), NULL));
    kit_alloc(w, 64 * MEND_KIB, NULL);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 3 * MEND_MIB, NULL, &none));
    EXPECT_LEDGER(w, plain_bytes, 6 * MEND_MIB);
    EXPECT_OK(mend_pool_destroy(peer));
}

/* The block has its place in an allocation, but what is to stay free of the device is not. */
PLAIN_TEST(pool_plain, a_peer_pool_gives_what_is_to_stay_free, 0)
{
    EXPECT_OK(mend_free(w->pool, kit_alloc(w, 3 * MEND_MIB, NULL), NULL));
    w->pool_config.limit_bytes = 2 * MEND_MIB;
    w->pool_config.keep_free_bytes = 11 * MEND_MIB;
    mend_pool *careful = kit_pool(w);
    kit_alloc_from(careful, 64 * MEND_KIB, NULL);
    EXPECT_LEDGER(w, plain_bytes, 6 * MEND_MIB);
    kit_alloc_from(careful, MEND_MIB, NULL);
    EXPECT_LEDGER(w, plain_bytes, 2 * MEND_MIB);
    EXPECT_OK(mend_pool_destroy(careful));
}

/* What is idle of one goes back behind the work that uses the rest. */
PLAIN_TEST(pool_plain, a_peer_pool_waits_for_a_part_of_an_allocation, 0)
{
    mend_stream stream = kit_stream(w);
    mend_pool *peer = kit_pool(w);
    void *most = kit_alloc_from(peer, 10 * MEND_MIB, NULL);
    void *rest = kit_alloc_from(peer, 1500 * MEND_KIB, stream);
    kit_launch(w, stream, MEND_SIM_WORK_TOUCH, rest, 1500 * MEND_KIB, 0, 1000);
    EXPECT_OK(mend_free(peer, most, NULL));
    EXPECT_OK(mend_trim(peer, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_OK(mend_free(peer, rest, stream));
    kit_alloc(w, 13 * MEND_MIB, NULL);
    EXPECT_U64_EQ(1000, mend_sim_now_ns(w->sim));
    EXPECT_OK(mend_pool_destroy(peer));
}

/* Room for the alignment is part of the step that the driver allocates anyhow. */
PLAIN_TEST(pool_plain, aligned_blocks_take_no_more_steps, 0)
{
    for (uint64_t alignment = 512; alignment <= 256 * MEND_KIB; alignment *= 2) {
        void *none = NULL;
        void *blocks[8];
        for (int i = 0; i < 8; i++) {
            blocks[i] = kit_alloc_aligned(w, 1778111, alignment, NULL);
        }
        EXPECT_REFUSAL(OUT_OF_MEMORY, "free memory of several allocations cannot be joined",
                       mend_alloc(w->pool, 1778111, NULL, &none));
        kit_free_row(w, blocks, 8, NULL);
        EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    }
}

PLAIN_TEST(pool_plain, what_needs_virtual_memory_is_refused_or_does_nothing, 0)
{
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    void *blocks[32];
    kit_alloc_row(w, blocks, 32, 200 * MEND_KIB, NULL);
    for (int i = 0; i < 32; i += 2) {
        kit_free(w, blocks[i], NULL);
        memset(blocks[i + 1], i, 200 * MEND_KIB);
    }
    EXPECT_OK(mend_defrag(w->pool, NULL, &report));
    EXPECT_U64_EQ(0, report.compactions);
    for (int i = 0; i < 32; i += 2) {
        EXPECT_INT_EQ(i, ((unsigned char *)blocks[i + 1])[200 * MEND_KIB - 1]);
    }
    mend_range *range = NULL;
    mend_pool *shareable = NULL;
    EXPECT_ERROR(NOT_SUPPORTED, mend_range_create(w->pool, MEND_GIB, NULL, &range));
    EXPECT_ERROR(NOT_SUPPORTED, mend_sleep(w->pool, NULL, NULL));
    EXPECT_ERROR(NOT_SUPPORTED,
                 mend_alloc_with(w->pool, 512, NULL,
                                 KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1), &blocks[0]));
    w->pool_config.shareable = 1;
    EXPECT_ERROR(NOT_SUPPORTED, mend_pool_create(&w->pool_config, &shareable));
}
