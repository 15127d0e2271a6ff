/* Spans and runs of a heap made by hand: what a chunk that comes or goes, a take, a free and a
 * claim make of them. */
#include <stdlib.h>

#include "layout/layout.h"
#include "tests/support/hand_heap.h"

static mend_zone *zone_of(hand_heap *h)
{
    return &h->heap.zones[MEND_ZONE_LARGE];
}

static mend_run *run_at(hand_heap *h, uint64_t page)
{
    return mend_layout_run_at(zone_of(h), hand_address(page));
}

/* Does what a text says: "c4+2" lays out a chunk of two pages at the fourth, "t" takes them; "f4+1"
 * frees what begins at the fourth, by the first stream or, by 0, by none; "p" is the time at which
 * a stream has passed, and what is free is tidied. */
static void play(hand_heap *h, const char *text)
{
    char *end = NULL;
    for (; *text != '\0'; text = end + (*end == ' ')) {
        uint64_t page = strtoull(text + 1, &end, 10);
        uint64_t pages = *end == '+' ? strtoull(end + 1, &end, 10) : 0;
        if (*text == 'c') {
            hand_chunk(h, page, pages);
        } else if (*text == 't') {
            hand_take(h, page, pages);
        } else if (*text == 'f') {
            hand_free(h, page, (uint32_t)pages);
        } else {
            hand_pass(h, (uint32_t)page);
            mend_layout_tidy(&h->heap, run_at(h, 0), page % 2 == 0, UINT64_MAX);
        }
    }
}

MEND_TEST(layout_spans, what_comes_goes_and_waits)
{
    static const struct {
        const char *heap, *play, *spans, *runs;
    } rows[] = {
        {"", "c0+4", "4.", "4+"},
        {"", "c0+4 c6+1", "4. | 1.", "1+ 4+"},
        {"", "c0+4 c6+1 c4+2", "7.", "7+"}, /* side by side they are one run */
        {"10.", "t0+3", "3# 7.", "7+"},     /* a take leaves the rest of its run */
        {"10.", "t4+2", "4. 2# 4.", "4 4+"},
        {"10.", "t7+3", "7. 3#", "7"},
        {"10.", "t0+10", "10#", ""},
        {"10.", "t0+10 f0+0", "10.", "10+"},
        {"10.", "t4+2 f4+0", "10.", "10+"},
        {"2# 2# 2#", "f0+0 f4+0", "2. 2# 2.", "2 2+"},
        {"2# 2# 2#", "f0+0 f4+0 f2+0", "6.", "6+"}, /* a free joins both sides */
        {"2.1 3.2", "", "2. 3.", "5+"}, /* what waits for different work is one run of two spans */
        {"2.1 3.2", "p1", "2. 3.", "5+"},
        {"2.1 3.2", "p1 p2", "5.", "5+"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hand_heap h;
        hand_open_as(&h, rows[i].heap);
        play(&h, rows[i].play);
        hand_expect(&h, rows[i].spans, rows[i].runs);
        hand_close(&h);
    }
}
