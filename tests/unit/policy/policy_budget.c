/* How high the pressure is, and how much may be created to avoid moves, by heaps made up by hand.
 */
#include "policy/budget.h"
#include "policy/headroom.h"
#include "policy/tightness.h"

#include "tests/support/test.h"

/* A percent of it is a round number. */
#define LIMIT_BYTES (100 * MEND_MIB)
#define PERCENT(n)  ((n)*MEND_MIB)

/* So many bytes allocated end a window. */
#define WINDOW_BYTES (4 * LIMIT_BYTES)

enum { LOW = MEND_PRESSURE_LOW, HIGH = MEND_PRESSURE_HIGH, CRITICAL = MEND_PRESSURE_CRITICAL };

static void use(mend_heap *heap, uint64_t reserved_bytes, uint64_t empty_bytes, uint64_t live_bytes)
{
    heap->chunks.reserved_bytes = reserved_bytes;
    heap->chunks.empty_bytes = empty_bytes; /* of these, in empty chunks */
    heap->counters.live_bytes = live_bytes;
}

static void use_live(mend_heap *heap, uint64_t bytes)
{
    use(heap, bytes, 0, bytes);
}

static void allocate(mend_heap *heap, uint64_t bytes)
{
    heap->counters.zone[MEND_ZONE_LARGE].allocated_bytes += bytes;
}

static int pressure_behind(mend_heap *heap, uint64_t allocated_bytes)
{
    allocate(heap, allocated_bytes);
    mend_budget_note_use(heap);
    return (int)mend_budget_pressure(heap);
}

static mend_heap heap_with_limit(uint64_t limit_bytes)
{
    mend_heap heap = {.config = {.limit_bytes = limit_bytes}};
    heap.device.granularity_bytes = MEND_GRANULE_BYTES;
    mend_tightness_apply(&heap, 0);
    return heap;
}

MEND_TEST(policy_budget, pressure_is_of_what_is_reserved_in_use_and_trapped)
{
    static const struct {
        uint64_t low_percent; /* 0: as the tightness has it */
        uint64_t reserved_bytes, empty_bytes, live_bytes;
        int pressure;
    } rows[] = {
        {0, 0, 0, 0, LOW},
        {0, PERCENT(5) - 1, 0, 0, LOW}, /* low while less than a twentieth is reserved, */
        {0, PERCENT(5), 0, 0, HIGH},
        {60, PERCENT(40) - 1, 0, 0, LOW}, /* or as long as the placement says */
        {60, PERCENT(40), 0, 0, HIGH},
        {100, 0, 0, 0, HIGH},
        {0, PERCENT(98) - 1, 0, PERCENT(98) - 1, HIGH},   /* critical once all but a fiftieth is */
        {0, PERCENT(98), 0, PERCENT(98), CRITICAL},       /* in use, */
        {0, LIMIT_BYTES, PERCENT(11), PERCENT(89), HIGH}, /* where empty chunks are not, */
        {0, LIMIT_BYTES, PERCENT(2), PERCENT(98), CRITICAL},
        {0, LIMIT_BYTES, PERCENT(10), PERCENT(88) + 1, HIGH}, /* or near the limit beside much */
        {0, LIMIT_BYTES, PERCENT(10), PERCENT(88), CRITICAL}, /* that is trapped; */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mend_heap heap = heap_with_limit(LIMIT_BYTES);
        if (rows[i].low_percent > 0) {
            heap.config.placement.low_pressure_percent = rows[i].low_percent;
        }
        use(&heap, rows[i].reserved_bytes, rows[i].empty_bytes, rows[i].live_bytes);
        EXPECT_INT_EQ(rows[i].pressure, pressure_behind(&heap, 0));
    }
}

/* What is trapped while there is room enough says nothing later, near the limit. */
MEND_TEST(policy_budget, what_is_trapped_counts_near_the_limit_only)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    use(&heap, PERCENT(90) - 1, 0, PERCENT(10));
    EXPECT_INT_EQ(HIGH, pressure_behind(&heap, 0));
    use_live(&heap, PERCENT(95));
    EXPECT_INT_EQ(HIGH, pressure_behind(&heap, 0));
}

/* What is not reserved can be had without breaking anything. */
MEND_TEST(policy_budget, pressure_is_low_again_once_memory_was_given_back)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    use_live(&heap, LIMIT_BYTES);
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, 0));
    use(&heap, PERCENT(5) - 1, 0, 0);
    EXPECT_INT_EQ(LOW, pressure_behind(&heap, 0));
}

MEND_TEST(policy_budget, remembers_a_peak_for_the_rest_of_its_window_and_the_next)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    use_live(&heap, LIMIT_BYTES);
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, 0));
    use_live(&heap, PERCENT(50));
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, WINDOW_BYTES - 1));
    EXPECT_U64_EQ(LIMIT_BYTES, heap.budget.peaks.used_bytes[0]);
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, 1)); /* the next one begins */
    EXPECT_U64_EQ(PERCENT(50), heap.budget.peaks.used_bytes[0]);
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, WINDOW_BYTES - 1));
    EXPECT_INT_EQ(HIGH, pressure_behind(&heap, 1));

    heap = heap_with_limit(LIMIT_BYTES); /* what was trapped as well */
    use(&heap, PERCENT(92), 0, PERCENT(89));
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, 0));
    use_live(&heap, PERCENT(92));
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, WINDOW_BYTES));
    EXPECT_INT_EQ(HIGH, pressure_behind(&heap, WINDOW_BYTES));
}

MEND_TEST(policy_budget, follows_the_limit_and_what_the_device_can_give)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    use_live(&heap, PERCENT(60));
    EXPECT_INT_EQ(HIGH, pressure_behind(&heap, 0));
    heap.config.limit_bytes = PERCENT(61);
    EXPECT_INT_EQ(CRITICAL, mend_budget_pressure(&heap));
    heap.config.limit_bytes = PERCENT(30); /* below what is in use */
    EXPECT_INT_EQ(CRITICAL, mend_budget_pressure(&heap));
    EXPECT_U64_EQ(0, mend_budget_room_bytes(&heap));
    heap.config.limit_bytes = 20 * LIMIT_BYTES;
    EXPECT_INT_EQ(LOW, mend_budget_pressure(&heap));
    EXPECT_U64_EQ(PERCENT(1940), mend_budget_room_bytes(&heap));
    heap.config.limit_bytes = LIMIT_BYTES;
    heap.budget.attainable.is_known = true;
    heap.budget.attainable.bytes = PERCENT(61);
    EXPECT_INT_EQ(CRITICAL, mend_budget_pressure(&heap));
    EXPECT_U64_EQ(PERCENT(1), mend_budget_room_bytes(&heap));
    EXPECT_U64_EQ(PERCENT(2), mend_budget_lacking_bytes(&heap, PERCENT(3)));
    heap.budget.attainable.bytes = PERCENT(200); /* the limit holds all the same */
    EXPECT_U64_EQ(PERCENT(40), mend_budget_room_bytes(&heap));
}

/* ---- headroom: half of the limit is far away ---- */

#define FAR_LIMIT_BYTES (10000 * MEND_MIB)
#define LIVED_BYTES     (1600 * MEND_MIB)
#define OF_LIVED(n)     (LIVED_BYTES / 100 * (n))

/* What a move pays for: a sixteenth of a usual chunk of 16 MiB. */
#define PAID_BYTES MEND_MIB

/* A heap in which so much lived, all of it reserved; and where so many chunks were moved. */
static mend_heap heap_that_held_it(int moves)
{
    mend_heap heap = heap_with_limit(FAR_LIMIT_BYTES);
    use(&heap, LIVED_BYTES, 0, LIVED_BYTES - MEND_MIB);
    mend_headroom_note_request(&heap, MEND_MIB);
    for (int i = 0; i < moves; i++) {
        mend_headroom_note_move(&heap);
    }
    return heap;
}

static void expect_headroom(mend_heap *heap, uint64_t bytes)
{
    EXPECT_TRUE(mend_headroom_allows(heap, bytes));
    EXPECT_FALSE(mend_headroom_allows(heap, bytes + 1));
}

MEND_TEST(policy_headroom, a_little_of_what_was_live_at_most_may_be_created)
{
    mend_heap heap = heap_that_held_it(0);
    expect_headroom(&heap, OF_LIVED(4));
    heap.counters.live_bytes = 0;
    mend_headroom_note_request(&heap, MEND_MIB);
    expect_headroom(&heap, OF_LIVED(4));
    heap.chunks.reserved_bytes += OF_LIVED(3);
    expect_headroom(&heap, OF_LIVED(1));
    use_live(&heap, OF_LIVED(50));
    mend_headroom_forget(&heap); /* as a trim does */
    expect_headroom(&heap, OF_LIVED(2));
}

MEND_TEST(policy_headroom, each_move_pays_for_a_sixteenth_of_a_chunk)
{
    static const int moves[] = {1, 100};
    for (int i = 0; i < 2; i++) {
        mend_heap heap = heap_that_held_it(moves[i]);
        expect_headroom(&heap, OF_LIVED(4) + (uint64_t)moves[i] * PAID_BYTES);
    }
    mend_heap heap = heap_that_held_it((int)(OF_LIVED(4) / PAID_BYTES));
    heap.chunks.reserved_bytes += OF_LIVED(7); /* what was created counts as taken */
    expect_headroom(&heap, OF_LIVED(1));
}

MEND_TEST(policy_headroom, rare_moves_pay_for_nothing)
{
    mend_heap heap = heap_that_held_it((int)(OF_LIVED(46) / PAID_BYTES));
    allocate(&heap, 4 * FAR_LIMIT_BYTES - 1);
    mend_headroom_note_request(&heap, MEND_MIB);
    EXPECT_TRUE(mend_headroom_allows(&heap, OF_LIVED(50)));
    allocate(&heap, 1);
    mend_headroom_note_request(&heap, MEND_MIB);
    EXPECT_FALSE(mend_headroom_allows(&heap, OF_LIVED(50)));
    EXPECT_TRUE(mend_headroom_allows(&heap, OF_LIVED(4)));
}

MEND_TEST(policy_headroom, near_the_limit_less_is_created)
{
    mend_heap heap = heap_that_held_it(100);
    heap.config.limit_bytes = LIVED_BYTES / 3 * 4 + 4; /* moves pay while a quarter is left */
    EXPECT_TRUE(mend_headroom_allows(&heap, OF_LIVED(5)));
    heap.config.limit_bytes -= 8;
    EXPECT_FALSE(mend_headroom_allows(&heap, OF_LIVED(5)));
    EXPECT_TRUE(mend_headroom_allows(&heap, OF_LIVED(4)));

    heap = heap_that_held_it(0); /* a fiftieth of the limit is kept */
    heap.config.limit_bytes = LIVED_BYTES / 95 * 100;
    uint64_t left = heap.config.limit_bytes - LIVED_BYTES;
    expect_headroom(&heap, left - heap.config.limit_bytes / 100 * 2);

    heap = heap_that_held_it(0); /* nothing under critical pressure */
    heap.config.limit_bytes = 2 * LIVED_BYTES;
    heap.budget.peaks.used_bytes[0] = heap.config.limit_bytes;
    EXPECT_FALSE(mend_headroom_allows(&heap, 0));
}

MEND_TEST(policy_headroom, nothing_for_a_while_after_a_refusal)
{
    mend_heap heap = heap_that_held_it(0);
    mend_headroom_note_refusal(&heap);
    EXPECT_FALSE(mend_headroom_allows(&heap, 0));
    allocate(&heap, 4 * FAR_LIMIT_BYTES);
    mend_headroom_note_request(&heap, MEND_MIB);
    EXPECT_TRUE(mend_headroom_allows(&heap, OF_LIVED(4)));
}

/* A program that tries how much it gets asks for more than there can ever be. */
MEND_TEST(policy_headroom, what_can_never_live_counts_for_nothing)
{
    mend_heap heap = heap_that_held_it(0);
    mend_headroom_note_request(&heap, UINT64_C(1) << 60);
    mend_headroom_note_request(&heap, FAR_LIMIT_BYTES - heap.counters.live_bytes + 1);
    expect_headroom(&heap, OF_LIVED(4));
}
