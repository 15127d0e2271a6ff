#include "tests/interleave/scenes.h"

#include <stdlib.h>
#include <string.h>

#include "base/align.h"

enum { LEAST_OPS = 5, CALLBACK_OPS = 3 };

typedef struct mixture {
    const char *name;
    uint64_t limit_bytes;
    uint8_t weights[PROGRAM_KIND_COUNT];
    uint8_t pools;
    bool is_short; /* most blocks are large: there is never enough room */
} mixture;

#define BLOCKS                                                                                     \
    [PROGRAM_ALLOC] = 24, [PROGRAM_FREE] = 9, [PROGRAM_FREE_ELSEWHERE] = 5,                        \
    [PROGRAM_FREE_ANYWHEN] = 1, [PROGRAM_SHARE] = 4, [PROGRAM_ADVANCE] = 3, [PROGRAM_LOOK] = 1,    \
    [PROGRAM_VALIDATE] = 1

static const mixture scenes[] = {
    {"handover", 0, {BLOCKS}, 1, false},
    {"short_of_room", 0, {BLOCKS}, 1, true},
    {"trims_and_limits", 0, {BLOCKS, [PROGRAM_TRIM] = 5, [PROGRAM_SET_LIMIT] = 3}, 1, true},
    {"streams_go", 0, {BLOCKS, [PROGRAM_FORGET] = 8, [PROGRAM_REPLACE_STREAM] = 4}, 1, true},
    {"graph_pools",
     0,
     {BLOCKS, [PROGRAM_GRAPH_POOL_BEGIN] = 5, [PROGRAM_GRAPH_POOL_END] = 5,
      [PROGRAM_GRAPH_POOL_RELEASE] = 4, [PROGRAM_FORGET] = 1, [PROGRAM_RESTORE] = 3,
      [PROGRAM_ALLOC_IN] = 4, [PROGRAM_FREE_IN] = 4},
     1,
     true},
    {"callbacks", 0, {BLOCKS, [PROGRAM_ADD_CALLBACK] = 7, [PROGRAM_REMOVE_CALLBACK] = 4}, 1, true},
    {"peer_pools",
     0,
     {BLOCKS, [PROGRAM_POOL_CREATE] = 5, [PROGRAM_POOL_DESTROY] = 4, [PROGRAM_TRIM] = 1},
     2,
     true},
    {"limits_of_peer_pools",
     MEND_MIB,
     {BLOCKS, [PROGRAM_SET_LIMIT] = 3, [PROGRAM_TRIM] = 2},
     3,
     true},
    {"failing_calls",
     0,
     {BLOCKS, [PROGRAM_FAIL] = 5, [PROGRAM_TRIM] = 2, [PROGRAM_FORGET] = 2},
     1,
     true},
    {"context_breaks",
     0,
     {BLOCKS, [PROGRAM_BREAK] = 1, [PROGRAM_TRIM] = 2, [PROGRAM_FORGET] = 2,
      [PROGRAM_REPLACE_STREAM] = 1, [PROGRAM_GRAPH_POOL_BEGIN] = 2, [PROGRAM_GRAPH_POOL_END] = 2,
      [PROGRAM_GRAPH_POOL_RELEASE] = 2, [PROGRAM_ADD_CALLBACK] = 3, [PROGRAM_REMOVE_CALLBACK] = 2,
      [PROGRAM_POOL_CREATE] = 1, [PROGRAM_POOL_DESTROY] = 1},
     2,
     true},
    {"everything",
     0,
     {BLOCKS, [PROGRAM_TRIM] = 2, [PROGRAM_SET_LIMIT] = 1, [PROGRAM_FORGET] = 2,
      [PROGRAM_REPLACE_STREAM] = 1, [PROGRAM_GRAPH_POOL_BEGIN] = 2, [PROGRAM_GRAPH_POOL_END] = 2,
      [PROGRAM_GRAPH_POOL_RELEASE] = 2, [PROGRAM_ADD_CALLBACK] = 3, [PROGRAM_REMOVE_CALLBACK] = 2,
      [PROGRAM_POOL_CREATE] = 1, [PROGRAM_POOL_DESTROY] = 1, [PROGRAM_FAIL] = 1},
     2,
     true},
    {"compactions",
     0,
     {BLOCKS, [PROGRAM_COMPACT] = 5, [PROGRAM_TRIM] = 2, [PROGRAM_PIN] = 3, [PROGRAM_RESTORE] = 2,
      [PROGRAM_GRAPH_POOL_BEGIN] = 1, [PROGRAM_GRAPH_POOL_END] = 1,
      [PROGRAM_GRAPH_POOL_RELEASE] = 1},
     1,
     true},
    {"sleep_and_ranges",
     0,
     {BLOCKS, [PROGRAM_SLEEP] = 3, [PROGRAM_PAGES] = 4, [PROGRAM_TRIM] = 1, [PROGRAM_COMPACT] = 1,
      [PROGRAM_PIN] = 1, [PROGRAM_GRAPH_POOL_BEGIN] = 1, [PROGRAM_GRAPH_POOL_END] = 1,
      [PROGRAM_GRAPH_POOL_RELEASE] = 1},
     1,
     true},
    {"without_streams",
     0,
     {[PROGRAM_ALLOC] = 12,
      [PROGRAM_ALLOC_ANYWHERE] = 12,
      [PROGRAM_FREE] = 3,
      [PROGRAM_FREE_ANYWHEN] = 8,
      [PROGRAM_FREE_BY_THREAD] = 8,
      [PROGRAM_FORGET_OWN] = 1,
      [PROGRAM_SHARE] = 3,
      [PROGRAM_ADVANCE] = 3,
      [PROGRAM_TRIM] = 3,
      [PROGRAM_FORGET] = 1,
      [PROGRAM_REPLACE_STREAM] = 1,
      [PROGRAM_LOOK] = 1,
      [PROGRAM_VALIDATE] = 1},
     1,
     false},
    {"histories",
     0,
     {BLOCKS, [PROGRAM_TELL] = 6, [PROGRAM_TRIM] = 2, [PROGRAM_COMPACT] = 1, [PROGRAM_PIN] = 1},
     1,
     true},
};

int scene_count(void)
{
    return (int)(sizeof(scenes) / sizeof(scenes[0]));
}

const char *scene_name(int scene)
{
    return scenes[scene].name;
}

int scene_by_name(const char *name)
{
    for (int i = 0; i < scene_count(); i++) {
        if (strcmp(scenes[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* ---- from a seed ----------------------------------------------------------------------------- */

static int below(mend_test_random *random, int bound)
{
    return (int)mend_test_random_below(random, (uint64_t)bound);
}

static bool one_in(mend_test_random *random, int bound)
{
    return below(random, bound) == 0;
}

static uint64_t draw_block_bytes(mend_test_random *random, const program *p, bool is_short)
{
    static const uint64_t largest[] = {8 * MEND_KIB, 64 * MEND_KIB, 320 * MEND_KIB};
    if (is_short && !one_in(random, 4)) {
        return ((uint64_t)below(random, (int)(p->memory_bytes / (64 * MEND_KIB))) + 1) * 32 *
               MEND_KIB;
    }
    return 1 + mend_test_random_below(random, largest[below(random, 3)]);
}

static uint64_t draw_number(mend_test_random *random, const program *p, program_kind kind,
                            bool is_short)
{
    switch (kind) {
    case PROGRAM_ALLOC:
    case PROGRAM_ALLOC_ANYWHERE:
    case PROGRAM_ALLOC_IN:
    case PROGRAM_RESTORE:
        return draw_block_bytes(random, p, is_short);
    case PROGRAM_TRIM:
        return one_in(random, 2) ? 0 : mend_test_random_below(random, p->memory_bytes);
    case PROGRAM_SET_LIMIT:
        return one_in(random, 3) ? 0 : mend_test_random_below(random, p->memory_bytes);
    case PROGRAM_ADVANCE:
        return mend_test_random_below(random, 100);
    default:
        return mend_test_random_below(random, 256);
    }
}

static program_kind draw_kind(mend_test_random *random, const mixture *s)
{
    int sum = 0;
    for (int i = 0; i < PROGRAM_KIND_COUNT; i++) {
        sum += s->weights[i];
    }
    int at = below(random, sum);
    program_kind kind = 0;
    while (at >= s->weights[kind]) {
        at -= s->weights[kind++];
    }
    return kind;
}

static void draw_list(mend_test_random *random, const mixture *s, const program *p, int count,
                      program_list *list)
{
    int slots = 2 + below(random, PROGRAM_SLOTS - 1);
    int streams = 1 + below(random, PROGRAM_STREAMS);
    list->count = count;
    for (int i = 0; i < count; i++) {
        program_kind kind = draw_kind(random, s);
        list->ops[i] =
            (program_op){.kind = kind,
                         .pool = below(random, s->pools + (s->pools > 1)),
                         .slot = below(random, slots < PROGRAM_SLOTS ? slots : PROGRAM_SLOTS),
                         .stream = below(random, streams),
                         .graph_pool = below(random, PROGRAM_GRAPH_POOLS),
                         .callback = below(random, PROGRAM_CALLBACKS),
                         .bytes = draw_number(random, p, kind, s->is_short)};
        list->ops[i].pool %= PROGRAM_POOLS;
    }
}

/* A callback frees, allocates and trims; it may remove itself, but no other (mend.h). */
static void draw_callback(mend_test_random *random, const mixture *s, const program *p, int number,
                          program_list *list)
{
    draw_list(random, s, p, 1 + below(random, CALLBACK_OPS), list);
    for (int i = 0; i < list->count; i++) {
        program_op *op = &list->ops[i];
        op->callback = number;
        if (one_in(random, 2)) {
            op->kind = PROGRAM_FREE;
        }
    }
}

static void draw_plan(mend_test_random *random, schedule_plan *plan)
{
    static const uint32_t stays[] = {0, 8, 12, 14, 15};
    *plan = (schedule_plan){.policy = one_in(random, 2) ? SCHEDULE_RANDOM : SCHEDULE_PRIORITIES,
                            .seed = mend_test_random_next(random),
                            .stay = stays[below(random, 5)],
                            .changes = (uint32_t)below(random, SCHEDULE_CHANGES + 1),
                            .horizon = 32u << below(random, 6),
                            .wakes_for_none = one_in(random, 4)};
}

/* Of the name, so that other scenes do not change the meaning of a seed. */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(1469598103934665603); /* FNV-1a */
    for (; *name != '\0'; name++) {
        hash = (hash ^ (uint64_t)(unsigned char)*name) * UINT64_C(1099511628211);
    }
    return hash;
}

static void draw_scene(int scene_number, uint64_t seed, program *p, schedule_plan *plan)
{
    const mixture *s = &scenes[scene_number];
    mend_test_random random;
    mend_test_random_init(&random, hash_of(s->name) ^ seed);
    *p = (program){.threads = 2 + below(&random, SCHEDULE_THREADS - 1),
                   .pools = s->pools,
                   .memory_bytes = (uint64_t)(16 + below(&random, 33)) * 64 * MEND_KIB,
                   .limit_bytes = s->limit_bytes};
    p->may_vanish = one_in(&random, 5);
    p->may_not_wait = one_in(&random, 5);
    if (s->weights[PROGRAM_ALLOC_ANYWHERE] > 0) {
        p->lacks_events = one_in(&random, 2);
        p->unfenced_bytes = (uint64_t)(1 + below(&random, 4)) * 64 * MEND_KIB;
    }
    draw_list(&random, s, p, below(&random, 8), &p->before);
    for (int i = 0; i < p->threads; i++) {
        draw_list(&random, s, p, LEAST_OPS + below(&random, PROGRAM_OPS - LEAST_OPS + 1),
                  &p->work[i]);
    }
    for (int i = 0; i < PROGRAM_CALLBACKS; i++) {
        draw_callback(&random, s, p, i, &p->in_callback[i]);
    }
    draw_plan(&random, plan);
}

/* Leaves out needless operations, one after the other, under the same plan. */
static void shrink_list(program *p, program_list *list, const schedule_plan *plan,
                        program_outcome *outcome)
{
    for (int i = list->count - 1; i >= 0; i--) {
        program_list before = *list;
        list->count--;
        memmove(&list->ops[i], &list->ops[i + 1], (size_t)(list->count - i) * sizeof(list->ops[i]));
        if (program_run(p, plan, NULL, NULL, outcome)) {
            *list = before;
        }
    }
}

static void shrink(program *p, const schedule_plan *plan)
{
    static program_outcome outcome;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < p->threads; i++) {
            shrink_list(p, &p->work[i], plan, &outcome);
        }
        for (int i = 0; i < PROGRAM_CALLBACKS; i++) {
            shrink_list(p, &p->in_callback[i], plan, &outcome);
        }
        shrink_list(p, &p->before, plan, &outcome);
    }
    if (!program_run(p, plan, NULL, NULL, &outcome)) {
        fprintf(stderr, "%s\n", outcome.finding);
    }
}

bool scene_run(int scene_number, uint64_t seed, FILE *trace, program_outcome *outcome)
{
    program p;
    schedule_plan plan;
    char banner[128];
    snprintf(banner, sizeof(banner), "again: mend_interleave --scene %s --seed %llu",
             scene_name(scene_number), (unsigned long long)seed);
    draw_scene(scene_number, seed, &p, &plan);
    bool is_fine = program_run(&p, &plan, banner, trace, outcome);
    if (!is_fine) {
        fprintf(stderr, "%s\n%s\n", outcome->finding, banner);
        if (getenv("MEND_MUTANT") == NULL) { /* that of a deliberate bug is not read */
            shrink(&p, &plan);
        }
        program_print(stderr, &p);
        if (plan.policy == SCHEDULE_RANDOM) {
            fprintf(stderr, "at random, a thread goes on %u times of 16", plan.stay);
        } else {
            fprintf(stderr, "by priorities, %u changes in %u points", plan.changes, plan.horizon);
        }
        fprintf(stderr, "%s\n", plan.wakes_for_none ? ", waits end for nothing" : "");
    }
    return is_fine;
}
