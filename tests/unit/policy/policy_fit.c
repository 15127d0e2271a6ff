/* Where in mapped free memory a request goes, on a heap made by hand, without a driver, a pool or
 * locks: one segment of pieces. Requests are on the first stream. */
#include "policy/policy.h"

#include "layout/layout.h"
#include "policy/constants.h"
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

/* A chunk of so many pages, of which none is used. */
static bool open_heap(hand_heap *h, uint64_t pages)
{
    *h = (hand_heap){.end = START};
    mend_heap *heap = &h->heap;
    mend_chunk *chunk = NULL;
    mend_waits waits = {0};
    h->driver.create = create;
    heap->driver = &h->driver;
    heap->device.granularity_bytes = PAGE;
    heap->config.limit_bytes = 1000 * PAGE;
    mend_tightness_apply(heap, 0);
    for (int i = 0; i < STREAMS; i++) {
        h->states[i] = (mend_stream_state){.known = true, .open = i > 0, .open_epoch = EPOCH};
    }
    heap->streams = (mend_streams){
        .items = h->states, .count = STREAMS, .capacity = STREAMS, .may_be_several = true};
    mend_chunks_init(&heap->chunks, &h->driver, &(const mend_chunk_properties){.device = 0}, NULL,
                     NULL);
    mend_layout_init(heap);
    EXPECT_TRUE(mend_slab_reserve(&heap->nodes.spans, NODES) &&
                mend_slab_reserve(&heap->nodes.runs, NODES) &&
                mend_slab_reserve(&heap->nodes.waits, NODES) &&
                mend_slab_reserve(&heap->chunks.slab, NODES));
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_chunk_create(&heap->chunks, pages * PAGE,
                                                    MEND_BACKING_DEVICE, false, &chunk));
    mend_layout_attach(heap, chunk, MEND_ZONE_LARGE, START, &waits);
    return !mend_test_has_failed();
}

static void close_heap(hand_heap *h)
{
    mend_heap *heap = &h->heap;
    EXPECT_TRUE(mend_chunks_are_in_order(&heap->chunks));
    mend_chunks_clear(&heap->chunks);
    mend_layout_clear(heap);
}

/* The next piece; it is freed by its stream where it has one. */
static void add(hand_heap *h, uint64_t pages, uint32_t state)
{
    mend_run *run = mend_layout_run_at(&h->heap.zones[MEND_ZONE_LARGE], h->end);
    if (state != UNUSED) {
        mend_span *span = mend_layout_take(&h->heap, run, h->end, pages * PAGE);
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

/* The search at every place finds what lies between memory of another stream. */
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

/* Of runs that all wait for another stream so many are looked at, and no more. */
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
