/*
 * Every number of the statistics, against the counts of the model, the observed driver calls
 * (through the traced table and the witness), and its earlier value. A figure without a rule does
 * not compile: a rule that nothing can break is seen by `simulation.every_wrong_figure_is_seen`.
 */
#include <stddef.h>
#include <string.h>

#include "lab/heap/explain.h"
#include "mend/mend_frameworks.h"
#include "pool/pool.h"
#include "ranges/ranges.h"
#include "tests/sim/asleep.h"
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"
#include "tests/support/regions.h"

#define LLU(value) ((unsigned long long)(value))

/* The inputs of the rules of one pool. */
typedef struct look {
    const trial *t;
    const trial_pool *pool;
    const mend_stats *is;
    const mend_stats *was; /* after the step before */
    const trial_zone *small;
    const trial_zone *large;
    const mend_explanation *why;
    trial_range_figures ranges;
    mend_sim_ledger ledger;
    uint64_t lost_bytes; /* in chunks that miss their mapping */
    bool was_reset;      /* peaks were, since then */
} look;

static bool is_between(uint64_t least, uint64_t value, uint64_t most)
{
    return least <= value && value <= most;
}

static uint64_t in_small_zone(const mend_explanation *why)
{
    uint64_t bytes = mend_explanation_partial_bytes(why, MEND_ZONE_SMALL);
    for (int reason = 0; reason < MEND_FREE_REASONS; reason++) {
        bytes += why->free_bytes[MEND_ZONE_SMALL][MEND_FREE_EMPTY][reason];
    }
    return bytes;
}

static uint64_t graph_pools_of(const look *l)
{
    uint64_t graph_pools = 0;
    for (int i = 0; l->pool == &l->t->pools[0] && i < TRIAL_GRAPH_POOLS; i++) {
        graph_pools += l->t->graph_pools[i].graph_pool != NULL;
    }
    return graph_pools;
}

/* Captures, or graphs of them, whose blocks live in the pool. */
static uint64_t captures_with_blocks(const look *l)
{
    uint32_t graph_pools = 0;
    TRIAL_EACH_BLOCK(const trial_block, block, l->t) {
        bool is_here = block->live && &l->t->pools[block->pool] == l->pool;
        graph_pools |=
            is_here && block->graph_pool >= TRIAL_GRAPH_POOLS ? trial_bit(block->graph_pool) : 0;
    }
    return (uint64_t)__builtin_popcount(graph_pools);
}

/* Live blocks of the pool that are so. */
#define COUNT_BLOCKS(name, is_so)                                                                  \
    static uint64_t name(const look *l)                                                            \
    {                                                                                              \
        uint64_t blocks = 0;                                                                       \
        TRIAL_EACH_BLOCK(const trial_block, block, l->t) {                                         \
            blocks += block->live && (is_so) && l->pool == &l->t->pools[block->pool];              \
        }                                                                                          \
        return blocks;                                                                             \
    }
COUNT_BLOCKS(unmapped_of, block->unmapped)
COUNT_BLOCKS(exported_of, block->is_exported && block->exported_at == block->address)

static uint64_t imports_of(const look *l)
{
    uint64_t imports = 0;
    for (int i = 0; i < TRIAL_IMPORTS; i++) {
        const trial_imported *import = &l->t->imports[i];
        imports += import->pointer != NULL && l->pool == &l->t->pools[import->pool];
    }
    return imports;
}

/* The chunks of all pins, exports and blocks in one chunk hold at least the largest of them. */
static uint64_t largest_pin(const look *l)
{
    uint64_t largest_bytes = 0;
    TRIAL_EACH_BLOCK(const trial_block, block, l->t) {
        bool is_here = trial_pins_its_chunks(block) && l->pool == &l->t->pools[block->pool];
        largest_bytes = is_here ? mend_max_u64(largest_bytes, block->size_bytes) : largest_bytes;
    }
    for (int i = 0; i < TRIAL_PINS; i++) {
        const trial_pinned *pin = &l->t->pins[i];
        bool is_here = pin->size_bytes != 0 && &l->t->pools[pin->pool] == l->pool;
        largest_bytes = is_here ? mend_max_u64(largest_bytes, pin->size_bytes) : largest_bytes;
    }
    return largest_bytes;
}

static uint64_t asleep_in(const look *l, asleep_figure figure)
{
    return trial_asleep(l->pool, figure);
}

/* A peak is of a moment since the last look, or the one before. */
static bool is_peak(const look *l, uint64_t peak, uint64_t peak_was, uint64_t now, uint64_t most)
{
    uint64_t before = l->was_reset ? 0 : peak_was;
    return is_between(mend_max_u64(before, now), peak, mend_max_u64(before, most));
}

#define IS(field)              (l->is->field)
#define WAS(field)             (l->was->field)
#define MODEL(field)           (l->is->field == l->pool->field)
#define ALL(field)             (l->is->field == l->pool->zones[ALL_ZONES].field)
#define ZONE(zone, field)      (l->is->zone##_##field == l->zone->field)
#define ZONE_PEAK(zone, field) (l->is->peak_##zone##_##field == l->zone->peak_##field)
#define GROWS(field, most)     is_between(l->was->field, l->is->field, l->was->field + (most))
#define PEAK(field, most)      is_peak(l, IS(peak_##field), WAS(peak_##field), IS(field), most)
#define DONE(field)            (l->t->config.plain ? UINT32_MAX : l->t->seen.field)
#define MOST(field)            (l->t->config.plain ? UINT64_MAX : l->t->witness.most.field)
#define SINCE(field)           (IS(field) - WAS(field))
#define REQUESTS               (SINCE(allocations) + SINCE(pages_committed))

/* ---- one pool: whether a figure is right --------------------------------------------------- */

#define RULE_live_bytes      ALL(live_bytes)
#define RULE_requested_bytes ALL(requested_bytes)
#define RULE_live_blocks     ALL(live_blocks)
#define RULE_allocations     ALL(allocations)
#define RULE_frees           MODEL(frees)
#define RULE_out_of_memory   MODEL(out_of_memory)
#define RULE_pressure_calls  MODEL(pressure_calls)
#define RULE_limit_bytes     MODEL(limit_bytes)
/* A background trim that fails may have given something back. */
#define RULE_background_trimmed_bytes                                                              \
    (IS(background_trimmed_bytes) >= l->pool->background_trimmed_bytes &&                          \
     (IS(background_trimmed_bytes) == l->pool->background_trimmed_bytes ||                         \
      l->pool->fails_to_collect))
#define RULE_soft_limit_bytes  MODEL(soft_limit_bytes)
#define RULE_soft_limit_passed GROWS(soft_limit_passed, l->t->has_soft_limit ? REQUESTS : 0)
/* Less than the limit only once others held memory of the device, or the driver kept some. */
#define RULE_effective_limit_bytes                                                                 \
    (l->is->effective_limit_bytes <= l->is->limit_bytes &&                                         \
     (l->is->effective_limit_bytes == l->is->limit_bytes || l->t->had_others))
#define RULE_allocated_bytes                 ALL(allocated_bytes)
#define RULE_allocated_requested_bytes       ALL(allocated_requested_bytes)
#define RULE_peak_live_bytes                 ALL(peak_live_bytes)
#define RULE_peak_live_blocks                ALL(peak_live_blocks)
#define RULE_peak_requested_bytes            ALL(peak_requested_bytes)
#define RULE_graph_pools                     (l->is->graph_pools == graph_pools_of(l))
#define RULE_unmapped_blocks                 (l->is->unmapped_blocks == unmapped_of(l))
#define RULE_device_bytes                    (l->is->device_bytes == l->t->device_bytes)

#define RULE_small_live_blocks               ZONE(small, live_blocks)
#define RULE_small_live_bytes                ZONE(small, live_bytes)
#define RULE_small_requested_bytes           ZONE(small, requested_bytes)
#define RULE_small_allocations               ZONE(small, allocations)
#define RULE_small_allocated_bytes           ZONE(small, allocated_bytes)
#define RULE_small_allocated_requested_bytes ZONE(small, allocated_requested_bytes)
#define RULE_peak_small_live_blocks          ZONE_PEAK(small, live_blocks)
#define RULE_peak_small_live_bytes           ZONE_PEAK(small, live_bytes)
#define RULE_peak_small_requested_bytes      ZONE_PEAK(small, requested_bytes)
#define RULE_peak_large_live_blocks          ZONE_PEAK(large, live_blocks)
#define RULE_peak_large_live_bytes           ZONE_PEAK(large, live_bytes)
#define RULE_peak_large_requested_bytes      ZONE_PEAK(large, requested_bytes)

#define IS_BARE(t)                           ((t)->config.plain == PLAIN_WITHOUT_POOLS)
#define RULE_bare_device                     (IS(bare_device) == (uint64_t)IS_BARE(l->t))

/* The device's ledger has the sums of these: see checker.c. */
#define RULE_reserved_bytes (l->is->reserved_bytes == l->why->reserved_bytes + l->is->passed_bytes)
#define RULE_passed_bytes   (l->is->passed_bytes == l->pool->zones[MEND_ZONE_PASSED].live_bytes)
#define RULE_passed_blocks  (l->is->passed_blocks == l->pool->zones[MEND_ZONE_PASSED].live_blocks)
#define RULE_chunks         (l->is->chunks == l->is->chunks_created - l->is->chunks_released)
#define RULE_mappings                                                                              \
    (l->is->mappings <=                                                                            \
     l->is->chunks + l->why->retired_mappings + l->pool->pool->heap.imports.mappings)
#define RULE_address_bytes                                                                         \
    (l->t->stopped ||                                                                              \
     is_between(l->is->mapped_bytes, l->is->address_bytes, l->ledger.address_bytes))
#define RULE_mapped_bytes                                                                          \
    (l->is->mapped_bytes + l->lost_bytes == asleep_in(l, ASLEEP_AWAY) + l->is->imported_bytes +    \
                                                l->why->reserved_bytes - l->why->unmapped_bytes +  \
                                                l->is->retired_bytes)
#define RULE_retired_bytes (l->is->retired_bytes == l->why->retired_bytes)

#define RULE_pinned_bytes                                                                          \
    ((IS(pinned_bytes) > 0) == (largest_pin(l) > 0) &&                                             \
     is_between(largest_pin(l), IS(pinned_bytes), IS(reserved_bytes)))

#define RULE_exported_blocks (l->is->exported_blocks == exported_of(l))
#define RULE_exported_bytes                                                                        \
    ((IS(exported_bytes) > 0) == (exported_of(l) > 0) && IS(exported_bytes) <= IS(pinned_bytes))
/* Imports in other pools may outlive the blocks, and the device is not asked before a look. */
#define RULE_importers_bytes (IS(importers_bytes) == 0 || l->t->last_export > 0)
#define RULE_imports         (l->is->imports == imports_of(l))
#define RULE_imported_bytes  ((IS(imported_bytes) > 0) == (imports_of(l) > 0))
/* The follower has read to the end: see history.c. */
#define RULE_history_events                                                                        \
    (l->pool->history_capacity > 0 ? IS(history_events) == l->pool->follower.cursor - 1            \
                                   : IS(history_events) == WAS(history_events) ||                  \
                                         l->t->config.record != 0 || l->t->config.check != 0)
#define RULE_record_lost            (IS(record_lost) == 0)
#define RULE_shared_limit_file_lost (IS(shared_limit_file_lost) == 0)
#define RULE_history_lost           (IS(history_events) - IS(history_lost) == l->pool->history_held)

#define RULE_free_bytes                                                                            \
    (l->is->free_bytes == mend_explanation_free_bytes(l->why) &&                                   \
     l->is->free_bytes + l->is->live_bytes == l->is->reserved_bytes + asleep_in(l, ASLEEP_LIVE))
#define RULE_free_empty_bytes                                                                      \
    (l->is->free_empty_bytes + l->is->free_partial_bytes + l->is->free_small_bytes ==              \
     l->is->free_bytes)
#define RULE_free_partial_bytes                                                                    \
    (l->is->free_partial_bytes == mend_explanation_partial_bytes(l->why, MEND_ZONE_LARGE) +        \
                                      mend_explanation_partial_bytes(l->why, MEND_ZONE_RANGE))
#define RULE_free_small_bytes                                                                      \
    (l->is->free_small_bytes == mend_explanation_partial_bytes(l->why, MEND_ZONE_SMALL))
#define RULE_captures                                                                              \
    (IS(captures) >= captures_with_blocks(l) && IS(captures) <= l->t->last_capture)
#define RULE_peer_devices                                                                          \
    (IS(peer_devices) == (l->t->has_joined ? 1U : (unsigned)trial_other_devices(&l->t->config)))
#define RULE_small_reserved_bytes                                                                  \
    (l->is->small_reserved_bytes + asleep_in(l, ASLEEP_SMALL_LIVE) ==                              \
     l->is->small_live_bytes + in_small_zone(l->why))
#define RULE_small_chunks                                                                          \
    (l->is->small_chunks <= l->is->chunks &&                                                       \
     l->is->small_chunks * l->t->page_bytes <= l->is->small_reserved_bytes &&                      \
     (l->is->small_chunks > 0) == (l->is->small_reserved_bytes > 0))

#define RULE_peak_reserved_bytes       PEAK(reserved_bytes, MOST(chunk_bytes))
#define RULE_peak_chunks               PEAK(chunks, MOST(chunks))
#define RULE_peak_mappings             PEAK(mappings, MOST(mappings))
#define RULE_peak_small_reserved_bytes PEAK(small_reserved_bytes, MOST(chunk_bytes))
#define RULE_peak_large_reserved_bytes                                                             \
    is_peak(l, l->is->peak_large_reserved_bytes, l->was->peak_large_reserved_bytes,                \
            l->why->reserved_bytes - l->why->unmapped_bytes - l->is->small_reserved_bytes -        \
                l->is->range_bytes - l->is->range_free_bytes + asleep_in(l, ASLEEP_PAGES_LIVE),    \
            MOST(chunk_bytes))

/* Each request that was served was placed in one way. */
#define RULE_placed_in_run                                                                         \
    (l->is->placed_in_run + l->is->placed_by_extension + l->is->placed_at_new_address +            \
         l->pool->zones[MEND_ZONE_PASSED].allocations ==                                           \
     l->is->allocations)
#define RULE_placed_by_extension   GROWS(placed_by_extension, REQUESTS)
#define RULE_placed_at_new_address GROWS(placed_at_new_address, REQUESTS)

#define RULE_cache_hits            (IS(cache_hits) <= IS(placed_in_run))
#define MOST_CACHED_BLOCKS         ((uint64_t)MEND_CACHE_SPANS * MEND_ZONE_COUNT)
#define RULE_cached_blocks         (IS(cached_blocks) <= MOST_CACHED_BLOCKS)
#define RULE_cached_bytes                                                                          \
    is_between(l->is->cached_blocks *MEND_GRANULE_BYTES, l->is->cached_bytes,                      \
               l->is->cached_blocks > 0 ? l->is->free_bytes : 0)
#define RULE_moves_avoided GROWS(moves_avoided, REQUESTS)
#define RULE_streams       (l->is->streams < l->pool->pool->heap.streams.count)

/* Driver calls for one pool are at most the calls for all: sums are below. */
#define RULE_chunks_created  GROWS(chunks_created, DONE(created))
#define RULE_chunks_released GROWS(chunks_released, DONE(released))
#define RULE_created_bytes   GROWS(created_bytes, DONE(created_bytes))
#define RULE_chunks_remade   GROWS(chunks_remade, DONE(released))
#define RULE_chunks_moved    GROWS(chunks_moved, DONE(mapped))
/* A block that another thread frees amid one takes no copy. */
#define RULE_compactions                                                                           \
    GROWS(compactions, DONE(copies) + l->t->outcome->tally.ambushes[AMBUSH_FREES])
#define RULE_copied_bytes    GROWS(copied_bytes, DONE(copied_bytes))
#define RULE_stream_waits    GROWS(stream_waits, DONE(stream_waits))
#define RULE_context_fences  GROWS(context_fences, DONE(context_fences))
#define RULE_host_waits      GROWS(host_waits, DONE(most_host_waits))
#define RULE_pending_bytes   is_between(0, IS(pending_bytes), IS(free_bytes))
#define RULE_waited_requests GROWS(waited_requests, SINCE(host_waits))
/* A quota's refusal reaches no driver. */
#define RULE_driver_failures                                                                       \
    GROWS(driver_failures, DONE(failures) + (trial_has_quota(l->t) ? UINT32_MAX : 0))
#define RULE_peer_pool_trims                                                                       \
    GROWS(peer_pool_trims, l->t->pool_count > 1 || trial_has_quota(l->t) ? UINT32_MAX : 0)

/* Sleeping memory, chunk by chunk. A sleeping chunk may have kept its memory. */
#define RULE_asleep_bytes (IS(asleep_bytes) == asleep_in(l, ASLEEP_SIZE))
#define RULE_asleep_live_bytes                                                                     \
    (IS(asleep_live_bytes) == asleep_in(l, ASLEEP_LIVE) &&                                         \
     l->ranges.asleep_bytes == asleep_in(l, ASLEEP_PAGES_LIVE))
#define RULE_backup_host_bytes (IS(backup_host_bytes) == asleep_in(l, ASLEEP_HOST))
#define RULE_backup_cache_bytes                                                                    \
    is_between(0, IS(backup_cache_bytes) + IS(backup_host_bytes), l->ledger.host_bytes)
#define RULE_backup_file_bytes (IS(backup_file_bytes) == asleep_in(l, ASLEEP_FILE))
#define RULE_sleeps            MODEL(sleeps)
#define RULE_wakes             MODEL(wakes)
#define RULE_dropped_bytes     MODEL(dropped_bytes)

/* Of destroyed ranges, those stay that something is mapped in. */
#define CLOSED_RANGES          (l->pool->pool->heap.chunks.deferred.count[MEND_DEFERRED_RANGE])
#define RULE_ranges            (IS(ranges) == l->ranges.ranges)
#define RULE_range_bytes       MODEL(range_bytes)
#define RULE_peak_range_bytes  MODEL(peak_range_bytes)
#define RULE_pages_committed   MODEL(pages_committed)
#define RULE_pages_decommitted MODEL(pages_decommitted)
#define FREE_IN_RANGES         (l->ranges.unused_bytes + asleep_in(l, ASLEEP_PAGES_HELD))
#define RULE_range_free_bytes                                                                      \
    (IS(range_free_bytes) <= IS(free_bytes) && IS(range_free_bytes) >= FREE_IN_RANGES &&           \
     (IS(range_free_bytes) == FREE_IN_RANGES || CLOSED_RANGES > 0))
#define RULE_range_address_bytes                                                                   \
    (is_between(l->ranges.size_bytes, IS(range_address_bytes), IS(address_bytes)) &&               \
     (IS(range_address_bytes) > 0) == (IS(ranges) + CLOSED_RANGES > 0))

static const char *wrong_figure(const look *l)
{
#define X(field, unit, meaning)                                                                    \
    if (!(RULE_##field)) {                                                                         \
        return #field;                                                                             \
    }
    MEND_STATS(X)
#undef X
    return NULL;
}

/* ---- usage --------------------------------------------------------------------------------- */

/* Each row has the same bytes outside of the pool, which change with every step. So a peak of
 * allocated memory is never above the peak of reserved memory. */
static const char *wrong_usage(trial *t, const trial_pool *pool, mend_usage *is)
{
    const mend_stats *stats = &pool->is;
    const mend_usage *was = &pool->usage;
    const uint64_t outside = (uint64_t)(t->step % 5) * 64 * MEND_KIB;
    const uint64_t bytes = stats->live_bytes - stats->asleep_live_bytes;
    const uint64_t of_all[MEND_USAGE_ROWS] = {[MEND_USAGE_BLOCKS] = stats->live_blocks,
                                              [MEND_USAGE_BYTES] = bytes,
                                              [MEND_USAGE_ACTIVE_BYTES] =
                                                  bytes + stats->pending_bytes,
                                              [MEND_USAGE_RESERVED_BYTES] = stats->reserved_bytes,
                                              [MEND_USAGE_CHUNKS] = stats->chunks};
    mend_usage around = MEND_USAGE_INIT;
    for (int row = 0; row < MEND_USAGE_ROWS; row++) {
        around.now[row][MEND_USAGE_ALL] = around.now[row][MEND_USAGE_SMALL] = outside;
    }
    mend_heap *heap = &pool->pool->heap;
    mend_heap_lock(heap);
    mend_usage_set_outside(heap, &around);
    mend_usage_fill(heap, is);
    mend_heap_unlock(heap);
    for (int row = 0; row < MEND_USAGE_ROWS; row++) {
        const bool is_known = row != MEND_USAGE_ACTIVE_BLOCKS && row != MEND_USAGE_REQUESTED_BYTES;
        if (is_known && is->now[row][MEND_USAGE_ALL] != of_all[row] + outside) {
            return "a row of the usage";
        }
        for (int part = 0; part < MEND_USAGE_PARTS; part++) {
            const uint64_t before = t->were_reset ? 0 : was->peak[row][part];
            const bool is_in_use = row == MEND_USAGE_BYTES || row == MEND_USAGE_ACTIVE_BYTES;
            const uint64_t most =
                is_in_use ? is->peak[MEND_USAGE_RESERVED_BYTES][part] : UINT64_MAX;
            if (!is_between(mend_max_u64(before, is->now[row][part]), is->peak[row][part], most)) {
                return "a peak of the usage";
            }
        }
    }
    return NULL;
}

/* ---- a step -------------------------------------------------------------------------------- */

/* The first figure that is wrong. NULL: none is. */
static const char *look_at_pool(trial *t, int number, const mend_stats *stats)
{
    mend_explanation why;
    trial_pool *pool = &t->pools[number];
    mend_result result = mend_pool_explain(pool->pool, NULL, &why);
    trial_claim(t, TRIAL_RESULT, result == MEND_OK, "mend_pool_explain: %s",
                mend_result_name(result));
    const look l = {.t = t,
                    .pool = pool,
                    .is = stats,
                    .was = &pool->was,
                    .small = &pool->zones[MEND_ZONE_SMALL],
                    .large = &pool->zones[MEND_ZONE_LARGE],
                    .why = &why,
                    .ranges = trial_look_at_ranges(t, number),
                    .ledger = trial_ledger(t),
                    .lost_bytes = pool->pool->heap.chunks.unmapped_frozen_bytes,
                    .was_reset = t->were_reset};
    /* A range that ends leaves chunks that are mapped nowhere, and so does a trim beside copies. */
    pool->has_unmapped = why.unmapped_bytes > 0 || pool->pool->heap.chunks.missing_count > 0 ||
                         pool->pool->heap.chunks.deferred.count[MEND_DEFERRED_RANGE] > 0 ||
                         !mend_retire_copies_have_ended(&pool->pool->heap);
    return wrong_figure(&l);
}

static void check_pool(trial *t, int number)
{
    trial_pool *pool = &t->pools[number];
    pool->is = trial_stats(t, number);
    mend_usage usage = MEND_USAGE_INIT;
    const char *wrong = look_at_pool(t, number, &pool->is);
    wrong = wrong != NULL ? wrong : wrong_usage(t, pool, &usage);
    pool->usage = usage;
    trial_claim(t, TRIAL_MODEL, wrong == NULL, "pool %d: %s is wrong", number, wrong);
}

/* ---- all pools together: their sums are the driver calls since the last look ---- */

static trial_seen look_at_driver(const trial *t, const mend_driver_counters *now)
{
    const mend_driver_counters *was = &t->calls_were;
    const trial_witness *w = &t->witness;
#define MORE(name, field) (now->call[MEND_CALL_##name].field - was->call[MEND_CALL_##name].field)
#define NEW(name)         (MORE(name, calls) - MORE(name, failures))
#define REFUSED(name)     MORE(name, failures)
#define BYTES(name)       MORE(name, bytes)
    trial_seen seen = {.created = NEW(create) - w->undone_chunks,
                       .created_bytes = BYTES(create) - w->undone_bytes,
                       .released = NEW(release) - w->undone_chunks - w->fetched_releases,
                       .mapped = NEW(map) - w->fetched_maps,
                       .copies = NEW(copy),
                       .copied_bytes = BYTES(copy),
                       .stream_waits = NEW(stream_wait),
                       .context_fences = NEW(context_record),
                       .least_host_waits = NEW(event_synchronize),
                       .most_host_waits = NEW(event_synchronize) + NEW(context_synchronize),
                       .least_failures = REFUSED(create) + REFUSED(unmap) + REFUSED(release)};
    for (int i = 0; i < MEND_DRIVER_CALL_COUNT; i++) {
        seen.failures += now->call[i].failures - was->call[i].failures;
    }
    /* Memory that could not be released stays, and is released later: no undone step. */
    seen.is_sure = REFUSED(unmap) + REFUSED(release) == 0 && !w->lost_count &&
                   !w->commit_gave_back && !t->had_sleep;
    if (!seen.is_sure) {
        seen.created = NEW(create);
        seen.created_bytes = BYTES(create);
        seen.released = NEW(release) - w->fetched_releases;
    }
    return seen;
#undef MORE
#undef NEW
#undef REFUSED
#undef BYTES
}

/* The increase of all pools' counters. */
#define SUM(field) (sum_of(t, offsetof(mend_stats, field)))
static uint64_t sum_of(const trial *t, size_t offset)
{
    uint64_t sum = 0;
    for (int i = 0; i < t->pool_count; i++) {
        uint64_t is;
        uint64_t was;
        memcpy(&is, (const char *)&t->pools[i].is + offset, sizeof(is));
        memcpy(&was, (const char *)&t->pools[i].was + offset, sizeof(was));
        sum += is - was;
    }
    return sum;
}

static void check_sum(trial *t, const char *what, uint64_t least, uint64_t value, uint64_t most)
{
    trial_claim(t, TRIAL_MODEL, is_between(least, value, most),
                "the driver's part in %s: %llu more than before, expected %llu to %llu", what,
                LLU(value), LLU(least), LLU(most));
}

static void check_sums(trial *t)
{
    if (t->config.plain) {
        return;
    }
    const trial_seen *seen = &t->seen;
    bool is_plain = seen->failures == 0 && !t->lacked_memory && !t->had_sleep &&
                    t->config.check == 0; /* a check copies, too */
    uint64_t host_waits = seen->copies == 0 ? seen->most_host_waits : seen->least_host_waits;
    check_sum(t, "chunks_created", seen->is_sure ? seen->created : 0, SUM(chunks_created),
              seen->created);
    check_sum(t, "created_bytes", seen->is_sure ? seen->created_bytes : 0, SUM(created_bytes),
              seen->created_bytes);
    check_sum(t, "chunks_released", seen->is_sure ? seen->released : 0, SUM(chunks_released),
              seen->released);
    check_sum(t, "stream_waits", seen->stream_waits, SUM(stream_waits), seen->stream_waits);
    check_sum(t, "context_fences", seen->context_fences, SUM(context_fences), seen->context_fences);
    check_sum(t, "host_waits", host_waits, SUM(host_waits), seen->most_host_waits);
    check_sum(t, "driver_failures", seen->least_failures, SUM(driver_failures),
              trial_has_quota(t) ? UINT32_MAX : seen->failures);
    check_sum(t, "compactions", is_plain && seen->copies > 0, SUM(compactions),
              seen->copies + t->outcome->tally.ambushes[AMBUSH_FREES]);
    check_sum(t, "copied_bytes", is_plain ? seen->copied_bytes : 0, SUM(copied_bytes),
              seen->copied_bytes);
    check_sum(t, "the requests that map", 0, SUM(placed_by_extension) + SUM(placed_at_new_address),
              seen->mapped);
    bool maps_moves = is_plain && seen->is_sure && seen->copies == 0 && !t->had_unmapped;
    uint64_t least_moves = maps_moves ? seen->mapped - seen->created : 0;
    check_sum(t, "chunks_moved", least_moves, SUM(chunks_moved), seen->mapped);
}

void trial_check_figures(trial *t)
{
    mend_driver_counters now;
    mend_traced_driver_get(t->traced, &now);
    t->seen = look_at_driver(t, &now);
    const mend_sim_ledger ledger = trial_ledger(t);
    const mend_stats stats = trial_stats(t, 0);
    t->had_others |=
        t->pool_count > 1 || trial_has_quota(t) || t->config.plain ||
        ledger.chunk_bytes + ledger.plain_bytes + t->foreign_bytes > stats.reserved_bytes ||
        now.call[MEND_CALL_create].failures > 0 || now.call[MEND_CALL_unmap].failures > 0 ||
        now.call[MEND_CALL_release].failures > 0;
    for (int i = 0; i < t->pool_count; i++) {
        check_pool(t, i);
    }
    check_sums(t);
    t->had_sleep = false;
    t->had_unmapped = false;
    for (int i = 0; i < t->pool_count; i++) {
        t->had_unmapped |= t->pools[i].has_unmapped;
        t->pools[i].was = t->pools[i].is;
    }
    t->calls_were = now;
    t->seen = (trial_seen){0};
    t->were_reset = false;
    t->lacked_memory = false;
    trial_witness_forget(t);
}

const char *trial_wrong_figure(trial *t, size_t offset, uint64_t by)
{
    mend_stats stats = trial_stats(t, 0);
    uint64_t figure;
    memcpy(&figure, (const char *)&stats + offset, sizeof(figure));
    figure += by;
    memcpy((char *)&stats + offset, &figure, sizeof(figure));
    const char *wrong = look_at_pool(t, 0, &stats);
    return wrong != NULL ? wrong : "";
}
