/* Growable ranges: where their memory comes from and goes, and every misuse by its own error. */

#include <string.h>

#include "pool/pool.h"
#include "tests/unit/pool/pages.h"
#include "tests/unit/pool/share_rig.h"

RANGE_TEST(pool_range, large_free_chunks_become_pages, 4 * MEND_MIB)
{
    expect_commit(range, 8 * MEND_MIB, PAGE, S(0));
    kit_free(w, kit_alloc(w, 4 * MEND_MIB - PAGE, S(0)), S(0));
    expect_decommit(range, 8 * MEND_MIB, PAGE, S(0));
    expect_commit(range, 0, 3 * PAGE, S(0));
    use(w, range, 0, 3 * PAGE, S(0));
    EXPECT_STATS(w, chunks_remade, 1);
    EXPECT_STATS(w, reserved_bytes, 15 * PAGE); /* three were released for two pages */
    expect_commit(range, 0, 4 * MEND_MIB, S(0));
    EXPECT_STATS(w, reserved_bytes, 4 * MEND_MIB);
}

/* A page keeps its small chunks, while a larger one is released for the rest of the page. */
RANGE_TEST(pool_range, chunks_of_a_plan_are_not_released_for_it, 18 * PAGE)
{
    mend_range *large = create(w, MEND_GIB, 9 * PAGE);
    expect_commit(range, 0, 8 * PAGE, S(0));
    kit_free(w, kit_alloc_with(w, 10 * PAGE, S(0), .in_one_chunk = 1), S(0));
    expect_decommit(range, 0, 8 * PAGE, S(0));
    expect_commit(large, 0, 9 * PAGE, S(0));
    EXPECT_STATS(w, chunks_released, 1, reserved_bytes, 9 * PAGE);
    EXPECT_OK(mend_range_destroy(large, S(0)));
}

/* The driver refuses the addresses of a range that ends: they go with the next call that can. */
RANGE_TEST(pool_range, addresses_that_are_refused_go_later, 0)
{
    kit_free(w, kit_alloc(w, MEND_MIB, S(0)), S(0));
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_WAIT, NULL));
    const uint64_t reservations = mend_world_ledger(w).reservations;
    expect_commit(range, 0, PAGE, S(0));
    mend_range *other = create(w, MEND_GIB, PAGE);
    EXPECT_STATS(w, reserved_bytes, PAGE + MEND_MIB); /* idle memory is not in its way */
    void *place = at(other, 0);
    EXPECT_REFUSAL(FOREIGN_POINTER, "lies in the range", mend_free(w->pool, at(range, 0), S(0)));
    kit_fail(w, "address_free", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_OK(mend_range_destroy(other, S(0)));
    EXPECT_LEDGER(w, reservations, reservations + 1);
    EXPECT_REFUSAL(FOREIGN_POINTER, "is not memory of this pool",
                   mend_free(w->pool, place, S(0))); /* and of no range */
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_LEDGER(w, reservations, reservations);
}

/* Once one unpromised object is left, a page out of the middle needs a second. */
RANGE_TEST(pool_range, a_commit_out_of_the_middle_takes_what_it_has_reserved, 0)
{
    mend_slab *spans = &w->pool->heap.nodes.spans;
    expect_commit(range, 0, 8 * PAGE, S(0));
    expect_decommit(range, 0, 8 * PAGE, S(0));
    ASSERT_TRUE(spans->free_count > spans->promised_count);
    const size_t withheld = spans->free_count - spans->promised_count - 1;
    EXPECT_TRUE(mend_slab_promise(spans, withheld));
    expect_commit(range, 3 * PAGE, PAGE, S(0));
    EXPECT_TRUE(spans->free_count >= spans->promised_count);
    mend_slab_end_promise(spans, withheld);
}

/* The last page is missing: a second try finds the pages that the first one mapped. */
RANGE_TEST(pool_range, several_ranges_are_committed_all_or_none, 6 * PAGE)
{
    mend_range *large = create(w, MEND_GIB, 2 * PAGE);
    expect_commit(range, PAGE, PAGE, S(0));
    EXPECT_U64_EQ(7, kit_info(w, at(range, PAGE)).tag);
    use(w, range, PAGE, PAGE, S(0));
    const mend_range_part parts[] = {
        {range, 0, 3 * PAGE}, {large, 4 * PAGE, 4 * PAGE}, {large, 12 * PAGE, PAGE}};
    EXPECT_REFUSAL(OUT_OF_MEMORY, " and 1 more; the limit is ",
                   mend_range_commit_all(parts, sizeof(mend_range_part), 3, S(0)));
    EXPECT_U64_EQ(PAGE, info_of(range).committed_bytes);
    EXPECT_U64_EQ(0, info_of(large).committed_bytes);
    EXPECT_STATS(w, out_of_memory, 1);
    EXPECT_OK(mend_set_limit(w->pool, 7 * PAGE));
    EXPECT_OK(mend_range_commit_all(parts, sizeof(mend_range_part), 2, S(0)));
    use(w, range, 0, 3 * PAGE, S(0));
    use(w, large, 4 * PAGE, 4 * PAGE, S(0));
    EXPECT_OK(mend_set_limit(w->pool, 9 * PAGE));
    EXPECT_OK(mend_range_commit_all(parts, sizeof(mend_range_part), 3, S(0)));
    EXPECT_U64_EQ(6 * PAGE, info_of(large).committed_bytes);
}

/* Where one part lies mapped, its memory does not go to the other, in either order. */
RANGE_TEST(pool_range, parts_of_a_commit_take_nothing_from_each_other, 6 * PAGE)
{
    mend_range *other = create(w, MEND_GIB, PAGE);
    const mend_range_part parts[] = {
        {other, 0, 3 * PAGE}, {range, 2 * PAGE, PAGE}, {range, 0, 2 * PAGE}, {range, 0, PAGE}};
    for (int i = 0; i < 2; i++) {
        mend_range *first = i == 0 ? range : other;
        expect_commit(first, 0, 3 * PAGE, S(0));
        expect_decommit(first, 0, 3 * PAGE, S(0));
        EXPECT_OK(mend_range_commit_all(parts, sizeof(mend_range_part), 4, S(0)));
        EXPECT_STATS(w, chunks_moved, 0, reserved_bytes, 6 * PAGE);
        EXPECT_U64_EQ(3 * PAGE, info_of(range).committed_bytes);
        expect_decommit(range, 0, 3 * PAGE, S(0));
        expect_decommit(other, 0, 3 * PAGE, S(0));
        mend_sim_advance(w->sim, 1000);
        kit_expect_trim(w, 0, 6 * PAGE);
    }
}

KIT_TEST(pool_range, each_range_of_a_commit_gets_chunks_of_its_page)
{
    mend_range *small = create(w, 8 * PAGE, PAGE);
    mend_range *large = create(w, 8 * PAGE, 4 * PAGE);
    const mend_range_part parts[] = {{small, 0, 3 * PAGE}, {large, 0, 4 * PAGE}};
    EXPECT_OK(mend_range_commit_all(parts, sizeof(mend_range_part), 2, S(0)));
    EXPECT_STATS(w, chunks, 4, reserved_bytes, 7 * PAGE);
    EXPECT_OK(mend_range_destroy(small, S(0)));
    EXPECT_OK(mend_range_destroy(large, S(0)));
}

/* The other half has gone to another range. Then empty chunks fit the pages behind it. */
RANGE_TEST(pool_range, half_a_page_is_created_and_the_next_begins_a_chunk, 0)
{
    mend_range *large = create(w, MEND_GIB, 2 * PAGE);
    expect_commit(range, 0, 2 * PAGE, S(0));
    expect_decommit(range, 0, 2 * PAGE, S(0));
    expect_commit(large, 0, 2 * PAGE, S(0)); /* of two chunks */
    for (uint64_t i = 0; i < 4; i++) {
        static const uint64_t pages[] = {3, 8, 7, 10};
        expect_decommit(large, 0, 6 * PAGE, S(0));
        if (i == 3) {
            expect_commit(large, 8 * PAGE, 2 * PAGE, S(0));
            expect_decommit(large, 8 * PAGE, 2 * PAGE, S(0));
        }
        expect_commit(range, i * PAGE, PAGE, S(0)); /* of the first half, or of the second */
        expect_commit(large, 0, i % 2 == 0 ? 2 * PAGE : 6 * PAGE, S(0));
        EXPECT_STATS(w, reserved_bytes, pages[i] * PAGE);
        if (i == 1) {
            expect_decommit(large, 4 * PAGE, 2 * PAGE, S(0));
            mend_sim_advance(w->sim, 1000);
            kit_expect_trim(w, 0, 2 * PAGE);
        }
    }
    EXPECT_OK(mend_range_destroy(large, S(0)));
}

/* A decommit takes nothing that was not named, as GrowingTensor's. */
KIT_TEST(pool_range, bytes_name_the_pages_around_them_and_a_decommit_those_inside)
{
    mend_range *range = create(w, 3 * PAGE + 512, PAGE);
    EXPECT_OK(mend_range_commit(range, PAGE - 1, 2, S(0)));
    EXPECT_U64_EQ(2 * PAGE, info_of(range).committed_bytes);
    EXPECT_OK(mend_range_decommit(range, 1, 2 * PAGE - 2, S(0)));
    EXPECT_U64_EQ(2 * PAGE, info_of(range).committed_bytes);
    EXPECT_OK(mend_range_decommit(range, 1, 2 * PAGE - 1, S(0)));
    EXPECT_U64_EQ(PAGE, info_of(range).committed_bytes);
    EXPECT_OK(mend_range_record_stream(range, 100, 1, S(1)));
    const struct {
        mend_range_part part;
        uint64_t later; /* of a newer caller */
    } parts[] = {{{range, 2 * PAGE + 5, 1}, 0}, {{range, 3 * PAGE, 512}, 0}};
    EXPECT_OK(mend_range_commit_all(&parts[0].part, sizeof(parts[0]), 2, S(0)));
    EXPECT_U64_EQ(3 * PAGE, info_of(range).committed_bytes);
    EXPECT_OK(mend_range_decommit(range, 3 * PAGE, 511, S(0)));
    EXPECT_U64_EQ(3 * PAGE, info_of(range).committed_bytes);
    EXPECT_OK(mend_range_decommit(range, 3 * PAGE, 512, S(0))); /* behind it there is nothing */
    EXPECT_U64_EQ(2 * PAGE, info_of(range).committed_bytes);
    EXPECT_INVALID(mend_range_commit_all(&parts[0].part, sizeof(parts[0].part) - 8, 2, S(0)));
    const mend_range_part wrong[] = {{NULL, 0, PAGE},
                                     {range, 0, 0},
                                     {range, 4 * PAGE, 1},
                                     {range, PAGE, UINT64_MAX},
                                     {range, 5 * PAGE, 1}};
    for (int i = 0; i < 5; i++) {
        const mend_range_part *p = &wrong[i];
        EXPECT_INVALID(mend_range_commit(p->range, p->offset_bytes, p->size_bytes, S(0)));
        EXPECT_INVALID(mend_range_decommit(p->range, p->offset_bytes, p->size_bytes, S(0)));
        EXPECT_INVALID(mend_range_record_stream(p->range, p->offset_bytes, p->size_bytes, S(0)));
    }
    EXPECT_U64_EQ(2 * PAGE, info_of(range).committed_bytes);
    static const struct {
        uint64_t size_bytes, page_bytes;
    } impossible[] = {{1, UINT64_C(1) << 47},
                      {(UINT64_C(1) << 46) + 1, UINT64_C(1) << 40},
                      {(PAGE << 26) + 1, PAGE},
                      {0, PAGE},
                      {PAGE, PAGE + 1}};
    for (int i = 0; i < 5; i++) {
        const mend_range_options *options =
            KIT_OPTIONS(mend_range_options, .page_bytes = impossible[i].page_bytes);
        EXPECT_INVALID(mend_range_create(w->pool, impossible[i].size_bytes, options, &range));
    }
    EXPECT_OK(mend_range_commit_all(NULL, sizeof(*wrong), 0, S(0))); /* which is nothing */
    EXPECT_INVALID(mend_range_commit(range, 0, 1, MEND_EVERY_STREAM));
    EXPECT_INVALID(mend_range_destroy(range, MEND_EVERY_STREAM));
    mend_pool *other = kit_pool(w);
    mend_range *theirs = NULL;
    EXPECT_OK(mend_range_create(other, PAGE, NULL, &theirs));
    EXPECT_INVALID(mend_range_commit_all((const mend_range_part[]){{theirs, 0, 1}, {range, 0, 1}},
                                         sizeof(*wrong), 2, S(0)));
    EXPECT_OK(mend_range_destroy(theirs, S(0)));
    EXPECT_OK(mend_pool_destroy(other));
}

KIT_TEST_IN(pool_range, pages_of_a_stream_that_ended_are_not_waited_for_by_the_context,
            kit_open_set(w, w->pool_config.detect_destroyed_streams = 1))
{
    mend_range *range = create(w, 48 * MEND_MIB, 2 * MEND_MIB);
    mend_stream ended = NULL;
    EXPECT_OK(mend_sim_stream_create(w->sim, NULL, &ended));
    expect_commit(range, 0, 48 * MEND_MIB, ended);
    kit_launch(w, ended, MEND_SIM_WORK_TOUCH, at(range, 0), 1, 0,
               mend_sim_now_ns(w->sim) + 1000000);
    expect_decommit(range, 0, 48 * MEND_MIB, ended);
    EXPECT_OK(mend_sim_stream_destroy(w->sim, ended));
    kit_free(w, kit_alloc(w, 40 * MEND_MIB, S(0)), S(0));
    EXPECT_STATS(w, context_fences, 0, host_waits, 0);
    EXPECT_OK(mend_range_destroy(range, NULL));
}

KIT_SET_TEST(pool_range, an_export_of_all_pages_ends_with_the_range,
             w->pool_config.shareable = MEND_SHAREABLE_ON)
{
    mend_export_token token, part;
    uint64_t offset_bytes = 0;
    mend_range *range = create(w, 4 * MEND_MIB, PAGE);
    const uint64_t size_bytes = info_of(range).size_bytes;
    char *all = info_of(range).base;
    EXPECT_OK(mend_range_commit(range, 0, size_bytes, S(0)));
    for (uint64_t at = 0; at <= PAGE; at += PAGE) { /* one page, the first or another, is not all */
        EXPECT_OK(share_token(w->pool, all + at, &token, BY_FILE));
        EXPECT_INVALID(share_token(w->pool, all, &token, .size_bytes = size_bytes));
        EXPECT_OK(mend_range_decommit(range, at, PAGE, S(0))); /* which ends the export */
        EXPECT_ERROR(DOUBLE_FREE, share_token(w->pool, all + at, &token, BY_FILE));
        EXPECT_OK(mend_range_commit(range, at, PAGE, S(0)));
    }
    EXPECT_OK(share_token(w->pool, all, &token, .size_bytes = size_bytes));
    EXPECT_STATS(w, exported_bytes, size_bytes);
    char *last = all + size_bytes - PAGE; /* has the same export */
    EXPECT_OK(share_token_at(w->pool, last, &part, &offset_bytes, BY_FILE));
    EXPECT_INT_EQ(0, memcmp(&token, &part, sizeof(part)));
    EXPECT_U64_EQ(size_bytes - PAGE, offset_bytes);
    EXPECT_INVALID(share_token(w->pool, last, &token, .size_bytes = PAGE + 1));
    EXPECT_INVALID(share_token(w->pool, last, &token, .size_bytes = UINT64_MAX));
    void *block = kit_alloc(w, 512, S(0));
    EXPECT_ERROR(FOREIGN_POINTER, share_token(w->pool, block, &token, .size_bytes = 512));
    EXPECT_OK(mend_range_destroy(range, NULL));
}
