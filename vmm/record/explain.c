/* What people are told in words: why a request ran out of memory, with each remedy that is enough
 * alone, and what is left in a pool that ends. */
#include <stdarg.h>
#include <stdio.h>

#include "alloc/heap.h"
#include "base/words.h"
#include "record/record.h"

typedef struct sentence {
    char text[MEND_MESSAGE_BYTES];
    size_t used;
} sentence;

__attribute__((format(printf, 2, 3))) static void add(sentence *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(s->text + s->used, sizeof(s->text) - s->used, format, arguments);
    va_end(arguments);
    s->used = mend_min_u64(s->used + (size_t)written, sizeof(s->text) - 1);
}

/* Parts, which begin with a capital letter, are joined by semicolons. */
static void join(sentence *s, const char *part)
{
    const bool is_first = s->used == 0;
    add(s, "%s%c%s", is_first ? "" : "; ", is_first ? part[0] : part[0] | 0x20, part + 1);
}

/* Adds `before`, the amount and `behind`, if the amount is not 0. */
static bool add_amount(sentence *s, const char *before, uint64_t bytes, const char *behind)
{
    if (bytes > 0) {
        add(s, "%s%s%s", before, mend_words_amount(bytes).text, behind);
    }
    return bytes > 0;
}

/* ---- what would help ------------------------------------------------------------------------- */

/* Causes that the program can undo, the safest first. Graph pools, captures outside of graph pools,
 * or both reserve memory for graphs. */
enum { KEEPERS = 3 };
static const struct remedy {
    unsigned holds;
    const char *sentences[KEEPERS];
} remedies[] = {
    {MEND_BLOCKED_BY_PINS,
     {"Undoing pins (mend_unpin) would help: free memory that is pinned cannot move"}},
    {MEND_BLOCKED_BY_WORK,
     {"Ending the capture in progress would help: then the pool can wait for freed memory"}},
    {MEND_BLOCKED_BY_GRAPH_POOLS,
     {"Releasing graph pools whose graphs are no longer launched would help",
      "Destroying graphs that are no longer launched would help",
      "Releasing graph pools whose graphs are no longer launched would help, and destroying such "
      "graphs"}},
    {MEND_BLOCKED_BY_WORK | MEND_BLOCKED_BY_GRAPH_POOLS,
     {"Ending the capture in progress and releasing graph pools would help",
      "Ending the capture in progress and destroying its graph would help",
      "Ending the capture in progress, releasing graph pools and destroying graphs would help"}},
};
enum { REMEDIES = sizeof(remedies) / sizeof(remedies[0]) };

/* Each remedy that is enough alone, and that the program can do now: while a capture is in progress
 * its memory may be reserved for graphs, and no mapping is undone for a range. Of both together
 * only if neither is. A request in a capture counts as one from outside after its end: memory that
 * it freed is then reserved for the graph. */
static void add_remedies(const mend_heap *heap, const mend_unserved *unserved, sentence *s)
{
    const mend_request *request = unserved->request;
    const bool is_of_capture = (request->graph_pool & MEND_GRAPH_POOL_OF_CAPTURE) != 0;
    unsigned helped = 0;
    for (int i = 0; i < REMEDIES; i++) {
        const unsigned holds = remedies[i].holds;
        const bool is_open =
            (holds & helped) == 0 &&
            (unserved->is_captured ? holds != MEND_BLOCKED_BY_GRAPH_POOLS &&
                                         (holds != MEND_BLOCKED_BY_PINS || request->pages == NULL)
                                   : (holds & MEND_BLOCKED_BY_WORK) == 0);
        if (is_open &&
            mend_report_would_fit(heap, request,
                                  is_of_capture ? MEND_STREAM_UNKNOWN : request->stream, holds)) {
            const bool has_graphs =
                (holds & MEND_BLOCKED_BY_GRAPH_POOLS) != 0 && unserved->captures > 0;
            const int keeper = has_graphs ? 1 + (unserved->graph_pools > 0) : 0;
            helped |= holds;
            join(s, remedies[i].sentences[keeper]);
        }
    }
}

/* If the driver refuses memory that it counts as free, the user can say so before by the limit. */
static void add_quota(const mend_unserved *unserved, sentence *s)
{
    const uint64_t held_mib = unserved->most_bytes / MEND_MIB;
    add(s,
        "The driver refuses memory that it counts as free, as a quota does (MPS, HAMi): raise the "
        "quota, or free memory");
    if (held_mib > 0) {
        add(s, ", or set MEND_CONF=limit:%luMiB", held_mib);
    }
}

/* Whether mend_compact would join enough for the request, once the GPU is done. Each compaction
 * frees more than it needs, so their order does not matter. No driver call. O(chunks + spans), a
 * few times. */
static bool compact_would_serve(mend_heap *heap, const mend_unserved *unserved)
{
    const mend_request *request = unserved->request;
    const uint64_t limit_bytes = mend_budget_limit_of_chunks(heap);
    const uint64_t reserved_bytes = heap->chunks.reserved_bytes;
    const uint64_t least_bytes = request->in_one_chunk ? request->size_bytes : 0;
    const uint64_t most_bytes =
        request->pages != NULL ? request->pages->largest_page_bytes : UINT64_MAX;
    if (request->graph_pool != 0 || heap->chunks.missing_count > 0 ||
        limit_bytes < reserved_bytes) {
        return false;
    }
    const uint64_t now_bytes =
        unserved->empty_bytes +
        mend_align_down(limit_bytes - reserved_bytes, heap->device.granularity_bytes);
    uint64_t gained_bytes = 0;
    uint64_t before_bytes;
    do {
        before_bytes = gained_bytes;
        gained_bytes = 0; /* of all compactions that fit into so much free memory */
        MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
            mend_compact_size size = {0};
            /* One of another size is released and created again, but not if others may still hold
             * it. */
            if (((chunk->size_bytes >= least_bytes && chunk->size_bytes <= most_bytes) ||
                 !chunk->memory.was_exported) &&
                mend_victims_may_gain(heap, chunk, MEND_BLOCKED_BY_GRAPH_POOLS)) {
                mend_victims_measure(heap, chunk, NULL, &size);
            }
            gained_bytes += size.used_bytes <= now_bytes + before_bytes ? size.gained_bytes : 0;
        }
    } while (gained_bytes > before_bytes && now_bytes + gained_bytes < request->size_bytes);
    return now_bytes + gained_bytes >= request->size_bytes;
}

/* Enough is free, and live blocks keep some of it in place. */
static void add_beside(mend_heap *heap, const mend_unserved *unserved, sentence *s)
{
    const uint64_t size_bytes = unserved->request->size_bytes;
    if (unserved->joined_bytes > 0 && unserved->joined_bytes < size_bytes) {
        add(s, "Free %s more in whole chunks",
            mend_words_amount_above(size_bytes - unserved->joined_bytes).text);
    } else {
        add(s, "Free some of the live blocks that the free memory is beside");
    }
    if (!unserved->is_captured && compact_would_serve(heap, unserved)) {
        add(s, ", or let mend_compact join the free memory beside live blocks at a safe point");
    }
}

/* If neither a limit nor a remedy helps. */
static void add_last_words(mend_heap *heap, const mend_unserved *unserved, sentence *s)
{
    const uint64_t size_bytes = unserved->request->size_bytes;
    if (size_bytes > heap->device.total_bytes) {
        add(s, "The GPU is smaller than the request");
    } else if (unserved->refused_bytes > 0 && heap->chunks.importers_bytes > 0) {
        add(s, "Importers may hold memory that this pool exported and released, until they close "
               "it or end (importers_bytes)");
    } else if (unserved->refused_bytes > 0) {
        add(s, "Other pools or processes hold memory of the GPU, or it is withheld from this pool "
               "(min_free_bytes, shared_limit_file, MPS): stop them, allow more, or free memory "
               "here");
    } else if (size_bytes > heap->config.limit_bytes) {
        add(s, "The request is above the limit, and the GPU has no memory left to raise it");
    } else if (mend_report_is_hopeless(heap, unserved->request)) {
        add(s, "Free blocks: no setting would help");
    } else {
        add_beside(heap, unserved, s);
    }
}

/* Remedies, in one sentence: not freeing, for a request above the limit. */
static void add_advice(mend_heap *heap, const mend_unserved *unserved, sentence *s)
{
    const mend_oom_report *f = unserved->figures;
    const bool is_above =
        f->requested_bytes > f->limit_bytes && f->reserved_bytes <= f->limit_bytes;
    sentence advice = {.used = 0};
    add_remedies(heap, unserved, &advice);
    if (advice.used == 0 && unserved->refused_bytes > 0 &&
        unserved->refused_bytes <= f->device_free_bytes) {
        add_quota(unserved, &advice);
    }
    if (advice.used == 0 && f->sufficient_limit_bytes == 0) {
        add_last_words(heap, unserved, &advice);
    }
    sentence all = {.used = 0};
    if (f->sufficient_limit_bytes > 0) {
        add(&all, "Raise the limit to %s or more%s",
            mend_words_amount_above(f->sufficient_limit_bytes).text,
            is_above ? "" : ", or free memory");
    }
    if (advice.used > 0) {
        join(&all, advice.text);
    }
    add_amount(&all, "; a request of ", f->fitting_bytes, " would fit");
    add(s, " %s.", all.text);
}

/* ---- the sentences --------------------------------------------------------------------------- */

/* The figures of the pool, as parts of one sentence. */
static void add_pool(sentence *s, const mend_oom_report *f)
{
    bool is_above = f->reserved_bytes > f->limit_bytes;
    add(s, "; the limit is %s", mend_words_amount(f->limit_bytes).text);
    add_amount(s, ", the pool holds ", is_above ? f->reserved_bytes - f->limit_bytes : 0,
               " more than that");
    add_amount(s, ", in use ", f->live_bytes, "");
    const char *of_it = " (";
    if (add_amount(s, ", free ", f->free_empty_bytes + f->free_partial_bytes, "")) {
        of_it = add_amount(s, of_it, f->free_partial_bytes - f->pinned_bytes, " beside live blocks")
                    ? ", "
                    : of_it;
        of_it = add_amount(s, of_it, f->pinned_bytes, " pinned") ? ", " : of_it;
        of_it = add_amount(s, of_it, f->waiting_stream_bytes, " in use by the GPU") ? ", " : of_it;
        of_it = add_amount(s, of_it, f->waiting_context_bytes, " freed without a stream") ? ", "
                                                                                          : of_it;
        of_it = add_amount(s, of_it, f->graph_pool_bytes, " held for graphs") ? ", " : of_it;
        add(s, "%s", of_it[0] == ',' ? ")" : "");
    }
}

enum { SHOWN = MEND_OWNERS_TOLD - 1 }; /* blocks, and owners beside a suspect */

/* Inserts the span if it is one of the largest. The smallest of the list drops out. */
static void keep(const mend_span *largest[SHOWN], const mend_span *span)
{
    for (int i = 0; i < SHOWN && span != NULL; i++) {
        if (largest[i] == NULL || span->size_bytes > largest[i]->size_bytes) {
            const mend_span *smaller = largest[i];
            largest[i] = span;
            span = smaller;
        }
    }
}

/* The number of ranges and their committed bytes. Then the number of live blocks, their bytes, and
 * the three largest. False: there are none, and it is nobody's. */
static bool tell_remains(const mend_heap *heap, sentence *s)
{
    mend_stats stats = {0};
    const uint64_t count = MEND_HEAP_SUM(heap, live_blocks);
    const mend_span *largest[SHOWN] = {NULL};
    MEND_FEATURES_CALL(statistics, heap, &stats);
    if (stats.ranges > 0) {
        add(s, "%lu ranges, %s committed", stats.ranges,
            mend_words_amount(heap->zones[MEND_ZONE_RANGE].counters.live_bytes).text);
    }
    if (count == 0) {
        return false;
    }
    for (size_t i = 0; i < heap->blocks.capacity; i++) {
        const mend_span *span = heap->blocks.entries[i].value;
        keep(largest, span != NULL && span->live ? span : NULL);
    }
    add(s, "%s%lu block%s alive, %s; the largest:", s->used > 0 ? ", and " : "", count,
        count == 1 ? "" : "s", mend_words_amount(MEND_HEAP_SUM(heap, live_bytes)).text);
    for (int i = 0; i < SHOWN && largest[i] != NULL; i++) {
        add(s, "%s 0x%lx (%s)", i > 0 ? "," : "", largest[i]->address,
            mend_words_amount(largest[i]->size_bytes).text);
    }
    add(s, ".");
    return true;
}

/* The three largest owners, and the suspect: " Possible leak: step/cache +1.20 GiB; largest owners:
 * step/forward (3.20 GiB in 12 blocks, up to 340 allocations old), ...". */
static void add_owners(const mend_heap *heap, mend_owner owners[MEND_OWNERS_TOLD], sentence *s)
{
    const mend_owner *suspect = &owners[SHOWN];
    size_t total = 0;
    if (!mend_owners_find(heap, MEND_BY_DEFAULT, owners, SHOWN, &owners[SHOWN], &total) ||
        total == 0) {
        return;
    }
    if (suspect->growth_bytes > 0) {
        add(s, " Possible leak: %s +%s; l", suspect->name,
            mend_words_amount(suspect->growth_bytes).text);
    }
    add(s, "%sargest owners: ", suspect->growth_bytes > 0 ? "" : " L");
    for (size_t i = 0; i < total && i < SHOWN; i++) {
        const mend_owner *h = &owners[i];
        add(s, "%s%s (%s in %lu block%s, %s%lu allocation%s old)%s", i > 0 ? ", " : "", h->name,
            mend_words_amount(h->live_bytes).text, h->live_blocks, h->live_blocks == 1 ? "" : "s",
            h->live_blocks == 1 ? "" : "up to ", h->oldest, h->oldest == 1 ? "" : "s",
            i + 1 == mend_min_u64(total, SHOWN) ? "." : "");
    }
}

/* Of a request numbers, remedies, owners, in three sentences at most. The owners are cut off before
 * the rest is. */
void mend_explain(mend_heap *heap, const mend_unserved *unserved,
                  mend_owner owners[MEND_OWNERS_TOLD], char *text, size_t text_bytes)
{
    sentence s = {.used = 0};
    bool has_owners = true;
    if (unserved == NULL) {
        has_owners = tell_remains(heap, &s);
    } else {
        const mend_oom_report *f = unserved->figures;
        const mend_pages *pages = unserved->request->pages;
        add(&s, "out of memory: %s requested", mend_words_amount(f->requested_bytes).text);
        if (pages != NULL) {
            add(&s, " in the range 0x%lx", pages->address);
        }
        if (pages != NULL && pages->other_ranges > 0) {
            add(&s, " and %zu more", pages->other_ranges);
        }
        add_pool(&s, f);
        add(&s, "; the GPU has %s, of which %s is free", mend_words_amount(f->device_bytes).text,
            mend_words_amount(f->device_free_bytes).text);
        add_amount(&s, " and ", f->device_others_bytes, " held by other pools and processes");
        add_amount(&s, " and ", f->device_kept_bytes, " kept free (min_free_bytes)");
        add(&s, ".");
        add_advice(heap, unserved, &s);
    }
    if (has_owners) {
        add_owners(heap, owners, &s);
    }
    snprintf(text, text_bytes, "%s", s.text);
}
