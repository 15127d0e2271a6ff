/*
 * The quality of placement: undisturbed programs, drawn from seeds, and a pool's needs for them
 * beside the possible minimum, which are as they were when the table was made. That every byte is
 * right says nothing of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/driver/traced.h"
#include "mend/mend.h"
#include "mend/mend_sim.h"
#include "tests/sim/generator.h"
#include "tests/support/options.h"
#include "tests/support/place.h"
#include "tests/support/test.h"

enum { BLOCKS = 192, PALETTE = 12, REQUESTS_OF_ROUND = 200, MOST_STREAMS = 3, PART = 10000 };
enum { WARM_ROUNDS = 12, WAITS_OF_HOST = 100, SEEDS = 16 };

typedef enum variant { AS_USUAL, RECORDED_TOO, WITHOUT_CACHE } variant;
typedef enum between { NOTHING, TRIM, COLLECT, COMPACT, LIMIT, NEIGHBOUR } between;

/* Sums over programs of one kind, each in 10,000ths of the least that is possible, or of
 * requests. */
enum {
    RESERVED, /* the most memory that the pool held, of the most that lived */
    CREATED,  /* memory created, of the most that lived */
    COPIED,   /* memory that compactions copied, of the same */
    REFUSED,  /* requests refused, of all */
    CALLS,    /* calls that create, map and give back, of all requests */
    WAITS,    /* waits of streams, and a hundred for each of the host, of all requests */
    TIME,     /* nanoseconds of the driver by the price list, of all requests */
    FIGURES
};

typedef struct figures {
    uint64_t of[FIGURES];
} figures;

typedef struct kind {
    const char *name;
    uint32_t streams;
    int strategy;
    uint32_t limit_percent; /* of the most that lives. 0: far more */
    uint32_t largest_power; /* bytes of the largest block, as a power of two */
    uint32_t phases;        /* each with sizes of its own, and small blocks that outlive it */
    uint32_t rounds;        /* of a phase: the same requests once more */
    between between;        /* phases this happens */
    figures recorded;
} kind;

/* The figures are of a policy, and the log of this file says why they changed. If the test fails it
 * prints the present ones. If you change the policy on purpose, take these, and say why. */
static const kind kinds[] = {
    {"steady", 1, 0, 0, 27, 1, 14, NOTHING, {{12359, 12359, 0, 0, 121, 0, 813}}},
    {"steady_on_streams", 3, 0, 0, 27, 1, 14, NOTHING, {{20257, 20257, 0, 0, 231, 0, 1351}}},
    {"steady_and_tight", 1, 0, 104, 27, 2, 4, NOTHING, {{10274, 10274, 0, 0, 8174, 0, 18820}}},
    {"phases", 1, 0, 0, 27, 6, 2, NOTHING, {{11285, 11285, 0, 0, 233, 0, 1727}}},
    {"phases_and_room", 1, 0, 180, 27, 8, 2, NOTHING, {{10627, 10627, 0, 0, 2595, 0, 6654}}},
    {"phases_and_tight", 1, 0, 110, 27, 6, 2, NOTHING, {{10538, 10538, 0, 0, 6226, 0, 14880}}},
    {"phases_and_full", 1, 0, 101, 27, 8, 2, NOTHING, {{10040, 10040, 0, 5, 5326, 0, 12558}}},
    {"never_same", 1, 0, 300, 27, 16, 1, NOTHING, {{10526, 10526, 0, 0, 1583, 0, 4352}}},
    {"never_same_and_full", 1, 0, 102, 27, 16, 1, NOTHING, {{10151, 10151, 0, 0, 5143, 0, 12234}}},
    {"large_device", 1, 0, 110, 33, 6, 2, NOTHING, {{10587, 10587, 0, 0, 7185, 0, 93341}}},
    {"small_blocks", 2, 0, 130, 19, 6, 2, NOTHING, {{14993, 14993, 0, 0, 95, 1, 220}}},
    {"few_calls", 1, 1, 200, 27, 6, 2, NOTHING, {{10839, 10839, 0, 0, 1043, 0, 3390}}},
    {"little_memory", 1, 5, 200, 27, 6, 2, NOTHING, {{10247, 10247, 0, 0, 6092, 0, 13616}}},
    {"streams", 3, 0, 150, 27, 6, 2, NOTHING, {{12770, 12770, 0, 0, 6091, 0, 15341}}},
    {"streams_and_full", 3, 0, 103, 27, 6, 2, NOTHING, {{10284, 10284, 0, 0, 7999, 167, 18375}}},
    {"trims", 2, 0, 150, 27, 6, 2, TRIM, {{12043, 26635, 0, 0, 10024, 79, 28378}}},
    {"collections", 2, 0, 150, 27, 6, 2, COLLECT, {{10411, 12642, 0, 0, 8475, 65, 20054}}},
    {"compactions", 1, 0, 106, 27, 6, 2, COMPACT, {{10287, 10287, 16, 0, 6637, 3754, 16511}}},
    {"limits", 2, 0, 160, 27, 6, 2, LIMIT, {{11929, 15006, 0, 0, 8395, 0, 21930}}},
    {"neighbours", 1, 0, 140, 27, 8, 2, NEIGHBOUR, {{10533, 10533, 0, 0, 4045, 0, 9860}}},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* A request of size 0 is a free. */
typedef struct request {
    uint8_t slot;
    uint8_t stream;
    uint64_t size_bytes;
    uint64_t alignment_bytes;
} request;

typedef struct program {
    const kind *is;
    request *requests; /* a round of each phase, one after the other */
    size_t *ends;      /* of the phases */
    uint64_t peak_bytes;
    uint64_t allocations; /* in all rounds */
} program;

/* ---- programs -------------------------------------------------------------------------------- */

/* Any number of bytes from 2^low on, below 2^high. */
static uint64_t draw_size(mend_test_random *random, uint32_t low, uint32_t high)
{
    const uint64_t power = UINT64_C(1) << (low + trial_random_below(random, high - low));
    return power + mend_test_random_next(random) % power;
}

typedef struct author {
    mend_test_random random;
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
    uint64_t
        trail; /* a hash of all addresses and driver calls so far, and all figures at the end */
    bool is_right;
} run;

static void claim(run *r, bool holds, const char *what)
{
    if (!holds) {
        printf("%s: %s\n", r->program->is->name, what);
        r->is_right = false;
    }
}

static bool open_run(run *r, variant how)
{
    const kind *is = r->program->is;
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
    r->is_right =
        r->is_right && (how != RECORDED_TOO || mend_history_start(r->pool, 64) == MEND_OK);
    if (r->is_right && how == WITHOUT_CACHE) {
        mend_test_close_cache(r->pool);
    }
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

static void add(run *r, figures *sum)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(r->sim, &ledger);
    claim(r, mend_get_stats(r->pool, &stats) == MEND_OK && ledger.violations == 0, "a rule");
    claim(r, stats.peak_reserved_bytes <= r->limit_bytes, "more is held than the limit allows");
    stats.cache_hits = stats.cached_blocks = stats.cached_bytes = stats.history_events =
        stats.history_lost = 0;
#define X(field, unit, meaning) note(r, stats.field);
    MEND_STATS(X)
#undef X
    const uint64_t peak = r->program->peak_bytes / PART + 1;
    const uint64_t requests = r->allocations;
    sum->of[RESERVED] += stats.peak_reserved_bytes / peak;
    sum->of[CREATED] += stats.created_bytes / peak;
    sum->of[COPIED] += stats.copied_bytes / peak;
    sum->of[REFUSED] += r->refused * PART / requests;
    sum->of[CALLS] += calls_of(r) * PART / requests;
    sum->of[WAITS] += (stats.stream_waits + WAITS_OF_HOST * stats.host_waits) * PART / requests;
    sum->of[TIME] += ledger.driver_time_ns / requests;
}

static void close_run(run *r)
{
    mend_pool_destroy(r->pool);
    if (r->traced != NULL) {
        mend_traced_driver_destroy(r->traced);
    }
    mend_sim_destroy(r->sim);
}

/* Runs one program, adds its needs, and leaves its trail. False: it broke a promise, which it
 * prints. */
static bool run_program(const kind *is, uint64_t seed, variant how, figures *sum, uint64_t *trail)
{
    program p = {.is = is};
    run r = {.program = &p};
    bool all = write_program(&p, seed) && open_run(&r, how);
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

/* Nothing here is left to chance, so a little more is worse. A much smaller value is better, but
 * makes the table blind: renew it. */
static bool is_as_recorded(uint64_t was, uint64_t is)
{
    enum { WORSE = 400, BETTER = 20 };
    return is <= was + was / WORSE && is + is / BETTER + 1 >= was;
}

MEND_TEST(simulation, placement_is_as_good_as_it_was)
{
    for (const kind *is = kinds; is < kinds + KINDS; is++) {
        figures now = {{0}};
        uint64_t trail;
        bool all = true;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            EXPECT_TRUE(run_program(is, seed, AS_USUAL, &now, &trail));
        }
        for (int i = 0; i < FIGURES; i++) {
            now.of[i] /= SEEDS;
            all = all && is_as_recorded(is->recorded.of[i], now.of[i]);
        }
        EXPECT_TRUE(all);
        for (int i = 0; i < FIGURES && !all; i++) {
            printf("%s, figure %d: %llu\n", is->name, i, (unsigned long long)now.of[i]);
        }
    }
}

/* The addresses, the driver calls at each request, and the figures. */
static void expect_the_same(const kind *is, uint64_t seed, variant how)
{
    figures none = {{0}};
    uint64_t trails[2];
    EXPECT_TRUE(run_program(is, seed, AS_USUAL, &none, &trails[0]));
    EXPECT_TRUE(run_program(is, seed, how, &none, &trails[1]));
    EXPECT_U64_EQ(trails[0], trails[1]);
}

/* Looking changes nothing. */
MEND_TEST(simulation, placement_is_the_same_while_it_is_recorded)
{
    for (uint64_t i = 0; i < 3 * KINDS; i++) {
        expect_the_same(&kinds[i % KINDS], 1 + i, RECORDED_TOO);
    }
}

/* Nothing but time depends on the front cache. On one stream: with several, free memory beside a
 * block that comes and goes is stamped again each time only where it is joined with it, and is
 * known to be idle a little later. */
MEND_TEST(simulation, placement_is_the_same_without_the_front_cache)
{
    for (uint64_t i = 0; i < 8 * KINDS; i++) {
        if (kinds[i % KINDS].streams == 1) {
            expect_the_same(&kinds[i % KINDS], 1 + i, WITHOUT_CACHE);
        }
    }
}
