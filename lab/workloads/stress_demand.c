/* Workloads whose demand changes: it moves between streams, grows in steps, or is random. */
#include "base/align.h"
#include "lab/workloads/generators.h"

/* ---- many streams ---------------------------------------------------------------------------- */

typedef struct turn_end {
    mend_random *random;
    uint64_t turn;
    uint64_t turns_kept;
} turn_end;

/* In each turn one block in sixteen stays, for as many turns as there are streams. */
static bool ends_with_turn(const mend_living *living, size_t index, void *context)
{
    (void)index;
    turn_end *end = context;
    if (living->mark == end->turn) {
        return mend_random_below(end->random, 16) != 0;
    }
    return living->mark + end->turns_kept < end->turn;
}

void mend_stress_many_streams(const uint64_t *parameters, mend_random *random,
                              mend_population *population)
{
    uint64_t live_bytes = parameters[1];
    uint64_t streams = parameters[2];
    turn_end end = {.random = random, .turns_kept = streams};
    for (uint64_t turn = 0; turn < parameters[3]; turn++) {
        uint64_t stream = turn < streams ? turn : mend_random_below(random, streams);
        /* Demand is high, but not always at its peak. */
        uint64_t wanted_bytes = live_bytes - mend_random_below(random, live_bytes / 5 + 1);
        for (;;) {
            uint64_t size_bytes = mend_random_log_between(random, 256 * MEND_KIB, 128 * MEND_MIB);
            if (population->live_bytes + size_bytes > wanted_bytes) {
                break;
            }
            /* Every twelfth block belongs to the next stream. */
            bool is_guest = mend_random_below(random, 12) == 0;
            if (!mend_population_alloc(population, size_bytes,
                                       is_guest ? (stream + 1) % streams : stream, turn)) {
                return;
            }
        }
        end.turn = turn;
        mend_population_sift(population, ends_with_turn, &end);
    }
}

/* ---- staircase ------------------------------------------------------------------------------- */

enum { BUFFERS = 2 };

/* The index of the block that holds buffer `which`. */
static size_t find_mark(const mend_population *population, uint64_t mark)
{
    size_t at = 0;
    while (population->living[at].mark != mark) {
        at++;
    }
    return at;
}

void mend_stress_staircase(const uint64_t *parameters, mend_random *random,
                           mend_population *population)
{
    uint64_t base_bytes = parameters[1];
    uint64_t top_bytes = parameters[2];
    uint64_t step_bytes = parameters[3];
    while (population->live_bytes < base_bytes) {
        if (!mend_population_alloc(population, mend_random_between(random, 1, 32) * MEND_MIB, 0,
                                   BUFFERS)) {
            return;
        }
    }
    /* The buffers lie between small blocks of each step and of other work, and grow in turn. */
    for (uint64_t size_bytes = step_bytes; size_bytes <= top_bytes; size_bytes += step_bytes) {
        for (uint64_t buffer = 0; buffer < BUFFERS; buffer++) {
            uint64_t jitter = mend_random_below(random, step_bytes / 4 + 1);
            if (!mend_population_alloc(population, size_bytes + jitter, 0, BUFFERS + 1)) {
                return;
            }
            if (size_bytes > step_bytes) {
                mend_population_drop(population, find_mark(population, buffer));
            }
            population->living[find_mark(population, BUFFERS + 1)].mark = buffer;
            if (!mend_population_alloc(population, 4 * MEND_MIB + jitter, 0, BUFFERS + 2)) {
                return;
            }
            mend_population_drop(population, find_mark(population, BUFFERS + 2));
        }
    }
}

/* ---- random mix ------------------------------------------------------------------------------ */

void mend_stress_random_mix(const uint64_t *parameters, mend_random *random,
                            mend_population *population)
{
    uint64_t live_bytes = parameters[1];
    uint64_t high = mend_max_u64(parameters[2], MEND_GRANULE_BYTES);
    for (uint64_t i = 0; i < parameters[3]; i++) {
        uint64_t size_bytes = mend_random_log_between(random, MEND_GRANULE_BYTES, high);
        size_bytes = mend_min_u64(size_bytes, live_bytes);
        /* Frees random blocks, old or young: as many as needed for the request, and one in three
         * besides. */
        while (population->count > 0 && (population->live_bytes + size_bytes > live_bytes ||
                                         mend_random_below(random, 8) == 0)) {
            mend_population_drop(population, mend_random_below(random, population->count));
        }
        if (!mend_population_alloc(population, size_bytes, 0, 0)) {
            return;
        }
    }
}

/* ---- replaced -------------------------------------------------------------------------------- */

/* So many blocks are live, and one at random is freed and another one allocated, again and again.
 */
void mend_stress_replaced(const uint64_t *parameters, mend_random *random,
                          mend_population *population)
{
    const uint64_t low = mend_min_u64(parameters[2], parameters[3]);
    for (uint64_t i = 0; i < parameters[1] + parameters[4]; i++) {
        if (population->count == parameters[1]) {
            mend_population_drop(population, mend_random_below(random, population->count));
        }
        if (!mend_population_alloc(population, mend_random_log_between(random, low, parameters[3]),
                                   0, 0)) {
            return;
        }
    }
}
