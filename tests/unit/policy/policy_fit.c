/* Where in mapped free memory a request goes, on a heap made by hand. Requests are on the first
 * stream. */
#include "policy/policy.h"

#include "policy/constants.h"
#include "tests/support/hand_heap.h"

enum { SECOND = 2, NONE = -1 };

/* The page that a request gets, NONE: none. */
static long long page_of(mend_fit fit)
{
    return fit.run != NULL ? (long long)((fit.address - HAND_START) / HAND_PAGE) : NONE;
}

static long long fit_pages(hand_heap *h, const mend_request *request)
{
    return page_of(mend_fit_find(&h->heap, request, MEND_ZONE_LARGE, UINT64_MAX));
}

/* The search at every place finds what lies between memory of another stream. */
HAND_TEST(policy_fit, anywhere_is_also_behind_what_another_stream_freed, "2.2 4.1 2.2")
{
    mend_request request = hand_request(3);
    EXPECT_INT_EQ(2, page_of(mend_fit_find_anywhere(&h->heap, &request, MEND_ZONE_LARGE)));
    request = hand_request(5);
    EXPECT_INT_EQ(NONE, page_of(mend_fit_find_anywhere(&h->heap, &request, MEND_ZONE_LARGE)));
    hand_pass(h, SECOND);
    EXPECT_INT_EQ(0, fit_pages(h, &request));
}

/* Of runs that all wait for another stream so many are looked at, and no more. */
#define FIVE_WAIT         "1.2 1# 1.2 1# 1.2 1# 1.2 1# 1.2 1# "
#define TWENTY_THREE_WAIT FIVE_WAIT FIVE_WAIT FIVE_WAIT FIVE_WAIT "1.2 1# 1.2 1# 1.2 1# "
HAND_TEST(policy_fit, the_last_of_the_runs_that_are_looked_at_serves, TWENTY_THREE_WAIT "1.")
{
    const mend_request request = hand_request(1);
    EXPECT_INT_EQ(24, SEARCH_TRIES);
    EXPECT_INT_EQ(46, fit_pages(h, &request));
}

HAND_TEST(policy_fit, the_run_behind_those_does_not, TWENTY_THREE_WAIT "1.2 1# 1.")
{
    const mend_request request = hand_request(1);
    EXPECT_INT_EQ(NONE, fit_pages(h, &request));
}
