#include "tests/sim/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/driver/traced.h"
#include "mend/mend.h"
#include "mend/mend_sim.h"
#include "tests/sim/generator.h"
#include "tests/support/options.h"

enum { BLOCKS = 192, PALETTE = 12, REQUESTS_OF_ROUND = 200, MOST_STREAMS = 3, PART = 10000 };
enum { WARM_ROUNDS = 12, WAITS_OF_HOST = 100 };

typedef enum between { NOTHING, TRIM, COLLECT, COMPACT, LIMIT, NEIGHBOUR } between;

typedef struct traits {
    const char *name;
    uint32_t streams;
    int strategy;
    uint32_t limit_percent;
    uint32_t largest_power;
    uint32_t phases;
    uint32_t rounds;
    between between;
} traits;

static const traits all_traits[] = {
#define X(name, streams, strategy, limit, sizes, phases, rounds, between)                          \
    {#name, streams, strategy, limit, sizes, phases, rounds, between},
    PLACEMENT_KINDS(X)
#undef X
};

/* A request of size 0 is a free. */
typedef struct request {
    uint8_t slot;
    uint8_t stream;
    uint64_t size_bytes;
    uint64_t alignment_bytes;
} request;

typedef struct program {
    const traits *is;
    request *requests; /* a round of each phase, one after the other */
    size_t *ends;      /* of the phases */
    uint64_t peak_bytes;
    uint64_t allocations; /* in all rounds */
} program;

/* ---- programs -------------------------------------------------------------------------------- */

/* Any number of bytes from 2^low on, below 2^high. */
static uint64_t draw_size(trial_random *random, uint32_t low, uint32_t high)
{
    const uint64_t power = UINT64_C(1) << (low + trial_random_below(random, high - low));
    return power + trial_random_next(random) % power;
}

typedef struct author {
    trial_random random;
    uint64_t sizes[PALETTE];
    uint64_t live[BLOCKS]; /* bytes */
    uint8_t order[BLOCKS]; /* slots that live, by age */
    uint32_t count;
    uint64_t live_bytes;
    uint32_t kept; /* the first of these outlive their phase */
} author;

static void draw_sizes(author *a, uint32_t largest)
{
    for (int i = 0; i < PALETTE; i++) {
        const bool is_small = trial_random_below(&a->random, 3) == 0;
        a->sizes[i] = is_small ? draw_size(&a->random, 9, largest - 7)
                               : draw_size(&a->random, largest - 7, largest);
    }
}

static request take(author *a, const program *p, uint64_t size_bytes)
{
    uint8_t slot = 0;
    while (a->live[slot] != 0) {
        slot++;
    }
    a->live[slot] = mend_align_up(size_bytes, 512);
    a->live_bytes += a->live[slot];
    a->order[a->count++] = slot;
    const bool is_aligned = trial_random_below(&a->random, 16) == 0;
    return (request){.slot = slot,
                     .stream = (uint8_t)trial_random_below(&a->random, p->is->streams),
                     .size_bytes = size_bytes,
                     .alignment_bytes = is_aligned ? UINT64_C(1) << 16 : 512};
}

static request give(author *a, uint32_t place)
{
    const uint8_t slot = a->order[place];
    for (uint32_t i = place; i + 1 < a->count; i++) {
        a->order[i] = a->order[i + 1];
    }
    a->count--;
    a->live_bytes -= a->live[slot];
    a->live[slot] = 0;
    return (request){.slot = slot};
}

/* The youngest block, or any. */
static uint32_t draw_end(author *a)
{
    const uint32_t young = a->count - 1;
    return trial_random_below(&a->random, 2) == 0
               ? young
               : a->kept + trial_random_below(&a->random, a->count - a->kept);
}

/* Blocks that a phase keeps come first. A round leaves the memory as it was. */
static size_t draw_phase(author *a, program *p, size_t at)
{
    enum { MOST_LIVE = 80 };
    const size_t end = at + REQUESTS_OF_ROUND;
    draw_sizes(a, p->is->largest_power);
    while (at < end) {
        const bool grows = a->count == a->kept || trial_random_below(&a->random, 5) < 3;
        if (grows && a->count < MOST_LIVE) {
            const uint64_t size_bytes = trial_random_below(&a->random, 4) == 0
                                            ? draw_size(&a->random, 9, p->is->largest_power - 1)
                                            : a->sizes[trial_random_below(&a->random, PALETTE)];
            p->requests[at++] = take(a, p, size_bytes);
        } else {
            p->requests[at++] = give(a, draw_end(a));
        }
        p->peak_bytes = mend_max_u64(p->peak_bytes, a->live_bytes);
    }
    while (a->count > a->kept) {
        p->requests[at++] = give(a, a->count - 1);
    }
    return at;
}

/* Blocks of which some outlive the program, and leave holes between them. */
static size_t draw_kept(author *a, program *p, size_t at)
{
    enum { TAKEN = 24, KEPT = 4 };
    for (uint32_t i = 0; i < TAKEN; i++) {
        p->requests[at++] = take(a, p, draw_size(&a->random, 9, p->is->largest_power - 3));
        p->peak_bytes = mend_max_u64(p->peak_bytes, a->live_bytes);
    }
    for (uint32_t i = KEPT; i < TAKEN; i++) {
        const uint32_t those = a->count - a->kept;
        p->requests[at++] = give(a, a->kept + trial_random_below(&a->random, those));
    }
    a->kept += KEPT;
    return at;
}

static bool write_program(program *p, uint64_t seed)
{
    enum { MOST = REQUESTS_OF_ROUND + BLOCKS };
    author a = {.random = {seed}};
    p->requests = calloc((size_t)p->is->phases * MOST, sizeof(*p->requests));
    p->ends = calloc((size_t)p->is->phases * 2 + 1, sizeof(*p->ends));
    if (p->requests == NULL || p->ends == NULL) {
        return false;
    }
    size_t at = 0;
    for (uint32_t phase = 0; phase < p->is->phases; phase++) {
        p->ends[2 * phase] = at = draw_phase(&a, p, at);
        p->ends[2 * phase + 1] = at = draw_kept(&a, p, at);
    }
    return true;
}

/* ---- their runs ------------------------------------------------------------------------------ */

typedef struct run {
    const program *program;
    mend_sim *sim;
    mend_driver *traced;
    mend_pool *pool;
    mend_stream streams[MOST_STREAMS];
    void *blocks[BLOCKS];
    uint8_t homes[BLOCKS];
    uint64_t refused;
    uint64_t allocations;
    uint64_t limit_bytes;
    uint64_t trail; /* a hash of all addresses and driver calls so far */
    bool is_right;
} run;

static void claim(run *r, bool holds, const char *what)
{
    if (!holds) {
        printf("%s: %s\n", r->program->is->name, what);
        r->is_right = false;
    }
}

static bool open_run(run *r, const placement_recording *recording)
{
    const traits *is = r->program->is;
    const uint64_t page_bytes = UINT64_C(2) << 20;
    const uint64_t peak_bytes = r->program->peak_bytes;
    r->limit_bytes = mend_align_up(is->limit_percent == 0 ? 400 * peak_bytes
                                                          : peak_bytes / 100 * is->limit_percent,
                                   page_bytes);
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.memory_bytes = r->limit_bytes;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    r->is_right = mend_sim_create(&device, &r->sim) == MEND_OK;
    r->is_right =
        r->is_right && mend_traced_driver_create(mend_sim_driver(r->sim), &r->traced) == MEND_OK;
    config.driver = r->traced;
    config.limit_bytes = r->limit_bytes;
    config.strategy = is->strategy;
    config.soft_limit_bytes = is->between == COLLECT ? r->limit_bytes / 2 : 0;
    for (uint32_t i = 0; i < is->streams; i++) {
        r->is_right =
            r->is_right && mend_sim_stream_create(r->sim, NULL, &r->streams[i]) == MEND_OK;
    }
    r->is_right = r->is_right && mend_pool_create(&config, &r->pool) == MEND_OK;
    r->is_right = r->is_right && (recording == NULL || recording->events == 0 ||
                                  mend_history_start(r->pool, recording->events) == MEND_OK);
    return r->is_right;
}

/* Work on the block runs for a while, and is done before the other streams go round once. */
static void use(run *r, const request *q)
{
    enum { LONG_NS = 24 };
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)r->blocks[q->slot],
                                .size_bytes = q->size_bytes,
                                .finish_ns = mend_sim_now_ns(r->sim) + LONG_NS};
    claim(r, mend_sim_launch(r->sim, r->streams[q->stream], &work) == MEND_OK, "no work");
}

static void note(run *r, uint64_t number)
{
    r->trail = (r->trail ^ number) * UINT64_C(0x9E3779B97F4A7C15);
    r->trail ^= r->trail >> 29;
}

/* Where the block lies, and which driver calls there were. */
static void leave_trail(run *r, const void *block)
{
    mend_driver_counters counters;
    note(r, (uintptr_t)block);
    mend_traced_driver_get(r->traced, &counters);
    for (int i = 0; i < MEND_DRIVER_CALL_COUNT; i++) {
        note(r, counters.call[i].calls);
    }
}

static void serve(run *r, const request *q)
{
    void **block = &r->blocks[q->slot];
    mend_sim_advance(r->sim, 1);
    if (q->size_bytes == 0) {
        claim(r, mend_free(r->pool, *block, r->streams[r->homes[q->slot]]) == MEND_OK, "a free");
        *block = NULL;
        leave_trail(r, NULL);
        return;
    }
    const mend_result result = mend_alloc_with(
        r->pool, q->size_bytes, r->streams[q->stream],
        KIT_OPTIONS(mend_alloc_options, .alignment_bytes = q->alignment_bytes), block);
    claim(r, result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY, "an allocation");
    r->allocations++;
    r->refused += result != MEND_OK;
    r->homes[q->slot] = q->stream;
    if (result == MEND_OK && r->program->is->streams > 1) {
        use(r, q);
    }
    leave_trail(r, *block);
}

/* Calls that a program whose requests repeat makes no more. */
static uint64_t calls_of(const run *r)
{
    static const mend_driver_call counted[] = {
        MEND_CALL_reserve, MEND_CALL_address_free, MEND_CALL_create,     MEND_CALL_release,
        MEND_CALL_map,     MEND_CALL_unmap,        MEND_CALL_set_access, MEND_CALL_copy};
    mend_driver_counters counters;
    uint64_t calls = 0;
    mend_traced_driver_get(r->traced, &counters);
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        calls += counters.call[counted[i]].calls;
    }
    return calls;
}

/* A pass costs at most its limits, and its report is true. */
static void compact(run *r, uint32_t phase)
{
    mend_compact_limits limits = MEND_COMPACT_LIMITS_INIT;
    mend_compact_report report = MEND_COMPACT_REPORT_INIT;
    limits.copied_bytes = phase % 2 == 0 ? 0 : r->limit_bytes / 64;
    limits.driver_calls = phase % 3 == 1 ? 60 : 0;
    const mend_result result = mend_compact(r->pool, &limits, &report);
    claim(r,
          result == MEND_OK &&
              (limits.copied_bytes == 0 || report.copied_bytes <= limits.copied_bytes) &&
              (limits.driver_calls == 0 || report.driver_calls <= limits.driver_calls),
          "a pass of compactions goes beyond its limits");
}

/* Another process takes memory that the program did not need so far, or releases it. */
static void meet_neighbour(run *r, uint32_t phase)
{
    const uint64_t spare_bytes = r->limit_bytes - r->program->peak_bytes;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(r->sim, &ledger);
    const uint64_t free_bytes = r->limit_bytes - ledger.chunk_bytes;
    mend_sim_set_foreign_bytes(r->sim, 0,
                               phase % 2 == 0 ? mend_min_u64(free_bytes, spare_bytes / 8 * 7) : 0);
}

static void do_between(run *r, uint32_t phase)
{
    uint64_t released_bytes = 0;
    const uint64_t keep_bytes = r->limit_bytes / (3 + phase % 3);
    switch (r->program->is->between) {
    case TRIM:
        claim(r,
              mend_trim(r->pool, keep_bytes, phase % 2 == 0 ? MEND_TRIM_IDLE : MEND_TRIM_WAIT,
                        &released_bytes) == MEND_OK,
              "a trim");
        break;
    case COLLECT:
        claim(r, mend_trim(r->pool, 0, MEND_TRIM_BY_POLICY, &released_bytes) == MEND_OK,
              "a collection");
        break;
    case COMPACT:
        compact(r, phase);
        break;
    case LIMIT:
        claim(r,
              mend_set_limit(r->pool, r->limit_bytes / 2) == MEND_OK &&
                  mend_set_limit(r->pool, r->limit_bytes) == MEND_OK,
              "a limit");
        break;
    case NEIGHBOUR:
        meet_neighbour(r, phase);
        break;
    default:
        break;
    }
}

static void run_phase(run *r, uint32_t phase)
{
    const program *p = r->program;
    size_t from = phase == 0 ? 0 : p->ends[2 * phase - 1];
    uint64_t calls = 0;
    for (uint32_t round = 0; round < p->is->rounds; round++) {
        calls = round == WARM_ROUNDS ? calls_of(r) : calls;
        for (size_t i = from; i < p->ends[2 * phase]; i++) {
            serve(r, &p->requests[i]);
        }
    }
    claim(r, p->is->limit_percent != 0 || p->is->rounds <= WARM_ROUNDS || calls_of(r) == calls,
          "the driver is called for requests that were served before");
    for (size_t i = p->ends[2 * phase]; i < p->ends[2 * phase + 1]; i++) {
        serve(r, &p->requests[i]);
    }
}

static void add(run *r, placement_figures *sum)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(r->sim, &ledger);
    claim(r, mend_get_stats(r->pool, &stats) == MEND_OK && ledger.violations == 0, "a rule");
    claim(r, stats.peak_reserved_bytes <= r->limit_bytes, "more is held than the limit allows");
    const uint64_t peak = r->program->peak_bytes / PART + 1;
    const uint64_t requests = r->allocations;
    sum->of[PLACEMENT_OF_reserved] += stats.peak_reserved_bytes / peak;
    sum->of[PLACEMENT_OF_created] += stats.created_bytes / peak;
    sum->of[PLACEMENT_OF_copied] += stats.copied_bytes / peak;
    sum->of[PLACEMENT_OF_refused] += r->refused * PART / requests;
    sum->of[PLACEMENT_OF_calls] += calls_of(r) * PART / requests;
    sum->of[PLACEMENT_OF_waits] +=
        (stats.stream_waits + WAITS_OF_HOST * stats.host_waits) * PART / requests;
    sum->of[PLACEMENT_OF_time] += ledger.driver_time_ns / requests;
}

static void close_run(run *r)
{
    mend_pool_destroy(r->pool);
    if (r->traced != NULL) {
        mend_traced_driver_destroy(r->traced);
    }
    mend_sim_destroy(r->sim);
}

/* Runs one program, adds its needs, and leaves its trail. */
static bool run_program(placement_kind kind, uint64_t seed, const placement_recording *recording,
                        placement_figures *sum, uint64_t *trail)
{
    program p = {.is = &all_traits[kind]};
    run r = {.program = &p};
    bool all = write_program(&p, seed) && open_run(&r, recording);
    for (uint32_t phase = 0; phase < p.is->phases && all; phase++) {
        run_phase(&r, phase);
        do_between(&r, phase);
    }
    if (all) {
        add(&r, sum);
    }
    all = all && r.is_right;
    *trail = r.trail;
    close_run(&r);
    free(p.requests);
    free(p.ends);
    return all;
}

bool placement_is_the_same(placement_kind kind, uint64_t seed, const placement_recording *recording)
{
    placement_figures sums[2] = {{{0}}};
    uint64_t trails[2];
    return run_program(kind, seed, NULL, &sums[0], &trails[0]) &&
           run_program(kind, seed, recording, &sums[1], &trails[1]) &&
           memcmp(&sums[0], &sums[1], sizeof(sums[0])) == 0 && trails[0] == trails[1];
}

bool placement_run(placement_kind kind, uint64_t first_seed, uint64_t seeds,
                   placement_figures *figures)
{
    bool all = true;
    *figures = (placement_figures){0};
    for (uint64_t seed = first_seed; seed < first_seed + seeds && all; seed++) {
        uint64_t trail;
        all = run_program(kind, seed, NULL, figures, &trail);
    }
    for (int i = 0; i < PLACEMENT_FIGURE_COUNT; i++) {
        figures->of[i] /= seeds;
    }
    return all;
}
