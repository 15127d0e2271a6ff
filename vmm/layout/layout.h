/*
 * The layout of a zone: spans and runs, and the changes that keep them consistent. Nothing here
 * fails or calls the driver. Callers reserve the nodes. Guarded by the heap's `state` lock.
 */
#ifndef MEND_LAYOUT_LAYOUT_H
#define MEND_LAYOUT_LAYOUT_H

#include <assert.h>

#include "base/thread.h"
#include "layout/state.h"
#include "mend/mend_frameworks.h"

/* Bytes of live blocks in chunks that do not sleep: a part of their reserved_bytes. */
static inline uint64_t mend_heap_awake_bytes(const mend_heap *heap)
{
    const uint64_t away_bytes = heap->chunks.asleep_live_bytes + mend_heap_passed_bytes(heap);
    assert(heap->counters.live_bytes >= away_bytes);
    return heap->counters.live_bytes - away_bytes;
}

/* Bytes of a zone that the pool holds. */
static inline uint64_t mend_heap_reserved_in(const mend_heap *heap, int zone)
{
    const mend_zone *of = &heap->zones[zone];
    const uint64_t away_bytes = zone < MEND_CHUNK_ZONES ? heap->chunks.away_in[zone] : 0;
    return of->counters.live_bytes + of->free_bytes - away_bytes;
}

/* Free bytes of a zone that are reserved: without chunks that sleep, which are claimed. A chunk
 * that kept its memory because the driver refused counts as free. */
static inline uint64_t mend_heap_free_in(const mend_heap *heap, int zone)
{
    const mend_chunks *chunks = &heap->chunks;
    return heap->zones[zone].free_bytes + chunks->away_live_in[zone] - chunks->away_in[zone];
}

/* How often memory of the heap became free. */
static inline uint64_t mend_heap_frees(const mend_heap *heap)
{
    return heap->counters.births - MEND_HEAP_SUM(heap, live_blocks) -
           heap->zones[MEND_ZONE_RANGE].counters.live_blocks;
}

/* ---- locate.c -------------------------------------------------------------------------------- */

/* The size of a run does not change while it is in the index. */
void mend_sizes_insert(mend_sizes *sizes, mend_run *run);
void mend_sizes_remove(mend_sizes *sizes, mend_run *run);

/* The first run not smaller than `size_bytes`, and the next one in order, or NULL. The last of all
 * that there are. */
mend_run *mend_sizes_at_least(const mend_sizes *sizes, uint64_t size_bytes);
mend_run *mend_sizes_next(const mend_sizes *sizes, const mend_run *run);
mend_run *mend_sizes_last(const mend_sizes *sizes);

/* Whether the run is at its place, and whether order, classes, bits and count are right. O(n). */
bool mend_sizes_has(const mend_sizes *sizes, const mend_run *run);
bool mend_sizes_are_valid(const mend_sizes *sizes);

static inline uint64_t mend_span_end(const mend_span *span)
{
    return span->address + span->size_bytes;
}

/* The tag that a block or a page counts for in all output: its own, or else its sleep tag. */
static inline uint64_t mend_span_shown_tag(const mend_span *span)
{
    return span->tag != 0 ? span->tag : span->sleep_tag;
}

static inline uint64_t mend_run_end(const mend_run *run)
{
    return run->address + run->size_bytes;
}

/* The span with an address of its segment, from one near it on. */
static inline mend_span *mend_span_walk(mend_span *span, uint64_t address)
{
    while (span->address > address) {
        span = span->previous;
    }
    while (mend_span_end(span) <= address) {
        span = span->next;
    }
    return span;
}

/* Runs with unmapped addresses behind them: the largest below a size, and the next smaller one. */
mend_run *mend_layout_growing_below(const mend_zone *zone, uint64_t size_bytes);
mend_run *mend_layout_growing_smaller(const mend_run *run);

/* The run that contains the address, or NULL. And that run, or else the next one behind it. */
mend_run *mend_layout_run_at(const mend_zone *zone, uint64_t address);
mend_run *mend_layout_run_from(const mend_zone *zone, uint64_t address);

/* The last span of the first segment that ends at or behind the address, or NULL. */
mend_span *mend_layout_segment_end(const mend_zone *zone, uint64_t address);

/* Visits the mapped chunks from the one that contains an address up to an end. */
#define MEND_CHUNKS_EACH(type, chunk, heap, from, end)                                             \
    for (type *chunk = mend_chunk_at(&(heap)->chunks, from);                                       \
         chunk != NULL && chunk->address < (end); chunk = mend_chunk_next(chunk))

/* The live block that contains the address, or NULL. The number of steps depends on the spans of
 * one chunk, not on the blocks of the pool (layout/locate.c). */
mend_span *mend_heap_block_at(const mend_heap *heap, uint64_t address);

/* Whether the address lies in memory of the pool, live or free. */
bool mend_heap_holds(const mend_heap *heap, uint64_t address);

/* The span that contains the address, live or free, or NULL. Inside a run a step for each span. */
mend_span *mend_heap_span_at(const mend_heap *heap, uint64_t address);

/* Visits the spans that overlap a chunk that has an address, or a cluster. */
#define MEND_SPANS_EACH(type, span, heap, chunk)                                                   \
    for (type *span = mend_heap_span_at(heap, (chunk)->address);                                   \
         span != NULL && span->address < (chunk)->address + (chunk)->size_bytes;                   \
         span = span->next)

/* The span at the end of a mapped chunk, for visits from high to low addresses: `above` is the
 * lowest span of the chunk visited before, or NULL. */
const mend_span *mend_layout_last_span(const mend_heap *heap, const mend_chunk *chunk,
                                       const mend_span *above);

/* The first frozen chunk below a span, or NULL. */
const mend_chunk *mend_layout_find_frozen(const mend_heap *heap, const mend_span *span);
static inline const mend_chunk *mend_layout_frozen_under(const mend_heap *heap,
                                                         const mend_span *span)
{
    return heap->chunks.frozen_count > 0 ? mend_layout_find_frozen(heap, span) : NULL;
}

/* Whether a chunk below the span is unmapped or inaccessible after a failed transaction, whether
 * one sleeps, and how many chunks there are below it. */
bool mend_layout_misses_mapping(const mend_heap *heap, const mend_span *span);
bool mend_layout_sleeps(const mend_heap *heap, const mend_span *span);
size_t mend_layout_count_chunks(const mend_heap *heap, const mend_span *span);

/* MEND_ERROR_ASLEEP: a chunk of the range sleeps. `what` names the call. Under `state`. */
mend_result mend_heap_check_awake(const mend_heap *heap, uint64_t address, uint64_t size_bytes,
                                  const char *what);

/* Whether a block of the request may lie in [address, end): no chunk there is for another sleep
 * tag. */
bool mend_layout_is_home(const mend_heap *heap, const mend_request *request, const mend_run *run,
                         uint64_t address, uint64_t end);
static inline bool mend_layout_suits(const mend_heap *heap, const mend_request *request,
                                     const mend_run *run, uint64_t address, uint64_t end)
{
    return !heap->has_homes || request->leaves_home ||
           mend_layout_is_home(heap, request, run, address, end);
}

/* ---- layout.c -------------------------------------------------------------------------------- */

/* Makes an empty layout with a closed cache, and frees its host memory, whatever it has. */
void mend_layout_init(mend_heap *heap);
void mend_layout_clear(mend_heap *heap);

/* Makes [address, address + size) of a run live. The caller fills in the fields of a block. The
 * span keeps the waits of its memory, for a free by another stream. Empty chunks below it are for
 * `home` from then on. */
mend_span *mend_layout_take(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes,
                            uint64_t home);

/* Makes a live span free. Its waits say when it is idle. The parts in frozen chunks become claimed.
 * Those outside join the runs there. The caller reserved mend_layout_nodes_to_free. */
void mend_layout_free(mend_heap *heap, mend_span *span);

/* Takes [address, address + size) of a run out of all indices, so that no other thread finds it. It
 * stays free memory. mend_layout_end_claim joins it with its free neighbors, to one run. */
mend_span *mend_layout_claim_part(mend_heap *heap, mend_run *run, uint64_t address,
                                  uint64_t size_bytes);
void mend_layout_end_claim(mend_heap *heap, mend_span *span);

/* Splits the part before `at` off a free span, into a new node, which it returns. */
mend_span *mend_layout_split_left(mend_heap *heap, mend_span *span, uint64_t at);

/* Removes a claimed span from the layout: its segment ends before it, and the rest behind it is
 * another segment. */
void mend_layout_cut(mend_heap *heap, mend_span *span);

/* Adds a chunk mapped at `address`, as free memory, idle after `waits`, whose nodes it takes. */
void mend_layout_attach(mend_heap *heap, mend_chunk *chunk, int zone, uint64_t address,
                        mend_waits *waits);

/* Removes an empty, mapped chunk from the layout. Adds the waits of its memory to *waits. */
void mend_layout_detach(mend_heap *heap, mend_chunk *chunk, mend_waits *waits);

/* Joins neighboring spans of a run whose waits are equal or have passed, of so many from its start
 * on, or back from its end. */
void mend_layout_tidy(mend_heap *heap, mend_run *run, bool from_end, uint64_t most_spans);

/* For assertions: whether the next look into a run would go on from this span. */
static inline bool mend_layout_walk_is_at(const mend_heap *heap, const mend_span *span)
{
    const mend_zone *zone = &heap->zones[span->zone];
    return zone->walk_run != NULL && zone->walk_span == span &&
           zone->walk_changes == zone->changes && zone->walk_passes == heap->streams.passes;
}

/* The chunk at an address of a span: one of the first few of the span, or by search. */
static inline mend_chunk *mend_span_chunk_at(const mend_heap *heap, const mend_span *span,
                                             uint64_t address)
{
    enum { NEAR_CHUNKS = 4 };
    mend_chunk *chunk = span->chunk;
    for (int i = 0; i < NEAR_CHUNKS && chunk != NULL; i++, chunk = mend_chunk_next(chunk)) {
        if (address - chunk->address < chunk->size_bytes) {
            return chunk;
        }
    }
    return mend_chunk_at(&heap->chunks, address);
}

/* The same for a run: usually the chunk in which the run's last span begins, or the run itself. */
static inline mend_chunk *mend_run_chunk_at(const mend_heap *heap, const mend_run *run,
                                            uint64_t address)
{
    const mend_chunk *last = run->last->chunk;
    return mend_span_chunk_at(heap, address >= last->address ? run->last : run->first, address);
}

/* Whether the span crosses no edge of its chunk, as almost all spans. */
static inline bool mend_span_is_in_one_chunk(const mend_span *span)
{
    assert(span->address >= span->chunk->address);
    return mend_span_end(span) - span->chunk->address <= span->chunk->size_bytes;
}

/* Makes a free span that is in no run live, and the reverse: for its zone, and each chunk below. */
static inline void mend_layout_set_live(mend_heap *heap, mend_zone *zone, mend_span *span,
                                        bool live)
{
    assert(zone == &heap->zones[span->zone]);
    assert(span->live != live);
    assert(!span->cached);
    assert(span->run == NULL);
    assert(!live || zone->free_bytes >= span->size_bytes);
    mend_chunk *chunk = span->chunk;
    uint64_t left_bytes = span->size_bytes;
    uint64_t part_bytes = chunk->address + chunk->size_bytes - span->address;
    span->live = live;
    if (live) {
        span->contents_dropped = span->has_copy = span->is_guarded = false;
    }
    zone->free_bytes += live ? 0 - left_bytes : left_bytes;
    for (; part_bytes < left_bytes; part_bytes = chunk->size_bytes) {
        mend_chunk_change_live(&heap->chunks, chunk, live, part_bytes);
        left_bytes -= part_bytes;
        chunk = chunk->next;
    }
    mend_chunk_change_live(&heap->chunks, chunk, live, left_bytes);
}

/* Memory of the driver's own becomes a live span, alone in its segment, and ends. The caller fills
 * in the fields of a block, or has taken it out of all that knows blocks. */
mend_span *mend_layout_add_passed(mend_heap *heap, uint64_t address, uint64_t size_bytes);
void mend_layout_drop_passed(mend_heap *heap, mend_span *span);

/* Sets the thread's marks for its blocks. And tells MEND_TOLD_MARKED or _UNMARKED: the result is
 * the scope that the span counts for, its own or one around. */
void mend_layout_mark(mend_heap *heap, mend_span *span);
uint16_t mend_layout_tell_scope(mend_heap *heap, const mend_span *span, int kind);

/* Counts a block or a page that has become live, and sets the call's data in its span. And counts a
 * freed one. */
static inline void mend_layout_count_alloc(mend_heap *heap, mend_zone *of, mend_span *span,
                                           uint64_t requested_bytes, mend_stream stream)
{
    mend_heap_counters *counters = &heap->counters;
    mend_zone_counters *zone = &of->counters;
    assert(of == &heap->zones[span->zone]);
    assert(span->live);
    assert(requested_bytes > 0);
    assert(requested_bytes <= span->size_bytes);
    span->requested_bytes = requested_bytes;
    span->stream = stream;
    span->tag = 0;
    span->sleep_tag = 0;
    span->scope = 0;
    span->stack = 0;
    zone->allocations++;
    zone->live_blocks++;
    span->born = (float)(int64_t)++counters->births;
    zone->allocated_bytes += span->size_bytes;
    zone->allocated_requested_bytes += requested_bytes;
    zone->live_bytes += span->size_bytes;
    zone->requested_bytes += requested_bytes;
    mend_raise_u64(&zone->peak_live_blocks, zone->live_blocks);
    mend_raise_u64(&zone->peak_live_bytes, zone->live_bytes);
    mend_raise_u64(&zone->peak_requested_bytes, zone->requested_bytes);
    counters->live_bytes += span->size_bytes;
    mend_raise_u64(&counters->peak_live_blocks, MEND_HEAP_SUM(heap, live_blocks));
    mend_raise_u64(&counters->peak_live_bytes, counters->live_bytes);
    mend_raise_u64(&counters->peak_requested_bytes, MEND_HEAP_SUM(heap, requested_bytes));
    if (mend_process_has_marks()) {
        mend_layout_mark(heap, span);
    }
}

static inline void mend_layout_count_free(mend_heap *heap, mend_zone *of, const mend_span *span)
{
    mend_zone_counters *zone = &of->counters;
    assert(of == &heap->zones[span->zone]);
    assert(zone->live_blocks > 0);
    assert(zone->live_bytes >= span->size_bytes);
    assert(zone->requested_bytes >= span->requested_bytes);
    assert(heap->counters.live_bytes >= zone->live_bytes);
    zone->live_blocks--;
    zone->live_bytes -= span->size_bytes;
    zone->requested_bytes -= span->requested_bytes;
    heap->counters.live_bytes -= span->size_bytes;
    if (span->scope != 0) {
        (void)mend_layout_tell_scope(heap, span, MEND_TOLD_UNMARKED);
    }
}

typedef struct mend_layout_promise {
    size_t spans;
    size_t runs;
    size_t waits;
} mend_layout_promise;

/* The most nodes that one take needs, plus an attach and a detach of this many chunks. */
static inline mend_layout_promise mend_layout_nodes_for(const mend_heap *heap, size_t chunk_count)
{
    size_t splits = 2 + 2 * chunk_count;
    size_t waits = mend_streams_are_several(&heap->streams)
                       ? (splits + 2 + 2 * chunk_count) * heap->streams.count
                       : heap->streams.count;
    waits++; /* the mark of a block of a graph pool */
    return (mend_layout_promise){
        .spans = splits + chunk_count, .runs = 2 + 2 * chunk_count, .waits = waits};
}

/* Reserves these. False if malloc fails. */
static inline bool mend_layout_reserve_these(mend_heap *heap, const mend_layout_promise *nodes)
{
    assert(mend_mutex_is_held(&heap->state));
    return mend_slab_reserve(&heap->nodes.spans, nodes->spans) &&
           mend_slab_reserve(&heap->nodes.runs, nodes->runs) &&
           mend_slab_reserve(&heap->nodes.waits, nodes->waits);
}

static inline bool mend_layout_reserve(mend_heap *heap, size_t chunk_count)
{
    const mend_layout_promise nodes = mend_layout_nodes_for(heap, chunk_count);
    return mend_layout_reserve_these(heap, &nodes);
}

/* The nodes to free a span that lies in so many chunks, each of which may be frozen. 0: none is. */
mend_layout_promise mend_layout_nodes_to_free(const mend_heap *heap, const mend_span *span,
                                              size_t chunk_count);

/* The same, and the nodes stay promised while others change the heap, until the promise ends. */
static inline bool mend_layout_promise_these(mend_heap *heap, const mend_layout_promise *promise)
{
    return mend_layout_reserve_these(heap, promise) &&
           mend_slab_promise(&heap->nodes.spans, promise->spans) &&
           mend_slab_promise(&heap->nodes.runs, promise->runs) && /* they are there */
           mend_slab_promise(&heap->nodes.waits, promise->waits);
}
static inline void mend_layout_end_promise(mend_heap *heap, const mend_layout_promise *promise)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_slab_end_promise(&heap->nodes.spans, promise->spans);
    mend_slab_end_promise(&heap->nodes.runs, promise->runs);
    mend_slab_end_promise(&heap->nodes.waits, promise->waits);
}

/* ---- ready.c --------------------------------------------------------------------------------- */

/* Whether memory may have to wait for others before the stream may use it. UNKNOWN: be idle. */
static inline bool mend_layout_stamps_matter(const mend_heap *heap, uint32_t stream)
{
    return stream == MEND_STREAM_UNKNOWN || mend_streams_are_several(&heap->streams);
}

/* Whether all of [address, address + size) of a run is ready for the stream. For
 * MEND_STREAM_UNKNOWN: is idle, and where stamps matter, the first span that is not, or NULL. Joins
 * spans of the run that have become idle. */
const mend_span *mend_layout_find_blocked(mend_heap *heap, mend_run *run, uint64_t address,
                                          uint64_t size_bytes, uint32_t stream,
                                          uint64_t behind_wait);
static inline bool mend_layout_is_ready(mend_heap *heap, mend_run *run, uint64_t address,
                                        uint64_t size_bytes, uint32_t stream, uint64_t behind_wait)
{
    return !mend_layout_stamps_matter(heap, stream) ||
           mend_layout_find_blocked(heap, run, address, size_bytes, stream, behind_wait) == NULL;
}

/* The same for an empty chunk. An unmapped one is ready. Remembers a stamp that holds it: until
 * that has passed no search looks into the run again. */
bool mend_layout_chunk_is_ready(mend_heap *heap, mend_chunk *chunk, uint32_t stream,
                                uint64_t behind_wait);

/* Makes the stream wait, on the device, for each stamp of the range that is not ready. Calls the
 * driver. */
mend_result mend_layout_make_ready(mend_heap *heap, mend_run *run, uint64_t address,
                                   uint64_t size_bytes, uint32_t stream);

/* The most nodes of waits that it takes to cut a stretch out of its run and to put it elsewhere, if
 * nothing changes before. A large change counts them: mend_layout_nodes_for has one for each chunk
 * and stream. */
size_t mend_layout_count_waits(mend_heap *heap, mend_run *run, uint64_t from, uint64_t end);

/*
 * Blocks freed a moment ago: the next request of the same size on the same stream gets one back, if
 * a search among the runs would find that one (docs/design.md). Nothing is split or joined, and no
 * index changes. A cached span is free memory in no run, still in the pointer map. The run that it
 * will begin consists of the span and the free memory on its right. On its left is a live span or
 * nothing. Each has a promised node for that run, so a flush cannot fail. A promise stays after its
 * span has left, until the next flush: a steady state makes no promises.
 */

/* Puts cached spans back into runs, where they may be joined with others: all of a zone, those that
 * will begin a run of `size_bytes` or more, and one. */
void mend_cache_flush(mend_heap *heap, int zone);
void mend_cache_flush_from(mend_heap *heap, int zone, uint64_t size_bytes);
void mend_cache_put_back(mend_heap *heap, mend_span *span);

/* While the cache is closed it is empty. Closings nest. `keeps_empty_chunks`: until the next
 * closing, the cache returns no span that would break an empty chunk. */
void mend_cache_close(mend_heap *heap);
void mend_cache_open(mend_heap *heap, bool keeps_empty_chunks);

/* Promises the node of a run for one more span, and flushes a full cache first. The caller has used
 * all earlier promises. False if the cache is closed, or malloc fails. */
bool mend_cache_make_room(mend_heap *heap, mend_cache *cache, int zone);

/* Whether no run for a request of the span's size on the stream comes before the one that the span
 * will begin. span->first_at remembers a yes. It is valid until the runs change. */
bool mend_cache_comes_first(mend_heap *heap, const mend_zone *zone, mend_span *span,
                            uint32_t stream);

static inline void mend_cache_add(mend_cache *cache, mend_span *span)
{
    assert(cache->count < cache->promised);
    span->cached = true;
    span->cache_index = (uint8_t)cache->count;
    cache->spans[cache->count++] = span;
}

static inline void mend_cache_remove(mend_cache *cache, mend_span *span)
{
    assert(span->cached);
    assert(cache->count > 0);
    assert(cache->spans[span->cache_index] == span);
    mend_span *last = cache->spans[--cache->count];
    cache->spans[span->cache_index] = last;
    last->cache_index = span->cache_index;
    span->cached = false;
}

/* The size of the run that a cached span will begin, with the one on its right. */
static inline uint64_t mend_cache_run_bytes(const mend_span *span)
{
    const mend_run *behind = span->next != NULL ? span->next->run : NULL;
    return span->size_bytes + (behind != NULL ? behind->size_bytes : 0);
}

/* ---- usage.c --------------------------------------------------------------------------------- */

/* Call it after each change of values beside the counters of rows, with `state` still held. */
void mend_usage_note(mend_heap *heap);

/* Raises the peaks of reserved memory to the present values. `resets`: sets all peaks to them. */
void mend_layout_note_peaks(mend_heap *heap, bool resets);

/* The peak of a counter (MEND_USE_...), whatever is beside it. */
uint64_t mend_usage_counter_peak(const mend_heap *heap, int number, int part);

/* Sets the use outside of the pool. And reads all rows. */
void mend_usage_set_outside(mend_heap *heap, const mend_usage *outside);
void mend_usage_fill(mend_heap *heap, mend_usage *to);

/* A span has become free memory of a run, with several waits: it is pending if another stream than
 * its own may still use it. And it is taken, or changes its size. */
void mend_usage_begin_pending(mend_heap *heap, mend_span *span, uint32_t freed_on);
void mend_usage_end_pending(mend_heap *heap, mend_span *span);
static inline bool mend_span_is_pending(const mend_span *span)
{
    return span->pending.next != NULL;
}

/* Ends what no stream uses any more, as far as is known: of one span (true: it is pending), of all.
 */
bool mend_usage_look(mend_heap *heap, mend_span *span);
void mend_usage_settle(mend_heap *heap);

#endif
