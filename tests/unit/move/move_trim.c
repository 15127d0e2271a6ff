/* Retired mappings and memory given back, asked of the heap itself: what is unmapped when, and by
 * how many calls; the largest empty chunks first, the smallest that will do for one request, and
 * addresses without memory. */
#include "move/move.h"

#include <string.h>

#include "heap/heap.h"
#include "layout/layout.h"
#include "mend/mend_share.h"
#include "physical/stream.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

/* For retirement, chunks of 1 MiB side by side, the first three of them empty and behind them a
 * live one; for a trim, empty chunks of 1, 2 and 4 MiB, each mapped by itself. */
enum { EMPTY = 3, BUSY_NS = 1000 };

typedef struct rig {
    mend_world w;
    mend_heap *heap;
    mend_driver_scope scope;
    uint64_t address; /* of the first chunk */
    int unmaps;       /* calls of the driver */
} rig;

static void count(void *context, const char *call, int is_after)
{
    rig *r = context;
    r->unmaps += !is_after && strcmp(call, "unmap") == 0;
}

/* Both locks are held, and the driver may be called. */
static bool enter(rig *r)
{
    mend_heap_lock_all(r->heap);
    EXPECT_RESULT(MEND_OK, mend_driver_scope_open(r->heap, &r->scope));
    return !mend_test_has_failed();
}

static void leave(rig *r)
{
    mend_driver_scope_close(r->heap, &r->scope);
    mend_heap_unlock_all(r->heap);
}

static void close_rig(rig *r)
{
    leave(r);
    mend_sim_set_call_observer(r->w.sim, NULL, NULL);
    kit_close(&r->w);
}

/* The empty chunks were used by a stream until `busy_ns`. */
static bool open_row(rig *r, uint64_t busy_ns)
{
    *r = (rig){.unmaps = 0};
    if (!kit_open_with(&r->w, 16 * MEND_MIB, NULL)) {
        return false;
    }
    mend_stream stream = r->w.streams[0];
    kit_free(&r->w, kit_alloc(&r->w, (EMPTY + 1) * MEND_MIB, stream), stream);
    void *block = kit_alloc(&r->w, EMPTY * MEND_MIB, stream);
    kit_alloc(&r->w, MEND_MIB, stream);
    kit_use(&r->w, stream, block, EMPTY * MEND_MIB, busy_ns);
    kit_free(&r->w, block, stream);
    r->heap = &r->w.pool->heap;
    r->address = (uint64_t)(uintptr_t)block;
    mend_sim_set_call_observer(r->w.sim, count, r);
    return enter(r);
}

/* Takes the chunk out of the layout, as a move would. */
static mend_chunk *retire(rig *r, int number)
{
    uint64_t address = r->address + (uint64_t)number * MEND_MIB;
    mend_chunk *chunk = mend_chunk_at(&r->heap->chunks, address);
    mend_waits waits = {0};
    EXPECT_TRUE(mend_layout_reserve(r->heap, 1) && mend_retire_reserve(r->heap, 1));
    mend_layout_detach(r->heap, chunk, &waits);
    mend_retire_mapping(r->heap, chunk, address, &waits);
    EXPECT_U64_EQ(0, waits.first.epoch); /* they went along */
    return chunk;
}

static void flush(rig *r)
{
    mend_retire_flush(r->heap, MEND_STREAM_UNKNOWN);
}

#define RETIRE_TEST(suite, name, ...)                                                              \
    KIT_CASE(suite, name, rig, r, open_row(r, __VA_ARGS__), close_rig(r))

RETIRE_TEST(move_retire, what_work_in_flight_may_use_stays_mapped, BUSY_NS)
{
    retire(r, 0);
    flush(r);
    EXPECT_INT_EQ(0, r->unmaps);
    EXPECT_U64_EQ(MEND_MIB, r->heap->retire.bytes);
    mend_sim_advance(r->w.sim, 2 * BUSY_NS);
    flush(r); /* the first one has recorded the fence */
    EXPECT_INT_EQ(1, r->unmaps);
    EXPECT_U64_EQ(0, r->heap->retire.bytes);
}

/* ---- trims ---- */

static void configure(mend_world *w)
{
    w->placement.low_pressure_percent = 100; /* what is created is exact */
    w->placement.chunk_bytes = 16 * MEND_MIB;
    w->pool_config.front_cache = -1;
    w->pool_config.shareable = 1;
}

/* Bit i of `exported`: others may hold the memory of the chunk of 1 << i MiB. */
static bool open_apart(rig *r, unsigned exported)
{
    if (!kit_open_with(&r->w, 64 * MEND_MIB, configure)) {
        return false;
    }
    r->heap = &r->w.pool->heap;
    void *blocks[EMPTY];
    for (int i = 0; i < EMPTY; i++) {
        blocks[i] = kit_alloc(&r->w, MEND_MIB << i, NULL);
    }
    for (int i = 0; i < EMPTY; i++) {
        mend_export_token token = {{0}};
        if ((exported >> i & 1) != 0) {
            EXPECT_RESULT(MEND_OK, mend_export(r->w.pool, blocks[i], NULL, &token,
                                               MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
        }
        kit_free(&r->w, blocks[i], NULL);
    }
    mend_stats stats = mend_world_stats(&r->w);
    EXPECT_U64_EQ(EMPTY, stats.chunks);
    EXPECT_U64_EQ(7 * MEND_MIB, stats.free_empty_bytes);
    return enter(r);
}

/* For a plan that lacks so much and uses nothing. */
static mend_result trim_one(rig *r, uint64_t least_bytes, bool *released)
{
    mend_plan plan = {.lacking_bytes = least_bytes};
    mend_result result = mend_trim_one(r->heap, MEND_STREAM_UNKNOWN, &plan, released);
    mend_plan_clear(&plan);
    return result;
}

/* What others may hold stays if it is to create others. */
MEND_TEST(move_trim, the_largest_goes_first_until_no_more_is_kept)
{
    static const struct {
        uint64_t keep_mib;
        uint64_t released_mib;
        unsigned exported;
        bool to_create;
    } rows[] = {{7, 0, 0, true}, {6, 4, 0, true}, {3, 4, 0, true}, {2, 6, 0, true},
                {1, 6, 0, true}, {0, 7, 0, true}, {0, 3, 4, true}, {0, 4, 3, true},
                {0, 0, 7, true}, {0, 7, 4, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig r;
        ASSERT_TRUE(open_apart(&r, rows[i].exported));
        uint64_t released_bytes = 1;
        EXPECT_RESULT(MEND_OK, mend_trim_to(r.heap, rows[i].keep_mib * MEND_MIB, rows[i].to_create,
                                            &released_bytes));
        EXPECT_U64_EQ(rows[i].released_mib * MEND_MIB, released_bytes);
        EXPECT_U64_EQ((7 - rows[i].released_mib) * MEND_MIB, r.heap->chunks.reserved_bytes);
        close_rig(&r);
    }
}

#define TRIM_TEST(suite, name) KIT_CASE(suite, name, rig, r, open_apart(r, 0), close_rig(r))

TRIM_TEST(move_trim, nothing_is_unmapped_while_a_stream_is_captured)
{
    leave(r);
    kit_free(&r->w, kit_alloc(&r->w, 512, r->w.streams[0]),
             r->w.streams[0]); /* the pool knows it */
    kit_begin_capture(&r->w, r->w.streams[0]);
    enter(r);
    bool released = true;
    EXPECT_RESULT(MEND_OK, trim_one(r, 1, &released));
    EXPECT_FALSE(released);
    EXPECT_FALSE(mend_trim_addresses(r->heap, MEND_STREAM_UNKNOWN));
    leave(r);
    mend_sim_graph_destroy(r->w.sim, kit_end_capture(&r->w, r->w.streams[0]));
    enter(r);
    EXPECT_RESULT(MEND_OK, trim_one(r, MEND_MIB, &released));
    EXPECT_TRUE(released);
}
