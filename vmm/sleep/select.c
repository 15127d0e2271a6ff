/*
 * Which chunks sleep: chunks in which every block is to sleep, and all free memory for captured
 * graphs, by the tag of the last block there. A committed page of a range counts as a block. And
 * how much has which tag.
 */
#include "sleep/sleep.h"

#include <stdlib.h>

#include "base/align.h"
#include "pool/pool.h"

bool mend_is_tag_of(uint64_t tag, const uint64_t *tags, size_t tag_count)
{
    bool is = false;
    for (size_t i = 0; i < tag_count; i++) {
        is = is || tags[i] == tag;
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

/* The backup that a rule for its tag says. MEND_BACKUP_DEFAULT: none, or it has no tag. */
static int rule_of_graphs(const mend_sleep_options *options, uint64_t tag)
{
    return tag != 0 ? mend_rule_of(options, tag) : MEND_BACKUP_DEFAULT;
}

static bool graphs_sleep(const mend_sleep_options *options, uint64_t tag)
{
    const int rule = rule_of_graphs(options, tag);
    if (rule != MEND_BACKUP_DEFAULT || options->graphs != MEND_BACKUP_DEFAULT) {
        return (rule != MEND_BACKUP_DEFAULT ? rule : options->graphs) != MEND_STAY_RESIDENT;
    }
    bool all = options->others != MEND_STAY_RESIDENT && /* no rule lets a block stay awake */
               (options->others != MEND_BACKUP_DEFAULT || options->rule_count == 0);
    for (size_t i = 0; i < options->rule_count; i++) {
        all = all && mend_rule_at(options, i).backup != MEND_STAY_RESIDENT;
    }
    return all;
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
        uint64_t from = mend_max_u64(span->address, chunk->address);
        uint64_t bytes = mend_min_u64(mend_span_end(span), end) - from;
        found.first = found.first != NULL ? found.first : span;
        found.spans++;
        const bool sleeps = span->live
                                ? mend_keep_of(options, span->sleep_tag) != MEND_STAY_RESIDENT
                                : graphs_sleep(options, span->sleep_tag);
        if (span->live) {
            *(sleeps ? &found.to_sleep_bytes : &found.to_stay_bytes) += bytes;
        } else if (mend_is_for_graphs(heap, span)) {
            *(sleeps ? &found.graphs_bytes : &found.to_stay_bytes) += bytes;
            found.has_rule =
                found.has_rule || rule_of_graphs(options, span->sleep_tag) != MEND_BACKUP_DEFAULT;
        }
    }
    return found;
}

/* Whether the memory of the chunk can be released. Otherwise counts why not. */
static bool can_sleep(const mend_heap *heap, const mend_chunk *chunk, const contents *held,
                      mend_selection *selection, mend_sleep_report *report)
{
    const uint64_t bytes = held->to_sleep_bytes;
    const bool is_mapped = chunk->pins == 0 && mend_retire_holds(heap, chunk) != NULL;
    if (chunk->pins == 0 && !is_mapped && held->to_stay_bytes == 0) {
        return true;
    }
    if (chunk->pins > 0 && bytes > 0 && selection->pinned_at == 0) {
        selection->pinned_at = chunk->address;
    }
    report->pinned_bytes += chunk->pins > 0 ? bytes : 0;
    report->mapped_bytes += is_mapped ? bytes : 0;
    report->stayed_bytes += bytes;
    return false;
}

mend_result mend_select_to_sleep(mend_heap *heap, const mend_sleep_options *options,
                                 mend_selection *selection, mend_sleep_report *report)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    selection->sleepers = calloc(heap->chunks.mapped.count + 1, sizeof(selection->sleepers[0]));
    if (selection->sleepers == NULL) {
        return mend_no_host_memory("a sleep");
    }
    for (mend_chunk *chunk = mend_chunk_from(&heap->chunks, 0); chunk != NULL;
         chunk = mend_chunk_next(chunk)) {
        const contents held = look_into(heap, options, chunk);
        const bool sleeps = mend_chunk_sleeps(chunk);
        const bool is_asked = held.to_sleep_bytes > 0 || held.graphs_bytes > 0;
        selection->asleep_bytes += sleeps ? held.to_sleep_bytes : 0;
        if (sleeps || !is_asked || chunk->is_frozen ||
            !can_sleep(heap, chunk, &held, selection, report)) {
            continue;
        }
        mend_contents *kept = mend_keep_plan(options, chunk, held.first, held.spans);
        if (kept == NULL) {
            mend_selection_clear(heap, selection);
            return mend_no_host_memory("a sleep");
        }
        kept->has_rule = held.has_rule;
        selection->sleepers[selection->count++] = (mend_cluster){.address = chunk->address,
                                                                 .size_bytes = chunk->size_bytes,
                                                                 .chunk = chunk,
                                                                 .kept = kept};
        selection->spans += held.spans;
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

static bool lists(const listing *l, uint64_t tag)
{
    const size_t at = place_of(l, tag);
    return at < l->count && l->infos[at].tag == tag;
}

/* Adds a block, or memory of graphs. False: malloc failed. */
static bool list_tag(listing *l, const mend_span *span)
{
    const size_t at = place_of(l, span->sleep_tag);
    if (!lists(l, span->sleep_tag)) {
        if (!mend_streams_grow(&l->infos, &l->capacity, l->count + 1, sizeof(l->infos[0]))) {
            return false;
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
    return true;
}

/* Lists all blocks, and memory of graphs, where they begin. */
static mend_result list_tags(listing *l)
{
    bool is_listed = true;
    for (const mend_chunk *chunk = mend_chunk_from(&l->heap->chunks, 0); chunk != NULL && is_listed;
         chunk = mend_chunk_next(chunk)) {
        MEND_SPANS_EACH(const mend_span, span, l->heap, chunk) {
            const bool counts = span->address >= chunk->address &&
                                (span->live || mend_is_for_graphs(l->heap, span));
            is_listed = is_listed && (!counts || list_tag(l, span));
        }
    }
    if (!is_listed) {
        free(l->infos);
        return mend_no_host_memory("a list of tags");
    }
    return MEND_OK;
}

mend_result mend_get_sleep_tags(mend_pool *pool, mend_sleep_tag_info *infos, size_t info_bytes,
                                size_t capacity, size_t *count)
{
    MEND_TRY(
        mend_pool_check_array(pool, infos, info_bytes, capacity, count, "mend_get_sleep_tags"));
    MEND_TRY(mend_pool_enter_all(pool));
    listing l = {.heap = &pool->heap};
    const mend_result result = list_tags(&l);
    if (result == MEND_OK) {
        *count = l.count;
        for (size_t i = 0; l.count <= capacity && i < l.count; i++) {
            mend_element_write(infos, info_bytes, i, &l.infos[i], sizeof(l.infos[i]));
        }
        free(l.infos);
    }
    return mend_pool_leave_all(pool, result);
}

mend_result mend_match_names(const mend_heap *heap, const mend_sleep_options *options,
                             const uint64_t *tags, size_t tag_count, mend_match *match)
{
    listing l = {.heap = heap};
    const size_t names = options != NULL ? options->rule_count : tag_count;
    if (options == NULL && tag_count == 0) {
        match->bytes = heap->counters.live_bytes;
        return MEND_OK;
    }
    MEND_TRY(list_tags(&l));
    for (size_t i = 0; i < names; i++) {
        const uint64_t tag = options != NULL ? mend_rule_at(options, i).tag : tags[i];
        if (!lists(&l, tag)) {
            match->unmatched_tag = match->unmatched_tags == 0 ? tag : match->unmatched_tag;
            match->unmatched_tags++;
        }
    }
    for (size_t i = 0; i < l.count; i++) {
        const mend_sleep_tag_info *info = &l.infos[i];
        const bool is_named = options == NULL && mend_is_tag_of(info->tag, tags, tag_count);
        const bool sleeps =
            options != NULL && mend_keep_of(options, info->tag) != MEND_STAY_RESIDENT;
        match->bytes += is_named || sleeps ? info->live_bytes : 0;
        match->bytes += is_named || (options != NULL && graphs_sleep(options, info->tag))
                            ? info->graph_bytes
                            : 0;
    }
    free(l.infos);
    return MEND_OK;
}
