/* How much a pool holds: trims and background trims, passes of compactions, limits. */
#include "pool/pool.h"
#include "ranges/ranges.h"
#include "tests/sim/quotas.h"

mend_result trial_call_trim(trial_call *call, mend_pool *pool)
{
    return call->collects ? mend_trim(pool, 0, MEND_TRIM_BY_POLICY, &call->released_bytes)
           : call->waits  ? mend_trim(pool, call->size_bytes, MEND_TRIM_WAIT, &call->released_bytes)
                         : mend_trim(pool, call->size_bytes, MEND_TRIM_IDLE, &call->released_bytes);
}

/* Memory of sleeping chunks that a failed wake could not release: it goes when it can. */
static uint64_t leaving_bytes_of(const trial *t, int pool)
{
    const mend_chunks *chunks = &t->pools[pool].pool->heap.chunks;
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_chunk, at, by_address, &chunks->mapped) {
        bytes += mend_chunk_sleeps(at) && at->missing != MEND_MISSING_MEMORY ? at->size_bytes : 0;
    }
    return bytes;
}

static uint64_t largest_chunk(const trial *t, int pool)
{
    const mend_tree *all = &t->pools[pool].pool->heap.chunks.all;
    uint64_t bytes = 0;
    MEND_TREE_EACH(const mend_chunk, chunk, memory.by_number, all) {
        bytes = mend_max_u64(bytes, chunk->size_bytes);
    }
    return bytes;
}

bool trial_trim(trial *t, const operation *op)
{
    int pool = op->slot % t->pool_count;
    trial_call call = {.kind = CALL_TRIM,
                       .pool = pool,
                       .size_bytes = t->device_bytes / 256 * op->amount,
                       .waits = op->stream % 4 == 3,
                       .collects = op->stream % 4 == 2};
    const uint64_t chunk_bytes = largest_chunk(t, pool);
    const mend_stats before = trial_stats(t, pool);
    const uint64_t leaving_bytes = leaving_bytes_of(t, pool);
    mend_result result = trial_call_pool(t, op->thread % t->turns.count, &call);
    const mend_stats after = trial_stats(t, pool);
    const uint64_t released_bytes = before.reserved_bytes - after.reserved_bytes +
                                    before.importers_bytes - after.importers_bytes;
    t->pools[pool].background_trimmed_bytes +=
        result == MEND_OK && call.collects ? call.released_bytes : 0;
    t->pools[pool].fails_to_collect |= call.collects && result != MEND_OK;
    if (result == MEND_OK && call.collects && !call.faulty) {
        trial_check_collection(t, pool);
    } else if (result == MEND_OK && call.waits && !call.faulty) {
        trial_check_trim(t, &call);
    }
    trial_claim(t, TRIAL_MODEL,
                call.collects || call.faulty ||
                    after.reserved_bytes + leaving_bytes >= before.reserved_bytes ||
                    after.reserved_bytes + leaving_bytes + chunk_bytes > call.size_bytes,
                "a trim leaves %llu bytes, and was to keep %llu",
                (unsigned long long)after.reserved_bytes, (unsigned long long)call.size_bytes);
    trial_claim(t, TRIAL_MODEL,
                result != MEND_OK || call.faulty || leaving_bytes > 0 ||
                    call.released_bytes == released_bytes,
                "a trim of %llu bytes says that it released %llu",
                (unsigned long long)released_bytes, (unsigned long long)call.released_bytes);
    return true;
}

/* A pass obeys its limits, and reports its work. */
static void check_pass(trial *t, const trial_call *call, const mend_stats *before)
{
    const mend_compact_limits *most = &call->limits;
    const mend_compact_report *pass = &call->pass;
    const mend_stats after = trial_stats(t, call->pool);
    trial_claim(t, TRIAL_MODEL,
                (most->copied_bytes == 0 || pass->copied_bytes <= most->copied_bytes) &&
                    (most->driver_calls == 0 || pass->driver_calls <= most->driver_calls) &&
                    (most->duration_ns != 1 || t->config.prices == 0 || pass->compactions <= 1),
                "a pass of compactions goes beyond its limits");
    trial_claim(t, TRIAL_MODEL,
                after.compactions - before->compactions == pass->compactions &&
                    after.copied_bytes - before->copied_bytes == pass->copied_bytes &&
                    after.free_empty_bytes == pass->free_empty_bytes &&
                    (pass->stop != MEND_COMPACT_GAINED ||
                     (most->gained_bytes > 0 && pass->gained_bytes >= most->gained_bytes)) &&
                    (pass->stop != MEND_COMPACT_BYTES || most->copied_bytes > 0) &&
                    (pass->stop != MEND_COMPACT_CALLS || most->driver_calls > 0) &&
                    (pass->stop != MEND_COMPACT_TIME || most->duration_ns > 0),
                "the report of a pass is not what happened");
}

bool trial_compact(trial *t, const operation *op)
{
    trial_call call = {.kind = CALL_COMPACT,
                       .pool = op->slot % t->pool_count,
                       .limits = MEND_COMPACT_LIMITS_INIT,
                       .pass = MEND_COMPACT_REPORT_INIT};
    call.limits.copied_bytes = t->page_bytes * (op->amount % 8);
    call.limits.driver_calls = op->size % 4 == 1 ? 10 + op->size / 4u : 0;
    call.limits.duration_ns = op->size % 4 == 2;
    call.limits.gained_bytes = op->size % 4 == 3 ? t->page_bytes * (op->size / 4 % 8) : 0;
    const mend_stats before = trial_stats(t, call.pool);
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK && !call.faulty) {
        check_pass(t, &call, &before);
    }
    return true;
}

/* The limit is set also where giving memory back fails. */
bool trial_set_limit(trial *t, const operation *op)
{
    int pool = op->slot % t->pool_count;
    /* By itself the pressure is seldom high: a limit may lie a little above live memory. */
    uint64_t part_bytes = t->device_bytes / 256;
    uint64_t above_bytes =
        t->pools[pool].zones[ALL_ZONES].live_bytes + part_bytes * (op->amount % 32);
    trial_call call = {.kind = CALL_SET_LIMIT,
                       .pool = pool,
                       .size_bytes = op->size % 2 == 0
                                         ? part_bytes * op->amount
                                         : mend_min_u64(above_bytes, t->device_bytes)};
    mend_result result = trial_call_pool(t, op->thread % t->turns.count, &call);
    uint64_t limit = call.size_bytes == 0 ? t->device_bytes : call.size_bytes;
    if (result != MEND_ERROR_DEVICE_LOST || trial_stats(t, pool).limit_bytes == limit) {
        t->pools[pool].limit_bytes = limit;
    }
    return true;
}
