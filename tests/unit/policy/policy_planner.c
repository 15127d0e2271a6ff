/* Plans for requests, on heaps made by hand: by which rules there is one, and what it is. */
#include "policy/planner.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/hand_heap.h"
#include "tests/support/rig.h"
#include "tests/support/test.h"

enum { FIRST = 1, SECOND = 2 }; /* streams; requests are on the first */

static const mend_plan_rules move = {.may_move = true};
static const mend_plan_rules extend = {.may_extend = true, .may_move = true};
static const mend_plan_rules create = {.may_create = true, .may_move = true};
static const mend_plan_rules extend_exactly = {
    .may_extend = true, .may_create = true, .may_move = true, .exact = true};

static mend_status reserve(const mend_driver *driver, uint64_t size_bytes, uint64_t alignment_bytes,
                           uint64_t hint, uint64_t *address)
{
    (void)driver;
    (void)size_bytes;
    (void)alignment_bytes;
    (void)hint;
    *address = HAND_START;
    return MEND_DRIVER_OK;
}

/* Addresses of 4000 pages, in which chunks can be laid out and runs can grow. */
static void open_with_addresses(hand_heap *h)
{
    uint64_t address;
    hand_open(h);
    h->driver.reserve = reserve;
    mend_space_init(&h->heap.space, &h->driver, HAND_PAGE, 4000 * HAND_PAGE, 0);
    EXPECT_TRUE(mend_space_reserve_nodes(&h->heap.space, 16));
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_space_place(&h->heap.space, MEND_ZONE_LARGE, HAND_PAGE,
                                                   HAND_PAGE, &address));
}

static void close_with_addresses(hand_heap *h)
{
    mend_space_abandon(&h->heap.space);
    hand_close(h);
}

static void lay_out(hand_heap *h, uint64_t page, uint64_t pages)
{
    mend_space_take(&h->heap.space, hand_address(page), pages * HAND_PAGE);
    hand_chunk(h, page, pages);
}

/* "base 10+2, 4 2, create 8": the base by its page and what the block has of it, the picked chunks,
 * what is created; all in pages. */
static const char *words_of(hand_heap *h, const mend_plan *plan)
{
    size_t used = 0;
    h->text[0] = '\0';
#define ADD(...) used += (size_t)snprintf(h->text + used, sizeof(h->text) - used, __VA_ARGS__)
    if (plan->base != NULL) {
        uint64_t end = plan->base_address + plan->base_bytes;
        ADD("base %llu+%llu,", (unsigned long long)((plan->start - HAND_START) / HAND_PAGE),
            (unsigned long long)((end - plan->start) / HAND_PAGE));
    }
    for (size_t i = 0; i < plan->picks.count; i++) {
        ADD(" %llu", (unsigned long long)(plan->picks.chunks[i]->size_bytes / HAND_PAGE));
    }
    if (plan->create_bytes > 0) {
        ADD(" create %llu", (unsigned long long)(plan->create_bytes / HAND_PAGE));
    }
#undef ADD
    return h->text;
}

static void expect_plan(hand_heap *h, uint64_t pages, mend_plan_rules rules, const char *words)
{
    mend_plan plan;
    mend_request request = hand_request(pages);
    bool is_found = mend_plan_find(&h->heap, &request, rules, &plan);
    EXPECT_TRUE(is_found == (words != NULL));
    if (is_found && words != NULL) {
        EXPECT_STR_EQ(words, words_of(h, &plan));
    }
    mend_plan_clear(&plan);
}

#define PLANNER_TEST(suite, name)                                                                  \
    RIG_TEST(suite, name, hand_heap, h, (open_with_addresses(h), true), close_with_addresses(h))

PLANNER_TEST(policy_planner, a_base_is_not_robbed_of_its_own_chunks)
{
    lay_out(h, 10, 4);
    lay_out(h, 14, 4); /* one run of eight */
    expect_plan(h, 9, extend, NULL);
    hand_unmapped_chunk(h, 1);
    expect_plan(h, 9, extend, "base 10+8, 1");
    lay_out(h, 100, 9); /* the largest run below the request grows */
    expect_plan(h, 10, extend, "base 100+9, 1");
    expect_plan(h, 1, move, " 1");
}

PLANNER_TEST(policy_planner, creation_ends_at_the_limit)
{
    h->heap.config.limit_bytes = 20 * HAND_PAGE;
    h->heap.config.placement.low_pressure_percent = 100; /* pressure is never low */
    hand_unmapped_chunk(h, 8);
    expect_plan(h, 20, create, " 8 create 12");
    expect_plan(h, 21, create, NULL);
    expect_plan(h, 21, move, NULL);
    mend_plan plan;
    mend_request request = hand_request(22);
    EXPECT_FALSE(mend_plan_find(&h->heap, &request, create, &plan));
    EXPECT_U64_EQ(2 * HAND_PAGE, plan.lacking_bytes);
    EXPECT_U64_EQ(0, plan.refused_bytes); /* it is the limit that lacks */
    mend_plan_clear(&plan);
}

PLANNER_TEST(policy_planner, what_the_device_lacks_is_a_figure_of_the_plan)
{
    h->heap.budget.attainable = (mend_attainable){.is_known = true, .bytes = 10 * HAND_PAGE};
    mend_plan plan;
    mend_request request = hand_request(12);
    EXPECT_FALSE(mend_plan_find(&h->heap, &request, create, &plan));
    EXPECT_U64_EQ(12 * HAND_PAGE, plan.refused_bytes);
    EXPECT_U64_EQ(0, h->heap.shortage.refused_bytes);
    mend_plan_clear(&plan);
}

PLANNER_TEST(policy_planner, two_plans_can_be_held_and_compared)
{
    lay_out(h, 10, 4);
    hand_unmapped_chunk(h, 8);
    hand_unmapped_chunk(h, 2);
    mend_plan extended;
    mend_plan elsewhere;
    mend_request request = hand_request(12);
    EXPECT_TRUE(mend_plan_find(&h->heap, &request, extend, &extended));
    EXPECT_TRUE(mend_plan_find(&h->heap, &request, move, &elsewhere));
    EXPECT_STR_EQ("base 10+4, 8", words_of(h, &extended));
    EXPECT_STR_EQ(" 8 4", words_of(h, &elsewhere));
    EXPECT_STR_EQ("base 10+4, 8", words_of(h, &extended));
    EXPECT_TRUE(mend_plan_uses(&extended, elsewhere.picks.chunks[0]));
    EXPECT_TRUE(mend_plan_uses(&extended, elsewhere.picks.chunks[1])); /* it lies in the base */
    EXPECT_U64_EQ(1, elsewhere.moved_count);
    mend_plan_clear(&extended);
    mend_plan_clear(&elsewhere);
}

/* With an exact creation, for memory is short: the run that needs least of what is left. */
PLANNER_TEST(policy_planner, the_plan_that_lacks_least_is_left)
{
    h->heap.config.limit_bytes = 18 * HAND_PAGE;
    lay_out(h, 100, 6);
    lay_out(h, 10, 8);
    lay_out(h, 200, 2);
    hand_take(h, 10, 4); /* 4 free pages of 8, which serve only where they are */
    hand_take(h, 200, 1);
    mend_plan plan;
    mend_request request = hand_request(13);
    EXPECT_FALSE(mend_plan_find(&h->heap, &request, extend_exactly, &plan));
    EXPECT_STR_EQ("base 14+4, 6", words_of(h, &plan));
    EXPECT_U64_EQ(1 * HAND_PAGE, plan.lacking_bytes);
    mend_plan_clear(&plan);
}

/* A look joins spans that are idle, and what is joined is stamped together later. */
PLANNER_TEST(policy_planner, once_a_plan_fits_no_other_run_is_looked_at)
{
    lay_out(h, 100, 8);
    lay_out(h, 10, 4);
    hand_take(h, 10, 2);
    hand_take(h, 12, 2);
    hand_free(h, 10, FIRST);
    hand_free(h, 12, SECOND);
    hand_pass(h, FIRST);
    hand_pass(h, SECOND);
    hand_unmapped_chunk(h, 2);
    EXPECT_STR_EQ("2. 2. | 8.", hand_spans(h));
    expect_plan(h, 10, extend, "base 100+8, 2");
    EXPECT_STR_EQ("2. 2. | 8.", hand_spans(h));
}
