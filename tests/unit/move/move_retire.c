/* Retired mappings, asked of the heap itself: what is unmapped when, and by how many calls. */
#include "move/retire.h"

#include <string.h>

#include "heap/heap.h"
#include "layout/layout.h"
#include "move/scope.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

/* Chunks of 1 MiB side by side, the first three of them empty and behind them a live one. */
enum { EMPTY = 3, BUSY_NS = 1000 };

typedef struct rig {
    mend_world w;
    mend_heap *heap;
    mend_scope scope;
    uint64_t address; /* of the first */
    int unmaps;       /* calls of the driver */
} rig;

static void count(void *context, const char *call, int is_after)
{
    rig *r = context;
    r->unmaps += !is_after && strcmp(call, "unmap") == 0;
}

/* The empty chunks were used by a stream until `busy_ns`. */
static bool open_rig(rig *r, uint64_t busy_ns)
{
    *r = (rig){.unmaps = 0};
    if (!kit_open_with(&r->w, 16 * MEND_MIB, NULL)) {
        return false;
    }
    mend_stream stream = r->w.streams[0];
    void *all = kit_alloc(&r->w, (EMPTY + 1) * MEND_MIB, stream);
    kit_free(&r->w, all, stream);
    void *block = kit_alloc(&r->w, EMPTY * MEND_MIB, stream);
    kit_alloc(&r->w, MEND_MIB, stream);
    kit_use(&r->w, stream, block, EMPTY * MEND_MIB, busy_ns);
    kit_free(&r->w, block, stream);
    r->heap = &r->w.pool->heap;
    r->address = (uint64_t)(uintptr_t)block;
    mend_sim_set_call_observer(r->w.sim, count, r);
    mend_heap_lock_all(r->heap);
    EXPECT_RESULT(MEND_OK, mend_scope_open(r->heap, &r->scope));
    return !mend_test_has_failed();
}

static void close_rig(rig *r)
{
    mend_scope_close(r->heap, &r->scope);
    mend_heap_unlock_all(r->heap);
    mend_sim_set_call_observer(r->w.sim, NULL, NULL);
    kit_close(&r->w);
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

MEND_TEST(move_retire, a_mapping_holds_its_chunk_until_it_is_unmapped)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 0));
    mend_sim_advance(r.w.sim, BUSY_NS);
    mend_chunk *chunk = retire(&r, 0);
    EXPECT_TRUE(mend_retire_holds(r.heap, chunk->handle) != NULL);
    EXPECT_U64_EQ(MEND_MIB, r.heap->retire.bytes);
    uint64_t taken_bytes = r.heap->space.taken_bytes;
    flush(&r);
    EXPECT_TRUE(mend_retire_holds(r.heap, chunk->handle) == NULL);
    EXPECT_U64_EQ(0, r.heap->retire.bytes);
    EXPECT_U64_EQ(taken_bytes - MEND_MIB, r.heap->space.taken_bytes);
    close_rig(&r);
}

MEND_TEST(move_retire, neighbours_go_by_one_call)
{
    static const struct {
        int retired[EMPTY], count, unmaps;
    } rows[] = {{{0, 1, 2}, 3, 1}, {{2, 1, 0}, 3, 1}, {{0, 2}, 2, 2}, {{1}, 1, 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig r;
        ASSERT_TRUE(open_rig(&r, 0));
        mend_sim_advance(r.w.sim, BUSY_NS);
        for (int j = 0; j < rows[i].count; j++) {
            retire(&r, rows[i].retired[j]);
        }
        flush(&r);
        EXPECT_INT_EQ(rows[i].unmaps, r.unmaps);
        EXPECT_U64_EQ(0, r.heap->retire.bytes);
        close_rig(&r);
    }
}

MEND_TEST(move_retire, what_work_in_flight_may_use_stays_mapped)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, BUSY_NS));
    retire(&r, 0);
    flush(&r);
    EXPECT_INT_EQ(0, r.unmaps);
    EXPECT_U64_EQ(MEND_MIB, r.heap->retire.bytes);
    mend_sim_advance(r.w.sim, 2 * BUSY_NS);
    flush(&r); /* the first one has recorded the fence */
    EXPECT_INT_EQ(1, r.unmaps);
    EXPECT_U64_EQ(0, r.heap->retire.bytes);
    close_rig(&r);
}

MEND_TEST(move_retire, nothing_is_unmapped_while_a_stream_is_captured)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 0));
    flush(&r);
    retire(&r, 0);
    mend_sim_advance(r.w.sim, BUSY_NS);
    kit_begin_capture(&r.w, r.w.streams[0]);
    flush(&r);
    EXPECT_INT_EQ(0, r.unmaps);
    mend_sim_graph_destroy(r.w.sim, kit_end_capture(&r.w, r.w.streams[0]));
    flush(&r);
    EXPECT_INT_EQ(1, r.unmaps);
    close_rig(&r);
}

MEND_TEST(move_retire, what_the_driver_refuses_stays_and_is_tried_again)
{
    rig r;
    ASSERT_TRUE(open_rig(&r, 0));
    mend_sim_advance(r.w.sim, BUSY_NS);
    retire(&r, 0);
    uint64_t failures = r.heap->counters.driver_failures;
    kit_fail(&r.w, "unmap", 0, 1, 999);
    flush(&r);
    EXPECT_INT_EQ(999, r.heap->retire.refused);
    EXPECT_U64_EQ(failures + 1, r.heap->counters.driver_failures);
    EXPECT_U64_EQ(MEND_MIB, r.heap->retire.bytes);
    flush(&r);
    EXPECT_INT_EQ(MEND_DRIVER_OK, r.heap->retire.refused);
    EXPECT_U64_EQ(0, r.heap->retire.bytes);
    close_rig(&r);
}
