/* Conditions after every step. */
#include <stdarg.h>
#include <stdio.h>

#include "check/check.h"
#include "lab/heap/explain.h"
#include "pool/pool.h"
#include "ranges/ranges.h"
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"
#include "tests/support/regions.h"

#define LLU(value) ((unsigned long long)(value))

const char *trial_verdict_name(trial_verdict verdict)
{
    static const char *const names[TRIAL_VERDICTS] = {
        "holds",  "wrong result",  "refused what fits", "validate",       "ledger", "model",
        "a rule", "wrong content", "liveness",          "left on device", "crash",  "hang"};
    return verdict < TRIAL_VERDICTS ? names[verdict] : "?";
}

bool trial_claim(trial *t, trial_verdict verdict, bool holds, const char *format, ...)
{
    if (holds || t->outcome->verdict != TRIAL_HOLDS) {
        return holds;
    }
    t->outcome->verdict = verdict;
    t->outcome->step = t->step;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->outcome->finding, sizeof(t->outcome->finding), format, arguments);
    va_end(arguments);
    return false;
}

mend_stats trial_stats(trial *t, int pool)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_result result = mend_get_stats(t->pools[pool].pool, &stats);
    trial_claim(t, TRIAL_RESULT, result == MEND_OK, "mend_get_stats: %s", mend_result_name(result));
    return stats;
}

mend_sim_ledger trial_ledger(trial *t)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(t->sim, &ledger);
    return ledger;
}

bool trial_is_faulty(const trial *t)
{
    return t->faults_stand || t->malloc_fails || t->may_be_lost || t->stopped || t->disturbed;
}

#define EQUAL(verdict, what, left, right)                                                          \
    trial_claim(t, verdict, (left) == (right), "%s: %llu, expected %llu", what, LLU(left),         \
                LLU(right))

/* A compaction has mapped them again, and the driver refused access. */
static uint64_t bytes_without_access(const trial *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < t->pool_count; i++) {
        const mend_tree *mapped = &t->pools[i].pool->heap.chunks.mapped;
        MEND_TREE_EACH(const mend_chunk, chunk, by_address, mapped) {
            bytes += chunk->missing == MEND_MISSING_ACCESS ? chunk->size_bytes : 0;
        }
    }
    return bytes;
}

static uint64_t events_held(const trial *t)
{
    uint64_t events = 0;
    for (int i = 0; i < t->pool_count; i++) {
        events += t->pools[i].pool->heap.streams.events_held;
    }
    return events;
}

static void check_ledger(trial *t, const mend_stats *sum)
{
    mend_sim_ledger ledger = trial_ledger(t);
    uint64_t refused_bytes = bytes_without_access(t);
    uint64_t lingering_bytes = trial_lingering_bytes(t);
    if (lingering_bytes == 0) {
        EQUAL(TRIAL_LEDGER, "the device's chunk bytes", ledger.chunk_bytes, sum->reserved_bytes);
        EQUAL(TRIAL_LEDGER, "the device's chunks", ledger.chunks, sum->chunks);
    }
    trial_claim(t, TRIAL_LEDGER,
                ledger.chunk_bytes >= sum->reserved_bytes &&
                    ledger.chunk_bytes <= sum->reserved_bytes + lingering_bytes,
                "the device holds %llu bytes, the pools %llu, and imports at most %llu",
                LLU(ledger.chunk_bytes), LLU(sum->reserved_bytes), LLU(lingering_bytes));
    /* Memory freed in order is released when the stream has passed the free. */
    trial_claim(
        t, TRIAL_LEDGER,
        ledger.plain_bytes >= sum->passed_bytes &&
            (ledger.plain_allocations == sum->passed_blocks ||
             (t->config.plain == PLAIN_BY_POOLS && ledger.plain_allocations > sum->passed_blocks)),
        "the driver has %llu allocations of %llu bytes, the pools %llu of %llu",
        LLU(ledger.plain_allocations), LLU(ledger.plain_bytes), LLU(sum->passed_blocks),
        LLU(sum->passed_bytes));
    EQUAL(TRIAL_LEDGER, "the device's mappings", ledger.mappings, sum->mappings);
    EQUAL(TRIAL_LEDGER, "the device's mapped bytes", ledger.mapped_bytes, sum->mapped_bytes);
    EQUAL(TRIAL_LEDGER, "the device's addresses", ledger.address_bytes, sum->address_bytes);
    /* A lost context destroys no event, and one may have been created as it was lost. */
    uint64_t events = events_held(t);
    if (!t->may_be_lost || ledger.events < events) {
        EQUAL(TRIAL_LEDGER, "the device's events", ledger.events, events);
    }
    trial_claim(t, TRIAL_LEDGER,
                ledger.accessible_bytes <= sum->mapped_bytes &&
                    ledger.accessible_bytes + sum->retired_bytes + refused_bytes >=
                        sum->mapped_bytes,
                "%llu bytes are accessible, %llu mapped, %llu of them retired, access was refused "
                "to %llu",
                LLU(ledger.accessible_bytes), LLU(sum->mapped_bytes), LLU(sum->retired_bytes),
                LLU(refused_bytes));
}

void trial_check_device(trial *t)
{
    mend_sim_ledger ledger = trial_ledger(t);
    trial_claim(t, TRIAL_RULE, t->violation[0] == '\0', "%s", t->violation);
    trial_claim(t, TRIAL_CONTENT, ledger.content_errors == 0, "%llu granules hold wrong bytes",
                LLU(ledger.content_errors));
}

void trial_check(trial *t)
{
    trial_check_device(t);
    mend_stats sum = {0};
    for (int i = 0; i < t->pool_count; i++) {
        char finding[MEND_VALIDATE_FINDING_BYTES];
        bool is_right = mend_pool_validate(t->pools[i].pool, finding);
        trial_claim(t, TRIAL_VALIDATE, is_right, "pool %d: %s", i, finding);
        char of_regions[MEND_REGIONS_FINDING_BYTES];
        is_right = mend_regions_are_right(t->pools[i].pool, of_regions);
        trial_claim(t, TRIAL_VALIDATE, is_right, "pool %d: %s", i, of_regions);
        trial_check_history(t, i);
        mend_stats stats = trial_stats(t, i);
        sum.reserved_bytes += stats.reserved_bytes - stats.passed_bytes;
        sum.passed_bytes += stats.passed_bytes;
        sum.passed_blocks += stats.passed_blocks;
        sum.chunks += stats.chunks;
        sum.mappings += stats.mappings;
        sum.mapped_bytes += stats.mapped_bytes;
        sum.retired_bytes += stats.retired_bytes;
        sum.address_bytes += stats.address_bytes;
    }
    if (!t->stopped) {
        check_ledger(t, &sum);
    }
    trial_check_granules(t);
    trial_check_quota(t);
    trial_check_figures(t);
}

bool trial_may_be_captured(const trial *t)
{
    bool may_be = t->captures > 0;
    for (int i = 0; i < t->stream_count; i++) {
        may_be |= t->streams[i].unnamed != 0;
    }
    return may_be;
}

bool trial_holds_memory_for_graphs(const trial *t)
{
    bool holds = trial_may_be_captured(t);
    for (int i = 0; i < TRIAL_ALL_GRAPH_POOLS; i++) {
        holds |= trial_graph_pool_is_there(&t->graph_pools[i]);
    }
    return holds;
}

uint64_t trial_empty_bytes(trial *t, int pool)
{
    mend_explanation why;
    uint64_t bytes = trial_stats(t, pool).free_empty_bytes;
    if (trial_may_be_captured(t)) {
        return 0;
    }
    if (trial_holds_memory_for_graphs(t) &&
        mend_pool_explain(t->pools[pool].pool, MEND_NO_STREAM, &why) == MEND_OK) {
        for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
            bytes -= why.free_bytes[zone][MEND_FREE_EMPTY][MEND_FREE_GRAPH_POOLS];
        }
    }
    return bytes;
}

uint64_t trial_limit_room(const mend_stats *stats)
{
    return stats->limit_bytes - mend_min_u64(stats->limit_bytes, stats->reserved_bytes);
}

uint64_t trial_room(trial *t, int pool)
{
    mend_stats stats = trial_stats(t, pool);
    uint64_t on_device = trial_quota_room(t);
    uint64_t under_limit = mend_align_down(trial_limit_room(&stats), t->page_bytes);
    uint64_t creatable = mend_min_u64(under_limit, mend_align_down(on_device, t->page_bytes));
    return creatable + trial_empty_bytes(t, pool);
}

/* Its numbers add up, but for what the driver did not say. */
static void check_sums(trial *t, const mend_oom_report *said)
{
    const uint64_t device_bytes = said->device_free_bytes + said->device_others_bytes +
                                  said->device_kept_bytes + said->reserved_bytes;
    const uint64_t free_bytes = said->free_empty_bytes + said->free_partial_bytes;
    trial_claim(t, TRIAL_MODEL,
                device_bytes == said->device_bytes || device_bytes == said->reserved_bytes,
                "a report of %llu bytes of a device counts %llu", LLU(said->device_bytes),
                LLU(device_bytes));
    trial_claim(t, TRIAL_MODEL,
                free_bytes + said->live_bytes == said->reserved_bytes &&
                    said->pinned_bytes <= said->free_partial_bytes &&
                    said->fitting_bytes < said->requested_bytes,
                "a report of %llu bytes counts %llu free, %llu of them pinned, and says that %llu "
                "of %llu fit",
                LLU(said->reserved_bytes), LLU(free_bytes), LLU(said->pinned_bytes),
                LLU(said->fitting_bytes), LLU(said->requested_bytes));
}

void trial_read_failure(trial_call *call)
{
    mend_error error = MEND_ERROR_INIT;
    mend_get_last_error(&error);
    snprintf(call->message, sizeof(call->message), "%s", error.message);
    call->fitting_bytes = 0;
    if (error.oom_report != NULL) {
        check_sums(call->trial, error.oom_report);
        call->fitting_bytes = error.oom_report->fitting_bytes;
    }
}

/* Where addresses are few the answer speaks of memory alone; of a limit that is shared another
 * process may give some meanwhile; and a quota is known from refusals alone. */
static bool memory_is_uncertain(const trial *t)
{
    return t->config.plain || t->config.address_devices != 0 || t->config.file_percent != 0 ||
           t->had_hidden_quota;
}

/* A capture that the pool has not heard of forbids the waits that it counts on. */
void trial_check_report(trial *t, const trial_call *refused, const trial_call *call)
{
    const bool is_uncertain = memory_is_uncertain(t) || t->captures > 0;
    const bool is_same = call->size_bytes == refused->size_bytes;
    trial_claim(t, TRIAL_REFUSED, is_uncertain || (call->result == MEND_OK) != is_same,
                "%llu bytes were refused, %llu would fit, was said, and %llu were %s",
                LLU(refused->size_bytes), LLU(refused->fitting_bytes), LLU(call->size_bytes),
                is_same ? "served when asked again" : "refused");
}

/* An estimate, which is never too large. */
void trial_check_room(trial *t, const trial_call *ask, const trial_call *call, bool at_once)
{
    uint64_t now_bytes = ask->room.now_bytes;
    trial_claim(t, TRIAL_REFUSED, call->size_bytes > now_bytes || at_once || memory_is_uncertain(t),
                "%llu bytes could be had at once, was said, and %llu were refused, or waited for",
                LLU(now_bytes), LLU(call->size_bytes));
    trial_claim(t, TRIAL_MODEL, ask->room.after_waiting_bytes >= now_bytes,
                "waiting takes room away");
}

/* No empty chunk is left above the bytes to keep, except memory of graphs. */
void trial_check_trim(trial *t, const trial_call *call)
{
    mend_stats stats = trial_stats(t, call->pool);
    trial_claim(t, TRIAL_LIVENESS,
                stats.reserved_bytes <= call->size_bytes || trial_empty_bytes(t, call->pool) == 0,
                "a trim that waits leaves %llu bytes, %llu of them empty, and should keep %llu",
                LLU(stats.reserved_bytes), LLU(stats.free_empty_bytes), LLU(call->size_bytes));
}

/* The rest of the limit for chunks of other sizes: empty ones above it serve only as they are. */
static uint64_t room_for_chunks(trial *t, int pool)
{
    const mend_stats stats = trial_stats(t, pool);
    const mend_heap *heap = &t->pools[pool].pool->heap;
    const uint64_t limit_bytes = heap->config.limit_bytes;
    const uint64_t kept_bytes = stats.reserved_bytes - trial_empty_bytes(t, pool);
    return limit_bytes > kept_bytes
               ? mend_align_down(limit_bytes - kept_bytes, heap->device.granularity_bytes)
               : 0;
}

void trial_check_least_room(trial *t, const trial_call *ask)
{
    const uint64_t guard_bytes = t->pools[ask->pool].pool->heap.config.guard_bytes;
    const uint64_t there = trial_room(t, ask->pool);
    const bool is_refused = t->pools[ask->pool].pool->heap.effective_limit.is_refused;
    trial_claim(t, TRIAL_REFUSED,
                memory_is_uncertain(t) || is_refused ||
                    ask->room.after_waiting_bytes + guard_bytes >= there,
                "%llu bytes could be had after waits, was said; empty, or to be created, are %llu",
                LLU(ask->room.after_waiting_bytes), LLU(there));
}

uint64_t trial_enough(const trial *t, uint64_t size_bytes)
{
    const bool is_alone = t->pool_count == 1 && !trial_holds_memory_for_graphs(t) &&
                          !t->had_others && !trial_has_quota(t) &&
                          mend_list_is_empty(&t->pools[0].pool->callbacks.entries);
    return is_alone ? size_bytes : size_bytes + size_bytes / 4;
}

void trial_check_refusal(trial *t, const trial_call *call)
{
    if (trial_is_plain(call)) {
        trial_check_plain_refusal(t, call);
        return;
    }
    const bool makes_chunks = trial_makes_chunks(call);
    if (makes_chunks && (call->makes_none || !trial_can_make_chunks(t, call->pool))) {
        return;
    }
    uint64_t most = makes_chunks ? room_for_chunks(t, call->pool) : UINT64_MAX;
    uint64_t after = trial_room_with_peer_pools(t, call->pool, makes_chunks);
    const uint64_t guard_bytes = t->pools[call->pool].pool->heap.config.guard_bytes;
    const uint64_t size_bytes =
        call->kind == CALL_COMMIT
            ? trial_needed(t, call)
            : mend_align_up(call->size_bytes + guard_bytes, makes_chunks ? t->page_bytes : 512);
    const uint64_t there = t->was_called ? after : mend_max_u64(call->room_bytes, after);
    trial_claim(t, TRIAL_REFUSED, trial_enough(t, size_bytes) > mend_min_u64(most, there),
                "%llu bytes were refused; empty, or to be created, were %llu before and are %llu",
                LLU(size_bytes), LLU(call->room_bytes), LLU(after));
}

/* If memory can be created for a block, its chunks are for its sleep tag alone: only requests that
 * would wait or fail share chunks. */
void trial_check_home(trial *t, const trial_call *call)
{
    const mend_heap *heap = &t->pools[call->pool].pool->heap;
    const mend_span *span = mend_heap_span_at(heap, (uint64_t)(uintptr_t)call->pointer);
    const bool may_wait = t->has_soft_limit || t->had_others || trial_holds_memory_for_graphs(t) ||
                          t->config.no_context_fences || t->config.unfenced_pages != 0 ||
                          t->config.address_devices != 0 || heap->effective_limit.is_refused ||
                          mend_streams_have_unfenced(&heap->streams);
    if (span == NULL || may_wait || call->faulty || call->wanted != NULL ||
        trial_room(t, call->pool) - trial_empty_bytes(t, call->pool) <
            mend_align_up(span->size_bytes, t->page_bytes)) {
        return;
    }
    for (const mend_chunk *at = span->chunk; at != NULL && at->address < mend_span_end(span);
         at = mend_chunk_next(at)) {
        trial_claim(t, TRIAL_MODEL, at->sleep_tag == span->sleep_tag,
                    "a block of sleep tag %llu lies in a chunk for %llu", LLU(span->sleep_tag),
                    LLU(at->sleep_tag));
    }
}

/* ---- blocks that a compaction could not map again ---- */

/* A program does not use them, may free them, and goes on with all else while the driver still
 * refuses. They come about only in calls that compaction and that something planted met, and none
 * is left once nothing fails. */

/* Whether the pool says that a block is unmapped: it is asked only where it may be. */
static bool is_unmapped(trial *t, const trial_block *block)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    const void *pointer = (const void *)(uintptr_t)block->address;
    mend_result result = mend_get_block_info(t->pools[block->pool].pool, pointer, &info);
    trial_claim(t, TRIAL_MODEL, result == MEND_OK, "mend_get_block_info: %s",
                mend_result_name(result));
    return result == MEND_OK && info.is_unmapped != 0;
}

void trial_note_unmapped(trial *t)
{
    for (int i = 0; i < t->pool_count; i++) {
        uint64_t unmapped = 0;
        bool may_be = t->pools[i].pool->heap.chunks.missing_count > 0;
        for (int k = 0; k < TRIAL_BLOCKS; k++) {
            trial_block *block = &t->blocks[k];
            if (!block->live || block->pool != i || (!may_be && !block->unmapped)) {
                continue;
            }
            const bool was_unmapped = block->unmapped;
            block->unmapped = is_unmapped(t, block);
            unmapped += block->unmapped;
            if (block->unmapped && !was_unmapped) {
                t->outcome->tally.unmapped++;
                trial_claim(
                    t, TRIAL_MODEL, t->may_unmap && (block->graph_pool == NOBODY || t->had_sleep),
                    "the block at 0x%llx lost its mapping without a reason", LLU(block->address));
            }
        }
        uint64_t counted = trial_stats(t, i).unmapped_blocks;
        trial_claim(t, TRIAL_MODEL, unmapped == counted,
                    "pool %d: %llu blocks are unmapped, it counts %llu", i, LLU(unmapped),
                    LLU(counted));
    }
}

void trial_map_again(trial *t)
{
    for (int i = 0; i < t->pool_count; i++) {
        const mend_chunks *chunks = &t->pools[i].pool->heap.chunks;
        if (chunks->missing_count == 0 || t->stopped || t->may_be_lost) {
            continue;
        }
        trial_call call = {.kind = CALL_TRIM, .pool = i, .size_bytes = UINT64_MAX};
        bool is_explained = t->malloc_fails || t->ambush.set;
        trial_call_pool(t, 0, &call);
        trial_claim(t, TRIAL_RESULT, chunks->missing_count == 0 || is_explained,
                    "pool %d does not map again what a compaction could not", i);
    }
    trial_note_unmapped(t);
}
