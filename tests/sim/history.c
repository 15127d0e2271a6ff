/* The history: a follower of each pool, which knows live and mapped memory from the events alone,
 * and a reader of its recording, which knows live blocks from a file. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool/pool.h"
#include "record/record.h"
#include "tests/sim/trial.h"
#include "tests/support/recording.h"

bool trial_set_history(trial *t, const operation *op)
{
    int number = op->slot % t->pool_count;
    trial_pool *pool = &t->pools[number];
    /* A ring that loses events, or holds all of a few steps. */
    const uint64_t capacity = op->size % 4 == 0 ? 0 : (uint64_t)op->size << (op->amount % 6);
    trial_call call = {.kind = CALL_HISTORY, .pool = number, .size_bytes = capacity};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) != MEND_OK) {
        return true;
    }
    bool was_on = pool->history_capacity > 0;
    pool->history_capacity = call.size_bytes;
    pool->history_held = mend_min_u64(pool->history_held, call.size_bytes);
    if (pool->history_capacity > 0 && !was_on) {
        bool is_begun = mend_follower_begin(&pool->follower, pool->pool);
        trial_claim(t, TRIAL_MODEL, is_begun, "no host memory to follow a history");
    }
    return true;
}

void trial_check_history(trial *t, int number)
{
    trial_pool *pool = &t->pools[number];
    if (pool->history_capacity == 0) {
        return;
    }
    char finding[MEND_FOLLOWER_FINDING_BYTES];
    uint64_t cursor = pool->follower.cursor;
    bool is_right = mend_follower_follow(&pool->follower, finding);
    trial_claim(t, TRIAL_MODEL, is_right, "pool %d: %s", number, finding);
    uint64_t happened = pool->follower.cursor - cursor;
    pool->history_held = mend_min_u64(pool->history_held + happened, pool->history_capacity);
}

/* ---- recordings ------------------------------------------------------------------------------ */

bool trial_open_recording(trial *t, mend_pool_config *config)
{
    if (t->config.record == 0) {
        return true;
    }
    const char *directory = getenv("TMPDIR");
    snprintf(t->recording, sizeof(t->recording), "%s/mend_record_XXXXXX",
             directory != NULL ? directory : "/tmp");
    int file = mkstemp(t->recording);
    config->record = t->recording;
    return file >= 0 ? close(file) == 0 : trial_claim(t, TRIAL_RESULT, false, "no temporary file");
}

/* The pools have the path in the order in which they were made. */
static void path_of(const trial *t, int pool, char path[sizeof(t->recording) + 2])
{
    snprintf(path, sizeof(t->recording) + 2, pool == 0 ? "%s" : "%s.%d", t->recording, pool);
}

void trial_close_recording(trial *t)
{
    char path[sizeof(t->recording) + 2];
    for (int i = 0; t->config.record != 0 && i <= TRIAL_POOLS; i++) {
        path_of(t, i, path);
        unlink(path);
    }
}

/* Reads all that happened up to now: the recorder may be behind. */
static void read_on(trial *t, int pool, test_recording *r)
{
    char path[sizeof(t->recording) + 2];
    const mend_history *history = &mend_observers_of(&t->pools[pool].pool->heap)->history;
    path_of(t, pool, path);
    for (;;) {
        const bool is_whole = test_recording_read(path, r);
        const uint64_t last =
            is_whole && r->events.count > 0 ? r->events.list[r->events.count - 1].sequence : 0;
        if ((is_whole && last == history->next - 1) || history->recording->lost > 0) {
            return;
        }
        test_recording_clear(r);
        sched_yield();
    }
}

static bool is_recorded(const test_recording *r, const trial_block *block)
{
    for (size_t i = 0; i < r->live.count; i++) {
        const mend_history_event *event = &r->live.list[i];
        if ((uint64_t)(uintptr_t)event->address == block->address) {
            return event->size_bytes == block->size_bytes &&
                   event->requested_bytes == block->requested_bytes &&
                   event->scope == block->scope && event->stack == block->stack &&
                   (block->own_tag != 0 ? event->tag == block->own_tag
                                        : block->sleep_tag == 0 || event->tag == block->sleep_tag);
        }
    }
    return false;
}

void trial_check_recording(trial *t, int pool)
{
    if (t->config.record == 0) {
        return;
    }
    test_recording r;
    uint64_t live = 0;
    read_on(t, pool, &r);
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        const trial_block *block = &t->blocks[i];
        if (block->live && block->pool == pool && block->range == 0) {
            live++;
            trial_claim(t, TRIAL_MODEL, is_recorded(&r, block),
                        "the recording of pool %d does not have the block in slot %d", pool, i);
        }
    }
    trial_claim(t, TRIAL_MODEL, r.live.count == live && r.lost == 0 && r.first == 1,
                "by the recording of pool %d %zu blocks live and not %llu", pool, r.live.count,
                (unsigned long long)live);
    test_recording_clear(&r);
}

bool trial_recall(trial *t, const operation *op)
{
    if (t->config.record != 0) {
        trial_check_recording(t, op->slot % t->pool_count);
    }
    return t->config.record != 0;
}
