/* How much may be created to avoid moves, by heaps made up by hand. */
#include "policy/headroom.h"
#include "policy/tightness.h"

#include "base/align.h"
#include "tests/support/test.h"

/* Half of the limit is far away; a percent of what lived is a round number. */
#define LIMIT_BYTES (10000 * MEND_MIB)
#define LIVED_BYTES (1600 * MEND_MIB)
#define PERCENT(n)  (LIVED_BYTES / 100 * (n))

/* What a move pays for: a sixteenth of a usual chunk of 16 MiB. */
#define PAID_BYTES MEND_MIB

/* A heap in which so much lived, all of it reserved. */
static mend_heap heap_that_held_it(void)
{
    mend_heap heap = {.config = {.limit_bytes = LIMIT_BYTES}};
    heap.device.granularity_bytes = MEND_GRANULE_BYTES;
    mend_tightness_apply(&heap, 0);
    heap.counters.live_bytes = LIVED_BYTES - MEND_MIB;
    heap.chunks.reserved_bytes = LIVED_BYTES;
    mend_headroom_note_request(&heap, MEND_MIB);
    return heap;
}

static void note_moves(mend_heap *heap, int moves)
{
    for (int i = 0; i < moves; i++) {
        mend_headroom_note_move(heap);
    }
}

MEND_TEST(policy_headroom, a_little_of_what_was_live_at_most_may_be_created)
{
    mend_heap heap = heap_that_held_it();
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(4)));
    EXPECT_FALSE(mend_headroom_allows(&heap, PERCENT(4) + 1));
    heap.counters.live_bytes = 0;
    mend_headroom_note_request(&heap, MEND_MIB);
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(4)));
    heap.chunks.reserved_bytes += PERCENT(3);
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(1)));
    EXPECT_FALSE(mend_headroom_allows(&heap, PERCENT(1) + 1));
}

MEND_TEST(policy_headroom, each_move_pays_for_a_sixteenth_of_a_chunk)
{
    mend_heap heap = heap_that_held_it();
    note_moves(&heap, 1);
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(4) + PAID_BYTES));
    EXPECT_FALSE(mend_headroom_allows(&heap, PERCENT(4) + PAID_BYTES + 1));
    note_moves(&heap, 99);
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(4) + 100 * PAID_BYTES));
    EXPECT_FALSE(mend_headroom_allows(&heap, PERCENT(4) + 100 * PAID_BYTES + 1));
}

MEND_TEST(policy_headroom, what_was_created_counts_as_taken)
{
    mend_heap heap = heap_that_held_it();
    note_moves(&heap, (int)(PERCENT(4) / PAID_BYTES));
    heap.chunks.reserved_bytes += PERCENT(7);
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(1)));
    EXPECT_FALSE(mend_headroom_allows(&heap, PERCENT(1) + 1));
}

MEND_TEST(policy_headroom, rare_moves_pay_for_nothing)
{
    mend_heap heap = heap_that_held_it();
    note_moves(&heap, 1000);
    heap.counters.zone[MEND_ZONE_LARGE].allocated_bytes += 4 * LIMIT_BYTES - 1;
    mend_headroom_note_request(&heap, MEND_MIB);
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(50)));
    heap.counters.zone[MEND_ZONE_LARGE].allocated_bytes += 1;
    mend_headroom_note_request(&heap, MEND_MIB);
    EXPECT_FALSE(mend_headroom_allows(&heap, PERCENT(50)));
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(4)));
}

MEND_TEST(policy_headroom, moves_pay_only_while_a_quarter_of_the_limit_is_left)
{
    mend_heap heap = heap_that_held_it();
    note_moves(&heap, 100);
    heap.config.limit_bytes = LIVED_BYTES / 3 * 4 + 4;
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(5)));
    heap.config.limit_bytes -= 8;
    EXPECT_FALSE(mend_headroom_allows(&heap, PERCENT(5)));
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(4)));
}

MEND_TEST(policy_headroom, a_fiftieth_of_the_limit_is_kept)
{
    mend_heap heap = heap_that_held_it();
    heap.config.limit_bytes = LIVED_BYTES / 95 * 100;
    uint64_t left = heap.config.limit_bytes - LIVED_BYTES;
    uint64_t kept = heap.config.limit_bytes / 100 * 2;
    EXPECT_TRUE(mend_headroom_allows(&heap, left - kept));
    EXPECT_FALSE(mend_headroom_allows(&heap, left - kept + 1));
}

MEND_TEST(policy_headroom, nothing_under_critical_pressure)
{
    mend_heap heap = heap_that_held_it();
    heap.config.limit_bytes = 2 * LIVED_BYTES;
    heap.budget.peaks.used_bytes[0] = heap.config.limit_bytes;
    EXPECT_FALSE(mend_headroom_allows(&heap, 0));
}

MEND_TEST(policy_headroom, nothing_for_a_while_after_a_refusal)
{
    mend_heap heap = heap_that_held_it();
    mend_headroom_note_refusal(&heap);
    EXPECT_FALSE(mend_headroom_allows(&heap, 0));
    heap.counters.zone[MEND_ZONE_LARGE].allocated_bytes += 4 * LIMIT_BYTES;
    mend_headroom_note_request(&heap, MEND_MIB);
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(4)));
}

MEND_TEST(policy_headroom, what_lived_before_a_trim_is_forgotten)
{
    mend_heap heap = heap_that_held_it();
    heap.counters.live_bytes = PERCENT(50);
    heap.chunks.reserved_bytes = PERCENT(50);
    mend_headroom_forget(&heap);
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(2)));
    EXPECT_FALSE(mend_headroom_allows(&heap, PERCENT(2) + 1));
}

/* A program that tries how much it gets asks for more than there can ever be. */
MEND_TEST(policy_headroom, what_can_never_live_counts_for_nothing)
{
    mend_heap heap = heap_that_held_it();
    mend_headroom_note_request(&heap, UINT64_C(1) << 60);
    mend_headroom_note_request(&heap, LIMIT_BYTES - heap.counters.live_bytes + 1);
    EXPECT_TRUE(mend_headroom_allows(&heap, PERCENT(4)));
    EXPECT_FALSE(mend_headroom_allows(&heap, PERCENT(4) + 1));
}
