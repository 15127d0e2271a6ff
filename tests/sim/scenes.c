/*
 * Scenes: operations that belong together. Single ones by chance, and worlds of nothing else, in
 * which the free memory of two pools is behind work.
 */
#include "tests/sim/scenes.h"

/* Operations that belong together and by chance seldom follow each other. The slot, the streams,
 * counted from a drawn one, and sizes that are 0 here are the scene's. The stream of a fault is how
 * many calls come before it. */
enum { SCENE_STEPS = 7, TIGHT = 1, NONE = 2 };
static const struct scene_step {
    uint8_t kind;
    uint8_t stream;
    uint8_t amount;
    uint8_t size;
    uint8_t slot; /* counted from the scene's */
} scenes[][SCENE_STEPS] = {
    /* The wait of a check is refused, and the memory is used at once. Most of those with checks. */
    {{OP_ALLOC, 0, 1, 0, 0},
     {OP_FAULT, 1, 0, FAULT_OF_SYNCHRONIZE, 0},
     {OP_FREE, 0, 4, 0, 0},
     {OP_ALLOC, 0, 1, 0, 0},
     {OP_ADVANCE, 0, 4, 0, 0},
     {OP_VERIFY, 0, 0, 0, 0},
     {OP_TRIM, 0, 0, 0, 0}},
    /* A block that nobody used is freed elsewhere, while the former owner of its memory runs. */
    {{OP_ALLOC, 0, 1, 0, 0},
     {OP_SET_LIMIT, 0, 0, TIGHT, 0},
     {OP_FREE, 0, 32, 0, 0},
     {OP_ALLOC, 1, 0, 0, 0},
     {OP_FREE, 2, 4, 0, 0},
     {OP_ALLOC, 2, 1, 0, 0},
     {OP_SET_LIMIT, 0, 0, NONE, 0}},
    /* Pages are free while a declared stream reads them, and are committed again. */
    {{OP_RANGE_CREATE, 0, 3, 0, 0},
     {OP_COMMIT, 0, 1, 0, 0},
     {OP_SET_LIMIT, 0, 0, TIGHT, 0},
     {OP_DECOMMIT, 0, 64, 0, 0},
     {OP_COMMIT, 0, 1, 0, 0},
     {OP_SYNCHRONIZE, 0, 0, 0, 0},
     {OP_SET_LIMIT, 0, 0, NONE, 0}},
    /* Pages of two ranges, each last used by a stream of its own, are committed together. */
    {{OP_RANGE_CREATE, 0, 3, 6, 0},
     {OP_RANGE_CREATE, 0, 3, 6, 1},
     {OP_COMMIT, 0, 65, 0, 0},
     {OP_SET_LIMIT, 0, 0, TIGHT, 0},
     {OP_DECOMMIT, 0, 32 + 7, 0, 0},
     {OP_DECOMMIT, 1, 32 + 4, 0, 1},
     {OP_COMMIT, 2, 65, 0, 0}},
    /* An import is closed under the work that reads it. */
    {{OP_ALLOC, 0, 1, 0, 0},
     {OP_EXPORT, 0, 0, 0, 0},
     {OP_IMPORT, 0, 0, 0, 0},
     {OP_USE_IMPORT, 0, 3, 0, 0},
     {OP_USE_IMPORT, 1, 3, 0, 0},
     {OP_CLOSE, 0, 0, 0, 0},
     {OP_SYNCHRONIZE, 0, 0, 0, 0}},
    /* A sleep to the host, and one to a file. The remains of the first one are of no use then. */
    {{OP_ALLOC, 0, 1, 0, 0},
     {OP_SLEEP, 6, 0, 4, 0},
     {OP_WAKE, 0, 0, 0, 0},
     {OP_WRITE, 0, 0, 0, 0},
     {OP_SLEEP, 6, 21, 7, 0},
     {OP_WAKE, 0, 0, 0, 0},
     {OP_READ_KEPT, 0, 1, 0, 0}},
    /* A wake is refused while its copies run, and memory of one tag that wakes then is written. */
    {{OP_ALLOC, 0, 1, 0, 0},
     {OP_SLEEP, 6, 0, 4, 0},
     {OP_FAULT, 0, 2, FAULT_OF_SYNCHRONIZE, 0},
     {OP_WAKE, 0, 0, 0, 0},
     {OP_WAKE, 0, 1, 0, 0},
     {OP_WRITE, 0, 0, 0, 0},
     {OP_VERIFY, 0, 0, 0, 0}},
};

void trial_draw_scenes(mend_test_random *places, size_t count, const trial_config *config,
                       operation *ops)
{
    mend_test_random random = {mend_test_random_next(places)};
    const bool checks = config->check != 0;
    const bool has_them = trial_random_below(&random, 2) == 0 || checks;
    for (size_t i = 0; i + SCENE_STEPS < count && has_them; i++) {
        const uint64_t numbers = mend_test_random_next(&random);
        if (numbers % 40 != 0) {
            continue;
        }
        const size_t drawn = checks && (numbers >> 48) % 8 != 0 ? 0 : (numbers >> 8);
        const struct scene_step *scene = scenes[drawn % (sizeof(scenes) / sizeof(scenes[0]))];
        const uint8_t drawn_size = (uint8_t)(numbers >> 32);
        for (int k = 0; k < SCENE_STEPS; k++) {
            ops[i++] = (operation){.kind = scene[k].kind,
                                   .slot = (uint8_t)((numbers >> 16) + scene[k].slot),
                                   .stream = (uint8_t)((numbers >> 24) % 8 + scene[k].stream),
                                   .size = scene[k].size != 0 ? scene[k].size : drawn_size,
                                   .alignment = scene[k].kind == OP_FAULT ? scene[k].stream : 0,
                                   .amount = scene[k].amount};
        }
    }
}

/*
 * ---- two pools whose free memory is behind work
 *
 * The rest of the device is another process's. A request of the first pool needs the wait of one
 * pool, of both, or more than both would get: as a block, in one chunk, of a graph pool, as pages
 * or as a wake. Amounts are in sixteenths of the device.
 */

enum behind { BLOCK, ONE_CHUNK, OF_GRAPH_POOL, PAGES, PAGES_APART, WAKES, OVER_LIMIT, BEHINDS };
enum { MOST_OF_SCENE = 32, LONG = 3, HOME = 0, NO_STREAM = 5, WAITED = 6, ALL = 255 };
/* Slots. Tags of blocks: 0 modulo 3 has the first one, which sleeps. */
enum { SLEEPER = 30, OWN = 31, THEIRS = 32, MORE = 34, ASKED = 35, BESIDE = 37, RANGE = 0, NAMED };

typedef struct behind_scene {
    mend_test_random *random;
    const trial_config *config;
    operation *ops;
    size_t at;
    uint8_t stream; /* of the pool's work. The peer pool has the next, a capture the one behind */
    uint8_t own;    /* memory of each */
    uint8_t theirs;
    uint8_t asked; /* and the request */
    bool has_more; /* the peer pool has the same once more */
    bool is_captured;
} behind_scene;

/* Now and then the operation that was drawn before stays in between. */
static void add(behind_scene *s, operation op)
{
    s->at += trial_random_below(s->random, 32) == 0;
    s->ops[s->at++] = op;
}

static uint8_t size_of_sixteenths(uint32_t sixteenths)
{
    return (uint8_t)(0xe0 + sixteenths - 1);
}

static void allocate(behind_scene *s, uint8_t kind, uint8_t slot, uint32_t sixteenths, int stream)
{
    add(s, (operation){.kind = kind,
                       .slot = slot,
                       .stream = (uint8_t)(s->stream + stream),
                       .size = size_of_sixteenths(sixteenths),
                       .amount = LONG});
}

static void add_range(behind_scene *s, enum behind kind)
{
    add(s, (operation){.kind = OP_RANGE_CREATE, .slot = RANGE, .size = 6, .amount = 31});
    if (kind == PAGES_APART) {
        add(s, (operation){.kind = OP_COMMIT, .slot = RANGE, .size = 1, .stream = s->stream});
    }
}

/* The state before: no memory is free, and some sleeps. */
static void begin_behind(behind_scene *s, enum behind kind)
{
    add(s, (operation){.kind = OP_FOREIGN});
    for (uint8_t pool = 0; pool < 2; pool++) {
        add(s, (operation){.kind = OP_TRIM, .slot = pool, .stream = 3});
    }
    if (kind == OF_GRAPH_POOL) {
        add(s, (operation){.kind = OP_GRAPH_POOL_CREATE});
    } else if (kind == PAGES || kind == PAGES_APART) {
        add_range(s, kind);
    } else if (kind == WAKES) {
        const bool is_limited = trial_random_below(s->random, 2) == 0;
        allocate(s, OP_ALLOC, SLEEPER, s->asked, 0);
        add(s, (operation){.kind = OP_SLEEP, .size = 1, .stream = 6});
        if (is_limited) {
            add(s, (operation){.kind = OP_SET_LIMIT, .amount = (uint8_t)(16 * s->asked)});
        }
    }
}

static void free_behind(behind_scene *s, uint8_t slot, int stream)
{
    const bool names_none = s->is_captured || trial_random_below(s->random, 3) == 0;
    const uint8_t how = names_none ? NO_STREAM : HOME;
    add(s,
        (operation){
            .kind = OP_FREE, .slot = slot, .stream = (uint8_t)(s->stream + stream), .amount = how});
}

static void leave_behind_work(behind_scene *s, enum behind kind)
{
    allocate(s, OP_ALLOC, OWN, s->own, 0);
    allocate(s, OP_SIBLING_ALLOC, THEIRS, s->theirs, 1);
    if (s->has_more) {
        allocate(s, OP_SIBLING_ALLOC, MORE, s->theirs, 1);
    }
    if (kind == OVER_LIMIT) {
        add(s, (operation){.kind = OP_SET_LIMIT, .amount = 16});
    }
    add(s, (operation){.kind = OP_ALLOC, .slot = BESIDE, .stream = s->stream, .size = 3});
    if (s->is_captured) { /* the pool knows the stream, and its peer pool does not */
        const uint8_t stream = (uint8_t)(s->stream + 2);
        add(s, (operation){.kind = OP_ALLOC, .slot = NAMED, .stream = stream, .size = 3});
        add(s, (operation){.kind = OP_FREE, .slot = NAMED, .stream = stream});
    }
    add(s, (operation){.kind = OP_FOREIGN, .amount = ALL});
    free_behind(s, OWN, 0);
    free_behind(s, THEIRS, 1);
    if (s->has_more) {
        free_behind(s, MORE, 1);
    }
    if (s->is_captured) {
        add(s, (operation){.kind = OP_CAPTURE_BEGIN, .stream = (uint8_t)(s->stream + 2)});
    }
}

static void ask_behind(behind_scene *s, enum behind kind)
{
    operation op = {.kind = OP_ALLOC,
                    .slot = ASKED,
                    .stream = s->stream,
                    .size = size_of_sixteenths(s->asked),
                    .thread = 3 * (uint8_t)trial_random_below(s->random, 2)};
    if (kind == ONE_CHUNK || kind == OVER_LIMIT) {
        op.amount = 16;
    } else if (kind == OF_GRAPH_POOL) {
        op.kind = OP_ALLOC_IN;
    } else if (kind == PAGES || kind == PAGES_APART) {
        op.kind = OP_COMMIT;
        op.slot = RANGE;
        op.size = 0;
        /* Pages of the range of add_range in the free memory of both. */
        const uint32_t page = 1 + s->config->device_pages / 32;
        const uint32_t pages = s->asked * s->config->device_pages / 16 / page;
        op.alignment = (uint8_t)(pages - (kind == PAGES));
        op.amount = op.thread == 0 ? 0 : 15;
    } else if (kind == WAKES) {
        op = (operation){.kind = OP_WAKE};
    }
    add(s, op);
}

static void end_behind(behind_scene *s, enum behind kind)
{
    static const uint8_t slots[] = {ASKED, SLEEPER, BESIDE};
    if (s->is_captured) {
        add(s, (operation){.kind = OP_CAPTURE_END, .stream = (uint8_t)(s->stream + 2)});
        add(s, (operation){.kind = OP_GRAPH_DESTROY});
    }
    add(s, (operation){.kind = OP_FOREIGN});
    if (kind == WAKES || kind == OVER_LIMIT) {
        add(s, (operation){.kind = OP_SET_LIMIT, .amount = ALL});
        add(s, (operation){.kind = OP_WAKE});
    }
    add(s, (operation){.kind = OP_SYNCHRONIZE});
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        add(s, (operation){.kind = OP_FREE, .slot = slots[i], .amount = WAITED});
    }
    add(s, (operation){.kind = OP_RANGE_DESTROY, .slot = RANGE, .stream = s->stream});
    add(s, (operation){.kind = OP_GRAPH_POOL_RELEASE, .stream = s->stream});
}

static void draw_behind(behind_scene *s)
{
    const enum behind kind = (enum behind)trial_random_below(s->random, BEHINDS);
    s->stream = (uint8_t)trial_random_below(s->random, 8);
    s->own = (uint8_t)(1 + trial_random_below(s->random, 3));
    s->theirs = (uint8_t)(1 + trial_random_below(s->random, 3));
    s->has_more = trial_random_below(s->random, 3) == 0;
    s->is_captured = kind != OF_GRAPH_POOL && trial_random_below(s->random, 4) == 0;
    const uint32_t all = s->own + s->theirs * (s->has_more ? 2u : 1u);
    s->asked = (uint8_t)(1 + (trial_random_below(s->random, 2) == 0
                                  ? all - 1 + trial_random_below(s->random, 2)
                                  : trial_random_below(s->random, all)));
    begin_behind(s, kind);
    leave_behind_work(s, kind);
    ask_behind(s, kind);
    end_behind(s, kind);
}

/* Only the device's memory counts, and the pool's queries of it have exact answers. */
static void make_simple(trial_config *config)
{
    config->prices = 0;
    config->file_percent = 0;
    config->keep_free_percent = 0;
    config->address_devices = 0;
}

void trial_draw_behind_work(uint64_t seed, size_t count, trial_config *config, operation *ops)
{
    mend_test_random random = {seed ^ 0x15};
    if (!config->peer_pool || config->plain || trial_random_below(&random, 2) == 0) {
        return;
    }
    make_simple(config);
    config->limit_percent = 0;
    config->streams = config->streams < 3 ? 3 : config->streams;
    config->blocking = 0;
    config->unfenced_pages = config->unfenced_pages == 0 ? 1 : config->unfenced_pages;
    config->no_stream_waits |= trial_random_below(&random, 2);
    config->keep_free_percent = trial_random_below(&random, 3) == 0 ? 10 : 0;
    behind_scene s = {.random = &random, .config = config, .ops = ops};
    while (s.at + 2 * MOST_OF_SCENE < count) {
        draw_behind(&s);
    }
}

void trial_draw_beside_graph_pools(uint64_t seed, size_t count, trial_config *config,
                                   operation *ops)
{
    enum { IN_GRAPH_POOL = 64, SLOTS = 24 };
    static const uint8_t kinds[] = {OP_ALLOC_IN,
                                    OP_ALLOC_IN,
                                    OP_ALLOC,
                                    OP_ALLOC,
                                    OP_FREE,
                                    OP_FREE,
                                    OP_FREE,
                                    OP_ROOM,
                                    OP_ROOM,
                                    OP_ROOM,
                                    OP_GRAPH_POOL_RELEASE,
                                    OP_GRAPH_POOL_CREATE};
    static const uint8_t sizes[] = {3, 16, 0x58, 0x70, 0x97, 0xd3, 0xe0, 0xe3};
    mend_test_random random = {seed ^ 0x23};
    if (config->plain || trial_random_below(&random, 8) != 0) {
        return;
    }
    make_simple(config);
    config->hooks = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t drawn = mend_test_random_next(&random);
        const uint8_t kind = kinds[(drawn >> 8) % sizeof(kinds)];
        const uint8_t amount = (uint8_t)(drawn >> 16);
        ops[i] =
            (operation){.kind = i % 64 < 3 ? OP_GRAPH_POOL_CREATE : kind,
                        .slot = (uint8_t)(i % 64 < 3 ? i % 64 : (drawn >> 24) % SLOTS),
                        .stream = (uint8_t)(drawn >> 32) % 8,
                        .size = sizes[(drawn >> 40) % sizeof(sizes)],
                        .amount = (uint8_t)(kind == OP_FREE ? amount | IN_GRAPH_POOL : amount)};
    }
}

void trial_draw_neighbour(uint64_t seed, size_t count, const trial_config *config, operation *ops)
{
    enum { CREATE, RELEASE = 4, MEMORY_INFO = 7, BLIND_OF_16 = 6, MOST = 224 };
    static const uint8_t calls[] = {CREATE, CREATE, MEMORY_INFO, RELEASE};
    mend_test_random random = {seed ^ 0x16};
    const bool has_one =
        !config->plain && trial_random_below(&random, config->peer_pool ? 2 : 4) == 0;
    const uint32_t often = 2 + trial_random_below(&random, 6);
    for (size_t i = 0; i + 2 < count && has_one; i++) {
        const uint64_t drawn = mend_test_random_next(&random);
        const uint8_t next = ops[i + 2].kind;
        const bool is_request = next == OP_ALLOC || next == OP_COMMIT || next == OP_SIBLING_ALLOC;
        const bool is_rare = next == OP_WAKE;
        if (is_rare || (is_request && drawn % often == 0)) {
            const uint8_t held = is_rare && (drawn >> 56) % 4 != 0 ? ALL : (uint8_t)(drawn >> 8);
            ops[i] = (operation){.kind = OP_FOREIGN, .amount = held};
            ops[i + 1] = (operation){.kind = OP_AMBUSH,
                                     .slot = (uint8_t)(drawn >> 16),
                                     .stream = (uint8_t)(drawn >> 24) % 8,
                                     .size = calls[(drawn >> 32) % sizeof(calls)],
                                     .alignment = (uint8_t)((drawn >> 40) % (is_rare ? 2 : 8)),
                                     .amount = (uint8_t)(drawn >> 48) % 2};
            if ((drawn >> 60) < BLIND_OF_16 && i + 3 < count) {
                ops[i].amount = (uint8_t)(drawn >> 8) | MOST;
                ops[i + 1] = (operation){.kind = OP_FAULT,
                                         .size = FAULT_OF_MEMORY_INFO,
                                         .alignment = (uint8_t)(drawn >> 16) % 2,
                                         .thread = 1,
                                         .amount = (drawn >> 24) % 2 == 0 ? FAULT_FOR_EVER : 0};
                ops[i + 3] = (operation){.kind = OP_CLEAR_FAULTS};
            }
            i += 2;
        }
    }
}

void trial_draw_givers(uint64_t seed, size_t count, trial_config *config, operation *ops)
{
    enum { GIVES = 4, CALLS = 8, FREES = 16, ODD = 1 };
    mend_test_random random = {seed ^ 0x18};
    if (config->plain || trial_random_below(&random, 4) != 0) {
        return;
    }
    config->address_devices = 0;
    config->file_percent = 0;
    for (size_t i = 0; i + 4 < count; i++) {
        const uint64_t drawn = mend_test_random_next(&random);
        const uint8_t next = ops[i + 4].kind;
        if ((next == OP_ALLOC || next == OP_COMMIT || next == OP_WAKE) && drawn % 3 == 0) {
            ops[i++] = (operation){.kind = OP_FOREIGN, .amount = (drawn >> 8) % 4 != 0 ? ALL : 0};
            const bool frees = (drawn >> 48) % 2 != 0; /* also beyond the limit */
            ops[i++] = (operation){.kind = OP_SET_LIMIT,
                                   .size = frees ? 0 : ODD,
                                   .amount = (uint8_t)((drawn >> 16) % 32 + (frees ? 16 : 0))};
            ops[i++] =
                (operation){.kind = (drawn >> 24) % 2 == 0 ? OP_ADD_CALLBACK : OP_REMOVE_CALLBACK,
                            .slot = (uint8_t)(drawn >> 32),
                            .amount = CALLS};
            ops[i++] = (operation){.kind = OP_ADD_CALLBACK,
                                   .slot = (uint8_t)(drawn >> 40),
                                   .amount = frees ? FREES : GIVES};
        }
    }
}
