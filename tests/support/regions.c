#include "tests/support/regions.h"

#include <stdio.h>
#include <stdlib.h>

#include "alloc/heap.h"
#include "lab/heap/explain.h"
#include "memory/chunk.h"
#include "pool/pool.h"
#include "record/record.h"

#define LLU(value) ((unsigned long long)(value))

typedef struct look {
    mend_pool *pool;
    char *finding;
} look;

typedef struct region_sums {
    uint64_t bytes;
    uint64_t live_blocks;
    uint64_t live_bytes; /* pages included */
    uint64_t page_bytes;
    uint64_t requested_bytes;
    uint64_t idle_bytes; /* of kind FREE */
    uint64_t small_bytes;
    uint64_t kept_bytes; /* free, for graphs */
    uint64_t pinned_bytes;
    uint64_t pinned_free_bytes;
    uint64_t unmapped_blocks;
    uint64_t asleep_bytes; /* of blocks: also if a part of them is awake */
} region_sums;

/* False, and the finding, unless `holds`. */
static bool claim(const look *l, bool holds, const char *what, uint64_t is, uint64_t expected)
{
    if (!holds) {
        snprintf(l->finding, MEND_REGIONS_FINDING_BYTES, "regions: %s: %llx, expected %llx", what,
                 LLU(is), LLU(expected));
    }
    return holds;
}

static bool equal(const look *l, const char *what, uint64_t is, uint64_t expected)
{
    return claim(l, is == expected, what, is, expected);
}

mend_region *mend_regions_of(mend_pool *pool, size_t *count)
{
    mend_region *regions = NULL;
    size_t capacity = 0;
    *count = 0;
    while (mend_get_regions(pool, regions, sizeof(*regions), capacity, count) == MEND_OK &&
           *count > capacity) {
        capacity = *count + 16; /* others may be at work */
        free(regions);
        regions = malloc(capacity * sizeof(*regions));
        if (regions == NULL) {
            *count = 0;
            return NULL;
        }
    }
    return regions;
}

static region_sums sum_of(const mend_region *regions, size_t count)
{
    region_sums sums = {0};
    for (size_t i = 0; i < count; i++) {
        const mend_region *at = &regions[i];
        bool is_page = at->kind == MEND_REGION_PAGE;
        bool is_live = at->kind == MEND_REGION_LIVE || is_page;
        sums.bytes += at->size_bytes;
        sums.live_blocks += is_live && !is_page;
        sums.live_bytes += is_live ? at->size_bytes : 0;
        sums.page_bytes += is_page ? at->size_bytes : 0;
        sums.requested_bytes += is_page ? 0 : at->requested_bytes;
        sums.idle_bytes += at->kind == MEND_REGION_FREE ? at->size_bytes : 0;
        sums.small_bytes += at->is_small ? at->size_bytes : 0;
        sums.kept_bytes += !is_live && at->is_for_graphs ? at->size_bytes : 0;
        sums.pinned_bytes += at->is_pinned ? at->size_bytes : 0;
        sums.pinned_free_bytes += !is_live && at->is_pinned ? at->size_bytes : 0;
        sums.unmapped_blocks += is_live && at->is_unmapped;
        sums.asleep_bytes += at->is_asleep ? at->size_bytes : 0;
    }
    return sums;
}

static uint64_t end_of(const mend_region *region)
{
    return (uint64_t)(uintptr_t)region->address + region->size_bytes;
}

static bool is_used(const mend_region *region)
{
    return region->kind == MEND_REGION_LIVE || region->kind == MEND_REGION_PAGE;
}

/* Each block that is passed through is a segment. */
static bool is_passed(const look *l, uint64_t address)
{
    const mend_span *block = mend_heap_block_at(&l->pool->heap, address);
    return block != NULL && block->chunk == NULL;
}

/* A region begins where the one before in its segment ends. A segment begins with a region. */
static bool order_is_right(const look *l, const mend_region *before, const mend_region *at)
{
    uint64_t address = (uint64_t)(uintptr_t)at->address;
    uint64_t start = (uint64_t)(uintptr_t)at->segment;
    if (before == NULL || before->segment != at->segment) {
        bool is_apart = before == NULL || end_of(before) < start ||
                        before->is_small != at->is_small || is_passed(l, start) ||
                        is_passed(l, end_of(before) - 1);
        return equal(l, "a segment begins elsewhere", address, start) &&
               claim(l, is_apart, "two segments are one", start, 0) &&
               claim(l, before == NULL || end_of(before) <= start, "segments overlap", start, 0);
    }
    bool is_same = before->kind == at->kind && before->stream == at->stream &&
                   before->graph_pool == at->graph_pool && before->is_pinned == at->is_pinned &&
                   before->is_for_graphs == at->is_for_graphs &&
                   before->is_unmapped == at->is_unmapped && before->is_asleep == at->is_asleep &&
                   before->is_pending == at->is_pending;
    return equal(l, "a hole", address, end_of(before)) &&
           equal(l, "zones in a segment", (uint64_t)before->is_small, (uint64_t)at->is_small) &&
           claim(l, !is_same || is_used(at), "two free regions are one", address, 0);
}

static bool block_is_right(const look *l, const mend_region *at)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    bool is_block =
        mend_get_block_info(l->pool, at->address, &info) == MEND_OK && info.base == at->address &&
        info.usable_bytes ==
            (l->pool->heap.config.guard_bytes != 0 ? at->requested_bytes : at->size_bytes) &&
        info.requested_bytes == at->requested_bytes && info.stream == at->stream &&
        info.tag == at->tag && info.sleep_tag == at->sleep_tag &&
        info.is_unmapped == at->is_unmapped && info.is_asleep == at->is_asleep &&
        info.contents_dropped == at->contents_dropped;
    return claim(l, is_block, "this is another block", (uint64_t)(uintptr_t)at->address, 0) &&
           claim(l, at->graph_pool == NULL || at->is_for_graphs, "the graph pool of a block", 0, 0);
}

/* A region is as each of its chunks is. */
static bool chunks_are_right(const look *l, const mend_region *at)
{
    bool are_right = true;
    const mend_chunk *chunk = mend_chunk_at(&l->pool->heap.chunks, end_of(at) - at->size_bytes);
    for (; chunk != NULL && chunk->address < end_of(at); chunk = mend_chunk_next(chunk)) {
        are_right = are_right && at->is_pinned == (chunk->pins > 0) &&
                    at->is_unmapped == mend_chunk_misses_mapping(chunk) &&
                    at->is_asleep == mend_chunk_sleeps(chunk);
    }
    return claim(l, are_right, "parts of free memory differ, which ends at", end_of(at), 0);
}

static bool free_is_right(const look *l, const mend_region *at)
{
    bool is_idle = at->kind == MEND_REGION_FREE;
    bool has_nothing = at->stream == MEND_NO_STREAM && at->graph_pool == NULL && !at->is_for_graphs;
    return chunks_are_right(l, at) &&
           claim(l, is_idle || at->kind == MEND_REGION_WAITING, "kind", (uint64_t)at->kind, 0) &&
           claim(l, !is_idle || has_nothing, "idle memory has an owner", 0, 0) &&
           equal(l, "free memory was asked for", at->requested_bytes, 0) &&
           equal(l, "the tag of free memory", at->tag | at->sleep_tag, 0);
}

/* Free bytes of sleeping chunks, which are not reserved. A chunk that has kept its memory, because
 * the driver refused, counts as free. */
static uint64_t free_away(const mend_chunks *chunks)
{
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_chunk, chunk, by_address, &chunks->mapped) {
        bool is_away = !mend_chunk_is_reserved(chunk);
        bytes += is_away ? chunk->size_bytes - chunk->live_bytes : 0;
        bytes -= mend_chunk_sleeps(chunk) && !is_away ? chunk->live_bytes : 0;
    }
    return bytes;
}

/* What a page of `observe` tells of free memory. Where something sleeps, its sum. */
static bool free_is_told(const look *l, const mend_explanation *why, uint64_t free_bytes)
{
    mend_heap *heap = &l->pool->heap;
    mend_live_free told = {0};
    mend_owner largest, suspect;
    size_t count;
    mend_owners_sum *sum = mend_owners_begin(MEND_BY_DEFAULT, &told);
    if (sum == NULL) {
        return true;
    }
    mend_heap_lock_to_read(heap);
    (void)mend_owners_add(sum, heap, SIZE_MAX);
    mend_owners_end(sum, heap, &largest, 1, &suspect, &count);
    mend_heap_unlock_after_read(heap);
    uint64_t whole_bytes = why->unmapped_bytes;
    uint64_t held_bytes[MEND_FREE_REASONS] = {0};
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        whole_bytes += why->free_bytes[zone][MEND_FREE_EMPTY][MEND_FREE_IDLE];
        for (int i = 0; i < MEND_FREE_PLACES * MEND_FREE_REASONS; i++) {
            const int place = i / MEND_FREE_REASONS, reason = i % MEND_FREE_REASONS;
            held_bytes[reason] += why->free_bytes[zone][place][reason];
        }
    }
    return equal(l, "free bytes that are told",
                 told.whole_bytes + told.beside_bytes + told.streams_bytes + told.no_stream_bytes +
                     told.graphs_bytes,
                 free_bytes) &&
           (heap->chunks.frozen_count > 0 ||
            (equal(l, "whole", told.whole_bytes, whole_bytes) &&
             equal(l, "held by streams", told.streams_bytes,
                   held_bytes[MEND_FREE_OWN] + held_bytes[MEND_FREE_STREAMS]) &&
             equal(l, "freed without a stream", told.no_stream_bytes,
                   held_bytes[MEND_FREE_STREAMLESS]) &&
             equal(l, "held by graphs", told.graphs_bytes, held_bytes[MEND_FREE_GRAPH_POOLS])));
}

static bool sums_are_right(const look *l, const region_sums *sums)
{
    const mend_chunks *chunks = &l->pool->heap.chunks;
    mend_stats stats = MEND_STATS_INIT;
    mend_explanation why;
    bool is_known = mend_get_stats(l->pool, &stats) == MEND_OK &&
                    mend_pool_explain(l->pool, MEND_NO_STREAM, &why) == MEND_OK;
    if (!claim(l, is_known, "the statistics", 0, 0)) {
        return false;
    }
    const uint64_t graph_pool_bytes = mend_report_graph_pool_bytes(&l->pool->heap);
    uint64_t idle_bytes = 0; /* an empty chunk counts for its longest hold */
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        for (int place = 0; place < MEND_FREE_PLACES; place++) {
            idle_bytes += why.free_bytes[zone][place][MEND_FREE_IDLE];
        }
    }
    const uint64_t away_bytes = chunks->away_in[MEND_ZONE_SMALL] +
                                chunks->away_in[MEND_ZONE_LARGE] + chunks->away_in[MEND_ZONE_RANGE];
    return equal(l, "live blocks", sums->live_blocks, stats.live_blocks) &&
           equal(l, "live bytes", sums->live_bytes, stats.live_bytes) &&
           equal(l, "bytes of pages", sums->page_bytes, stats.range_bytes) &&
           equal(l, "requested bytes", sums->requested_bytes, stats.requested_bytes) &&
           equal(l, "free bytes", sums->bytes - sums->live_bytes,
                 stats.free_bytes - why.unmapped_bytes + free_away(chunks)) &&
           equal(l, "mapped bytes", sums->bytes - stats.passed_bytes,
                 stats.mapped_bytes - stats.retired_bytes - stats.imported_bytes +
                     chunks->unmapped_frozen_bytes) &&
           equal(l, "bytes of the small zone", sums->small_bytes,
                 stats.small_reserved_bytes + chunks->away_in[MEND_ZONE_SMALL]) &&
           claim(l, sums->asleep_bytes >= stats.asleep_bytes, "bytes asleep", sums->asleep_bytes,
                 stats.asleep_bytes) &&
           claim(l, sums->idle_bytes + chunks->asleep_bytes - away_bytes >= idle_bytes,
                 "idle bytes", sums->idle_bytes, idle_bytes) &&
           claim(l,
                 sums->kept_bytes == graph_pool_bytes ||
                     (sums->kept_bytes > graph_pool_bytes && chunks->frozen_count > 0),
                 "bytes for graphs", sums->kept_bytes, graph_pool_bytes) &&
           free_is_told(l, &why, stats.free_bytes) &&
           equal(l, "unmapped blocks", sums->unmapped_blocks, stats.unmapped_blocks) &&
           claim(l,
                 sums->pinned_free_bytes <= stats.pinned_bytes &&
                     stats.pinned_bytes <= sums->pinned_bytes,
                 "pinned bytes", sums->pinned_bytes, stats.pinned_bytes);
}

/* Memory of an owner, in the regions. */
static uint64_t bytes_of(const mend_owner *owner, unsigned by, const mend_region *regions,
                         size_t count)
{
    const bool is_of_stream = (by & MEND_BY_STREAM) != 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const mend_region *at = &regions[i];
        const uint32_t scope = (by & MEND_BY_SCOPE) != 0 ? at->scope : 0;
        const uint64_t own = at->tag != 0 ? at->tag : at->sleep_tag;
        const uint64_t tag = (by & MEND_BY_TAG) != 0 ? own : 0;
        const uint32_t stack = (by & MEND_BY_STACK) != 0 ? at->stack : 0;
        const bool is_of_size = scope == 0 && tag == 0 && stack == 0 && !is_of_stream;
        const bool is_its = is_used(at) && scope == owner->scope && tag == owner->tag &&
                            stack == owner->stack &&
                            (!is_of_stream || at->stream == owner->stream) &&
                            owner->block_bytes == (is_of_size ? at->size_bytes : 0);
        bytes += is_its ? at->size_bytes : 0;
    }
    return bytes;
}

/* In a pool of few regions. Of very many owners some stand for several. */
static bool owners_are_right(const look *l, const mend_region *regions, size_t count,
                             uint64_t live_bytes)
{
    static mend_owner owners[MEND_OWNERS_MOST];
    const unsigned asked = (unsigned)count % (MEND_BY_ANY + 1); /* each in turn */
    const unsigned by = asked != 0 ? asked : MEND_BY_DEFAULT;
    size_t found = 0;
    uint64_t bytes = 0;
    const size_t room = mend_min_u64(count, MEND_OWNERS_MOST); /* each holds a region */
    bool are_right =
        mend_get_owners(l->pool, asked, owners, sizeof(*owners), room, &found) == MEND_OK;
    are_right = are_right && claim(l, found <= room, "owners of nothing", found, room);
    are_right = claim(l, are_right, "no owners", 0, 0);
    for (size_t i = 0; i < found && are_right; i++) {
        const mend_owner *h = &owners[i];
        bytes += h->live_bytes;
        are_right =
            claim(l, i == 0 || h->live_bytes <= h[-1].live_bytes, "owners in no order", i, 0) &&
            claim(l, h->growth_bytes <= h->live_bytes, "growth", h->growth_bytes, h->live_bytes) &&
            (count > 200 || equal(l, "an owner's", h->live_bytes, bytes_of(h, by, regions, count)));
    }
    return are_right && equal(l, "bytes of all owners", bytes, live_bytes);
}

static int by_number(const void *number, const void *scope)
{
    const uint32_t is = ((const mend_scope_info *)scope)->number;
    return (*(const uint32_t *)number > is) - (*(const uint32_t *)number < is);
}

/* A scope has its own blocks and pages, and its inner scopes'. */
static bool scopes_are_right(const look *l, const mend_region *regions, size_t count)
{
    size_t found = 0;
    (void)mend_get_scopes(l->pool, NULL, sizeof(mend_scope_info), 0, &found);
    mend_scope_info *scopes = calloc(found + 1, sizeof(*scopes));
    bool are_right =
        claim(l, mend_get_scopes(l->pool, scopes, sizeof(*scopes), found, &found) == MEND_OK,
              "scopes", 0, 0);
    for (size_t i = 0; i < count && are_right; i++) {
        const mend_region *at = &regions[i];
        for (uint32_t number = at->scope; number != 0 && are_right;) {
            mend_scope_info *scope = bsearch(&number, scopes, found, sizeof(*scopes), by_number);
            are_right = claim(l, scope != NULL, "a scope that is not counted", number, 0);
            if (scope != NULL) {
                scope->own_live_bytes -= number == at->scope ? at->size_bytes : 0;
                scope->own_live_blocks -= number == at->scope;
                scope->live_bytes -= at->size_bytes;
                number = scope->around;
            }
        }
    }
    for (size_t i = 0; i < found && are_right; i++) {
        are_right = equal(l, "bytes of a scope beside its blocks", scopes[i].live_bytes, 0) &&
                    equal(l, "its own bytes", scopes[i].own_live_bytes, 0) &&
                    equal(l, "its own blocks", scopes[i].own_live_blocks, 0);
    }
    free(scopes);
    return are_right;
}

bool mend_regions_are_right(mend_pool *pool, char finding[MEND_REGIONS_FINDING_BYTES])
{
    const look l = {pool, finding};
    size_t count;
    mend_region *regions = mend_regions_of(pool, &count);
    bool are_right = true;
    for (size_t i = 0; i < count && are_right; i++) {
        const mend_region *at = &regions[i];
        are_right = order_is_right(&l, i > 0 ? at - 1 : NULL, at) &&
                    (is_used(at) ? block_is_right(&l, at) : free_is_right(&l, at));
    }
    if (are_right) {
        region_sums sums = sum_of(regions, count);
        are_right = sums_are_right(&l, &sums) &&
                    owners_are_right(&l, regions, count, sums.live_bytes) &&
                    scopes_are_right(&l, regions, count);
    }
    free(regions);
    return are_right;
}
