/* Where in mapped free memory a request goes, on a heap made by hand, without a driver, a pool or
 * locks: one segment of pieces. Requests are on the first stream. */
#include "plan/policy.h"

#include "layout/layout.h"
#include "plan/constants.h"
#include "tests/support/kit.h"

/* Of pieces: live, or free, by a stream or all along. */
enum { UNUSED = MEND_STREAM_UNKNOWN, FIRST, SECOND, LIVE, STREAMS = LIVE };
enum { NODES = 256, EPOCH = 10, NONE = -1 };
#define PAGE  (64 * MEND_KIB)
#define START MEND_GIB

typedef struct hand_heap {
    mend_heap heap;
    mend_driver driver; /* creates chunks, and does nothing else */
    mend_stream_state states[STREAMS];
    uint64_t end; /* of the pieces so far */
} hand_heap;

static mend_status create(const mend_driver *driver, uint64_t size_bytes,
                          const mend_chunk_properties *properties, mend_chunk_handle *handle)
{
    (void)driver;
    (void)properties;
    *handle = (mend_chunk_handle)(uintptr_t)(size_bytes + 1);
    return MEND_DRIVER_OK;
}

/* Chunks of so many pages one behind the other, of which none is used. */
static bool open_chunks(hand_heap *h, const uint64_t pages[], size_t count)
{
    *h = (hand_heap){.end = START};
    mend_heap *heap = &h->heap;
    uint64_t address = START;
    h->driver.create = create;
    heap->driver = &h->driver;
    heap->device.granularity_bytes = PAGE;
    heap->config.limit_bytes = 1000 * PAGE;
    mend_strategy_apply(heap, 0);
    for (int i = 0; i < STREAMS; i++) {
        h->states[i] = (mend_stream_state){.known = true, .open = i > 0, .open_epoch = EPOCH};
    }
    heap->streams = (mend_streams){
        .items = h->states, .count = STREAMS, .capacity = STREAMS, .may_be_several = true};
    mend_chunks_init(&heap->chunks, &h->driver, &(const mend_chunk_properties){.device = 0}, NULL);
    mend_layout_init(heap);
    EXPECT_TRUE(mend_slab_reserve(&heap->nodes.spans, NODES) &&
                mend_slab_reserve(&heap->nodes.runs, NODES) &&
                mend_slab_reserve(&heap->nodes.waits, NODES) &&
                mend_slab_reserve(&heap->chunks.slab, NODES));
    for (size_t i = 0; i < count && !mend_test_has_failed(); i++) {
        mend_chunk *chunk = NULL;
        mend_waits waits = {0};
        EXPECT_INT_EQ(MEND_DRIVER_OK,
                      mend_chunk_create(&heap->chunks, pages[i] * PAGE, false, &chunk));
        mend_layout_attach(heap, chunk, MEND_ZONE_LARGE, address, &waits);
        address += pages[i] * PAGE;
    }
    return !mend_test_has_failed();
}

static bool open_heap(hand_heap *h, uint64_t pages)
{
    return open_chunks(h, &pages, 1);
}

static void close_heap(hand_heap *h)
{
    mend_heap *heap = &h->heap;
    EXPECT_TRUE(mend_chunks_are_in_order(&heap->chunks));
    mend_chunks_clear(&heap->chunks);
    mend_layout_clear(heap);
}

/* The next piece. It is freed by its stream where it has one. */
static void add(hand_heap *h, uint64_t pages, uint32_t state)
{
    mend_run *run = mend_layout_run_at(&h->heap.zones[MEND_ZONE_LARGE], h->end);
    if (state != UNUSED) {
        mend_span *span = mend_layout_take(&h->heap, run, h->end, pages * PAGE, 0);
        if (state != LIVE) {
            mend_waits_add(mend_heap_wait_env(&h->heap), &span->waits,
                           (mend_stamp){.epoch = EPOCH, .stream = state});
            mend_layout_free(&h->heap, span);
        }
    }
    h->end += pages * PAGE;
}

static mend_request request_of(uint64_t pages)
{
    return (mend_request){.size_bytes = pages * PAGE,
                          .requested_bytes = pages * PAGE,
                          .alignment_bytes = 512,
                          .stream = FIRST,
                          .zone = MEND_ZONE_LARGE};
}

/* The page that a request gets, NONE: none. */
static long long page_of(mend_fit fit)
{
    return fit.run != NULL ? (long long)((fit.address - START) / PAGE) : NONE;
}

static long long fit_pages(hand_heap *h, uint64_t pages)
{
    const mend_request request = request_of(pages);
    return page_of(mend_fit_find(&h->heap, &request, MEND_ZONE_LARGE, UINT64_MAX));
}

static long long fit_anywhere(hand_heap *h, uint64_t pages)
{
    const mend_request request = request_of(pages);
    return page_of(mend_fit_find_anywhere(&h->heap, &request, MEND_ZONE_LARGE));
}

/* The search at every place finds memory between memory of another stream. */
KIT_CASE(policy_fit, anywhere_is_also_behind_what_another_stream_freed, hand_heap, h,
         open_heap(h, 8), close_heap(h))
{
    add(h, 2, SECOND);
    add(h, 4, FIRST);
    add(h, 2, SECOND);
    EXPECT_INT_EQ(2, fit_anywhere(h, 3));
    EXPECT_INT_EQ(NONE, fit_anywhere(h, 5));
    h->states[SECOND].passed_epoch = EPOCH;
    h->states[SECOND].open_epoch = EPOCH + 1;
    EXPECT_INT_EQ(0, fit_pages(h, 5));
}

MEND_TEST(policy_fit, so_many_runs_are_looked_at)
{
    for (uint64_t waiting = SEARCH_TRIES - 1; waiting <= SEARCH_TRIES; waiting++) {
        hand_heap h;
        ASSERT_TRUE(open_heap(&h, 2 * waiting + 1));
        for (uint64_t i = 0; i < waiting; i++) {
            add(&h, 1, SECOND);
            add(&h, 1, LIVE);
        }
        EXPECT_INT_EQ(waiting < SEARCH_TRIES ? 2 * (long long)waiting : NONE, fit_pages(&h, 1));
        close_heap(&h);
    }
    EXPECT_INT_EQ(24, SEARCH_TRIES);
}

/* ---- what spares empty chunks, beside the same rule page by page ------------------------------
 */

enum { SPARED = 7, SPARED_CHUNKS = 4, PATTERNS = 3 * 3 * 3 * 3 * 3 * 3 * 3 };
static const uint64_t chunk_pages[SPARED_CHUNKS] = {2, 1, 3, 1};

typedef struct spared {
    hand_heap hand;
    uint32_t states[SPARED]; /* of the pages: UNUSED, SECOND or LIVE */
    bool is_trapped;         /* much was, while most of the limit was used */
} spared;

/* Bytes of empty chunks that a block breaks, in pages, with the waste. */
static uint64_t broken_pages(const spared *s, uint64_t at, uint64_t end, uint64_t *wasted)
{
    uint64_t broken = 0;
    uint64_t first = 0;
    *wasted = 0;
    for (size_t i = 0; i < SPARED_CHUNKS; i++) {
        const uint64_t behind = first + chunk_pages[i];
        bool is_empty = first < end && behind > at;
        for (uint64_t page = first; page < behind; page++) {
            is_empty = is_empty && s->states[page] != LIVE;
        }
        if (is_empty) {
            broken += chunk_pages[i];
            *wasted += (first < at ? at - first : 0) + (behind > end ? behind - end : 0);
        }
        first = behind;
    }
    return broken;
}

/* The free pages that begin at one, to the next live one. 0 if the one before is free, too. */
static uint64_t run_at(const spared *s, uint64_t first)
{
    uint64_t end = first;
    while (end < SPARED && s->states[end] != LIVE) {
        end++;
    }
    return first > 0 && s->states[first - 1] != LIVE ? 0 : end - first;
}

/* The best of both ends of a run so far. */
static void compare_ends(const spared *s, const mend_request *request, uint64_t first,
                         uint64_t run_pages, uint64_t *least, long long *best)
{
    const uint64_t pages = request->size_bytes / PAGE;
    const uint64_t step = request->alignment_bytes > PAGE ? request->alignment_bytes / PAGE : 1;
    const uint64_t ends[] = {(first + step - 1) / step * step,
                             (first + run_pages - pages) / step * step};
    for (int i = 0; i < 2; i++) {
        bool is_ready = ends[i] >= first && ends[i] + pages <= first + run_pages;
        for (uint64_t page = ends[i]; is_ready && page < ends[i] + pages; page++) {
            is_ready = s->states[page] != SECOND;
        }
        uint64_t wasted = 0;
        const uint64_t broken =
            is_ready ? broken_pages(s, ends[i], ends[i] + pages, &wasted) : UINT64_MAX;
        if (broken < *least && (!s->is_trapped || wasted <= 1)) {
            *least = broken;
            *best = (long long)ends[i];
        }
    }
}

static long long expected_page(const spared *s, const mend_request *request)
{
    const uint64_t pages = request->size_bytes / PAGE;
    uint64_t least = UINT64_MAX;
    long long best = NONE;
    for (uint64_t run_pages = pages; run_pages <= SPARED; run_pages++) {
        for (uint64_t first = 0; first < SPARED; first++) {
            if (run_at(s, first) == run_pages && (s->is_trapped || run_pages <= 2 * pages)) {
                compare_ends(s, request, first, run_pages, &least, &best);
            }
        }
    }
    return best;
}

/* Pages of the pattern, a digit each. Whether one waits for another stream. */
static bool open_pattern(spared *s, int pattern)
{
    static const uint32_t of_digit[] = {UNUSED, LIVE, SECOND};
    bool waits = false;
    EXPECT_TRUE(open_chunks(&s->hand, chunk_pages, SPARED_CHUNKS));
    for (int page = 0; page < SPARED; page++, pattern /= 3) {
        s->states[page] = of_digit[pattern % 3];
        waits = waits || s->states[page] == SECOND;
        add(&s->hand, 1, s->states[page]);
    }
    mend_heap *heap = &s->hand.heap;
    heap->streams.may_be_several = waits;
    heap->config.limit_bytes = SPARED * PAGE;
    heap->caching = (mend_caching){.closings = waits, .keeps_empty_chunks = !waits};
    return !mend_test_has_failed();
}

/* Each pattern of free, live and waiting pages. A request that no run near its size serves goes by
 * size. */
MEND_TEST(policy_fit, breaks_as_few_bytes_of_empty_chunks_as_both_ends_of_runs_let_it)
{
    spared s = {0};
    for (int pattern = 0; pattern < PATTERNS && open_pattern(&s, pattern); pattern++) {
        for (uint64_t pages = 1; pages <= 4; pages++) {
            mend_request request = request_of(pages);
            for (int i = 0; i < 4; i++) {
                s.is_trapped = i % 2 == 1;
                s.hand.heap.budget.peaks.trapped_bytes = s.is_trapped ? SPARED * PAGE : 0;
                request.alignment_bytes = i < 2 ? 512 : 2 * PAGE;
                const long long expected = expected_page(&s, &request);
                if (expected != NONE || s.is_trapped) {
                    EXPECT_INT_EQ(expected, page_of(mend_fit_find(&s.hand.heap, &request,
                                                                  MEND_ZONE_LARGE, UINT64_MAX)));
                }
            }
        }
        close_heap(&s.hand);
    }
}
