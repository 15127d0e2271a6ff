/* One run of the program: its steps, and what must hold after each. */
#include "tests/model/program_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t program_below(program *p, uint64_t bound)
{
    return mend_test_random_below(&p->random, bound);
}

bool program_one_in(program *p, uint64_t n)
{
    return program_below(p, n) == 0;
}

/* A program that is lied to, or sins, has nothing to claim: there only the device's judgement
 * counts. */
static bool is_honest(const program *p)
{
    return p->config->lie == LIE_NONE && p->config->sin == SIN_NONE;
}

bool program_claim(program *p, bool holds, const char *format, ...)
{
    if (holds || !p->outcome->holds || !is_honest(p)) {
        return holds;
    }
    p->outcome->holds = false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->outcome->finding, sizeof(p->outcome->finding), format, arguments);
    va_end(arguments);
    return false;
}

static void step_trim(program *p)
{
    program_call call = {.kind = CALL_TRIM,
                         .size_bytes = program_below(p, p->world.sim_config.memory_bytes)};
    if (program_try(p, 0, &call) != MEND_OK) {
        program_claim(p, call.faulty, "trim: %s (%s)", mend_result_name(call.result), call.message);
    }
}

static void step_limit(program *p)
{
    if (!p->config->limit_changes) {
        return;
    }
    uint64_t most = p->world.sim_config.memory_bytes;
    program_call call = {.kind = CALL_SET_LIMIT,
                         .size_bytes = program_one_in(p, 3) ? 0 : 1 + program_below(p, most)};
    if (program_try(p, 0, &call) != MEND_OK) {
        program_claim(p, call.faulty, "set_limit: %s (%s)", mend_result_name(call.result),
                      call.message);
    }
    uint64_t limit = call.size_bytes == 0 ? most : call.size_bytes;
    program_claim(p, mend_world_stats(&p->world).limit_bytes == limit, "the limit was not set");
}

static void step_foreign(program *p)
{
    if (p->config->foreign_memory) {
        uint64_t most = p->world.sim_config.memory_bytes * 3 / 4;
        mend_sim_set_foreign_bytes(p->world.sim, 0,
                                   program_one_in(p, 3) ? 0 : program_below(p, most));
    }
}

/* Blocks come faster than they go, until memory is short. */
static const struct {
    int weight;
    void (*take)(program *p);
} ways[] = {
    {380, program_alloc},
    {300, program_free_any},
    {90, program_use},
    {70, program_share},
    {50, program_move},
    {20, program_look},
    {12, step_trim},
    {12, step_limit},
    {12, step_foreign},
    {120, program_commit},
    {16, program_change_ranges},
    {60, program_capture},
    {30, program_launch_graph},
    {8, program_forget_and_go_on},
    {14, program_end_stream},
    {4, program_use_strange_stream},
};

static void take_step(program *p)
{
    enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
    uint64_t all = 0;
    for (int i = 0; i < WAYS; i++) {
        all += (uint64_t)ways[i].weight;
    }
    uint64_t draw = program_below(p, all);
    int at = 0;
    while (draw >= (uint64_t)ways[at].weight) {
        draw -= (uint64_t)ways[at++].weight;
    }
    uint64_t scale = p->config->prices_advance_clock ? 2000 : 1;
    mend_sim_advance(p->world.sim, program_below(p, 4) * scale);
    ways[at].take(p);
}

/* The device's judgement; and all else, unless the program was lied to or has sinned. */
static bool still_holds(program *p)
{
    mend_sim_ledger ledger = mend_world_ledger(&p->world);
    p->outcome->is_seen = ledger.content_errors > 0 || ledger.violations > 0;
    if (p->outcome->is_seen) {
        p->outcome->holds = false;
        snprintf(p->outcome->finding, sizeof(p->outcome->finding), "%llu granules are wrong; %s",
                 (unsigned long long)ledger.content_errors, mend_sim_first_violation(p->world.sim));
        return false;
    }
    return !is_honest(p) || (program_claim(p, mend_world_check(&p->world), "the world's check") &&
                             p->outcome->holds);
}

static bool open_world(program *p)
{
    const program_config *config = p->config;
    mend_world_init(&p->world);
    mend_sim_config *device = &p->world.sim_config;
    device->memory_bytes = config->memory_bytes ? config->memory_bytes : 16 * MEND_MIB;
    device->page_bytes = 16 * MEND_KIB;
    device->device_count = 2;
    device->prices_advance_clock = config->prices_advance_clock;
    mend_pool_config *pool = &p->world.pool_config;
    p->world.placement.chunk_bytes = 256 * MEND_KIB;
    p->world.placement.small_chunk_bytes = 64 * MEND_KIB;
    p->world.placement.small_request_bytes = 8 * MEND_KIB;
    pool->limit_bytes = config->limit_bytes;
    pool->peers = 2;
    pool->streams_may_vanish = config->streams_vanish;
    pool->knows_all_streams = config->knows_all_streams;
    pool->allow_stream_waits = config->no_stream_waits ? -1 : 0;
    pool->capture_checks = config->sin == SIN_NO_GROUP ? -1 : 0;
    if (!mend_world_open_device(&p->world)) {
        return false;
    }
    mend_sim_set_event_delay(p->world.sim, config->event_delay_ns);
    p->driver = mend_sim_driver(p->world.sim);
    lying_driver_init(&p->liar, p->driver, config->lie);
    if (mend_traced_driver_create(&p->liar.table, &p->traced) != MEND_OK) {
        mend_sim_destroy(p->world.sim);
        return false;
    }
    if (!mend_world_open_pool(&p->world, p->traced)) {
        mend_traced_driver_destroy(p->traced);
        return false;
    }
    return turns_open(&p->turns, config->threads > 1 ? config->threads : 1);
}

/* Everything is freed and drained, or the pool is destroyed in the midst of it. */
static void finish(program *p)
{
    program_drop_graphs(p);
    bool drains = program_one_in(p, 2);
    while (drains && p->block_count > 0 && p->outcome->holds && !p->outcome->is_seen) {
        program_free(p, p->block_count - 1);
        still_holds(p);
    }
    for (int i = 0; i < p->block_count && p->outcome->holds; i++) {
        program_use(p);
    }
    if (drains && p->outcome->holds) {
        program_drop_ranges(p);
        program_claim(p, mend_world_stats(&p->world).live_bytes == 0, "freed blocks are live");
        mend_sim_advance(p->world.sim, UINT64_C(1) << 30);
        program_claim(p, mend_world_ledger(&p->world).pending_work == 0, "work never ends");
        still_holds(p);
    }
}

static void close_world(program *p)
{
    p->outcome->stats = mend_world_stats(&p->world);
    if (is_honest(p) && p->outcome->holds) {
        program_close_streams(p);
        turns_close(&p->turns);
        mend_world_close(&p->world);
        program_claim(p, !mend_test_has_failed(), "something is left behind");
    } else {
        turns_close(&p->turns);
        program_end_capture(p); /* a pool is not destroyed beside one */
        mend_pool_destroy(p->world.pool);
        mend_sim_destroy(p->world.sim);
    }
    mend_traced_driver_get(p->traced, &p->outcome->asked);
    mend_traced_driver_destroy(p->traced);
}

void program_run(const program_config *config, uint64_t seed, program_outcome *outcome)
{
    *outcome = (program_outcome){.holds = true};
    program *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        outcome->holds = false;
        return;
    }
    p->config = config;
    p->outcome = outcome;
    mend_test_random_init(&p->random, seed);
    if (!open_world(p)) {
        outcome->holds = false;
        free(p);
        return;
    }
    bool goes_on = program_open_streams(p);
    for (outcome->step = 0; outcome->step < config->steps && goes_on; outcome->step++) {
        take_step(p);
        goes_on = still_holds(p);
    }
    if (goes_on) {
        finish(p);
    }
    close_world(p);
    free(p);
}
