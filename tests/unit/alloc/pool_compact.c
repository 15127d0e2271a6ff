/* mend_compact: blocks in partly used chunks are copied together. Addresses and bytes stay, gained
 * memory serves any request, limits hold, and pinned memory does not move. */
#include <string.h>

#include "pool/pool.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB
#define BLOCK (128 * MEND_KIB)
enum { BLOCKS_OF_CHUNK = 8, CHUNKS = 4, MOST_BLOCKS = 512 };

typedef struct rig {
    mend_world w;
    mend_stream stream;
    void *blocks[MOST_BLOCKS]; /* NULL: freed */
    int count;
    const char *call; /* freed in the first such driver call */
    bool frees[MOST_BLOCKS];
} rig;

static void *take(rig *r, uint64_t size_bytes)
{
    return kit_alloc_written(&r->w, size_bytes, r->stream);
}

static void give(rig *r, void *block, uint64_t size_bytes)
{
    kit_release(&r->w, block, size_bytes, r->stream);
}

static void drop(rig *r, int block)
{
    give(r, r->blocks[block], BLOCK);
    r->blocks[block] = NULL;
}

static bool open_rig(rig *r, uint64_t memory_bytes)
{
    *r = (rig){.call = ""};
    mend_world_init(&r->w);
    r->w.sim_config.memory_bytes = memory_bytes;
    bool is_open = kit_open(&r->w);
    r->stream = r->w.streams[0];
    return is_open;
}

static void fill(rig *r, int chunks)
{
    give(r, take(r, (uint64_t)chunks * CHUNK), (uint64_t)chunks * CHUNK);
    for (r->count = 0; r->count < chunks * BLOCKS_OF_CHUNK; r->count++) {
        r->blocks[r->count] = take(r, BLOCK);
    }
    EXPECT_U64_EQ(0, mend_world_stats(&r->w).compactions);
}

static void thin_out(rig *r)
{
    for (int i = 0; i < r->count; i++) {
        if (i % BLOCKS_OF_CHUNK != 3) {
            drop(r, i);
        }
    }
}

static bool open_thin(rig *r, uint64_t memory_bytes)
{
    bool is_open = open_rig(r, memory_bytes);
    fill(r, CHUNKS);
    thin_out(r);
    return is_open;
}

static void close_rig(rig *r)
{
    kit_release_row(&r->w, r->blocks, r->count, BLOCK, r->stream);
    kit_close(&r->w);
}

static mend_compact_report compact(rig *r, const mend_compact_limits *limits)
{
    mend_compact_report report = MEND_COMPACT_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_compact(r->w.pool, limits, &report));
    mend_world_check(&r->w);
    return report;
}

#define THIN_TEST(suite, name, memory_bytes)                                                       \
    KIT_CASE(suite, name, rig, r, open_thin(r, memory_bytes), close_rig(r))

static void let_time_pass(void *context, KIT_UNUSED const char *call, int is_after)
{
    mend_sim_advance(context, is_after ? 1000000 : 0);
}

THIN_TEST(pool_compact, limits_are_kept, 64 * MEND_MIB)
{
    mend_compact_limits limits = MEND_COMPACT_LIMITS_INIT;
    limits.gained_bytes = CHUNK - BLOCK; /* which one gives */
    mend_compact_report report = compact(r, &limits);
    EXPECT_INT_EQ(MEND_COMPACT_GAINED, report.stop);
    EXPECT_U64_EQ(1, report.compactions);

    limits.gained_bytes = 0;
    limits.copied_bytes = 2 * BLOCK - 1;
    report = compact(r, &limits);
    EXPECT_INT_EQ(MEND_COMPACT_BYTES, report.stop);
    EXPECT_U64_EQ(1, report.compactions);

    drop(r, 3); /* of the first one: its chunk is the copy's of the third */
    limits.copied_bytes = 0;
    limits.driver_calls = 16;
    uint64_t calls = mend_sim_call_count(r->w.sim);
    report = compact(r, &limits);
    EXPECT_INT_EQ(MEND_COMPACT_CALLS, report.stop);
    EXPECT_U64_EQ(1, report.compactions);
    EXPECT_TRUE(report.driver_calls <= 16);
    EXPECT_U64_EQ(1, mend_world_stats(&r->w).chunks_moved);
    EXPECT_TRUE(mend_sim_call_count(r->w.sim) - calls <= 16 + 6);
    limits.driver_calls = 1;
    EXPECT_U64_EQ(0, compact(r, &limits).compactions);

    /* No chunk is begun with when the time is over, which is not that of the clock. */
    mend_sim_advance(r->w.sim, 100 * 1000000);
    limits.driver_calls = 0;
    limits.duration_ns = 8 * 1000000;
    kit_observed(&r->w, let_time_pass, r->w.sim, report = compact(r, &limits));
    EXPECT_INT_EQ(MEND_COMPACT_TIME, report.stop);
    EXPECT_U64_EQ(1, report.compactions);
}

/* ... retires, and its addresses are in use until then. */
THIN_TEST(pool_compact, a_scratch_mapping_that_is_not_undone, 64 * MEND_MIB)
{
    kit_fail(&r->w, "unmap", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_U64_EQ(CHUNKS, compact(r, NULL).compactions);
    EXPECT_STATS(&r->w, driver_failures, 1, retired_bytes, 0, free_empty_bytes, CHUNKS * CHUNK);
}

/* The chunk of one block lacks memory for its copy, and those of two are above the limit. */
KIT_CASE(pool_compact, a_refusal_hides_no_other_reason, rig, r, open_rig(r, 64 * MEND_MIB),
         close_rig(r))
{
    mend_compact_limits limits = MEND_COMPACT_LIMITS_INIT;
    fill(r, CHUNKS);
    for (int i = 0; i < r->count; i++) {
        const bool is_last = i / BLOCKS_OF_CHUNK == CHUNKS - 1;
        if (i % BLOCKS_OF_CHUNK != 3 && (is_last || i % BLOCKS_OF_CHUNK != 4)) {
            drop(r, i);
        }
    }
    limits.copied_bytes = BLOCK;
    kit_fail(&r->w, "create", 0, UINT64_MAX, MEND_DRIVER_OUT_OF_MEMORY);
    EXPECT_INT_EQ(MEND_COMPACT_BYTES, compact(r, &limits).stop);
    EXPECT_INT_EQ(MEND_COMPACT_NO_ROOM, compact(r, NULL).stop);
    mend_sim_clear_faults(r->w.sim);
    limits.copied_bytes = 0;
    limits.gained_bytes = CHUNK / 2;
    EXPECT_U64_EQ(BLOCK, compact(r, &limits).copied_bytes); /* of the last, which copies least */
    EXPECT_U64_EQ(CHUNKS - 1, compact(r, NULL).compactions);
}

/* The small chunk copies less, but more for each byte that it gives. */
KIT_CASE(pool_compact, copies_count_for_what_they_gain, rig, r, open_rig(r, 64 * MEND_MIB),
         close_rig(r))
{
    mend_compact_limits limits = MEND_COMPACT_LIMITS_INIT;
    void *large = kit_alloc_with(&r->w, 4 * CHUNK, r->stream, .in_one_chunk = 1);
    void *small = kit_alloc_with(&r->w, CHUNK, r->stream, .in_one_chunk = 1);
    kit_free(&r->w, large, r->stream);
    kit_free(&r->w, small, r->stream);
    kit_alloc_with(&r->w, CHUNK, r->stream, .address = large);
    kit_alloc_with(&r->w, CHUNK - BLOCK, r->stream, .address = small);
    limits.copied_bytes = CHUNK;
    EXPECT_U64_EQ(3 * CHUNK, compact(r, &limits).gained_bytes);
}

/* Once the free memory of a chunk belongs to a graph pool, and once its live block. */
KIT_RIG_EACH(pool_compact, memory_of_graphs_stays_where_it_is, int, is_live, 2, rig, r,
             open_rig(r, 64 * MEND_MIB), close_rig(r))
{
    give(r, take(r, CHUNK), CHUNK);
    EXPECT_OK(mend_trim(r->w.pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    void *block = is_live ? NULL : take(r, BLOCK - 512);
    mend_graph_pool *graph_pool = kit_begin_graph_pool(&r->w, r->stream);
    if (is_live) {
        block = take(r, BLOCK - 512);
    } else {
        give(r, take(r, CHUNK - BLOCK), CHUNK - BLOCK);
    }
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r->w).reserved_bytes);
    EXPECT_U64_EQ(0, compact(r, NULL).compactions);
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, r->stream));
    mend_compact_report report = compact(r, NULL);
    EXPECT_FIELDS(report, compactions, 1, copied_bytes, BLOCK - 512); /* nothing behind it */
    give(r, block, BLOCK - 512);
}

/* ---- others meanwhile ---- */

/* As another thread would, while the driver is busy and the pool can be used. */
static void free_meanwhile(void *context, const char *call, int is_after)
{
    rig *r = context;
    if (is_after || strcmp(call, r->call) != 0) {
        return;
    }
    r->call = "";
    for (int i = 0; i < r->count; i++) {
        if (r->frees[i] && r->blocks[i] != NULL) {
            kit_free(&r->w, r->blocks[i], r->stream);
            r->blocks[i] = NULL;
        }
    }
}

/* Full to the limit: chunks of which half is live, and an empty one. Free memory in the last of the
 * others touches no free memory before it. From `first` on all is freed in the call.
 */
static mend_compact_report compact_halves(rig *r, const char *call, int first)
{
    fill(r, CHUNKS + 1);
    for (int i = 0; i < r->count; i++) {
        bool is_last = i / BLOCKS_OF_CHUNK == CHUNKS - 1;
        if (i >= CHUNKS * BLOCKS_OF_CHUNK || (i % BLOCKS_OF_CHUNK >= 4) == is_last) {
            drop(r, i);
        }
        r->frees[i] = i >= first;
    }
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r->w).free_empty_bytes);
    r->call = call;
    mend_sim_set_call_observer(r->w.sim, free_meanwhile, r);
    mend_compact_report report = compact(r, NULL);
    mend_sim_set_call_observer(r->w.sim, NULL, NULL);
    return report;
}

#define HALVES_TEST(suite, name)                                                                   \
    KIT_CASE(suite, name, rig, r, open_rig(r, (CHUNKS + 1) * CHUNK), close_rig(r))

/* The first compaction unmaps the free chunk for its copy: then its block is gone. */
HALVES_TEST(pool_compact_meanwhile,
            a_chunk_that_is_emptied_while_room_is_made_for_it_is_not_compacted)
{
    EXPECT_U64_EQ(0, compact_halves(r, "unmap", 0).compactions);
    EXPECT_U64_EQ(CHUNKS * CHUNK, mend_world_stats(&r->w).free_empty_bytes);
}

/* The last chunk is emptied during the first compaction, and released for the third.
 */
HALVES_TEST(pool_compact_meanwhile, a_chunk_that_is_gone_is_not_looked_for)
{
    mend_compact_report report = compact_halves(r, "create", (CHUNKS - 1) * BLOCKS_OF_CHUNK);
    EXPECT_FIELDS(report, compactions, CHUNKS - 1, stop, MEND_COMPACT_DONE, driver_calls, 28,
                  copied_bytes, (CHUNKS - 1) * CHUNK / 2, gained_bytes, (CHUNKS - 1) * CHUNK / 2);
    EXPECT_STATS(&r->w, copied_bytes, report.copied_bytes, free_empty_bytes,
                 report.free_empty_bytes);
    EXPECT_PTR_EQ(NULL, mend_chunk_numbered(&r->w.pool->heap.chunks, UINT64_MAX));
}
