/* The ranges and blocks that are still there when a pool is destroyed, in words for the log. */
#include "observe/observe.h"

#include <assert.h>
#include <stdio.h>

#include "base/words.h"
#include "layout/holders.h"
#include "layout/ranges.h"

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

/* Returns the length of the text. */
static int put_ranges(const mend_heap *heap, char line[MEND_REMAINS_BYTES])
{
    const uint64_t ranges = mend_ranges_count(heap);
    const uint64_t committed_bytes = heap->counters.zone[MEND_ZONE_RANGE].live_bytes;
    line[0] = '\0';
    return ranges == 0
               ? 0
               : snprintf(line, MEND_REMAINS_BYTES, "%llu ranges, %s committed",
                          (unsigned long long)ranges, mend_words_amount(committed_bytes).text);
}

bool mend_observe_remains(const mend_heap *heap, char line[MEND_REMAINS_BYTES])
{
    uint64_t count = mend_heap_live_blocks(heap);
    const mend_span *largest[SHOWN] = {NULL};
    int used = put_ranges(heap, line);
    if (count == 0) {
        return used > 0;
    }
    for (size_t i = 0; i < heap->blocks.capacity; i++) {
        const mend_span *span = heap->blocks.entries[i].value;
        if (span != NULL && span->live) {
            keep(largest, span);
        }
    }
    mend_amount live = mend_words_amount(heap->counters.zone[MEND_ZONE_SMALL].live_bytes +
                                         heap->counters.zone[MEND_ZONE_LARGE].live_bytes);
    used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used,
                     "%s%llu blocks alive, %s; the largest:", used > 0 ? ", and " : "",
                     (unsigned long long)count, live.text);
    for (int i = 0; i < SHOWN && largest[i] != NULL; i++) {
        mend_amount size = mend_words_amount(largest[i]->size_bytes);
        used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, "%s 0x%llx (%s)",
                         i > 0 ? "," : "", (unsigned long long)largest[i]->address, size.text);
        assert(used < MEND_REMAINS_BYTES);
    }
    mend_holder holders[SHOWN] = {0};
    mend_holder suspect = {0};
    size_t total = 0;
    char text[MEND_REMAINS_BYTES / 2];
    (void)mend_holders_find(heap, holders, SHOWN, &suspect, &total);
    if (mend_holders_describe(holders, mend_min_u64(total, SHOWN), text, sizeof(text)) > 0) {
        used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, "; held by: %s", text);
    }
    mend_holders_accuse(&suspect, text, sizeof(text));
    if (text[0] != '\0') {
        snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, "; grew and never came back: %s",
                 text);
    }
    return true;
}
