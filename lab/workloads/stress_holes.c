/* Workloads that leave holes: free memory in pieces none of which is large enough. */
#include "base/align.h"
#include "lab/workloads/generators.h"

/* ---- checkerboard ---------------------------------------------------------------------------- */

enum { MARK_SQUARE = 0, MARK_PLUG = 1 };

static bool fill(mend_population *population, mend_random *random, uint64_t low, uint64_t high,
                 uint64_t live_bytes, uint64_t mark)
{
    for (;;) {
        uint64_t size_bytes = mend_random_between(random, low, high);
        if (population->live_bytes + size_bytes > live_bytes) {
            return true;
        }
        if (!mend_population_alloc(population, size_bytes, 0, mark)) {
            return false;
        }
    }
}

static bool is_marked(const mend_living *living, size_t index, void *context)
{
    (void)index;
    const uint64_t *mark = context;
    return living->mark == *mark;
}

typedef struct squares {
    uint64_t every; /* one block of this many ends */
    uint64_t first;
} squares;

static bool is_square(const mend_living *living, size_t index, void *context)
{
    (void)living;
    const squares *ending = context;
    return index % ending->every == ending->first;
}

void mend_stress_checkerboard(const uint64_t *parameters, mend_random *random,
                              mend_population *population)
{
    uint64_t live_bytes = parameters[1];
    uint64_t low = parameters[2];
    uint64_t high = mend_max_u64(low, parameters[3]);
    for (uint64_t round = 0; round < parameters[5]; round++) {
        squares ending = {parameters[4], round % parameters[4]};
        uint64_t plug = MARK_PLUG;
        if (!fill(population, random, low, high, live_bytes, MARK_SQUARE)) {
            return;
        }
        mend_population_sift(population, is_square, &ending);
        if (!fill(population, random, high + MEND_MIB, 2 * high, live_bytes, MARK_PLUG)) {
            return;
        }
        mend_population_sift(population, is_marked, &plug);
    }
}

/* ---- small pins ------------------------------------------------------------------------------ */

enum { MARK_LARGE = 0, MARK_PIN = 1 };

void mend_stress_small_pins(const uint64_t *parameters, mend_random *random,
                            mend_population *population)
{
    uint64_t live_bytes = parameters[1];
    uint64_t pin_bytes = parameters[2];
    uint64_t pins = parameters[3];
    uint64_t large_bytes = mend_max_u64(live_bytes / 96, 2 * pin_bytes);
    uint64_t large = MARK_LARGE;
    for (uint64_t phase = 0; phase < parameters[4]; phase++) {
        /* Each phase requests a little more at once than the phase before has left free. */
        uint64_t low = large_bytes + large_bytes * phase / 8;
        if (!fill(population, random, low, low + low / 4, live_bytes, MARK_LARGE)) {
            return;
        }
        for (uint64_t pin = 0; pin < pins && population->count > 0; pin++) {
            /* The pin takes the address of a large block that has just ended. */
            size_t victim = mend_random_below(random, population->count);
            if (population->living[victim].mark == MARK_PIN) {
                continue;
            }
            mend_population_drop(population, victim);
            if (!mend_population_alloc(population, pin_bytes, 0, MARK_PIN)) {
                return;
            }
        }
        mend_population_sift(population, is_marked, &large);
    }
}

/* ---- phase shift ----------------------------------------------------------------------------- */

/* The sizes of the phases, in KiB, in turn. */
static const uint64_t phase_sizes_kib[][2] = {
    {1024, 8192}, {16384, 65536}, {2048, 16384}, {65536, 262144}, {512, 4096}, {32768, 131072},
};
enum { PHASE_SIZES = sizeof(phase_sizes_kib) / sizeof(*phase_sizes_kib) };

typedef struct phase_end {
    mend_random *random;
    uint64_t phase;
    uint64_t survivors_percent;
} phase_end;

/* Survivors of the phase before end with this phase. Some blocks of this one survive. */
static bool ends_with_phase(const mend_living *living, size_t index, void *context)
{
    (void)index;
    phase_end *end = context;
    return living->mark + 1 < end->phase ||
           (living->mark == end->phase &&
            mend_random_below(end->random, 100) >= end->survivors_percent);
}

void mend_stress_phase_shift(const uint64_t *parameters, mend_random *random,
                             mend_population *population)
{
    phase_end end = {.random = random, .survivors_percent = parameters[3]};
    for (uint64_t phase = 0; phase < parameters[2]; phase++) {
        const uint64_t *sizes_kib = phase_sizes_kib[phase % PHASE_SIZES];
        if (!fill(population, random, sizes_kib[0] * MEND_KIB, sizes_kib[1] * MEND_KIB,
                  parameters[1], phase)) {
            return;
        }
        end.phase = phase;
        mend_population_sift(population, ends_with_phase, &end);
    }
}
