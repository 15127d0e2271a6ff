#include "tests/support/hand_heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "tests/support/test.h"

enum { NODES = 256 };

static mend_status create(const mend_driver *driver, uint64_t size_bytes,
                          const mend_chunk_properties *properties, mend_chunk_handle *handle)
{
    (void)driver;
    (void)properties;
    *handle = (mend_chunk_handle)(uintptr_t)(size_bytes + 1);
    return MEND_DRIVER_OK;
}

void hand_open(hand_heap *h)
{
    memset(h, 0, sizeof(*h));
    mend_heap *heap = &h->heap;
    h->driver.create = create;
    heap->driver = &h->driver;
    heap->device.granularity_bytes = HAND_PAGE;
    heap->config.limit_bytes = 1000 * HAND_PAGE;
    mend_tightness_apply(heap, 0);
    for (int i = 0; i < HAND_STREAMS; i++) {
        h->states[i] = (mend_stream_state){.known = true, .open = i > 0, .open_epoch = HAND_EPOCH};
    }
    heap->streams =
        (mend_streams){.items = h->states, .count = HAND_STREAMS, .capacity = HAND_STREAMS};
    mend_chunks_init(&heap->chunks, &h->driver, &(const mend_chunk_properties){.device = 0});
    mend_pointer_map_init(&heap->blocks);
    mend_slab_init(&heap->nodes.spans, sizeof(mend_span));
    mend_slab_init(&heap->nodes.runs, sizeof(mend_run));
    mend_slab_init(&heap->nodes.waits, sizeof(mend_wait));
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        mend_layout_init_zone(&heap->zones[zone]);
    }
    EXPECT_TRUE(mend_slab_reserve(&heap->nodes.spans, NODES));
    EXPECT_TRUE(mend_slab_reserve(&heap->nodes.runs, NODES));
    EXPECT_TRUE(mend_slab_reserve(&heap->nodes.waits, NODES));
    EXPECT_TRUE(mend_slab_reserve(&heap->chunks.slab, NODES));
}

void hand_close(hand_heap *h)
{
    mend_heap *heap = &h->heap;
    EXPECT_TRUE(mend_chunks_are_in_order(&heap->chunks));
    mend_chunks_clear(&heap->chunks);
    mend_pointer_map_clear(&heap->blocks);
    mend_slab_clear(&heap->nodes.spans);
    mend_slab_clear(&heap->nodes.runs);
    mend_slab_clear(&heap->nodes.waits);
}

mend_chunk *hand_unmapped_chunk(hand_heap *h, uint64_t pages)
{
    mend_chunk *chunk = NULL;
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_chunk_create(&h->heap.chunks, pages * HAND_PAGE,
                                                    MEND_BACKING_DEVICE, &chunk));
    return chunk;
}

mend_chunk *hand_chunk(hand_heap *h, uint64_t page, uint64_t pages)
{
    mend_chunk *chunk = hand_unmapped_chunk(h, pages);
    mend_waits waits = {0};
    mend_layout_attach(&h->heap, chunk, MEND_ZONE_LARGE, hand_address(page), &waits);
    return chunk;
}

mend_span *hand_take(hand_heap *h, uint64_t page, uint64_t pages)
{
    mend_run *run = mend_layout_run_at(&h->heap.zones[MEND_ZONE_LARGE], hand_address(page));
    mend_span *span = mend_layout_take(&h->heap, run, hand_address(page), pages * HAND_PAGE);
    EXPECT_TRUE(mend_pointer_map_reserve(&h->heap.blocks));
    mend_pointer_map_insert(&h->heap.blocks, span->address, span);
    return span;
}

void hand_free(hand_heap *h, uint64_t page, uint32_t stream)
{
    mend_span *span = mend_pointer_map_remove(&h->heap.blocks, hand_address(page));
    if (stream != MEND_STREAM_UNKNOWN) {
        mend_waits_add(mend_heap_wait_env(&h->heap), &span->waits,
                       (mend_stamp){.epoch = HAND_EPOCH, .stream = stream});
    }
    mend_layout_free(&h->heap, span);
}

void hand_pass(hand_heap *h, uint32_t stream)
{
    h->states[stream].passed_epoch = HAND_EPOCH;
    h->states[stream].open_epoch = HAND_EPOCH + 1;
}

/* A word of a text: "2." and "2#" are pages, "3.2" is freed by a stream, "20:" is where to go on.
 */
typedef struct word {
    uint64_t page;
    uint64_t pages;
    uint32_t stream;
    bool is_free; /* all along, by no stream */
} word;

static void lay_out_segment(hand_heap *h, const word *words, size_t count)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < count; i++) {
        pages += words[i].pages;
    }
    if (count > 0) {
        hand_chunk(h, words[0].page, pages);
    }
    for (size_t i = 0; i < count; i++) {
        if (!words[i].is_free) {
            hand_take(h, words[i].page, words[i].pages);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (words[i].stream != 0) {
            hand_free(h, words[i].page, words[i].stream);
        }
    }
}

void hand_open_as(hand_heap *h, const char *text)
{
    word words[64];
    size_t count = 0;
    uint64_t page = 0;
    hand_open(h);
    for (const char *at = text; *at != '\0'; at += *at == ' ') {
        char *end = NULL;
        uint64_t number = strtoull(at, &end, 10);
        if (*end == '|') {
            lay_out_segment(h, words, count);
            count = 0;
            at = end + 1;
        } else if (*end == ':') {
            page = number;
            at = end + 1;
        } else {
            uint32_t stream = *end == '.' ? (uint32_t)strtoul(end + 1, NULL, 10) : 0;
            words[count++] = (word){page, number, stream, *end == '.' && stream == 0};
            page += number;
            at = end + 1 + strcspn(end + 1, " ");
        }
    }
    lay_out_segment(h, words, count);
}

__attribute__((format(printf, 2, 3))) static void add(hand_heap *h, const char *format, ...)
{
    size_t length = strlen(h->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(h->text + length, sizeof(h->text) - length, format, arguments);
    va_end(arguments);
}

static void add_segment(hand_heap *h, const mend_span *last)
{
    const mend_span *span = last;
    while (span->previous != NULL) {
        span = span->previous;
    }
    add(h, "%s", h->text[0] != '\0' ? " |" : "");
    for (; span != NULL; span = span->next) {
        char state = span->live ? '#' : '.';
        if (!span->live && mend_layout_run_at(&h->heap.zones[span->zone], span->address) == NULL) {
            state = '?';
        }
        add(h, "%s%llu%c", h->text[0] != '\0' ? " " : "",
            (unsigned long long)(span->size_bytes / HAND_PAGE), state);
    }
}

const char *hand_spans(hand_heap *h)
{
    h->text[0] = '\0';
    mend_tree_node *at = mend_tree_first(&h->heap.zones[MEND_ZONE_LARGE].segment_ends);
    for (; at != NULL; at = mend_tree_next(at)) {
        add_segment(h, MEND_CONTAINER_OF(at, mend_span, by_end));
    }
    return h->text;
}

const char *hand_runs(hand_heap *h)
{
    h->text[0] = '\0';
    const mend_sizes *runs = &h->heap.zones[MEND_ZONE_LARGE].runs_by_size;
    const mend_run *run = mend_sizes_at_least(runs, MEND_GRANULE_BYTES);
    for (; run != NULL; run = mend_sizes_next(runs, run)) {
        add(h, "%s%llu%s", h->text[0] != '\0' ? " " : "",
            (unsigned long long)(run->size_bytes / HAND_PAGE), run->extensible ? "+" : "");
    }
    return h->text;
}

mend_request hand_request(uint64_t pages)
{
    return (mend_request){.size_bytes = pages * HAND_PAGE,
                          .requested_bytes = pages * HAND_PAGE,
                          .alignment_bytes = 512,
                          .stream = 1,
                          .zone = MEND_ZONE_LARGE};
}
