/*
 * A heap made by hand, without a driver, a pool or locks: chunks lie at addresses that nobody has
 * mapped, so that layout and policy can be asked by themselves. All sizes and places are in pages.
 * What the heap looks like is a text: "3. 2# | 4." is a segment of three free pages and two live
 * ones, and a segment of four free pages; "2?" is claimed. One span is one number.
 */
#ifndef MEND_TESTS_SUPPORT_HAND_HEAP_H
#define MEND_TESTS_SUPPORT_HAND_HEAP_H

#include "layout/layout.h"
#include "tests/support/kit.h"

#define HAND_PAGE  (64 * MEND_KIB)
#define HAND_START MEND_GIB

/* Streams that have each an open epoch; the first one has no number but "unknown". */
enum { HAND_STREAMS = 4, HAND_EPOCH = 10 };

typedef struct hand_heap {
    mend_heap heap;
    mend_driver driver; /* creates chunks, and does nothing else */
    mend_stream_state states[HAND_STREAMS];
    char text[512];
} hand_heap;

/* Nothing is laid out; the limit is 1000 pages. */
void hand_open(hand_heap *h);
void hand_close(hand_heap *h);

/* The same, and lays out what a text says, "" for nothing, a chunk for each segment: "2. 1# 3.2 |
 * 20: 4." is one of two free pages, a live one and three that stream 2 freed, from page 0 on, and
 * one from page 20.
 */
void hand_open_as(hand_heap *h, const char *text);

/* A case with a heap that is laid out so. */
#define HAND_TEST(suite, name, text)                                                               \
    KIT_CASE(suite, name, hand_heap, h, (hand_open_as(h, text), true), hand_close(h))

/* The spans and the runs are these, as the texts below. */
#define hand_expect(h, spans, runs)                                                                \
    do {                                                                                           \
        EXPECT_STR_EQ(spans, hand_spans(h));                                                       \
        EXPECT_STR_EQ(runs, hand_runs(h));                                                         \
    } while (0)

static inline uint64_t hand_address(uint64_t page)
{
    return HAND_START + page * HAND_PAGE;
}

/* A chunk of so many pages, laid out at a page; and one that is mapped nowhere. */
mend_chunk *hand_chunk(hand_heap *h, uint64_t page, uint64_t pages);
mend_chunk *hand_unmapped_chunk(hand_heap *h, uint64_t pages);

/* Takes pages of the run that they lie in; frees what begins at a page, by a stream or by none. */
mend_span *hand_take(hand_heap *h, uint64_t page, uint64_t pages);
void hand_free(hand_heap *h, uint64_t page, uint32_t stream);

/* What was freed by the stream is idle. */
void hand_pass(hand_heap *h, uint32_t stream);

/* The large zone as a text; and its runs in the order of their sizes, "2 5+": behind those with a
 * plus addresses are unmapped. Good until the next call. */
const char *hand_spans(hand_heap *h);
const char *hand_runs(hand_heap *h);

/* A request of so many pages on stream 1. */
mend_request hand_request(uint64_t pages);

#endif
