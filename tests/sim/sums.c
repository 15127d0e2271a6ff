/* The numbers of all pools together: their sums are the driver calls since the last look. */
#include <string.h>

#include "tests/sim/figures.h"
#include "tests/sim/quotas.h"

#define LLU(value) ((unsigned long long)(value))

static uint64_t calls(const mend_driver_counters *counters, mend_driver_call call)
{
    return counters->call[call].calls - counters->call[call].failures;
}

static uint64_t failures_of(const mend_driver_counters *counters, mend_driver_call call)
{
    return counters->call[call].failures;
}

/* Since the last look. */
trial_seen trial_look_at_driver(const trial *t, const mend_driver_counters *now)
{
    const mend_driver_counters *was = &t->calls_were;
    const trial_witness *w = &t->witness;
#define NEW(call)     (calls(now, MEND_CALL_##call) - calls(was, MEND_CALL_##call))
#define REFUSED(call) (failures_of(now, MEND_CALL_##call) - failures_of(was, MEND_CALL_##call))
#define BYTES(name)   (now->call[MEND_CALL_##name].bytes - was->call[MEND_CALL_##name].bytes)
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
    trial_claim(t, TRIAL_MODEL, trial_is_between(least, value, most),
                "the driver's part in %s: %llu more than before, expected %llu to %llu", what,
                LLU(value), LLU(least), LLU(most));
}

void trial_check_sums(trial *t)
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
