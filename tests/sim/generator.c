#include "tests/sim/generator_parts.h"

uint64_t trial_random_next(trial_random *random) /* splitmix64 */
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint32_t trial_random_below(trial_random *random, uint32_t bound)
{
    return (uint32_t)(trial_random_next(random) % bound);
}

static void draw_config(trial_random *r, trial_config *config)
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
    config->knows_all = !config->vanish && PICK(r, 0, 0, 0, 1);
    config->prices = PICK(r, 0, 0, 0, 1, 2);
    config->event_delay_ns = PICK(r, 0, 0, 0, 30, 300);
    config->streams = PICK(r, 0, 1, 2, 2, 3, 3, 4);
    config->blocking = PICK(r, 0, 0, 1, 2, 6);
    config->legacy = PICK(r, 0, 0, 1);
    config->threads = PICK(r, 1, 1, 2, 3);
    config->thread_streams = PICK(r, 0, 0, 1);
    config->peer_pool = PICK(r, 0, 0, 0, 1);
    config->quiet = PICK(r, 0, 0, 0, 1);
    config->low_pressure_percent = PICK(r, 0, 0, 0, 1, 50, 100);
    /* What a peer pool may still be using it cannot give: two pools need more. */
    config->address_devices = config->peer_pool ? 0 : PICK(r, 0, 0, 0, 3, 4, 10);
    trial_random more = *r; /* came later: the seeds go on as they were */
    config->queue = PICK(&more, 0, 0, 0, 2, 5);
    config->green = PICK(&more, 0, 0, 0, 1, 3, 5);
    config->foreign = PICK(&more, 0, 0, 0, 1, 2, 6);
    config->neighbour = PICK(&more, 0, 1, 1, 2);
    config->tightness = PICK(&more, 0, 0, 1, 2, 3, 4, 5);
    config->soft_limit_percent = PICK(&more, 0, 0, 0, 5, 30, 60, 90);
    config->idle_ns = PICK(&more, 0, 1, 100, 10000);
    config->unfenced_pages = PICK(&more, 0, 1, 1, 4);
    config->third = config->foreign == 6;
    config->no_context_fences = PICK(&more, 0, 0, 0, 1, 2);
    if (config->streams + config->legacy == 0 && !config->thread_streams) {
        config->streams = 1;
    }
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
    {3, {{OP_GROUP_CREATE, 12}, {OP_GROUP_BEGIN, 20}, {OP_GROUP_END, 8}, {OP_GROUP_RELEASE, 8}}},
    {3,
     {{OP_CAPTURE_BEGIN, 14}, {OP_CAPTURE_END, 14}, {OP_GRAPH_LAUNCH, 16}, {OP_GRAPH_DESTROY, 2}}},
    {9, {{OP_CAPTURE_SPOIL, 3}}},
    {4, {{OP_ADD_CALLBACK, 4}, {OP_REMOVE_CALLBACK, 3}}},
    {3, {{OP_FOREIGN, 8}}},
    {3, {{OP_AMBUSH, 16}}},
    {3, {{OP_FAULT, 30}, {OP_CLEAR_FAULTS, 6}}},
    {4, {{OP_LATE_EVENTS, 6}}},
    {4, {{OP_FAIL_MALLOC, 14}}},
    {2, {{OP_SIBLING_ALLOC, 40}}},
    {12, {{OP_FORK, 1}}},
    {3, {{OP_DEFRAG, 8}}},
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

static void add_kind(palette *p, uint8_t kind, uint32_t weight)
{
    for (uint32_t i = 0; i < weight && p->kind_count < sizeof(p->kinds); i++) {
        p->kinds[p->kind_count++] = kind;
    }
}

static void draw_palette(trial_random *r, const trial_config *config, palette *p)
{
    *p = (palette){.slots = PICK(r, 3, 8, 16, 48),
                   .odd_alignments = PICK(r, 4, 16, 64),
                   .written = PICK(r, 0, 1, 3, 9),
                   .is_slow = PICK(r, 0, 1)};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        uint32_t scale = 1 + trial_random_below(r, 3);
        bool is_there = trial_random_below(r, families[i].one_in) == 0;
        for (int k = 0; is_there && k < 4; k++) {
            uint8_t kind = families[i].kinds[k].kind;
            bool is_possible = kind != OP_SIBLING_ALLOC || config->peer_pool;
            uint32_t weight = families[i].kinds[k].weight * (i == 0 ? 2 : scale) / 2u;
            add_kind(p, kind, is_possible && families[i].kinds[k].weight ? weight + 1 : 0);
        }
    }
    p->size_count = 1 + trial_random_below(r, 6);
    p->widest_size = (uint8_t)PICK(r, 63, 143, 207, 223, 255);
    for (uint32_t i = 0; i < p->size_count; i++) {
        p->sizes[i] = (uint8_t)trial_random_below(r, (uint32_t)p->widest_size + 1);
    }
}

static uint8_t draw_size(trial_random *r, const palette *p)
{
    if (trial_random_below(r, 3) != 0) {
        return p->sizes[trial_random_below(r, p->size_count)];
    }
    return (uint8_t)trial_random_below(r, (uint32_t)p->widest_size + 1);
}

static uint8_t draw_amount(trial_random *r, uint8_t kind, const palette *p)
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

static operation draw_operation(trial_random *r, const palette *p)
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
    if (op.kind == OP_AMBUSH && op.amount % 4 == 0) {
        op.slot = (uint8_t)trial_random_below(r, 256);
    }
    return op;
}

/* At most one end of the device, late: what follows is worth little. */
static void draw_end_of_device(trial_random *r, size_t count, operation *ops)
{
    uint8_t kind = (uint8_t)PICK(r, OP_LOSE_DEVICE, OP_SHUT_DOWN);
    size_t at = TRIAL_MOST_STEPS;
    if (trial_random_below(r, 10) == 0) {
        at = 20 + trial_random_below(r, 180);
    }
    uint8_t amount = (uint8_t)trial_random_below(r, 32);
    if (at < count) {
        ops[at] = (operation){.kind = kind, .amount = amount};
    }
}

/*
 * Compactions that lose mappings, and a program that goes on without them for a while. By chance a
 * compaction meets a fault after its unmap too seldom. Of its own numbers, as draw_hooks.
 */
static void draw_lost_mappings(trial_random *places, size_t count, operation *ops)
{
    trial_random random = {trial_random_next(places)};
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
            ops[++i] = (operation){.kind = OP_DEFRAG, .slot = slot};
        } else if (drawn == 3) {
            ops[i] = (operation){.kind = OP_CLEAR_FAULTS};
        }
    }
}

/* Of its own numbers, as draw_hooks. */
static void draw_pins(trial_random *places, size_t count, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    if (trial_random_below(&random, 4) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t drawn = trial_random_below(&random, 64);
        uint8_t slot = (uint8_t)trial_random_next(&random);
        if (drawn < 4) {
            ops[i] = (operation){.kind = OP_PIN,
                                 .slot = slot,
                                 .size = (uint8_t)trial_random_below(&random, 4),
                                 .thread = (uint8_t)trial_random_below(&random, 4)};
        } else if (drawn < 7) {
            ops[i] = (operation){.kind = OP_UNPIN, .slot = slot};
        }
    }
}

/* Some blocks are to lie in one chunk. Of its own numbers, as draw_hooks. */
static void draw_in_one_chunk(uint64_t seed, size_t count, operation *ops)
{
    trial_random random = {seed ^ 0x26};
    const bool has_them = trial_random_below(&random, 4) == 0;
    for (size_t i = 0; i < count && has_them; i++) {
        const bool is_request = ops[i].kind == OP_ALLOC || ops[i].kind == OP_SIBLING_ALLOC;
        ops[i].amount |= is_request && trial_random_below(&random, 4) == 0 ? 16 : 0;
    }
}

/* In half of the seeds each request that is refused follows its report. Where the pool owes memory
 * to others, quiet points are frequent: compactions meet a device that lacks memory. */
static void draw_advice(uint64_t seed, size_t count, trial_config *config, operation *ops)
{
    config->quiet |= config->keep_free_percent != 0 && seed % 4 == 0;
    for (size_t i = 0; i < count && seed % 2 == 0; i++) {
        const bool is_request = ops[i].kind == OP_ALLOC || ops[i].kind == OP_SIBLING_ALLOC;
        ops[i].amount |= is_request ? 32 : 0;
    }
}

/* Exports and imports. Of its own numbers, as draw_hooks. */
static void draw_shares(trial_random *places, size_t count, operation *ops)
{
    static const uint8_t kinds[] = {OP_EXPORT, OP_EXPORT,     OP_IMPORT,
                                    OP_IMPORT, OP_USE_IMPORT, OP_CLOSE};
    trial_random random = {trial_random_next(places)};
    if (trial_random_below(&random, 4) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t drawn = trial_random_below(&random, 64);
        uint8_t slot = (uint8_t)trial_random_next(&random);
        uint8_t size = (uint8_t)trial_random_below(&random, 8);
        if (drawn < sizeof(kinds)) {
            ops[i] = (operation){.kind = kinds[drawn],
                                 .slot = slot,
                                 .stream = slot / 8,
                                 .size = size,
                                 .amount = slot / 4};
        }
    }
}

/* Exports and imports by fabric handles. Of its own numbers, as draw_hooks. */
static void draw_fabric(trial_random *places, size_t count, trial_config *config, operation *ops)
{
    static const uint8_t kinds[] = {OP_EXPORT_BY_FABRIC, OP_EXPORT_BY_FABRIC, OP_IMPORT_BY_FABRIC,
                                    OP_IMPORT_BY_FABRIC, OP_EXPORT,           OP_CLOSE};
    trial_random random = {trial_random_next(places)};
    if (trial_random_below(&random, 4) != 0) {
        return;
    }
    config->fabric = PICK(&random, 1, 1, 1, 1, 2);
    for (size_t i = 0; i < count; i++) {
        uint32_t drawn = trial_random_below(&random, 64);
        uint64_t numbers = trial_random_next(&random);
        if (drawn < sizeof(kinds)) {
            ops[i] = (operation){.kind = kinds[drawn],
                                 .slot = (uint8_t)numbers,
                                 .size = (uint8_t)(numbers >> 8) % 8,
                                 .thread = (uint8_t)(numbers >> 16) % 4,
                                 .amount = (numbers >> 24) % 8 == 0};
        }
    }
}

/* Blocks that name their groups, and checkpoints. Of its own numbers, as draw_hooks. */
static void draw_checkpoints(trial_random *places, size_t count, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    if (trial_random_below(&random, 4) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t drawn = trial_random_below(&random, 64);
        uint8_t byte = (uint8_t)trial_random_next(&random);
        if (drawn < 2) {
            ops[i] = (operation){.kind = OP_GROUP_CREATE, .slot = byte};
        } else if (drawn < 12) {
            ops[i] = (operation){.kind = OP_ALLOC_IN,
                                 .slot = byte,
                                 .stream = (uint8_t)trial_random_below(&random, 3),
                                 .size = (uint8_t)trial_random_next(&random),
                                 .amount = (uint8_t)trial_random_next(&random)};
        } else if (drawn < 15) {
            ops[i] = (operation){.kind = OP_CHECKPOINT, .slot = byte};
        } else if (drawn < 19) {
            ops[i] = (operation){.kind = OP_RESTORE, .slot = byte};
        } else if (ops[i].kind == OP_FREE && drawn < 48) {
            ops[i].amount |= 64;
        } else if (ops[i].kind == OP_GROUP_RELEASE && drawn < 40) {
            ops[i] = (operation){.kind = OP_RESTORE, .slot = ops[i].slot};
        }
    }
}

/* Of its own numbers, as draw_hooks. */
static void draw_histories(trial_random *places, size_t count, operation *ops)
{
    enum { BEGINS = 40 }; /* behind what draw_only_group may draw */
    trial_random random = {trial_random_next(places)};
    if (trial_random_below(&random, 3) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t numbers = trial_random_next(&random);
        if (i == BEGINS || (i > BEGINS && numbers % 48 == 0)) {
            ops[i] = (operation){.kind = OP_HISTORY,
                                 .slot = (uint8_t)(numbers >> 8),
                                 .size = (uint8_t)(i == BEGINS ? 255 : numbers >> 16),
                                 .thread = (uint8_t)(numbers >> 24) % 4,
                                 .amount = (uint8_t)(numbers >> 32)};
        }
    }
}

/* Of its own numbers, so that the seeds without hooks stay as they are. */
static void draw_hooks(trial_random *places, size_t count, trial_config *config, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    config->hooks = PICK(&random, 0, 0, 0, 1);
    for (size_t i = 0; i < count && config->hooks; i++) {
        bool is_there = trial_random_below(&random, 24) == 0;
        uint64_t numbers = trial_random_next(&random);
        if (is_there) {
            ops[i] = (operation){.kind = OP_SET_ALLOCATOR,
                                 .slot = (uint8_t)numbers,
                                 .stream = (uint8_t)(numbers >> 8),
                                 .size = (uint8_t)(numbers >> 16),
                                 .amount = (uint8_t)(numbers >> 24)};
        }
    }
}

/*
 * A program that tells of all its streams and begins with a group of all of them: the pool knows no
 * stream outside of the group. By chance other streams are nearly always known. The same.
 */
static void draw_only_group(trial_random *places, size_t count, const trial_config *config,
                            operation *ops)
{
    enum { GROUPED = 24, LAUNCHED = 8 };
    trial_random random = {trial_random_next(places)};
    if (!config->knows_all || count < GROUPED + LAUNCHED || trial_random_below(&random, 3) != 0) {
        return;
    }
    ops[0] = (operation){.kind = OP_GROUP_CREATE};
    ops[1] = (operation){.kind = OP_GROUP_BEGIN, .amount = 1};
    for (size_t i = 2; i < GROUPED; i++) {
        uint8_t slot = (uint8_t)trial_random_below(&random, 4);
        uint8_t kind = (uint8_t)PICK(&random, OP_ALLOC, OP_ALLOC, OP_WRITE, OP_FREE);
        uint8_t amount = kind == OP_FREE ? 5 : ops[i].amount;
        ops[i] = (operation){.kind = kind, .slot = slot, .size = ops[i].size, .amount = amount};
    }
    ops[GROUPED] = (operation){.kind = OP_GROUP_END};
    ops[GROUPED + LAUNCHED] = (operation){.kind = OP_GROUP_RELEASE};
}

/* The same. */
static void draw_rooms(trial_random *places, size_t count, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    bool asks = trial_random_below(&random, 3) == 0;
    for (size_t i = 0; i < count && asks; i++) {
        uint64_t numbers = trial_random_next(&random);
        if (numbers % 16 == 0) {
            ops[i] = (operation){.kind = OP_ROOM,
                                 .slot = (uint8_t)(numbers >> 8),
                                 .stream = (uint8_t)(numbers >> 16),
                                 .size = (uint8_t)(numbers >> 40),
                                 .thread = (uint8_t)(numbers >> 24) % 4,
                                 .amount = (uint8_t)(numbers >> 32)};
        }
    }
}

/* Sleeps and wakes. Of its own numbers, as draw_hooks. */
static void draw_sleeps(trial_random *places, size_t count, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    bool has_them = trial_random_below(&random, 3) == 0;
    for (size_t i = 0; i < count && has_them; i++) {
        uint64_t numbers = trial_random_next(&random);
        if (numbers % 64 < 7) {
            ops[i] = (operation){.kind = numbers % 64 < 3 ? OP_SLEEP : OP_WAKE,
                                 .slot = (uint8_t)(numbers >> 8) % 8 == 0,
                                 .stream = (uint8_t)(numbers >> 16),
                                 .size = (uint8_t)(numbers >> 24),
                                 .alignment = (uint8_t)(numbers >> 32),
                                 .thread = (uint8_t)(numbers >> 40) % 4,
                                 .amount = (uint8_t)(numbers >> 48)};
        }
    }
}

void trial_draw(uint64_t seed, size_t count, trial_config *config, operation *ops)
{
    trial_random places = {seed};
    trial_random random = {trial_random_next(&places)};
    palette p;
    draw_config(&places, config);
    draw_palette(&places, config, &p);
    for (size_t i = 0; i < count; i++) {
        ops[i] = draw_operation(&random, &p);
    }
    draw_end_of_device(&places, count, ops);
    draw_hooks(&places, count, config, ops);
    draw_rooms(&places, count, ops);
    draw_lost_mappings(&places, count, ops);
    draw_pins(&places, count, ops);
    draw_only_group(&places, count, config, ops);
    draw_checkpoints(&places, count, ops);
    draw_histories(&places, count, ops);
    draw_shares(&places, count, ops);
    draw_fabric(&places, count, config, ops);
    draw_sleeps(&places, count, ops);
    trial_draw_ranges(&places, count, ops);
    trial_draw_rations(&places, count, config, ops);
    trial_draw_plain(&places, config);
    trial_draw_host(&places, count, config, ops);
    trial_draw_checks(&places, config);
    trial_draw_scenes(&places, count, config, ops);
    trial_draw_wide_range(&places, count, config, ops);
    draw_in_one_chunk(seed, count, ops);
    draw_advice(seed, count, config, ops);
    trial_draw_recording(&places, count, config, ops);
    trial_draw_reads(&places, count, ops);
    trial_draw_forks(&places, count, config, ops);
}
