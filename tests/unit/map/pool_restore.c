/* Compactions when the driver fails: all is undone. Blocks that could not be mapped to their old
 * memory either keep their bytes, are named, and come back. */
#include "driver/driver.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB
#define PAGE  (64 * MEND_KIB)
#define BLOCK (128 * MEND_KIB)
enum { BLOCKS = 8, LIVE = 3, SCRATCH_MAPS = LIVE };

typedef struct rig {
    mend_world w;
    void *blocks[BLOCKS];
} rig;

/* One chunk of eight blocks, of which three live: as many clusters. */
static bool open_rig(rig *r, uint64_t address_reservation_bytes)
{
    *r = (rig){.blocks = {NULL}};
    mend_world_init(&r->w);
    r->w.sim_config.memory_bytes = 8 * CHUNK;
    r->w.pool_config.address_reservation_bytes = address_reservation_bytes;
    if (!kit_open(&r->w)) {
        return false;
    }
    void *all = kit_alloc(&r->w, CHUNK, NULL);
    kit_free(&r->w, all, NULL);
    kit_alloc_written_row(&r->w, r->blocks, BLOCKS, BLOCK, NULL);
    for (int i = 0; i < BLOCKS; i++) {
        if (i != 1 && i != 3 && i != 5) {
            kit_free(&r->w, r->blocks[i], NULL);
            r->blocks[i] = NULL;
        }
    }
    return true;
}

static void close_rig(rig *r)
{
    kit_release_row(&r->w, r->blocks, BLOCKS, BLOCK, NULL);
    kit_close(&r->w);
}

static int is_unmapped(rig *r, int i)
{
    return kit_info(&r->w, r->blocks[i]).is_unmapped;
}

static uint64_t unmapped_blocks(rig *r)
{
    mend_world_check(&r->w);
    return mend_world_stats(&r->w).unmapped_blocks;
}

static void compact(rig *r, mend_result expected)
{
    EXPECT_RESULT(expected, mend_compact(r->w.pool, NULL, NULL));
}

/* A driver call fails from there on, and so does the pass: so many blocks are unmapped. */
static void lose(rig *r, const char *call, uint64_t after_calls, uint64_t count, uint64_t unmapped)
{
    kit_fail(&r->w, call, after_calls, count, 999);
    compact(r, MEND_ERROR_DRIVER);
    EXPECT_U64_EQ(unmapped, unmapped_blocks(r));
}

static void expect_restored(rig *r)
{
    EXPECT_U64_EQ(0, unmapped_blocks(r));
    EXPECT_INT_EQ(0, is_unmapped(r, 1));
    EXPECT_INT_EQ(0, is_unmapped(r, 5));
}

/* By the next pass, by an allocation that grows, or by a trim, or the pool ends without. */
MEND_TEST(pool_restore, a_block_that_misses_its_mapping_is_named_and_comes_back)
{
    enum { BY_PASS, BY_ALLOCATION, BY_TRIM, NOT, WAYS };
    static const struct {
        const char *call;
        uint64_t after_calls, count;
        uint64_t unmapped;
    } rows[] = {{"map", SCRATCH_MAPS, 1, 0},
                {"map", SCRATCH_MAPS + 1, 1, 0},
                {"map", SCRATCH_MAPS, 2, LIVE},
                {"map", SCRATCH_MAPS + 1, 2, LIVE},
                {"map", SCRATCH_MAPS, UINT64_MAX, LIVE},
                {"set_access", 1, 1, 0},
                {"set_access", 2, 2, LIVE},
                {"set_access", 1, UINT64_MAX, LIVE}};
    for (size_t i = 0; i < WAYS * sizeof(rows) / sizeof(rows[0]); i++) {
        rig r;
        const size_t row = i / WAYS;
        ASSERT_TRUE(open_rig(&r, MEND_GIB));
        lose(&r, rows[row].call, rows[row].after_calls, rows[row].count, rows[row].unmapped);
        EXPECT_INT_EQ(rows[row].unmapped > 0, is_unmapped(&r, 1));
        EXPECT_INT_EQ(rows[row].unmapped > 0, is_unmapped(&r, 5));
        if (rows[row].count > 2) { /* a driver that refuses still is asked again */
            lose(&r, rows[row].call, 0, rows[row].count, LIVE);
        }
        EXPECT_U64_EQ(0, mend_world_stats(&r.w).compactions);
        mend_sim_clear_faults(r.w.sim);
        if (i % WAYS == BY_PASS) {
            compact(&r, MEND_OK);
        } else if (i % WAYS == BY_ALLOCATION) {
            kit_free(&r.w, kit_alloc(&r.w, 3 * CHUNK, NULL), NULL);
        } else if (i % WAYS == BY_TRIM) {
            EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, 0, MEND_TRIM_IDLE, NULL));
        } else {
            kit_close(&r.w);
            continue;
        }
        expect_restored(&r);
        close_rig(&r);
    }
}

/* The reservation of the chunk does not fit the copy beside it. Addresses that are short are as
 * memory that is: no failure of the call. */
KIT_RIG_EACH(pool_restore, without_addresses_to_copy_at_nothing_moves, int, i, 2, rig, r,
             open_rig(r, CHUNK), close_rig(r))
{
    static const int statuses[] = {MEND_DRIVER_OUT_OF_MEMORY, MEND_DRIVER_UNKNOWN};
    uint64_t left_bytes = mend_world_stats(&r->w).address_bytes - CHUNK - PAGE;
    void *rest = kit_alloc(&r->w, left_bytes + 2 * BLOCK, NULL);
    mend_stats before = mend_world_stats(&r->w);
    kit_fail(&r->w, "reserve", 0, UINT64_MAX, statuses[i]);
    mend_compact_report report = MEND_COMPACT_REPORT_INIT;
    EXPECT_RESULT(i == 0 ? MEND_OK : MEND_ERROR_DRIVER, mend_compact(r->w.pool, NULL, &report));
    EXPECT_INT_EQ(i == 0 ? MEND_COMPACT_NO_ROOM : 0, report.stop);
    EXPECT_STATS(&r->w, compactions, 0, reserved_bytes, before.reserved_bytes);
    mend_sim_clear_faults(r->w.sim);
    compact(r, MEND_OK);
    EXPECT_U64_EQ(1, mend_world_stats(&r->w).compactions);
    kit_free(&r->w, rest, NULL);
}

/* Three chunks have a place, and one of them a mapping, which could not be unmapped on the way
 * back.
 */
KIT_CASE(pool_restore, a_mapping_that_was_never_made_is_no_peak, rig, r, open_rig(r, MEND_GIB),
         close_rig(r))
{
    EXPECT_RESULT(MEND_OK, mend_reset_peak_stats(r->w.pool));
    EXPECT_U64_EQ(1, mend_world_stats(&r->w).peak_mappings);
    kit_fail(&r->w, "unmap", 3, 1, 999); /* of the second one */
    lose(r, "map", SCRATCH_MAPS + 2, UINT64_MAX, LIVE);
    EXPECT_STATS(&r->w, mappings, 1, peak_mappings, 1);
    mend_sim_clear_faults(r->w.sim);
    compact(r, MEND_OK);
    EXPECT_U64_EQ(LIVE, mend_world_stats(&r->w).peak_mappings);
    expect_restored(r);
}

/* A block over the edge of two chunks, of which a pass could not map one again. When all in them is
 * free, a move that the driver refuses puts the other one back to its place. */
KIT_EACH(pool_restore_edges, a_chunk_that_comes_back_is_a_neighbour_again, int, is_second, 2,
         kit_open_with(w, 8 * CHUNK, NULL))
{
    void *none = NULL;
    kit_free(w, kit_alloc(w, 2 * CHUNK, NULL), NULL);
    char *before = kit_alloc(w, CHUNK - BLOCK, NULL);
    char *block = kit_alloc(w, 2 * BLOCK, NULL);
    char *behind = kit_alloc(w, CHUNK - BLOCK, NULL);
    EXPECT_TRUE(block == before + CHUNK - BLOCK && behind == block + 2 * BLOCK);
    kit_free(w, is_second ? behind : before, NULL);
    kit_fail(w, "map", 1, UINT64_MAX, 999); /* the first one is of the copy */
    EXPECT_ERROR(DRIVER, mend_compact(w->pool, NULL, NULL));
    EXPECT_STATS(w, unmapped_blocks, 1);
    mend_world_check(w);
    kit_free(w, is_second ? before : behind, NULL);
    mend_world_check(w);
    kit_free(w, block, NULL);
    mend_world_check(w);
    EXPECT_ERROR(DRIVER, mend_alloc(w->pool, 2 * CHUNK, NULL, &none));
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    EXPECT_U64_EQ(1, w->pool->heap.zones[MEND_ZONE_LARGE].segment_ends.count);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, reserved_bytes, 0);
}
