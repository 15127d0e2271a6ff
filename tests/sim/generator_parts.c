/* Parts of seeds that came later, each of its own numbers, so that the seeds without it stay as
 * they were. */
#include "tests/sim/generator_parts.h"

uint32_t trial_pick(trial_random *random, const uint32_t *values, uint32_t count)
{
    return values[trial_random_below(random, count)];
}

/* Growable ranges; and what is done with blocks is done with pages, which have the last slots. Of
 * its own numbers, as draw_hooks. */
void trial_draw_ranges(trial_random *places, size_t count, operation *ops)
{
    static const uint8_t kinds[] = {OP_RANGE_CREATE, OP_RANGE_CREATE, OP_COMMIT,   OP_COMMIT,
                                    OP_COMMIT,       OP_COMMIT,       OP_COMMIT,   OP_COMMIT,
                                    OP_DECOMMIT,     OP_DECOMMIT,     OP_DECOMMIT, OP_RANGE_DESTROY,
                                    OP_RANGE_MISTAKE};
    trial_random random = {trial_random_next(places)};
    const bool has_them = trial_random_below(&random, 3) == 0;
    const uint32_t most_pages = PICK(&random, 2, 4, 8, 24);
    for (size_t i = 0; i < count && has_them; i++) {
        const uint32_t drawn = trial_random_below(&random, 64);
        const uint64_t numbers = trial_random_next(&random);
        const uint8_t kind = ops[i].kind;
        if (drawn < sizeof(kinds)) {
            ops[i] = (operation){.kind = kinds[drawn],
                                 .slot = (uint8_t)numbers % 3,
                                 .stream = (uint8_t)(numbers >> 8),
                                 .size = (uint8_t)(numbers >> 16),
                                 .alignment = (uint8_t)((numbers >> 24) % most_pages),
                                 .thread = (uint8_t)(numbers >> 40) % 4,
                                 .amount = (uint8_t)(numbers >> 48)};
        } else if (drawn == 62) {
            ops[i] = (operation){.kind = OP_ZEROS,
                                 .slot = (uint8_t)numbers % 3,
                                 .stream = (uint8_t)(numbers >> 8),
                                 .size = (uint8_t)(numbers >> 16),
                                 .alignment = (uint8_t)((numbers >> 24) % most_pages),
                                 .thread = (uint8_t)(numbers >> 40) % 4,
                                 .amount = (uint8_t)(numbers >> 48)};
        } else if (drawn == sizeof(kinds)) {
            ops[i] = (operation){.kind = OP_SHARE,
                                 .slot = (uint8_t)(47 - numbers % 10),
                                 .stream = (uint8_t)(numbers >> 8),
                                 .amount = (uint8_t)(numbers >> 16)};
        } else if (drawn < 40 &&
                   (kind == OP_WRITE || kind == OP_VERIFY || kind == OP_SHARE || kind == OP_MOVE ||
                    kind == OP_FREE || kind == OP_PIN || kind == OP_INFO || kind == OP_MISTAKE)) {
            ops[i].slot = (uint8_t)(47 - numbers % 10);
        }
    }
}

/* A part of the device that stays free, and a limit that is shared. Of its own numbers, as
 * draw_hooks. */
void trial_draw_rations(trial_random *places, size_t count, trial_config *config, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    const uint32_t kind = trial_random_below(&random, 12);
    config->keep_free_percent = kind < 2 ? PICK(&random, 3, 10, 30, 60) : 0;
    config->file_percent = kind == 1 || kind == 2 ? PICK(&random, 25, 50, 73, 100) : 0;
    for (size_t i = 0; i < count && kind < 3; i++) {
        const uint64_t numbers = trial_random_next(&random);
        if (numbers % 32 == 0 && config->file_percent > 0) {
            ops[i] = (operation){.kind = OP_MEMBER,
                                 .slot = (uint8_t)((numbers >> 8) % 8 == 0),
                                 .size = (numbers >> 24) % 2 == 0 ? (uint8_t)(numbers >> 32) : 0,
                                 .amount = (uint8_t)(numbers >> 16)};
        } else if (numbers % 32 == 1) {
            ops[i] = (operation){.kind = OP_TRIM, .slot = (uint8_t)(numbers >> 8), .stream = 2};
        } else if (numbers % 32 == 2) {
            ops[i] = (operation){.kind = OP_FOREIGN, .amount = (uint8_t)(numbers >> 8)};
        }
    }
}

/* Plain allocations come in steps of 2 MiB: the device has some tens of them. Of its own numbers.
 */
void trial_draw_plain(trial_random *places, trial_config *config)
{
    trial_random random = {trial_random_next(places)};
    if (trial_random_below(&random, 10) == 0) {
        config->plain = 1;
        config->page_kib = 64;
        config->device_pages = PICK(&random, 256, 512, 1024);
        config->content = config->device_pages == 256;
        config->address_devices = 0;
        config->fabric = 0;
        config->foreign = 0;
        config->file_percent = 0;
        config->keep_free_percent = 0;
    }
}

/* Checks, of programs that keep the order of streams. Of its own numbers, as draw_hooks. */
void trial_draw_checks(trial_random *places, trial_config *config)
{
    trial_random random = {trial_random_next(places)};
    const uint32_t bits = trial_random_below(&random, 24) + 1; /* of one seed in eight */
    config->check = bits <= 3 && config->sin == 0 ? bits : 0;
}

/* Memory of the host, and moves there and back. Of its own numbers, as draw_hooks. */
void trial_draw_host(trial_random *places, size_t count, trial_config *config, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    config->host_percent = config->plain ? 0 : PICK(&random, 0, 0, 0, 10, 50, 200);
    const uint64_t own = config->host_percent != 0 ? 6 : 0;
    const uint64_t quiesces = trial_random_below(&random, 4) == 0 ? 2 : 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t numbers = trial_random_next(&random);
        if (numbers % 64 < own + quiesces) {
            ops[i] = (operation){.kind = numbers % 64 >= own ? OP_QUIESCE
                                         : numbers % 2 == 0  ? OP_TO_HOST
                                                             : OP_TO_DEVICE,
                                 .slot = (uint8_t)(numbers >> 8) % 8 == 0,
                                 .size = (uint8_t)(numbers >> 24),
                                 .thread = (uint8_t)(numbers >> 40) % 4,
                                 .amount = (uint8_t)(numbers >> 48)};
        }
    }
    config->host_refuses = own != 0 && trial_random_below(&random, 3) == 0;
    const bool may_join = !config->plain && !config->foreign;
    config->joins = may_join && trial_random_below(&random, 6) == 0
                        ? 1 + trial_random_below(&random, (uint32_t)count + 1)
                        : 0;
}

/* Operations that belong together and by chance seldom follow each other. The slot, the streams,
 * which are counted from a drawn one, and the sizes that are 0 here are those of the scene. */
enum { SCENE_STEPS = 7, TIGHT = 1, NONE = 2 };
static const struct scene_step {
    uint8_t kind;
    uint8_t stream;
    uint8_t amount;
    uint8_t size;
} scenes[][SCENE_STEPS] = {
    /* A block that nobody used is freed elsewhere, while the former owner of its memory runs. */
    {{OP_ALLOC, 0, 1, 0},
     {OP_SET_LIMIT, 0, 0, TIGHT},
     {OP_FREE, 0, 32, 0},
     {OP_ALLOC, 1, 0, 0},
     {OP_FREE, 2, 4, 0},
     {OP_ALLOC, 2, 1, 0},
     {OP_SET_LIMIT, 0, 0, NONE}},
    /* Pages are free while a declared stream reads them, and are committed again. */
    {{OP_RANGE_CREATE, 0, 3, 0},
     {OP_COMMIT, 0, 1, 0},
     {OP_SET_LIMIT, 0, 0, TIGHT},
     {OP_DECOMMIT, 0, 64, 0},
     {OP_COMMIT, 0, 1, 0},
     {OP_SYNCHRONIZE, 0, 0, 0},
     {OP_SET_LIMIT, 0, 0, NONE}},
    /* An import is closed under the work that reads it. */
    {{OP_ALLOC, 0, 1, 0},
     {OP_EXPORT, 0, 0, 0},
     {OP_IMPORT, 0, 0, 0},
     {OP_USE_IMPORT, 0, 3, 0},
     {OP_USE_IMPORT, 1, 3, 0},
     {OP_CLOSE, 0, 0, 0},
     {OP_SYNCHRONIZE, 0, 0, 0}},
    /* A sleep to the host, and one to a file; what the first one left is of no use then. */
    {{OP_ALLOC, 0, 1, 0},
     {OP_SLEEP, 6, 0, 4},
     {OP_WAKE, 0, 0, 0},
     {OP_WRITE, 0, 0, 0},
     {OP_SLEEP, 6, 21, 7},
     {OP_WAKE, 0, 0, 0},
     {OP_READ_KEPT, 0, 1, 0}},
};

/* Of its own numbers. */
void trial_draw_scenes(trial_random *places, size_t count, trial_config *config, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    config->sudden = trial_random_below(&random, 6) == 0;
    config->by_text = trial_random_below(&random, 6) == 0;
    const bool has_them = trial_random_below(&random, 2) == 0;
    for (size_t i = 0; i + SCENE_STEPS < count && has_them; i++) {
        const uint64_t numbers = trial_random_next(&random);
        if (numbers % 40 != 0) {
            continue;
        }
        const struct scene_step *scene =
            scenes[(numbers >> 8) % (sizeof(scenes) / sizeof(scenes[0]))];
        const uint8_t drawn_size = (uint8_t)(numbers >> 32);
        for (int k = 0; k < SCENE_STEPS; k++) {
            ops[i++] = (operation){.kind = scene[k].kind,
                                   .slot = (uint8_t)(numbers >> 16),
                                   .stream = (uint8_t)((numbers >> 24) % 8 + scene[k].stream),
                                   .size = scene[k].size != 0 ? scene[k].size : drawn_size,
                                   .amount = scene[k].amount};
        }
    }
}

/* Few addresses, of which a range has more than half until the end, where a block of all memory
 * must find some. Of its own numbers. */
void trial_draw_wide_range(trial_random *places, size_t count, trial_config *config, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    const bool is_drawn = trial_random_below(&random, 2) == 0;
    if (is_drawn && config->address_devices == 3 && count > 2) {
        config->reserve_devices = 1;
        ops[0] = (operation){.kind = OP_ALLOC};
        ops[1] = (operation){.kind = OP_RANGE_CREATE, .slot = 2, .size = 7, .amount = 8};
        ops[2] = (operation){.kind = OP_COMMIT, .slot = 2};
    }
}

/* Where memory sleeps, what is kept is read. Of its own numbers. */
void trial_draw_reads(trial_random *places, size_t count, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    bool has_slept = false;
    for (size_t i = 0; i < count; i++) {
        const uint64_t numbers = trial_random_next(&random);
        has_slept = has_slept || ops[i].kind == OP_SLEEP;
        if (has_slept && numbers % 24 == 0) {
            ops[i] = (operation){.kind = OP_READ_KEPT,
                                 .slot = (uint8_t)(numbers >> 8) % 16,
                                 .stream = (uint8_t)(numbers >> 16),
                                 .size = (uint8_t)(numbers >> 24),
                                 .alignment = (uint8_t)(numbers >> 32),
                                 .thread = (uint8_t)(numbers >> 40) % 4,
                                 .amount = (uint8_t)(numbers >> 48)};
        }
    }
}

/* What happens is recorded. Of its own numbers. */
void trial_draw_recording(trial_random *places, size_t count, trial_config *config, operation *ops)
{
    trial_random random = {trial_random_next(places)};
    config->record = trial_random_below(&random, 6) == 0;
    for (size_t i = 0; i < count && config->record != 0; i++) {
        const uint64_t numbers = trial_random_next(&random);
        if (numbers % 64 == 0) {
            ops[i] = (operation){.kind = OP_RECALL, .slot = (uint8_t)(numbers >> 8)};
        }
    }
}

/* Captures of three streams that wait for each other, and use few blocks of few sizes. Of its own
 * numbers. */
void trial_draw_forks(trial_random *places, size_t count, trial_config *config, operation *ops)
{
    enum { STEPS = 40, FIRST = 5, LAST = 2 };
    static const uint8_t kinds[] = {OP_CAPTURE_WAIT, OP_CAPTURE_WAIT, OP_CAPTURE_WAIT, OP_ALLOC,
                                    OP_ALLOC,        OP_ALLOC,        OP_ALLOC,        OP_ALLOC_IN,
                                    OP_FREE,         OP_FREE,         OP_FREE,         OP_FREE,
                                    OP_WRITE,        OP_VERIFY,       OP_SHARE,        OP_MOVE};
    trial_random random = {trial_random_next(places)};
    const bool has_them = trial_random_below(&random, 3) == 0;
    if (has_them && config->streams < 2) {
        config->streams = 2 + trial_random_below(&random, 2);
    }
    for (size_t i = 0; i + STEPS < count && has_them; i++) {
        const uint64_t drawn = trial_random_next(&random);
        const uint8_t stream = (uint8_t)(drawn >> 8) % 8;
        const uint8_t size = (uint8_t)PICK(&random, 16, 64, 100, 0xd7, 0xe2);
        const operation frame[FIRST + LAST] = {
            {.kind = (drawn >> 16) % 2 == 0 ? OP_GROUP_CREATE : OP_ADVANCE},
            {.kind = OP_GROUP_BEGIN, .amount = 1},
            {.kind = OP_CAPTURE_BEGIN, .stream = stream, .amount = 2},
            {.kind = OP_CAPTURE_WAIT, .slot = stream, .stream = (uint8_t)(stream + 1)},
            {.kind = OP_CAPTURE_WAIT, .slot = stream, .stream = (uint8_t)(stream + 2)},
            {.kind = OP_CAPTURE_END, .stream = stream},
            {.kind = OP_GRAPH_LAUNCH, .stream = stream, .amount = 1}};
        for (int k = 0; drawn % 60 == 0 && k < STEPS; k++) {
            const uint64_t numbers = trial_random_next(&random);
            ops[i++] = (operation){.kind = kinds[numbers % sizeof(kinds)],
                                   .slot = (uint8_t)(numbers >> 8) % 6,
                                   .stream = (uint8_t)(stream + (numbers >> 16) % 3),
                                   .size = (uint8_t)(size - (numbers >> 24) % 2),
                                   .thread = (uint8_t)(numbers >> 32) % 4,
                                   .amount = (uint8_t)(1 + ((numbers >> 40) % 4 == 0) * 4)};
            ops[i - 1] = k < FIRST           ? frame[k]
                         : k >= STEPS - LAST ? frame[k - STEPS + FIRST + LAST]
                                             : ops[i - 1];
        }
    }
}
