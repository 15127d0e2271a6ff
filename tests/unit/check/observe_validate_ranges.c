/* The audit of ranges: each field that their invariants speak of is broken by itself. */
#include "pool/pool.h"
#include "ranges/ranges.h"
#include "tests/unit/check/found.h"
#include "tests/unit/pool/pages.h"

KIT_TEST(observe_validate_ranges, finds_what_is_wrong_with_a_range)
{
    mend_heap *heap = &w->pool->heap;
    mend_range *range = create(w, 64 * PAGE, PAGE);
    expect_commit(range, 0, 4 * PAGE, S(0));
    void *block = kit_alloc(w, MEND_MIB, S(0));
    expect_decommit(range, PAGE, PAGE, S(0));
    mend_chunk *of_block = mend_chunk_at(&heap->chunks, (uint64_t)(uintptr_t)block);
    mend_chunk *committed = mend_chunk_at(&heap->chunks, range->address);
    mend_chunk *decommitted = mend_chunk_at(&heap->chunks, range->address + PAGE);
    ASSERT_TRUE(of_block != NULL && committed != NULL && decommitted != NULL);

    EXPECT_FOUND(range->committed_bytes, 2 * PAGE, "the committed bytes of the range");
    EXPECT_FOUND(range->is_closed, true, "the committed bytes of the range");
    EXPECT_FOUND(range->sums.mapped_bytes, PAGE, "the mapped bytes of a range");
    EXPECT_FOUND(range->sums.asleep_live_bytes, PAGE, "the mapped bytes of a range");
    EXPECT_FOUND(committed->sums, NULL, "does not fit its page");
    EXPECT_FOUND(range->deferred.kind, MEND_DEFERRED_RANGE, "deferred work of a range");
    EXPECT_FOUND(heap->chunks.away_in[MEND_ZONE_RANGE], PAGE, "away_in");
    EXPECT_FOUND(committed->deferred.kind, MEND_DEFERRED_END, "deferred work of chunks");
    EXPECT_FOUND(range->pages[2], range->pages[3], "pointer map disagree");
    EXPECT_FOUND(range->pages[2], NULL, "pointer map disagree");
    EXPECT_FOUND(range->pages[7], range->pages[3], "page 7 of the range");
    EXPECT_FOUND(range->pages[0]->of_graph_pool, true, "page 0 of the range");
    EXPECT_FOUND(range->size_bytes, 32 * PAGE, "belongs to no range");
    EXPECT_FOUND(range->page_bytes, PAGE / 2, "pointer map disagree");
    EXPECT_FOUND(heap->chunks.deferred.count[MEND_DEFERRED_RANGE], 1, "deferred work of ranges");
    EXPECT_FOUND(heap->range_space.taken_bytes, 1, "the counts of addresses");
    EXPECT_FOUND(of_block->zone, MEND_ZONE_RANGE, "does not fit its page");
    EXPECT_FOUND(committed->live_bytes, PAGE / 2, "does not fit its page");
    EXPECT_FOUND(decommitted->live_bytes, 512, "does not fit its page");
    EXPECT_FOUND(heap->zones[MEND_ZONE_RANGE].counters.live_blocks, 0, "counts of live blocks");
    EXPECT_FOUND(heap->zones[MEND_ZONE_RANGE].counters.live_bytes, 0, "counts of live blocks");

    EXPECT_TRUE(mend_world_check(w));
    kit_free(w, block, S(0));
    EXPECT_OK(mend_range_destroy(range, S(0)));
}
