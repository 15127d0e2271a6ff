#include "tests/sim/small_worlds.h"

#include "tests/sim/script.h"

/* Eight operations, as script.h reads them. Sizes: 0x63 is a page, 0x67 two, 0x6b three. 0xe7 half
 * of the device. 5 is 600 bytes. */
static const struct {
    const char *name;
    const char *place;
    const char *letters;
} worlds[SMALL_WORLDS] = {
    {"extensions_and_moves", "",
     "ALLOC size 0x67 amount 1 / ALLOC slot 1 size 0x63 amount 1 / ALLOC slot 2 size 0xe7 amount 1 "
     "/ ALLOC slot 3 size 5 amount 1 / FREE / FREE slot 1 / FREE slot 2 / FREE slot 3"},
    {"streams_and_fences", ", streams 2",
     "ALLOC size 0xe7 amount 1 / ALLOC slot 1 stream 1 size 0xe9 amount 1 / SHARE stream 1 / FREE "
     "/ "
     "FREE slot 1 amount 5 / FREE stream 1 amount 4 / REPLACE_STREAM stream 1 / ADVANCE amount 4"},
    {"graph_pools_and_captures", ", streams 2",
     "GRAPH_POOL_CREATE / GRAPH_POOL_BEGIN / CAPTURE_BEGIN / ALLOC size 0x67 amount 1 / FREE / "
     "CAPTURE_END / "
     "ALLOC slot 1 stream 1 size 0xe9 amount 1 / GRAPH_LAUNCH stream 1 amount 2"},
    {"trims_and_limits", ", peer_pool 1",
     "ALLOC size 0x67 amount 1 / ALLOC slot 1 size 0xe7 amount 1 / SIBLING_ALLOC slot 2 size 0xe7 "
     "amount 1 / FREE / FREE slot 1 / FREE slot 2 / TRIM / SET_LIMIT amount 128"},
    {"compactions", "",
     "ALLOC size 0x63 amount 1 / ALLOC slot 1 size 0x63 amount 1 / ALLOC slot 2 size 0xe7 amount 1 "
     "/ ALLOC slot 3 size 5 amount 1 / FREE / FREE slot 1 / FREE slot 2 / COMPACT"},
};

typedef struct small_world {
    trial_config config;
    operation letters[SMALL_WORLD_LETTERS];
} small_world;

const char *small_world_name(int world)
{
    return worlds[world].name;
}

static bool read_world(int number, small_world *world)
{
    char place[160];
    snprintf(place, sizeof(place),
             "device_pages 8, chunk_pages 2, small_request_granules 2, reserve_devices 2%s",
             worlds[number].place);
    return trial_read_script(place, worlds[number].letters, &world->config, world->letters,
                             SMALL_WORLD_LETTERS) == SMALL_WORLD_LETTERS;
}

/* Runs the sequence of the report to its end. False where it finds something. */
static bool run(const small_world *world, small_world_report *report)
{
    report->sequences++;
    trial_run(&world->config, report->ops, report->count, &report->outcome);
    return report->outcome.verdict == TRIAL_HOLDS;
}

/* All that begin with the sequence of the report, whose last letter is `last`. An operation that
 * does not apply leaves everything as it was: what follows it follows the sequence without it, too.
 * So it is with one that is repeated at once. */
static bool search(const small_world *world, int last, size_t depth, small_world_report *report)
{
    const size_t length = report->count;
    bool holds = true;
    for (int letter = 0; letter < SMALL_WORLD_LETTERS && holds; letter++) {
        report->ops[length] = world->letters[letter];
        report->count = length + 1;
        holds = run(world, report);
        const bool applies = report->outcome.tally.skipped[report->ops[length].kind] == 0;
        if (holds && applies && letter != last && report->count < depth) {
            holds = search(world, letter, depth, report);
        }
    }
    return holds;
}

bool small_world_search(int number, int depth, small_world_report *report)
{
    small_world world;
    *report = (small_world_report){0};
    return read_world(number, &world) && run(&world, report) &&
           search(&world, -1, (size_t)depth, report);
}

void small_world_print(FILE *out, int number, const small_world_report *report)
{
    small_world world;
    fprintf(out, "%-26s %8llu sequences run\n", small_world_name(number),
            (unsigned long long)report->sequences);
    if (report->outcome.verdict != TRIAL_HOLDS && read_world(number, &world)) {
        fprintf(out, "%s at step %zu: %s\n", trial_verdict_name(report->outcome.verdict),
                report->outcome.step, report->outcome.finding);
        trial_print(out, "found", &world.config, report->ops, report->count);
    }
}
