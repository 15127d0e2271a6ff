/* Memory given back, asked of the heap itself: the largest empty chunks first, the smallest that
 * will do for one request, and addresses without memory. */
#include "move/trim.h"

#include "heap/heap.h"
#include "mend/mend_share.h"
#include "move/scope.h"
#include "physical/stream.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

/* Empty chunks of 1, 2 and 4 MiB, each mapped by itself. */
enum { CHUNKS = 3 };

typedef struct rig {
    mend_world w;
    mend_heap *heap;
    mend_scope scope;
} rig;

static void configure(mend_world *w)
{
    w->placement.low_pressure_percent = 100; /* what is created is exact */
    w->placement.chunk_bytes = 16 * MEND_MIB;
    w->pool_config.front_cache = -1;
    w->pool_config.shareable = 1;
}

/* Both locks are held, and the driver may be called. */
static void enter(rig *r)
{
    mend_heap_lock_all(r->heap);
    EXPECT_RESULT(MEND_OK, mend_scope_open(r->heap, &r->scope));
}

static void leave(rig *r)
{
    mend_scope_close(r->heap, &r->scope);
    mend_heap_unlock_all(r->heap);
}

/* Bit i of `exported`: others may hold the memory of the chunk of 1 << i MiB. */
static bool open_exported(rig *r, unsigned exported)
{
    if (!kit_open_with(&r->w, 64 * MEND_MIB, configure)) {
        return false;
    }
    r->heap = &r->w.pool->heap;
    void *blocks[CHUNKS];
    for (int i = 0; i < CHUNKS; i++) {
        blocks[i] = kit_alloc(&r->w, MEND_MIB << i, NULL);
    }
    for (int i = 0; i < CHUNKS; i++) {
        mend_export_token token = {{0}};
        if ((exported >> i & 1) != 0) {
            EXPECT_RESULT(MEND_OK, mend_export(r->w.pool, blocks[i], &token, NULL));
        }
        kit_free(&r->w, blocks[i], NULL);
    }
    mend_stats stats = mend_world_stats(&r->w);
    EXPECT_U64_EQ(CHUNKS, stats.chunks);
    EXPECT_U64_EQ(7 * MEND_MIB, stats.free_empty_bytes);
    enter(r);
    return !mend_test_has_failed();
}

static bool open_rig(rig *r)
{
    return open_exported(r, 0);
}

static void close_rig(rig *r)
{
    leave(r);
    kit_close(&r->w);
}

/* For a plan that lacks so much and uses nothing. */
static mend_result trim_one(rig *r, uint64_t least_bytes, bool *released)
{
    mend_plan plan = {.lacking_bytes = least_bytes};
    mend_result result = mend_trim_one(r->heap, MEND_STREAM_UNKNOWN, &plan, released);
    mend_plan_clear(&plan);
    return result;
}

MEND_TEST(move_trim, the_largest_goes_first_until_no_more_is_kept)
{
    static const struct {
        uint64_t keep_mib, released_mib;
    } rows[] = {{7, 0}, {6, 4}, {3, 4}, {2, 6}, {1, 6}, {0, 7}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig r;
        ASSERT_TRUE(open_rig(&r));
        uint64_t released_bytes = 1;
        uint64_t keep_bytes = rows[i].keep_mib * MEND_MIB;
        EXPECT_RESULT(MEND_OK, mend_trim_to(r.heap, keep_bytes, true, &released_bytes));
        EXPECT_U64_EQ(rows[i].released_mib * MEND_MIB, released_bytes);
        EXPECT_U64_EQ((7 - rows[i].released_mib) * MEND_MIB, r.heap->chunks.reserved_bytes);
        close_rig(&r);
    }
}

MEND_TEST(move_trim, what_others_may_hold_stays_if_it_is_to_create_others)
{
    static const struct {
        unsigned exported;
        bool to_create;
        uint64_t released_mib;
    } rows[] = {{0, true, 7}, {4, true, 3}, {3, true, 4}, {7, true, 0}, {4, false, 7}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig r;
        ASSERT_TRUE(open_exported(&r, rows[i].exported));
        uint64_t released_bytes = 1;
        EXPECT_RESULT(MEND_OK, mend_trim_to(r.heap, 0, rows[i].to_create, &released_bytes));
        EXPECT_U64_EQ(rows[i].released_mib * MEND_MIB, released_bytes);
        EXPECT_U64_EQ((7 - rows[i].released_mib) * MEND_MIB, r.heap->chunks.reserved_bytes);
        close_rig(&r);
    }
}

MEND_TEST(move_trim, one_is_the_smallest_that_is_large_enough)
{
    static const struct {
        uint64_t least_bytes, released_mib;
    } rows[] = {{1, 1}, {MEND_MIB, 1}, {MEND_MIB + 1, 2}, {4 * MEND_MIB, 4}, {5 * MEND_MIB, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig r;
        bool released;
        ASSERT_TRUE(open_rig(&r));
        EXPECT_RESULT(MEND_OK, trim_one(&r, rows[i].least_bytes, &released));
        EXPECT_INT_EQ(rows[i].released_mib > 0, released);
        EXPECT_U64_EQ((7 - rows[i].released_mib) * MEND_MIB, r.heap->chunks.reserved_bytes);
        close_rig(&r);
    }
}

MEND_TEST(move_trim, one_that_the_driver_keeps_stays_as_free_memory)
{
    rig r;
    bool released = true;
    ASSERT_TRUE(open_rig(&r));
    kit_fail(&r.w, "unmap", 0, 1, 999);
    EXPECT_RESULT(MEND_OK, trim_one(&r, 1, &released));
    EXPECT_FALSE(released);
    EXPECT_U64_EQ(7 * MEND_MIB, r.heap->chunks.reserved_bytes);
    EXPECT_U64_EQ(7 * MEND_MIB, r.heap->chunks.empty_bytes);
    close_rig(&r);
}

/* The memory stays, mapped nowhere, and so does nothing of the addresses. */
MEND_TEST(move_trim, addresses_go_and_memory_stays)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    EXPECT_TRUE(mend_trim_addresses(r.heap, MEND_STREAM_UNKNOWN));
    EXPECT_U64_EQ(7 * MEND_MIB, r.heap->chunks.unmapped_bytes);
    EXPECT_U64_EQ(0, mend_heap_mappings(r.heap));
    EXPECT_U64_EQ(0, r.heap->space.address_bytes);
    EXPECT_FALSE(mend_trim_addresses(r.heap, MEND_STREAM_UNKNOWN)); /* there are none left */
    close_rig(&r);
}

MEND_TEST(move_trim, nothing_is_unmapped_while_a_stream_is_captured)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    leave(&r);
    kit_free(&r.w, kit_alloc(&r.w, 512, r.w.streams[0]), r.w.streams[0]); /* the pool knows it */
    kit_begin_capture(&r.w, r.w.streams[0]);
    enter(&r);
    bool released = true;
    EXPECT_RESULT(MEND_OK, trim_one(&r, 1, &released));
    EXPECT_FALSE(released);
    EXPECT_FALSE(mend_trim_addresses(r.heap, MEND_STREAM_UNKNOWN));
    leave(&r);
    mend_sim_graph_destroy(r.w.sim, kit_end_capture(&r.w, r.w.streams[0]));
    enter(&r);
    EXPECT_RESULT(MEND_OK, trim_one(&r, MEND_MIB, &released));
    EXPECT_TRUE(released);
    close_rig(&r);
}
