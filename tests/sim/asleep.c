/*
 * Sleep and wake in a trial. Every block gets a sleep tag by its operation. A block that sleeps is
 * not used, and may be freed, which ones sleep is asked of the pool, and changes in these calls
 * alone: all that was to wake is awake after a success, and after a failure everything is as it
 * was. The device's ledger says whether the memory came back, and a later look at a block whether
 * its bytes did.
 */
#include <stdlib.h>

#include "layout/layout.h"
#include "map/map.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "sleep/sleep.h"
#include "tests/sim/asleep.h"
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"
#include "tests/support/options.h"

#define LLU(value) ((unsigned long long)(value))

enum { TAGS = 3 };

/* ---- the calls ------------------------------------------------------------------------------- */

static const char *directory(void)
{
    const char *name = getenv("TMPDIR");
    return name != NULL ? name : "/tmp";
}

/* Of the call's allocations. Some leave it to the range, or to the tag of the options. */
uint64_t trial_sleep_tag(const trial_call *call)
{
    const operation *op = call->trial->op;
    bool may_have_none = call->kind == CALL_COMMIT || call->kind == CALL_RANGE_CREATE ||
                         (call->kind == CALL_ALLOC && call->graph_pool != NULL);
    const unsigned number = op->slot + (call->kind == CALL_COMMIT ? op->size : 0u);
    return may_have_none && op->amount % 4 == 3 ? 0 : 1 + number % TAGS;
}

/* The source of stacks is there in every third slot. */
static uint32_t number_stack(void *context, uint64_t size_bytes)
{
    (void)context;
    return 1 + (uint32_t)(size_bytes % 65535);
}

uint32_t trial_stack_of(const operation *op, uint64_t size_bytes)
{
    return op->slot % 3 == 0 ? number_stack(NULL, size_bytes) : 0;
}

/* The thread's options before the call, and before calls of callbacks inside it. */
void trial_mark_call(const trial_call *call)
{
    const operation *op = call->trial->op;
    const bool has_tag =
        call->kind == CALL_ALLOC || call->kind == CALL_COMMIT || call->kind == CALL_RANGE_CREATE;
    KIT_THREAD(.plain = !trial_passes_all(call->trial) &&
                        (trial_is_plain(call) || trial_refuses_plain(call)),
               .sleep_tag = has_tag ? trial_sleep_tag(call) : mend_process_own_marks.sleep_tag);
    /* One of five paths, some inside others, or none. A thread that fails to name one is in the one
     * around it. */
    static const char *const paths[][2] = {{"a"},      {"a", "b"}, {"b"},
                                           {"b", "a"}, {"b", "b"}, {NULL}};
    const char *const *path = paths[(op->slot + op->size) % (sizeof(paths) / sizeof(*paths))];
    const mend_thread_marks *own = &mend_process_own_marks;
    while (own->depth + own->failed_scopes > 0) {
        mend_scope_pop();
    }
    for (int i = 0; i < 2 && path[i] != NULL; i++) {
        mend_scope_push(path[i], op->stream % 4 == 0 ? MEND_SCOPE_OF_ALL_THREADS : 0);
    }
    mend_stack_set_source(op->slot % 3 == 0 ? number_stack : NULL, NULL, 1);
}

static int keep_of_graphs(const trial *t)
{
    static const int keeps[] = {0, 0, MEND_DISCARD, MEND_STAY_RESIDENT};
    return keeps[(t->op->amount >> 6) % 4];
}

mend_result trial_call_sleep(trial_call *call, mend_pool *pool)
{
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.rules = call->rules;
    options.rule_count = call->count;
    options.others = call->mode;
    options.skip_pinned = call->waits;
    options.keep_free = call->trial->op->stream / 2 % 3;
    options.graphs = keep_of_graphs(call->trial);
    options.directory = directory();
    const int which = call->trial->op->stream / 6;
    if (which % 4 == 0) { /* none, some, or all that wakes leave */
        const uint64_t most[] = {0, MEND_MIB, UINT64_MAX};
        const mend_result result = mend_set_backup_cache_limit(pool, most[which / 4 % 3]);
        if (result != MEND_OK) {
            return result;
        }
    }
    return mend_sleep(pool, &options, &call->slept);
}

bool trial_sleeps(const trial *t, int pool)
{
    return t->pools[pool].pool->heap.chunks.asleep_count > 0;
}

bool trial_may_answer_asleep(const trial *t, const trial_call *call)
{
    switch (call->result) {
    case MEND_ERROR_ASLEEP:
        return trial_sleeps(t, call->pool) &&
               (call->kind == CALL_SLEEP || call->kind == CALL_PIN || call->kind == CALL_EXPORT ||
                call->kind == CALL_EXPORT_BY_FABRIC || call->kind == CALL_GRAPH_POOL_RESTORE);
    case MEND_ERROR_PINNED:
        return call->kind == CALL_PREPARE_CHECKPOINT ||
               (call->kind == CALL_SLEEP && trial_holds_chunks(t, call->pool) && !call->waits);
    default:
        return false;
    }
}

bool trial_may_remap(const trial_call *call)
{
    return call->kind == CALL_COMPACT || call->kind == CALL_SLEEP ||
           call->kind == CALL_PREPARE_CHECKPOINT;
}

/* ---- what sleeps ----------------------------------------------------------------------------- */

/* A graph may use free memory of such a chunk, too. */
bool trial_lacks_mappings(const trial *t, int pool)
{
    return t->pools[pool].pool->heap.chunks.missing_count > 0;
}

/* Chunk by chunk. */
uint64_t trial_asleep(const trial_pool *pool, asleep_figure figure)
{
    uint64_t sums[ASLEEP_FIGURES] = {0};
    MEND_TREE_EACH(const mend_chunk, chunk, by_address, &pool->pool->heap.chunks.mapped) {
        if (mend_chunk_sleeps(chunk)) {
            sums[ASLEEP_SIZE] += chunk->size_bytes;
            sums[ASLEEP_LIVE] += chunk->live_bytes;
            sums[ASLEEP_SMALL_LIVE] += chunk->zone == MEND_ZONE_SMALL ? chunk->live_bytes : 0;
            sums[ASLEEP_AWAY] += chunk->missing == MEND_MISSING_MEMORY ? chunk->size_bytes : 0;
            sums[ASLEEP_HOST] += chunk->kept->host_bytes;
            sums[ASLEEP_FILE] += chunk->kept->file_bytes;
            bool is_held = chunk->zone == MEND_ZONE_RANGE && chunk->missing != MEND_MISSING_MEMORY;
            sums[ASLEEP_PAGES_LIVE] += chunk->zone == MEND_ZONE_RANGE ? chunk->live_bytes : 0;
            sums[ASLEEP_PAGES_HELD] += is_held ? chunk->size_bytes : 0;
        }
    }
    return sums[figure];
}

/* The pool's description of a block: asked only where it may sleep. */
static mend_block_info ask(trial *t, const trial_block *block)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    const void *pointer = (const void *)(uintptr_t)block->address;
    mend_result result = mend_get_block_info(t->pools[block->pool].pool, pointer, &info);
    trial_claim(t, TRIAL_MODEL, result == MEND_OK, "mend_get_block_info: %s",
                mend_result_name(result));
    return info;
}

static bool is_asleep(trial *t, const trial_block *block, uint64_t *tag)
{
    const mend_block_info info = ask(t, block);
    *tag = info.sleep_tag;
    return info.is_asleep != 0;
}

static int keep_of(const trial_call *call, uint64_t tag)
{
    for (size_t i = 0; i < call->count; i++) {
        if (call->rules[i].tag == tag) {
            return call->rules[i].backup;
        }
    }
    return call->mode != 0 ? call->mode : call->count == 0 ? MEND_BACKUP_HOST : MEND_STAY_RESIDENT;
}

/* After a call of sleep or wake. `call` NULL: after anything else. Only such a call changes
 * sleeping memory. Dropped contents are undefined from then on. */
static void note(trial *t, const trial_call *call)
{
    TRIAL_EACH_BLOCK(trial_block, block, t) {
        bool may_sleep = block->live && (block->asleep || trial_sleeps(t, block->pool));
        const bool was_asleep = block->asleep;
        const mend_block_info info = may_sleep ? ask(t, block) : (mend_block_info){0};
        const uint64_t tag = info.sleep_tag;
        block->asleep = info.is_asleep != 0;
        if (may_sleep) {
            trial_note_kept(t, block, call != NULL ? keep_of(call, tag) : MEND_STAY_RESIDENT,
                            was_asleep, info.contents_dropped != 0);
        }
        if (!block->live || block->asleep == was_asleep) {
            continue;
        }
        bool is_here = call != NULL && call->pool == block->pool;
        bool may_change =
            is_here && (block->asleep ? call->slept.asleep_bytes > 0
                                      : call->kind == CALL_WAKE && call->result == MEND_OK);
        trial_claim(t, TRIAL_MODEL, may_change, "the block at 0x%llx %s without a reason",
                    LLU(block->address), block->asleep ? "fell asleep" : "woke");
        if (block->asleep && call != NULL) {
            int keep = keep_of(call, tag);
            trial_claim(t, TRIAL_MODEL, keep != MEND_STAY_RESIDENT,
                        "the block at 0x%llx was to stay awake", LLU(block->address));
            t->outcome->tally.fell_asleep++;
        }
    }
}

void trial_note_asleep(trial *t)
{
    note(t, NULL);
}

/* ---- memory of graphs ------------------------------------------------------------------------ */

/* Whether free memory that is kept for graphs, of a tag, is to stay awake. */
static bool graphs_stay(const trial *t, const trial_call *call, uint64_t tag)
{
    const int graphs = keep_of_graphs(t);
    bool any = call->mode == MEND_STAY_RESIDENT || (call->mode == 0 && call->count > 0);
    for (size_t i = 0; i < call->count; i++) {
        if (call->rules[i].tag == tag) {
            return call->rules[i].backup == MEND_STAY_RESIDENT;
        }
        any = any || call->rules[i].backup == MEND_STAY_RESIDENT;
    }
    return graphs != 0 ? graphs == MEND_STAY_RESIDENT : any;
}

/* Such memory in sleeping chunks of a pool, in bytes: all of it, or for a call the part that
 * stays. */
static uint64_t graphs_asleep(const trial *t, int pool, const trial_call *call)
{
    const mend_heap *heap = &t->pools[pool].pool->heap;
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
        const uint64_t end = chunk->address + chunk->size_bytes;
        const mend_span *span =
            mend_chunk_sleeps(chunk) ? mend_heap_span_at(heap, chunk->address) : NULL;
        for (; span != NULL && span->address < end; span = span->next) {
            bool counts = mend_is_for_graphs(heap, span) &&
                          (call == NULL || (graphs_stay(t, call, span->sleep_tag) &&
                                            !(span->sleep_tag == 0 && chunk->kept->has_rule)));
            bytes += counts ? span->size_bytes : 0;
        }
    }
    return bytes;
}

bool trial_graph_sleeps(const trial *t, const trial_graph *graph)
{
    bool sleeps = false;
    for (int i = 0; i < t->pool_count; i++) {
        sleeps = sleeps || graphs_asleep(t, i, NULL) > 0 ||
                 (trial_sleeps(t, i) && graph->page_uses.count > 0);
    }
    TRIAL_EACH_BLOCK(const trial_block, block, t) {
        sleeps = sleeps || (block->live && block->asleep && block->graph_pool != NOBODY &&
                            (graph->graph_pools & trial_bit(block->graph_pool)) != 0);
    }
    return sleeps;
}

/* ---- sleep and wake -------------------------------------------------------------------------- */

/* The expected matches of the report, of the blocks of the model before the call. */
typedef struct matching {
    uint64_t bytes;
    uint64_t unmatched_tags;
    bool knows_all; /* the pool has no other blocks */
} matching;

static matching match(trial *t, const trial_call *call)
{
    matching m = {.unmatched_tags = call->count};
    uint64_t known_bytes = 0;
    bool has[TAGS] = {false};
    TRIAL_EACH_BLOCK(const trial_block, block, t) {
        if (block->live && block->pool == call->pool && block->zone != MEND_ZONE_PASSED) {
            const uint64_t tag = ask(t, block).sleep_tag;
            known_bytes += block->size_bytes;
            m.bytes += keep_of(call, tag) != MEND_STAY_RESIDENT ? block->size_bytes : 0;
            if (tag >= 1 && tag <= call->count && !has[tag - 1]) {
                has[tag - 1] = true;
                m.unmatched_tags--;
            }
        }
    }
    m.knows_all = known_bytes + trial_stats(t, call->pool).passed_bytes ==
                      trial_stats(t, call->pool).live_bytes &&
                  !trial_holds_memory_for_graphs(t);
    return m;
}

static void check_sleep(trial *t, const trial_call *call)
{
    trial_pool *pool = &t->pools[call->pool];
    pool->sleeps += call->slept.asleep_bytes > 0;
    pool->dropped_bytes += call->slept.dropped_bytes;
    bool is_quiet = call->result == MEND_OK && !call->faulty && call->slept.stayed_bytes == 0;
    for (int i = 0; i < TRIAL_BLOCKS && is_quiet; i++) {
        const trial_block *block = &t->blocks[i];
        uint64_t tag = 0;
        bool is_here = block->live && block->pool == call->pool && block->zone != MEND_ZONE_PASSED;
        trial_claim(t, TRIAL_MODEL,
                    !is_here || is_asleep(t, block, &tag) ||
                        keep_of(call, tag) == MEND_STAY_RESIDENT,
                    "the block at 0x%llx stays awake, and the report says that none did",
                    LLU(block->address));
    }
}

bool trial_put_to_sleep(trial *t, const operation *op)
{
    static const int keeps[] = {MEND_BACKUP_HOST, MEND_BACKUP_FILE, MEND_DISCARD,
                                MEND_STAY_RESIDENT};
    trial_call call = {.kind = CALL_SLEEP,
                       .slept = MEND_SLEEP_REPORT_INIT,
                       .pool = op->slot % t->pool_count,
                       .count = op->size % (TAGS + 1),
                       .mode = op->alignment % 5,
                       .waits = op->stream % 2 != 0};
    for (size_t i = 0; i < TAGS; i++) {
        call.rules[i] = (mend_sleep_rule){i + 1, keeps[(op->amount >> (2 * i)) % 4]};
    }
    t->had_sleep = true;
    const matching m = match(t, &call);
    const uint64_t before = graphs_asleep(t, call.pool, &call);
    const uint64_t asleep_bytes = trial_stats(t, call.pool).asleep_bytes;
    const mend_result result = trial_call_pool(t, op->thread % t->turns.count, &call);
    trial_claim(t, TRIAL_MODEL,
                result == MEND_OK || t->disturbed || /* chunks without blocks end besides */
                    trial_stats(t, call.pool).asleep_bytes <=
                        asleep_bytes + call.slept.asleep_bytes,
                "a sleep that failed does not say what sleeps since");
    trial_claim(t, TRIAL_MODEL, t->disturbed || graphs_asleep(t, call.pool, &call) <= before,
                "memory of graphs sleeps that was to stay awake");
    const mend_sleep_report *said = &call.slept;
    bool is_right = said->matched_bytes >= m.bytes && said->unmatched_tags <= m.unmatched_tags;
    is_right = is_right && (!m.knows_all || (said->matched_bytes == m.bytes &&
                                             said->unmatched_tags == m.unmatched_tags));
    trial_claim(t, TRIAL_MODEL, result != MEND_OK || t->disturbed || is_right,
                "a sleep says that %llu bytes match, and %llu tags do not",
                LLU(said->matched_bytes), LLU(said->unmatched_tags));
    check_sleep(t, &call);
    note(t, &call);
    return true;
}

/* Nothing is lacking that the pool or its peer pools have free. */
static void check_refused_wake(trial *t, const trial_call *call)
{
    const mend_stats stats = trial_stats(t, call->pool);
    const uint64_t away_bytes = trial_asleep(&t->pools[call->pool], ASLEEP_AWAY);
    const bool is_unsure = trial_is_faulty(t) || t->refused || call->count > 0 ||
                           trial_any_was_exported(t, call->pool);
    const uint64_t used_bytes = stats.reserved_bytes - trial_empty_bytes(t, call->pool);
    const uint64_t room_bytes = mend_min_u64(
        is_unsure ? 0 : trial_room_with_peer_pools(t, call->pool, true),
        mend_align_down(stats.limit_bytes - mend_min_u64(used_bytes, stats.limit_bytes),
                        t->page_bytes));
    trial_claim(t, TRIAL_REFUSED, is_unsure || trial_enough(t, away_bytes) > room_bytes,
                "a wake of %llu bytes was refused, and there are %llu", LLU(away_bytes),
                LLU(room_bytes));
}

static mend_result wake(trial *t, int pool, const uint64_t *tag, int thread)
{
    trial_call call = {
        .kind = CALL_WAKE, .pool = pool, .count = tag != NULL, .woken = MEND_WAKE_REPORT_INIT};
    call.needed_bytes = tag == NULL ? trial_asleep(&t->pools[pool], ASLEEP_AWAY) : 0;
    call.rules[0].tag = tag != NULL ? *tag : 0;
    uint64_t before = trial_stats(t, pool).asleep_bytes;
    t->had_sleep = true;
    mend_result result = trial_call_pool(t, thread, &call);
    t->pools[pool].wakes = trial_stats(t, pool).wakes; /* it is checked by the woken memory */
    trial_claim(t, TRIAL_MODEL,
                result != MEND_OK || tag != NULL || trial_stats(t, pool).asleep_bytes == 0,
                "a wake leaves something asleep");
    trial_claim(t, TRIAL_MODEL, result == MEND_OK || trial_stats(t, pool).asleep_bytes <= before,
                "a wake that failed changed what sleeps");
    const mend_wake_report *said = &call.woken;
    trial_claim(t, TRIAL_MODEL,
                result != MEND_OK || /* memory freed asleep goes, too */
                    (said->woken_bytes <= before - trial_stats(t, pool).asleep_bytes &&
                     said->reused_bytes <= said->woken_bytes),
                "a wake says that %llu bytes woke, %llu of them reused", LLU(said->woken_bytes),
                LLU(said->reused_bytes));
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        check_refused_wake(t, &call);
    }
    note(t, &call);
    return result;
}

bool trial_wake(trial *t, const operation *op)
{
    const uint64_t tag = 1 + op->size % TAGS;
    int pool = op->slot % t->pool_count;
    mend_result result =
        wake(t, pool, op->amount % 2 == 0 ? NULL : &tag, op->thread % t->turns.count);
    return result == MEND_OK;
}

/* Nothing is in the way any more: all that sleeps wakes. */
void trial_wake_all(trial *t)
{
    for (int i = 0; i < t->pool_count; i++) {
        if (trial_sleeps(t, i) && !t->stopped && !t->may_be_lost) {
            trial_witness_call(t);
            mend_set_limit(t->pools[i].pool, 0);
            t->pools[i].limit_bytes = t->device_bytes;
            for (int k = 0; k < t->pool_count; k++) {
                trial_witness_call(t);
                mend_trim(t->pools[k].pool, 0, MEND_TRIM_WAIT, NULL);
            }
            mend_result result = wake(t, i, NULL, 0);
            trial_claim(t, TRIAL_LIVENESS, result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY,
                        "in the end what sleeps does not wake: %s", mend_result_name(result));
        }
    }
}

/* A pool is prepared for a checkpoint of the process. Another program then makes it where it can
 * be, and restores it. */
bool trial_prepare_checkpoint(trial *t, const operation *op)
{
    trial_call call = {.kind = CALL_PREPARE_CHECKPOINT, .pool = op->slot % t->pool_count};
    t->had_sleep = true; /* it copies, and is no compaction */
    t->had_prepare_checkpoint = true;
    trial_call_pool(t, op->thread % t->turns.count, &call);
    bool is_alone = t->pool_count == 1 && t->captures == 0 && !t->stopped && !t->may_be_lost;
    if (call.result == MEND_OK && is_alone && !call.faulty && t->neighbour == NULL) {
        const char *reason = "";
        mend_result result = mend_sim_checkpoint(t->sim, &reason);
        trial_claim(t, TRIAL_MODEL, result == MEND_OK || result == MEND_ERROR_OUT_OF_HOST_MEMORY,
                    "a quiesced pool cannot be checkpointed: %s", reason);
        result = result == MEND_OK ? mend_sim_restore(t->sim) : MEND_OK;
        trial_claim(t, TRIAL_MODEL, result == MEND_OK, "a restore fails: %s",
                    mend_result_name(result));
    }
    return call.result == MEND_OK;
}
