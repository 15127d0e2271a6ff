#include "tests/sim/quotas.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/heap/explain.h"
#include "pool/pool.h"
#include "quota/quota.h"
#include "tests/sim/ranges.h"

#define LLU(value) ((unsigned long long)(value))

static uint64_t min_free_bytes(const trial *t)
{
    return t->device_bytes * t->config.keep_free_percent / 100;
}

static bool has_file(const trial *t)
{
    return t->quota.path[0] != '\0';
}

bool trial_has_quota(const trial *t)
{
    return t->config.keep_free_percent > 0 || has_file(t);
}

/* ---- the file and the other process ---------------------------------------------------------- */

static bool join(trial *t)
{
    trial_quota *r = &t->quota;
    mend_result result = mend_shared_limit_file_open(r->path, r->limit_bytes, &r->member);
    return trial_claim(t, TRIAL_RESULT, result == MEND_OK, "a shared limit file: %s",
                       mend_result_name(result));
}

bool trial_open_quota(trial *t, mend_pool_config *config)
{
    const char *directory = getenv("TMPDIR");
    trial_quota *r = &t->quota;
    config->min_free_bytes = min_free_bytes(t);
    if (t->config.file_percent == 0) {
        return true;
    }
    r->limit_bytes = mend_max_u64(t->device_bytes * t->config.file_percent / 100, t->page_bytes);
    config->limit_bytes = r->limit_bytes;
    config->shared_limit_file = r->path;
    snprintf(r->path, sizeof(r->path), "%s/mend_trial_XXXXXX",
             directory != NULL ? directory : "/tmp");
    int file = mkstemp(r->path);
    if (file < 0) {
        r->path[0] = '\0';
        return trial_claim(t, TRIAL_RESULT, false, "no temporary file");
    }
    close(file);
    return join(t);
}

void trial_close_quota(trial *t)
{
    if (has_file(t)) {
        mend_shared_limit_file_close(&t->quota.member);
        unlink(t->quota.path);
    }
}

static const mend_quota *quota_of(const trial *t, int pool)
{
    mend_others *others = t->pools[pool].pool->others;
    return MEND_CONTAINER_OF(others, mend_quota, others);
}

static uint64_t room_in_file(const trial *t)
{
    uint64_t claimed = t->quota.member.own.claimed_bytes;
    for (int i = 0; i < t->pool_count; i++) {
        claimed += quota_of(t, i)->slot.own.claimed_bytes;
    }
    return t->quota.limit_bytes > claimed ? t->quota.limit_bytes - claimed : 0;
}

/* The same once so much was released. */
static uint64_t room_with(trial *t, uint64_t given_bytes)
{
    const mend_sim_ledger ledger = trial_ledger(t);
    const uint64_t held_bytes =
        t->foreign_bytes + ledger.chunk_bytes + ledger.plain_bytes + min_free_bytes(t);
    const uint64_t there_bytes = t->device_bytes + given_bytes;
    const uint64_t own_bytes = ledger.chunk_bytes + ledger.plain_bytes;
    const uint64_t hidden_quota_bytes = t->hidden_quota_bytes + given_bytes;
    uint64_t on_device = there_bytes > held_bytes ? there_bytes - held_bytes : 0;
    if (t->hidden_quota_bytes != 0) {
        on_device = mend_min_u64(on_device,
                                 hidden_quota_bytes - mend_min_u64(own_bytes, hidden_quota_bytes));
    }
    return has_file(t) ? mend_min_u64(on_device, room_in_file(t) + t->quota.idle_bytes) : on_device;
}

uint64_t trial_quota_room(trial *t)
{
    return room_with(t, 0);
}

/* The other process runs while a thread waits, and only then. */
static __thread trial *waits_in;

trial *trial_may_wait(trial *t)
{
    trial *before = waits_in;
    waits_in = t;
    return before;
}

static void collect_member(trial *t)
{
    trial_quota *r = &t->quota;
    uint64_t newest;
    const uint64_t given_bytes =
        mend_min_u64(mend_shared_limit_file_wanted_by_others(&r->member, &newest), r->idle_bytes);
    r->idle_bytes -= given_bytes;
    mend_shared_limit_file_give(&r->member, given_bytes);
    mend_shared_limit_file_offer(&r->member, r->idle_bytes, r->member.own.gives_back, newest);
}

/* The linker's names: a thread that waits looks at this clock, which stands still in a trial. */
uint64_t __real_mend_now_ms(void);
uint64_t __wrap_mend_now_ms(void);

uint64_t __wrap_mend_now_ms(void)
{
    if (waits_in == NULL) {
        return __real_mend_now_ms();
    }
    if (has_file(waits_in)) {
        collect_member(waits_in);
    }
    return 1;
}

bool trial_change_member(trial *t, const operation *op)
{
    mend_limit_slot *member = &t->quota.member;
    const uint64_t wanted_bytes = t->quota.limit_bytes / 256 * op->amount;
    if (!has_file(t)) {
        return false;
    }
    if (op->slot % 2 == 1) { /* it dies: its memory is free for the others, which find out */
        close(member->file);
        *member = (mend_limit_slot){0};
        t->quota.idle_bytes = 0;
        if (!join(t)) {
            return false;
        }
    }
    const uint64_t had_bytes = member->own.claimed_bytes;
    if (wanted_bytes < had_bytes) {
        mend_shared_limit_file_give(member, had_bytes - wanted_bytes);
    } else {
        const uint64_t room_bytes = room_in_file(t);
        const bool is_claimed = mend_shared_limit_file_claim(member, wanted_bytes - had_bytes);
        trial_claim(t, TRIAL_MODEL, is_claimed == (wanted_bytes - had_bytes <= room_bytes),
                    "%llu bytes more were %s where the file has room for %llu",
                    LLU(wanted_bytes - had_bytes), is_claimed ? "claimed" : "refused",
                    LLU(room_bytes));
    }
    /* The part that the operation says is idle, and goes back while others wait. */
    t->quota.idle_bytes = member->own.claimed_bytes / 256 * op->size;
    mend_shared_limit_file_offer(member, t->quota.idle_bytes, op->size > 0, member->own.answered);
    return true;
}

void trial_end_member(trial *t)
{
    if (has_file(t)) {
        mend_shared_limit_file_give(&t->quota.member, t->quota.member.own.claimed_bytes);
        t->quota.idle_bytes = 0;
    }
}

/* ---- what must hold -------------------------------------------------------------------------- */

/* Where the driver does not say how much is free, or others take memory meanwhile, the pool cannot
 * know. Imported memory is not counted in the file. */
void trial_check_creation(trial *t)
{
    const uint64_t chunk_bytes = trial_ledger(t).chunk_bytes;
    const uint64_t held_bytes = chunk_bytes + t->foreign_bytes + min_free_bytes(t);
    trial_claim(t, TRIAL_RULE,
                t->config.keep_free_percent == 0 || trial_is_faulty(t) ||
                    held_bytes <= t->device_bytes,
                "a creation leaves %llu bytes less free than the pools should keep",
                LLU(held_bytes - t->device_bytes));
    const uint64_t claimed_bytes = chunk_bytes + t->quota.member.own.claimed_bytes;
    trial_claim(t, TRIAL_RULE,
                !has_file(t) || claimed_bytes <= t->quota.limit_bytes + trial_lingering_bytes(t),
                "the pools hold %llu bytes, another process %llu, and their limit is %llu",
                LLU(chunk_bytes), LLU(t->quota.member.own.claimed_bytes),
                LLU(t->quota.limit_bytes));
}

/* A pool claims its reserved memory, and the file knows all claims. */
void trial_check_quota(trial *t)
{
    if (!has_file(t) || t->stopped || t->may_be_lost) {
        return;
    }
    for (int i = 0; i < t->pool_count; i++) {
        const mend_quota *quota = quota_of(t, i);
        const uint64_t claimed_bytes = quota->slot.own.claimed_bytes;
        const uint64_t held_bytes = trial_stats(t, i).reserved_bytes;
        trial_claim(t, TRIAL_MODEL, claimed_bytes == held_bytes,
                    "pool %d holds %llu bytes, and claims %llu", i, LLU(held_bytes),
                    LLU(claimed_bytes));
        const uint64_t promises = quota->sizes.promised_count + quota->plain_sizes.promised_count;
        trial_claim(t, TRIAL_MODEL, promises == 0 && quota->wanted_bytes == 0,
                    "pool %d waits for %llu bytes after its call, and for %llu creations", i,
                    LLU(quota->wanted_bytes), LLU(promises));
    }
    const uint64_t room_bytes = mend_shared_limit_file_look(&t->quota.member, 0).room_bytes;
    trial_claim(t, TRIAL_MODEL, room_bytes == room_in_file(t),
                "the file has room for %llu bytes, expected %llu", LLU(room_bytes),
                LLU(room_in_file(t)));
}

/* Bytes of empty chunks, for all reasons up to the last one. Unmapped ones may wait for copies. */
static uint64_t empty_bytes(trial *t, int pool, int last)
{
    mend_explanation why;
    uint64_t bytes = 0;
    if (mend_pool_explain(t->pools[pool].pool, MEND_NO_STREAM, &why) == MEND_OK) {
        bytes = last == MEND_FREE_STREAMLESS ? why.unmapped_bytes : 0;
        for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
            for (int reason = MEND_FREE_IDLE; reason <= last; reason++) {
                bytes += why.free_bytes[zone][MEND_FREE_EMPTY][reason];
            }
        }
    }
    return bytes;
}

/* Bytes of empty chunks that nothing may still use: for streams too where no work runs, nor did
 * during the call, and events of every stream say so at once. */
static uint64_t idle_bytes(trial *t, int pool)
{
    const bool is_quiet = trial_ledger(t).pending_work == 0 && t->config.event_delay_ns == 0 &&
                          t->config.prices == 0 && t->config.thread_streams == 0 &&
                          t->outcome->tally.done[OP_LATE_EVENTS] == 0;
    return empty_bytes(t, pool, is_quiet ? MEND_FREE_STREAMS : MEND_FREE_IDLE);
}

uint64_t trial_room_with_peer_pools(trial *t, int pool, bool made_again)
{
    const mend_stats stats = trial_stats(t, pool);
    const bool is_sure = !has_file(t) && t->hidden_quota_bytes == 0 && !trial_may_be_captured(t);
    uint64_t idle = 0;
    for (int i = 0; i < t->pool_count && is_sure; i++) {
        idle +=
            i == pool || trial_any_was_exported(t, i) ? 0 : empty_bytes(t, i, MEND_FREE_STREAMLESS);
    }
    const uint64_t own = trial_empty_bytes(t, pool);
    const uint64_t given = made_again ? own : 0;
    const uint64_t under_limit = mend_align_down(trial_limit_room(&stats), t->page_bytes) + given;
    const uint64_t creatable =
        mend_min_u64(under_limit, mend_align_down(room_with(t, idle + given), t->page_bytes));
    return creatable + own - given;
}

uint64_t trial_kept_by_importers(trial *t)
{
    uint64_t held_bytes = 0;
    for (int i = 0; i < t->pool_count; i++) {
        held_bytes += trial_stats(t, i).reserved_bytes;
    }
    const uint64_t chunk_bytes = trial_ledger(t).chunk_bytes;
    return chunk_bytes > held_bytes ? chunk_bytes - held_bytes : 0;
}

/* A fill whose end the driver did not let the pool wait for may run: nothing is unmapped before an
 * event of the context has passed, which the pool has recorded if it may. */
static bool waits_for_copies(const mend_heap *heap)
{
    return !mend_retire_copies_have_ended(heap) &&
           (mend_stamp_has_fence(&heap->streams, heap->retire.copies) ||
            heap->streams.lacks_context_events || heap->streams.hidden_captures > 0 ||
            !heap->config.allow_context_fences);
}

/* Where calls take time, work may end during the call. While less of the device is free than the
 * pool should leave, it has no idle memory. But it releases no more for memory of importers. */
void trial_check_collection(trial *t, int pool)
{
    const uint64_t held_bytes = trial_ledger(t).chunk_bytes + t->foreign_bytes + min_free_bytes(t) -
                                trial_kept_by_importers(t);
    trial_claim(t, TRIAL_LIVENESS,
                held_bytes <= t->device_bytes || waits_for_copies(&t->pools[pool].pool->heap) ||
                    idle_bytes(t, pool) == 0 || trial_may_be_captured(t),
                "a collection leaves %llu idle bytes, though the device lacks %llu",
                LLU(idle_bytes(t, pool)), LLU(held_bytes - t->device_bytes));
}
