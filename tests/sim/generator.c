#include "tests/sim/generator.h"

#include <string.h>

#include "tests/sim/quotas.h"
#include "tests/sim/scenes.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PICK(random, ...)                                                                          \
    pick(random, (const uint32_t[]){__VA_ARGS__}, COUNT(((const uint32_t[]){__VA_ARGS__})))

static uint32_t pick(mend_test_random *random, const uint32_t *values, uint32_t count)
{
    return values[trial_random_below(random, count)];
}

/* Blocks that are passed through come in steps of 2 MiB: the device has some tens of them. */
static void make_plain(mend_test_random *r, trial_config *config)
{
    config->plain = PICK(r, 1, 2, 3, 4);
    config->page_kib = 64;
    config->device_pages =
        config->plain == PLAIN_BY_THREAD ? PICK(r, 256, 300) : PICK(r, 256, 512, 1024);
    config->content = config->device_pages == 256;
    config->address_devices = 0; /* the pool may have reserved all of them */
    config->fabric *= config->plain == PLAIN_BY_THREAD;
    config->foreign = 0;
}

static void draw_config(mend_test_random *r, size_t count, trial_config *config)
{
    *config = trial_config_default;
    config->page_kib = PICK(r, 4, 4, 4, 16, 64);
    config->device_pages = PICK(r, 16, 16, 32, 64, 64, 128, 300);
    config->chunk_pages = PICK(r, 0, 1, 2, 4, 4, 8, 16);
    config->small_chunk_pages = PICK(r, 0, 1, 1, 2, 4);
    config->small_request_granules = PICK(r, 1, 2, 4, 8, 64);
    config->reserve_devices = PICK(r, 1, 2, 4, 16);
    config->limit_percent = PICK(r, 0, 0, 0, 50, 73, 100);
    config->content = config->device_pages * config->page_kib <= 4096 && PICK(r, 0, 1, 1, 1);
    config->no_stream_waits = PICK(r, 0, 0, 0, 1);
    config->vanish = PICK(r, 0, 0, 0, 0, 1);
    (void)(config->vanish || PICK(r, 0, 1)); /* as many draws as seeds have had */
    config->prices = PICK(r, 0, 0, 0, 1, 2);
    config->event_delay_ns = PICK(r, 0, 0, 0, 30, 300);
    config->streams = PICK(r, 0, 1, 2, 2, 3, 3, 4);
    config->blocking = PICK(r, 0, 0, 1, 2, 6);
    config->legacy = PICK(r, 0, 0, 1);
    config->threads = PICK(r, 1, 1, 2, 3);
    config->thread_streams = PICK(r, 0, 0, 1);
    config->peer_pool = PICK(r, 0, 0, 0, 1);
    config->low_pressure_percent = PICK(r, 0, 0, 0, 1, 50, 100);
    (void)PICK(r, 0, 1);
    /* A peer pool cannot give memory in use: two pools need more. */
    config->address_devices = config->peer_pool ? 0 : PICK(r, 0, 0, 0, 3, 4, 10);
    config->queue = PICK(r, 0, 0, 0, 2, 5);
    config->green = PICK(r, 0, 0, 0, 1, 3, 5);
    config->foreign = PICK(r, 0, 0, 0, 1, 2, 6);
    config->neighbour = PICK(r, 0, 1, 1, 2);
    config->strategy = PICK(r, 0, 0, 1, 2, 3, 4, 5);
    config->soft_limit_percent = PICK(r, 0, 0, 0, 5, 30, 60, 90);
    config->idle_ns = PICK(r, 0, 1, 100, 10000);
    config->unfenced_pages = PICK(r, 0, 1, 1, 4);
    config->third = config->foreign == 6;
    config->no_context_fences = PICK(r, 0, 0, 0, 1, 2);
    config->hooks = PICK(r, 0, 0, 0, 1);
    config->fabric = PICK(r, 0, 0, 0, 1) * PICK(r, 1, 1, 1, 1, 2);
    config->sudden = PICK(r, 0, 0, 0, 0, 0, 1);
    (void)PICK(r, 0, 1); /* so that seeds draw the same as before */
    config->record = PICK(r, 0, 0, 0, 0, 0, 1);
    config->check = trial_random_below(r, 8) == 0 ? PICK(r, 1, 2, 3) : 0;
    config->keep_free_percent = trial_random_below(r, 6) == 0 ? PICK(r, 3, 10, 30, 60) : 0;
    config->file_percent = trial_random_below(r, 6) == 0 ? PICK(r, 25, 50, 73, 100) : 0;
    if (config->streams + config->legacy == 0 && !config->thread_streams) {
        config->streams = 1;
    }
    if (trial_random_below(r, 10) == 0) {
        make_plain(r, config);
    }
    if ((!config->plain || config->plain == PLAIN_BY_THREAD) && !config->foreign &&
        trial_random_below(r, 6) == 0) {
        config->joins = 1 + trial_random_below(r, (uint32_t)count + 1);
    }
    mend_test_random beside = *r; /* so that seeds draw the same as before */
    config->growth_percent = PICK(&beside, 0, 0, 0, 100, 150, 250);
}

/* Kinds that come and go together, and how often a seed that has them draws them. */
typedef struct family {
    uint8_t one_in; /* seeds that have it */
    struct {
        uint8_t kind;
        uint8_t weight;
    } kinds[4];
} family;

static const family families[] = {
    {1, {{OP_ALLOC, 140}, {OP_FREE, 110}, {OP_ADVANCE, 20}}},
    {2, {{OP_WRITE, 30}, {OP_VERIFY, 30}}},
    {2, {{OP_SHARE, 25}, {OP_MOVE, 20}, {OP_RECORD, 8}}},
    {2, {{OP_TRIM, 6}, {OP_INFO, 6}, {OP_RESET_PEAKS, 2}}},
    {3, {{OP_SET_LIMIT, 8}}},
    {3, {{OP_MISTAKE, 6}}},
    {2, {{OP_SYNCHRONIZE, 5}}},
    {3, {{OP_REPLACE_STREAM, 10}, {OP_REPLACE_THREAD, 4}}},
    {4, {{OP_FORGET, 6}}},
    {3,
     {{OP_GRAPH_POOL_CREATE, 12},
      {OP_GRAPH_POOL_BEGIN, 20},
      {OP_GRAPH_POOL_END, 8},
      {OP_GRAPH_POOL_RELEASE, 8}}},
    {3,
     {{OP_CAPTURE_BEGIN, 14}, {OP_CAPTURE_END, 14}, {OP_GRAPH_LAUNCH, 16}, {OP_GRAPH_DESTROY, 2}}},
    {9, {{OP_CAPTURE_SPOIL, 3}}},
    {4, {{OP_ADD_CALLBACK, 4}, {OP_REMOVE_CALLBACK, 3}}},
    {3, {{OP_FOREIGN, 8}}},
    {2, {{OP_AMBUSH, 24}}},
    {3, {{OP_FAULT, 30}, {OP_CLEAR_FAULTS, 6}}},
    {4, {{OP_LATE_EVENTS, 6}}},
    {4, {{OP_FAIL_MALLOC, 14}}},
    {2, {{OP_SIBLING_ALLOC, 40}}},
    {12, {{OP_FORK, 1}}},
    {3, {{OP_COMPACT, 8}}},
};

typedef struct palette {
    uint8_t kinds[1024];
    uint32_t kind_count;
    uint8_t sizes[6];
    uint32_t size_count;
    uint8_t widest_size;
    uint32_t slots;
    uint32_t odd_alignments; /* one in so many */
    bool is_slow;            /* the clock, so that work stays in flight */
    uint32_t written;        /* so many blocks to one that is not, when it is made */
} palette;

static void draw_palette(mend_test_random *r, const trial_config *config, palette *p)
{
    *p = (palette){.slots = PICK(r, 3, 8, 16, 48),
                   .odd_alignments = PICK(r, 4, 16, 64),
                   .written = PICK(r, 0, 1, 3, 9),
                   .is_slow = PICK(r, 0, 1)};
    for (size_t i = 0; i < COUNT(families); i++) {
        uint32_t scale = 1 + trial_random_below(r, 3);
        bool is_there = trial_random_below(r, families[i].one_in) == 0;
        for (int k = 0; is_there && k < 4; k++) {
            uint8_t kind = families[i].kinds[k].kind;
            bool is_possible = kind != OP_SIBLING_ALLOC || config->peer_pool;
            uint32_t weight = families[i].kinds[k].weight * (i == 0 ? 2 : scale) / 2u;
            weight = is_possible && families[i].kinds[k].weight ? weight + 1 : 0;
            while (weight-- > 0 && p->kind_count < sizeof(p->kinds)) {
                p->kinds[p->kind_count++] = kind;
            }
        }
    }
    p->size_count = 1 + trial_random_below(r, 6);
    p->widest_size = (uint8_t)PICK(r, 63, 143, 207, 223, 255);
    for (uint32_t i = 0; i < p->size_count; i++) {
        p->sizes[i] = (uint8_t)trial_random_below(r, (uint32_t)p->widest_size + 1);
    }
}

static uint8_t draw_size(mend_test_random *r, const palette *p)
{
    if (trial_random_below(r, 3) != 0) {
        return p->sizes[trial_random_below(r, p->size_count)];
    }
    return (uint8_t)trial_random_below(r, (uint32_t)p->widest_size + 1);
}

static uint8_t draw_amount(mend_test_random *r, uint8_t kind, const palette *p)
{
    if (kind == OP_ALLOC || kind == OP_SIBLING_ALLOC) {
        uint32_t writes = trial_random_below(r, p->written + 1) != 0;
        const uint32_t half = trial_random_below(r, 2); /* of them a few take the place of others */
        return (uint8_t)(writes + PICK(r, 0, 2) + 4 * half + 8 * (half * (p->slots == 8)));
    }
    if (kind == OP_ADVANCE && p->is_slow) {
        return (uint8_t)PICK(r, 1, 1, 6, 0);
    }
    if (kind == OP_TRIM) {
        return (uint8_t)(trial_random_below(r, 2) * trial_random_below(r, 256));
    }
    if (kind == OP_SET_LIMIT || kind == OP_FOREIGN) {
        return (uint8_t)(PICK(r, 0, 1, 1) * trial_random_below(r, 256));
    }
    return (uint8_t)trial_random_below(r, 256);
}

static operation draw_operation(mend_test_random *r, const palette *p)
{
    operation op = {.kind = p->kinds[trial_random_below(r, p->kind_count)]};
    bool has_call = op.kind == OP_FAULT || op.kind == OP_AMBUSH;
    op.slot = (uint8_t)trial_random_below(r, p->slots);
    op.stream = (uint8_t)trial_random_below(r, 8);
    op.size = has_call ? (uint8_t)trial_random_below(r, 64) : draw_size(r, p);
    op.alignment = (uint8_t)(trial_random_below(r, p->odd_alignments) == 0 || op.kind == OP_FAULT
                                 ? trial_random_below(r, 22)
                                 : 0);
    op.thread = (uint8_t)trial_random_below(r, 4);
    op.amount = draw_amount(r, op.kind, p);
    if (op.kind == OP_AMBUSH && op.amount % AMBUSH_ACTIONS == 0) {
        op.slot = (uint8_t)trial_random_below(r, 256);
    }
    return op;
}

/* At most one end of the device, late, because later operations are worth little. */
static void draw_end_of_device(mend_test_random *r, size_t count, operation *ops)
{
    uint8_t kind = (uint8_t)PICK(r, OP_LOSE_DEVICE, OP_SHUT_DOWN);
    size_t at = TRIAL_MOST_STEPS;
    if (trial_random_below(r, 16) == 0) {
        at = 20 + trial_random_below(r, 180);
    }
    uint8_t amount = (uint8_t)trial_random_below(r, 32);
    if (at < count) {
        ops[at] = (operation){.kind = kind, .amount = amount};
    }
}

/*
 * Kinds that replace some operations, in seeds that have them: so many of 256, and where the others
 * are ignored, the bounds of their fields.
 */
enum { ANY, FIRST = 3, FEW = 16, LAST, RARELY }; /* bounds of slots. Pages have the last */

typedef struct overlay {
    uint8_t one_in;
    size_t setting; /* of the config: where it is 0 there are none. NO_SETTING: none is asked */
    struct {
        uint8_t kind;
        uint8_t of_256;
        uint8_t slots;
        uint8_t alignments; /* 0: none. PAGES: as drawn for the seed */
    } kinds[8];
} overlay;

enum { PAGES = 255, NO_SETTING = sizeof(trial_config) };
#define WHERE(field) offsetof(trial_config, field)

static const overlay overlays[] = {
    {1, WHERE(hooks), {{OP_SET_ALLOCATOR, 11, ANY, 0}}},
    {3, NO_SETTING, {{OP_ROOM, 16, ANY, 0}}},
    {4, NO_SETTING, {{OP_PIN, 16, ANY, 0}, {OP_UNPIN, 16, ANY, 0}}},
    {4,
     NO_SETTING,
     {{OP_GRAPH_POOL_CREATE, 8, ANY, 0},
      {OP_ALLOC_IN, 40, ANY, 0},
      {OP_CHECKPOINT, 12, ANY, 0},
      {OP_RESTORE, 16, ANY, 0}}},
    {3, NO_SETTING, {{OP_HISTORY, 5, ANY, 0}}},
    {4,
     NO_SETTING,
     {{OP_EXPORT, 8, ANY, 8},
      {OP_IMPORT, 8, ANY, 0},
      {OP_USE_IMPORT, 4, ANY, 0},
      {OP_CLOSE, 4, ANY, 0}}},
    {1,
     WHERE(fabric),
     {{OP_EXPORT_BY_FABRIC, 12, ANY, 0},
      {OP_IMPORT_BY_FABRIC, 8, ANY, 0},
      {OP_EXPORT, 4, ANY, 8},
      {OP_CLOSE, 4, ANY, 0}}},
    {3,
     NO_SETTING,
     {{OP_SLEEP, 12, RARELY, 10}, {OP_WAKE, 16, RARELY, 0}, {OP_READ_KEPT, 16, FEW, 254}}},
    {3,
     NO_SETTING,
     {{OP_RANGE_CREATE, 8, FIRST, PAGES},
      {OP_COMMIT, 24, FIRST, PAGES},
      {OP_DECOMMIT, 12, FIRST, PAGES},
      {OP_RANGE_DESTROY, 4, FIRST, 0},
      {OP_RANGE_MISTAKE, 4, FIRST, PAGES},
      {OP_SHARE, 4, LAST, 0}}},
    {1, WHERE(keep_free_percent), {{OP_TRIM, 16, ANY, 0}, {OP_FOREIGN, 8, ANY, 0}}},
    {1,
     WHERE(file_percent),
     {{OP_MEMBER, 8, RARELY, 0}, {OP_TRIM, 16, ANY, 0}, {OP_FOREIGN, 8, ANY, 0}}},
    {4, NO_SETTING, {{OP_PREPARE_CHECKPOINT, 8, RARELY, 0}}},
    {1, WHERE(record), {{OP_RECALL, 4, ANY, 0}}},
};

static uint8_t slot_of(uint8_t slots, uint8_t byte)
{
    return slots == ANY      ? byte
           : slots == LAST   ? (uint8_t)(47 - byte % 10)
           : slots == RARELY ? byte % 8 == 0
                             : byte % slots;
}

static void draw_overlay(mend_test_random *r, const overlay *o, size_t count, operation *ops)
{
    const uint8_t most_pages = (uint8_t)PICK(r, 2, 4, 8, 24);
    for (size_t i = 0; i < count; i++) {
        uint64_t numbers = mend_test_random_next(r);
        uint32_t drawn = numbers % 256;
        for (size_t k = 0; k < COUNT(o->kinds) && o->kinds[k].of_256 > 0; k++) {
            const uint8_t most =
                o->kinds[k].alignments == PAGES ? most_pages : o->kinds[k].alignments;
            if (drawn < o->kinds[k].of_256) {
                ops[i] = (operation){.kind = o->kinds[k].kind,
                                     .slot = slot_of(o->kinds[k].slots, (uint8_t)(numbers >> 8)),
                                     .stream = (uint8_t)(numbers >> 16),
                                     .size = (uint8_t)(numbers >> 24),
                                     .alignment =
                                         (uint8_t)(most > 0 ? (uint8_t)(numbers >> 32) % most : 0),
                                     .thread = (uint8_t)(numbers >> 40) % 4,
                                     .amount = (uint8_t)(numbers >> 48)};
                break;
            }
            drawn -= o->kinds[k].of_256;
        }
    }
}

static void draw_overlays(mend_test_random *r, const trial_config *config, size_t count,
                          operation *ops)
{
    for (size_t i = 0; i < COUNT(overlays); i++) {
        const overlay *o = &overlays[i];
        mend_test_random own = {mend_test_random_next(r)};
        uint32_t setting = 1;
        if (o->setting != NO_SETTING) {
            memcpy(&setting, (const char *)config + o->setting, sizeof(setting));
        }
        if (trial_random_below(&own, o->one_in) == 0 && setting != 0) {
            draw_overlay(&own, o, count, ops);
        }
    }
}

/* With ranges, operations on blocks are done with pages too. With checkpoints, frees are of the
 * graph pool, and some graph pools are restored that were to end. */
static void turn_to_pages_and_graph_pools(mend_test_random *r, size_t count, operation *ops)
{
    bool has_ranges = false;
    bool has_checkpoints = false;
    for (size_t i = 0; i < count; i++) {
        const uint8_t drawn = (uint8_t)trial_random_below(r, 64);
        const uint8_t kind = ops[i].kind;
        has_ranges = has_ranges || kind == OP_RANGE_CREATE;
        has_checkpoints = has_checkpoints || kind == OP_CHECKPOINT;
        if (has_ranges && drawn < 25 &&
            (kind == OP_WRITE || kind == OP_VERIFY || kind == OP_SHARE || kind == OP_MOVE ||
             kind == OP_FREE || kind == OP_PIN || kind == OP_EXPORT || kind == OP_INFO ||
             kind == OP_MISTAKE)) {
            ops[i].slot = slot_of(LAST, (uint8_t)mend_test_random_next(r));
        } else if (has_checkpoints && kind == OP_FREE && drawn < 48) {
            ops[i].amount |= 64;
        } else if (has_checkpoints && kind == OP_GRAPH_POOL_RELEASE && drawn < 24) {
            ops[i].kind = OP_RESTORE;
        }
    }
}

/*
 * Compactions that lose mappings, and a program that goes on without them for a while. By chance a
 * compaction meets a fault after its unmap too seldom.
 */
static void draw_lost_mappings(mend_test_random *places, size_t count, operation *ops)
{
    mend_test_random random = {mend_test_random_next(places)};
    if (trial_random_below(&random, 4) != 0) {
        return;
    }
    for (size_t i = 0; i + 1 < count; i++) {
        uint32_t drawn = trial_random_below(&random, 64);
        uint8_t slot = (uint8_t)trial_random_below(&random, 2);
        operation fault = {
            .kind = OP_FAULT,
            .size = (uint8_t)PICK(&random, FAULT_OF_MAP, FAULT_OF_MAP, FAULT_OF_SET_ACCESS),
            .alignment = (uint8_t)(1 + trial_random_below(&random, 6)),
            .thread = (uint8_t)trial_random_below(&random, 4),
            .amount = (uint8_t)PICK(&random, 2, 4, FAULT_FOR_EVER, FAULT_FOR_EVER)};
        if (drawn < 3) {
            ops[i] = fault;
            ops[++i] = (operation){.kind = OP_COMPACT, .slot = slot};
        } else if (drawn == 3) {
            ops[i] = (operation){.kind = OP_CLEAR_FAULTS};
        }
    }
}

/*
 * A program that begins with a graph pool of all streams: the pool knows no stream outside of the
 * graph pool. By chance other streams are nearly always known.
 */
static void draw_only_graph_pool(mend_test_random *places, size_t count, operation *ops)
{
    enum { GROUPED = 24, LAUNCHED = 8 };
    mend_test_random random = {mend_test_random_next(places)};
    if (count < GROUPED + LAUNCHED || trial_random_below(&random, 12) != 0) {
        return;
    }
    ops[0] = (operation){.kind = OP_GRAPH_POOL_CREATE};
    ops[1] = (operation){.kind = OP_GRAPH_POOL_BEGIN, .amount = 1};
    for (size_t i = 2; i < GROUPED; i++) {
        uint8_t slot = (uint8_t)trial_random_below(&random, 4);
        uint8_t kind = (uint8_t)PICK(&random, OP_ALLOC, OP_ALLOC, OP_WRITE, OP_FREE);
        uint8_t amount = kind == OP_FREE ? 5 : ops[i].amount;
        ops[i] = (operation){.kind = kind, .slot = slot, .size = ops[i].size, .amount = amount};
    }
    ops[GROUPED] = (operation){.kind = OP_GRAPH_POOL_END};
    ops[GROUPED + LAUNCHED] = (operation){.kind = OP_GRAPH_POOL_RELEASE};
}

/* A program that begins with one block at a time, of more than half of the memory, which a stream
 * uses and others read, as declared. So they are declared again while it waits for their former
 * reads. */
static void draw_readers(uint64_t seed, size_t count, trial_config *config, operation *ops)
{
    enum { AT_FIRST = 40, OVER_HALF = 0xe8, LONG = 3, LONGER = 12 };
    static const uint8_t kinds[] = {OP_ALLOC, OP_SHARE, OP_FREE};
    static const uint8_t amounts[] = {LONG, LONGER, 0};
    mend_test_random random = {seed ^ 0x27};
    if (count < AT_FIRST || config->plain || trial_random_below(&random, 4) != 0) {
        return;
    }
    config->limit_percent = 0;
    config->streams = config->streams < 2 ? 2 : config->streams;
    for (size_t i = 0; i < AT_FIRST; i++) {
        const uint8_t kind = kinds[i % COUNT(kinds)];
        const uint8_t reader = (uint8_t)(1 + trial_random_below(&random, 2));
        ops[i] = (operation){.kind = kind,
                             .stream = kind == OP_SHARE ? reader : 0,
                             .size = OVER_HALF,
                             .amount = amounts[i % COUNT(kinds)]};
    }
}

/* Few addresses, of which a range has more than half until the end, where a block of all memory
 * must find some. */
static void draw_wide_range(mend_test_random *places, size_t count, trial_config *config,
                            operation *ops)
{
    mend_test_random random = {mend_test_random_next(places)};
    const bool is_drawn = trial_random_below(&random, 2) == 0;
    if (is_drawn && config->address_devices == 3 && count > 2) {
        config->reserve_devices = 1;
        ops[0] = (operation){.kind = OP_ALLOC};
        ops[1] = (operation){.kind = OP_RANGE_CREATE, .slot = 2, .size = 7, .amount = 8};
        ops[2] = (operation){.kind = OP_COMMIT, .slot = 2};
    }
}

/* Some blocks are to lie in one chunk. */
static void draw_in_one_chunk(uint64_t seed, size_t count, operation *ops)
{
    mend_test_random random = {seed ^ 0x26};
    const bool has_them = trial_random_below(&random, 4) == 0;
    for (size_t i = 0; i < count && has_them; i++) {
        const bool is_request = ops[i].kind == OP_ALLOC || ops[i].kind == OP_SIBLING_ALLOC;
        ops[i].amount |= is_request && trial_random_below(&random, 4) == 0 ? 16 : 0;
    }
}

/* In half of the seeds each request that is refused follows its report. */
static void draw_advice(uint64_t seed, size_t count, operation *ops)
{
    for (size_t i = 0; i < count && seed % 2 == 0; i++) {
        const bool is_request = ops[i].kind == OP_ALLOC || ops[i].kind == OP_SIBLING_ALLOC;
        ops[i].amount |= is_request ? 32 : 0;
    }
}

/* Captures of three streams that wait for each other, and use few blocks of few sizes. Of its own
 * numbers. */
static void draw_forks(mend_test_random *places, size_t count, trial_config *config, operation *ops)
{
    enum { STEPS = 40, AT_FIRST = 5, AT_LAST = 2 };
    static const uint8_t kinds[] = {OP_CAPTURE_WAIT, OP_CAPTURE_WAIT, OP_CAPTURE_WAIT, OP_ALLOC,
                                    OP_ALLOC,        OP_ALLOC,        OP_ALLOC,        OP_ALLOC_IN,
                                    OP_FREE,         OP_FREE,         OP_FREE,         OP_FREE,
                                    OP_WRITE,        OP_VERIFY,       OP_SHARE,        OP_MOVE};
    mend_test_random random = {mend_test_random_next(places)};
    const bool has_them = trial_random_below(&random, 3) == 0;
    if (has_them && config->streams < 2) {
        config->streams = 2 + trial_random_below(&random, 2);
    }
    for (size_t i = 0; i + STEPS < count && has_them; i++) {
        const uint64_t drawn = mend_test_random_next(&random);
        const uint8_t stream = (uint8_t)(drawn >> 8) % 8;
        const uint8_t size = (uint8_t)PICK(&random, 16, 64, 100, 0xd7, 0xe2);
        const operation frame[AT_FIRST + AT_LAST] = {
            {.kind = (drawn >> 16) % 2 == 0 ? OP_GRAPH_POOL_CREATE : OP_ADVANCE},
            {.kind = OP_GRAPH_POOL_BEGIN, .amount = 1},
            {.kind = OP_CAPTURE_BEGIN, .stream = stream, .amount = 2},
            {.kind = OP_CAPTURE_WAIT, .slot = stream, .stream = (uint8_t)(stream + 1)},
            {.kind = OP_CAPTURE_WAIT, .slot = stream, .stream = (uint8_t)(stream + 2)},
            {.kind = OP_CAPTURE_END, .stream = stream},
            {.kind = OP_GRAPH_LAUNCH, .stream = stream, .amount = 1}};
        for (int k = 0; drawn % 60 == 0 && k < STEPS; k++) {
            const uint64_t numbers = mend_test_random_next(&random);
            ops[i++] = (operation){.kind = kinds[numbers % sizeof(kinds)],
                                   .slot = (uint8_t)(numbers >> 8) % 6,
                                   .stream = (uint8_t)(stream + (numbers >> 16) % 3),
                                   .size = (uint8_t)(size - (numbers >> 24) % 2),
                                   .thread = (uint8_t)(numbers >> 32) % 4,
                                   .amount = (uint8_t)(1 + ((numbers >> 40) % 4 == 0) * 4)};
            ops[i - 1] = k < AT_FIRST           ? frame[k]
                         : k >= STEPS - AT_LAST ? frame[k - STEPS + AT_FIRST + AT_LAST]
                                                : ops[i - 1];
        }
    }
}

void trial_draw(uint64_t seed, size_t count, trial_config *config, operation *ops)
{
    mend_test_random places = {seed};
    mend_test_random random = {mend_test_random_next(&places)};
    palette p;
    draw_config(&places, count, config);
    draw_palette(&places, config, &p);
    for (size_t i = 0; i < count; i++) {
        ops[i] = draw_operation(&random, &p);
    }
    draw_overlays(&places, config, count, ops);
    turn_to_pages_and_graph_pools(&random, count, ops);
    draw_lost_mappings(&places, count, ops);
    draw_end_of_device(&places, count, ops);
    draw_only_graph_pool(&places, count, ops);
    draw_readers(seed, count, config, ops);
    trial_draw_scenes(&places, count, config, ops);
    draw_wide_range(&places, count, config, ops);
    draw_in_one_chunk(seed, count, ops);
    draw_advice(seed, count, ops);
    draw_forks(&places, count, config, ops);
    trial_draw_beside_graph_pools(seed, count, config, ops);
    trial_draw_behind_work(seed, count, config, ops);
    trial_draw_neighbour(seed, count, config, ops);
    trial_draw_givers(seed, count, config, ops);
}
