#include "tests/sim/small_worlds.h"
#include <stdlib.h>

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

/* ---- sets of states, lists of sequences ------------------------------------------------------ */

typedef struct hash_set {
    uint64_t *items; /* 0: nothing */
    size_t capacity; /* a power of two */
    size_t count;
} hash_set;

static void insert(hash_set *set, uint64_t hash)
{
    size_t at = hash & (set->capacity - 1);
    while (set->items[at] != 0 && set->items[at] != hash) {
        at = (at + 1) & (set->capacity - 1);
    }
    set->count += set->items[at] == 0;
    set->items[at] = hash;
}

static bool grow(hash_set *set)
{
    hash_set larger = {.capacity = set->capacity != 0 ? set->capacity * 2 : 1024};
    larger.items = calloc(larger.capacity, sizeof(uint64_t));
    if (larger.items == NULL) {
        return false;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->items[i] != 0) {
            insert(&larger, set->items[i]);
        }
    }
    free(set->items);
    *set = larger;
    return true;
}

/* True when the state is new. */
static bool add_state(hash_set *set, uint64_t hash)
{
    if (set->count * 2 >= set->capacity && !grow(set)) {
        return false;
    }
    size_t before = set->count;
    insert(set, hash != 0 ? hash : 1);
    return set->count > before;
}

/* Sequences of one length: three bits a letter, the first lowest. */
typedef struct sequences {
    uint32_t *items;
    size_t count;
    size_t capacity;
} sequences;

static bool append(sequences *list, uint32_t sequence)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity != 0 ? list->capacity * 2 : 64;
        uint32_t *items = realloc(list->items, capacity * sizeof(*items));
        if (items == NULL) {
            return false;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = sequence;
    return true;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* Runs a sequence to its end. Its state is that before the end. */
static uint64_t run(const small_world *world, uint32_t sequence, size_t length,
                    small_world_report *report)
{
    report->sequences++;
    report->count = length;
    for (size_t i = 0; i < length; i++) {
        report->ops[i] = world->letters[sequence >> (3 * i) & 7];
    }
    trial *t = trial_begin(&world->config, &report->outcome);
    if (t == NULL) {
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        trial_step(t, &report->ops[i]);
    }
    uint64_t hash = trial_state_hash(t);
    trial_end(t);
    return hash;
}

/* All sequences one letter longer than those given. False when the search ends here. */
static bool deepen(const small_world *world, size_t length, const sequences *shorter,
                   sequences *longer, hash_set *states, small_world_report *report)
{
    for (size_t i = 0; i < shorter->count; i++) {
        for (uint32_t letter = 0; letter < SMALL_WORLD_LETTERS; letter++) {
            uint32_t sequence = shorter->items[i] | letter << (3 * length);
            uint64_t hash = run(world, sequence, length + 1, report);
            if (report->outcome.verdict != TRIAL_HOLDS) {
                return false;
            }
            if (add_state(states, hash) && !append(longer, sequence)) {
                return false;
            }
        }
    }
    return true;
}

void small_world_search(int number, int depth, small_world_report *report)
{
    small_world world;
    hash_set states = {0};
    sequences frontier = {0};
    *report = (small_world_report){0};
    bool goes_on = read_world(number, &world) && append(&frontier, 0) &&
                   add_state(&states, run(&world, 0, 0, report));
    for (int length = 0; length < depth && goes_on; length++) {
        sequences longer = {0};
        goes_on = deepen(&world, (size_t)length, &frontier, &longer, &states, report);
        free(frontier.items);
        frontier = longer;
        report->depth += goes_on;
    }
    report->states = states.count;
    report->is_complete = report->depth == depth;
    free(frontier.items);
    free(states.items);
}

void small_world_print(FILE *out, int number, const small_world_report *report)
{
    small_world world;
    fprintf(out, "%-22s %8llu states, %8llu sequences run, all of up to %d operations%s\n",
            small_world_name(number), (unsigned long long)report->states,
            (unsigned long long)report->sequences, report->depth,
            report->is_complete ? "" : " (something was found)");
    if (report->outcome.verdict != TRIAL_HOLDS && read_world(number, &world)) {
        fprintf(out, "%s at step %zu: %s\n", trial_verdict_name(report->outcome.verdict),
                report->outcome.step, report->outcome.finding);
        trial_print(out, "found", &world.config, report->ops, report->count);
    }
}
