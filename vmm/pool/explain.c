/* Why free memory is not used, in sums; and what is left when a pool ends. */
#include "pool/pool.h"

#include <stdio.h>

#include "base/words.h"
#include "layout/layout.h"
#include "ranges/ranges.h"

mend_free_reason mend_observe_reason(const mend_heap *heap, const mend_span *span, uint32_t asking)
{
    assert(!span->live);
    const mend_streams *streams = &heap->streams;
    unsigned holds = mend_waits_blocked_by(streams, &span->waits, asking);
    if (holds & MEND_BLOCKED_BY_GROUPS) {
        return MEND_FREE_GROUPS;
    }
    if (holds & MEND_BLOCKED_UNTIL_WAIT) {
        return MEND_FREE_STREAMLESS;
    }
    if (holds & MEND_BLOCKED_BY_STREAMS) {
        return MEND_FREE_STREAMS;
    }
    bool is_idle = mend_waits_blocked_by(streams, &span->waits, MEND_STREAM_UNKNOWN) == 0;
    return is_idle ? MEND_FREE_IDLE : MEND_FREE_OWN;
}

/* `idle`: what counts it if nothing keeps it from use. */
static void add(mend_live_free *sums, uint64_t *idle, mend_free_reason reason, uint64_t bytes)
{
    uint64_t *const sum_of[MEND_FREE_REASONS] = {
        [MEND_FREE_IDLE] = idle,
        [MEND_FREE_OWN] = &sums->streams_bytes,
        [MEND_FREE_STREAMS] = &sums->streams_bytes,
        [MEND_FREE_STREAMLESS] = &sums->no_stream_bytes,
        [MEND_FREE_GROUPS] = &sums->graphs_bytes,
    };
    *sum_of[reason] += bytes;
}

/* Returns the lowest span of the chunk; `above` is that of the chunk above it. Adds to *count how
 * many there are. */
static const mend_span *add_chunk(const mend_heap *heap, const mend_chunk *chunk,
                                  const mend_span *above, mend_live_free *sums, size_t *count)
{
    const uint64_t end = chunk->address + chunk->size_bytes;
    const bool is_empty = mend_chunk_is_empty(chunk);
    const bool sleeps = mend_chunk_sleeps(chunk);
    mend_free_reason worst = MEND_FREE_IDLE;
    const mend_span *lowest = NULL;
    const mend_span *span = mend_layout_last_span(heap, chunk, above);
    for (; span != NULL && mend_span_end(span) > chunk->address; span = span->previous) {
        lowest = span;
        ++*count;
        if (span->live || sleeps) {
            continue;
        }
        const uint64_t bytes =
            mend_min_u64(mend_span_end(span), end) - mend_max_u64(span->address, chunk->address);
        const mend_free_reason reason = mend_observe_reason(heap, span, MEND_STREAM_UNKNOWN);
        worst = reason > worst ? reason : worst;
        if (!is_empty) {
            add(sums, &sums->beside_bytes, reason, bytes);
        }
    }
    if (is_empty) {
        add(sums, &sums->whole_bytes, worst, chunk->size_bytes);
    } else if (sleeps && mend_chunk_is_reserved(chunk)) {
        sums->beside_bytes += chunk->size_bytes; /* the driver refused to take it back */
    }
    return lowest;
}

bool mend_observe_free(const mend_heap *heap, size_t spans, uint64_t *below, mend_live_free *sums)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    const mend_span *above = NULL;
    size_t count = 0;
    if (*below == UINT64_MAX) {
        *sums = (mend_live_free){.whole_bytes = heap->chunks.unmapped_bytes};
    }
    const mend_chunk *chunk = mend_chunk_below(&heap->chunks, *below);
    for (; chunk != NULL && count < spans; chunk = mend_chunk_previous(chunk)) {
        above = add_chunk(heap, chunk, above, sums, &count);
        *below = chunk->address;
    }
    return chunk != NULL;
}

/* ---- what is left when a pool ends ----------------------------------------------------------- */

enum { SHOWN = MEND_HOLDERS_SHOWN };

/* Inserts the span if it is one of the largest; the smallest of the list drops out. */
static void keep(const mend_span *largest[SHOWN], const mend_span *span)
{
    for (int i = 0; i < SHOWN; i++) {
        if (largest[i] == NULL || span->size_bytes > largest[i]->size_bytes) {
            const mend_span *smaller = largest[i];
            largest[i] = span;
            span = smaller;
            if (span == NULL) {
                return;
            }
        }
    }
}

bool mend_observe_remains(const mend_heap *heap, char line[MEND_REMAINS_BYTES])
{
    const uint64_t ranges = mend_ranges_count(heap);
    const uint64_t count = MEND_HEAP_SUM(heap, live_blocks);
    const mend_zone *zones = heap->zones;
    const mend_span *largest[SHOWN] = {NULL};
    int used = 0;
    line[0] = '\0';
    if (ranges > 0) {
        used = snprintf(line, MEND_REMAINS_BYTES, "%llu ranges, %s committed",
                        (unsigned long long)ranges,
                        mend_words_amount(zones[MEND_ZONE_RANGE].counters.live_bytes).text);
    }
    if (count == 0) {
        return used > 0;
    }
    for (size_t i = 0; i < heap->blocks.capacity; i++) {
        const mend_span *span = heap->blocks.entries[i].value;
        if (span != NULL && span->live) {
            keep(largest, span);
        }
    }
    used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used,
                     "%s%llu block%s alive, %s; the largest:", used > 0 ? ", and " : "",
                     (unsigned long long)count, count == 1 ? "" : "s",
                     mend_words_amount(zones[MEND_ZONE_SMALL].counters.live_bytes +
                                       zones[MEND_ZONE_LARGE].counters.live_bytes)
                         .text);
    for (int i = 0; i < SHOWN && largest[i] != NULL; i++) {
        used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, "%s 0x%llx (%s)",
                         i > 0 ? "," : "", (unsigned long long)largest[i]->address,
                         mend_words_amount(largest[i]->size_bytes).text);
    }
    mend_holder holders[SHOWN] = {0};
    mend_holder suspect = {0};
    size_t total = 0;
    char text[MEND_REMAINS_BYTES / 2];
    (void)mend_holders_find(heap, MEND_BY_DEFAULT, holders, SHOWN, &suspect, &total);
    if (mend_holders_describe(holders, mend_min_u64(total, SHOWN), text, sizeof(text)) > 0) {
        used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, "; held by: %s", text);
    }
    mend_holders_accuse(&suspect, text, sizeof(text));
    if (text[0] != '\0') {
        snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, "; possible leak: %s", text);
    }
    return true;
}
