/*
 * Which chunks sleep: chunks in which every block is to sleep, and all free memory for captured
 * graphs, by the tag of the last block there. A committed page of a range counts as a block. And
 * how much has which tag.
 */
#include "sleep/sleep.h"

#include <stdlib.h>

bool mend_is_tagged(const mend_span *span, const uint64_t *tags, size_t tag_count)
{
    bool is = false;
    for (size_t i = 0; i < tag_count; i++) {
        is = is || tags[i] == span->sleep_tag;
    }
    return is;
}

/* ---- memory of graphs ------------------------------------------------------------------------ */

bool mend_is_for_graphs(const mend_heap *heap, const mend_span *span)
{
    return !span->live &&
           (mend_waits_blocked_by(&heap->streams, &span->waits, MEND_STREAM_UNKNOWN) &
            MEND_BLOCKED_BY_GRAPH_POOLS) != 0;
}

/* The place of the rule for its tag. rule_count: none, or it has no tag. */
static size_t rule_of(const mend_sleep_options *options, const mend_span *span)
{
    size_t at = 0;
    while (at < options->rule_count &&
           (span->sleep_tag == 0 || mend_rule_at(options, at).tag != span->sleep_tag)) {
        at++;
    }
    return at;
}

static bool graphs_sleep(const mend_sleep_options *options, const mend_span *span)
{
    const size_t rule = rule_of(options, span);
    if (rule < options->rule_count) {
        return mend_rule_at(options, rule).backup != MEND_STAY_RESIDENT;
    }
    if (options->graphs != MEND_BACKUP_DEFAULT) {
        return options->graphs != MEND_STAY_RESIDENT;
    }
    bool all = options->others != MEND_STAY_RESIDENT && /* no rule lets a block stay awake */
               (options->others != MEND_BACKUP_DEFAULT || options->rule_count == 0);
    for (size_t i = 0; i < options->rule_count; i++) {
        all = all && mend_rule_at(options, i).backup != MEND_STAY_RESIDENT;
    }
    return all;
}

static bool is_to_sleep(const mend_sleep_options *options, const mend_span *span)
{
    return span->live ? mend_keep_of(options, span) != MEND_STAY_RESIDENT
                      : graphs_sleep(options, span);
}

/* ---- what a call names ----------------------------------------------------------------------- */

/* Shows all blocks, and memory of graphs, to `look`, by address, until that is true. */
static bool look_at_blocks(const mend_heap *heap, bool (*look)(void *context, const mend_span *),
                           void *context)
{
    bool is_found = false;
    for (const mend_chunk *chunk = mend_chunk_from(&heap->chunks, 0); chunk != NULL && !is_found;
         chunk = mend_chunk_next(chunk)) {
        MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
            bool begins_here = span->address >= chunk->address;
            bool counts = span->live || mend_is_for_graphs(heap, span);
            is_found = is_found || (begins_here && counts && look(context, span));
        }
    }
    return is_found;
}

static bool has_tag(void *context, const mend_span *span)
{
    return span->sleep_tag == *(const uint64_t *)context;
}

static void note_tag(const mend_heap *heap, uint64_t tag, mend_match *match)
{
    if (!look_at_blocks(heap, has_tag, &tag)) {
        match->unmatched_tag = match->unmatched_tags == 0 ? tag : match->unmatched_tag;
        match->unmatched_tags++;
    }
}

typedef struct naming {
    const mend_sleep_options *options; /* NULL: the tags count */
    const uint64_t *tags;
    size_t tag_count;
    uint64_t bytes;
} naming;

static bool add_if_named(void *context, const mend_span *span)
{
    naming *n = context;
    const bool is_named = n->options != NULL ? is_to_sleep(n->options, span)
                                             : mend_is_tagged(span, n->tags, n->tag_count);
    n->bytes += is_named ? span->size_bytes : 0;
    return false;
}

mend_match mend_match_rules(const mend_heap *heap, const mend_sleep_options *options)
{
    mend_match match = {0};
    naming n = {.options = options};
    for (size_t i = 0; i < options->rule_count; i++) {
        note_tag(heap, mend_rule_at(options, i).tag, &match);
    }
    (void)look_at_blocks(heap, add_if_named, &n);
    match.bytes = n.bytes;
    return match;
}

mend_match mend_match_tags(const mend_heap *heap, const uint64_t *tags, size_t tag_count)
{
    mend_match match = {.bytes = heap->counters.live_bytes};
    naming n = {.tags = tags, .tag_count = tag_count};
    for (size_t i = 0; i < tag_count; i++) {
        note_tag(heap, tags[i], &match);
    }
    if (tag_count > 0) {
        (void)look_at_blocks(heap, add_if_named, &n);
        match.bytes = n.bytes;
    }
    return match;
}

/* ---- which chunks ---------------------------------------------------------------------------- */

/* The contents of a chunk, in bytes of blocks. */
typedef struct contents {
    const mend_span *first;
    size_t spans;
    uint64_t to_sleep_bytes;
    uint64_t to_stay_bytes;
    uint64_t graphs_bytes; /* free, reserved for captured graphs, and to sleep. If it is to stay, it
                            * counts as a block */
    bool has_rule;         /* some of graphs_bytes sleeps by a rule for its tag */
} contents;

static contents look_into(const mend_heap *heap, const mend_sleep_options *options,
                          const mend_chunk *chunk)
{
    contents found = {0};
    uint64_t end = chunk->address + chunk->size_bytes;
    MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
        found.first = found.first != NULL ? found.first : span;
        uint64_t from = mend_max_u64(span->address, chunk->address);
        uint64_t bytes = mend_min_u64(mend_span_end(span), end) - from;
        found.spans++;
        const bool sleeps = is_to_sleep(options, span);
        if (span->live) {
            *(sleeps ? &found.to_sleep_bytes : &found.to_stay_bytes) += bytes;
        } else if (mend_is_for_graphs(heap, span)) {
            *(sleeps ? &found.graphs_bytes : &found.to_stay_bytes) += bytes;
            found.has_rule = found.has_rule || rule_of(options, span) < options->rule_count;
        }
    }
    return found;
}

/* Whether the memory of the chunk can be released. Otherwise counts why not. */
static bool can_sleep(const mend_heap *heap, const mend_chunk *chunk, const contents *held,
                      mend_selection *selection)
{
    uint64_t bytes = held->to_sleep_bytes;
    if (chunk->pins > 0) {
        bool is_first = bytes > 0 && selection->pinned_at == 0;
        selection->pinned_at = is_first ? chunk->address : selection->pinned_at;
        selection->pinned_bytes += bytes;
        return false;
    }
    if (mend_retire_holds(heap, chunk->memory.handle) != NULL) {
        selection->mapped_bytes += bytes;
        return false;
    }
    if (held->to_stay_bytes > 0) {
        selection->beside_bytes += bytes;
        return false;
    }
    return true;
}

static bool add(mend_selection *selection, const mend_sleep_options *options, mend_chunk *chunk,
                const contents *held)
{
    mend_contents *kept = mend_keep_plan(options, chunk, held->first);
    if (kept == NULL) {
        return false;
    }
    kept->has_rule = held->has_rule;
    selection->sleepers[selection->count++] = (mend_cluster){
        .address = chunk->address, .size_bytes = chunk->size_bytes, .chunk = chunk, .kept = kept};
    selection->spans += held->spans;
    return true;
}

static bool select_chunk(const mend_heap *heap, const mend_sleep_options *options,
                         mend_chunk *chunk, mend_selection *selection)
{
    contents held = look_into(heap, options, chunk);
    if (mend_chunk_sleeps(chunk)) {
        selection->asleep_bytes += held.to_sleep_bytes;
        return true;
    }
    bool is_asked = held.to_sleep_bytes > 0 || held.graphs_bytes > 0;
    if (!is_asked || chunk->is_frozen || !can_sleep(heap, chunk, &held, selection)) {
        return true;
    }
    return add(selection, options, chunk, &held);
}

mend_result mend_select_to_sleep(mend_heap *heap, const mend_sleep_options *options,
                                 mend_selection *selection)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    *selection = (mend_selection){0};
    selection->sleepers = calloc(heap->chunks.mapped.count + 1, sizeof(selection->sleepers[0]));
    if (selection->sleepers == NULL) {
        return mend_no_host_memory("a sleep");
    }
    for (mend_chunk *chunk = mend_chunk_from(&heap->chunks, 0); chunk != NULL;
         chunk = mend_chunk_next(chunk)) {
        if (!select_chunk(heap, options, chunk, selection)) {
            mend_selection_clear(heap, selection);
            return mend_no_host_memory("a sleep");
        }
    }
    return MEND_OK;
}

void mend_selection_clear(mend_heap *heap, mend_selection *selection)
{
    for (size_t i = 0; i < selection->count; i++) {
        mend_keep_drop(heap, selection->sleepers[i].kept);
    }
    free(selection->sleepers);
    *selection = (mend_selection){0};
}

/* ---- how much has which tag ------------------------------------------------------------------ */

typedef struct listing {
    const mend_heap *heap;
    mend_sleep_tag_info *infos; /* by tag */
    size_t count;
    size_t capacity;
} listing;

/* Where the tag is, or belongs. */
static size_t place_of(const listing *l, uint64_t tag)
{
    size_t first = 0;
    for (size_t end = l->count; first < end;) {
        const size_t middle = first + (end - first) / 2;
        const bool is_before = l->infos[middle].tag < tag;
        first = is_before ? middle + 1 : first;
        end = is_before ? end : middle;
    }
    return first;
}

/* Adds a block, or memory of graphs. True: malloc failed. */
static bool list_tag(void *context, const mend_span *span)
{
    listing *l = context;
    const size_t at = place_of(l, span->sleep_tag);
    if (at == l->count || l->infos[at].tag != span->sleep_tag) {
        if (!mend_streams_grow(&l->infos, &l->capacity, l->count + 1, sizeof(l->infos[0]))) {
            return true;
        }
        for (size_t i = l->count; i > at; i--) {
            l->infos[i] = l->infos[i - 1];
        }
        l->infos[at] = (mend_sleep_tag_info){.tag = span->sleep_tag};
        l->count++;
    }
    mend_sleep_tag_info *info = &l->infos[at];
    const bool sleeps = span->live && mend_layout_sleeps(l->heap, span);
    info->live_blocks += span->live;
    info->live_bytes += span->live ? span->size_bytes : 0;
    info->asleep_live_bytes += sleeps ? span->size_bytes : 0;
    info->graph_bytes += span->live ? 0 : span->size_bytes;
    return false;
}

mend_result mend_sleep_list_tags(const mend_heap *heap, mend_sleep_tag_info **infos, size_t *count)
{
    listing l = {.heap = heap};
    if (look_at_blocks(heap, list_tag, &l)) {
        free(l.infos);
        return mend_no_host_memory("a list of tags");
    }
    *infos = l.infos;
    *count = l.count;
    return MEND_OK;
}
