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
