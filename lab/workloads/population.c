#include "lab/workloads/population.h"

#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/support/room.h"

/* SplitMix64, the generator of Steele, Lea and Flood. */
static uint64_t next(mend_random *random)
{
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t mend_random_below(mend_random *random, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)next(random) * bound) >> 64);
}

uint64_t mend_random_between(mend_random *random, uint64_t low, uint64_t high)
{
    return low + mend_random_below(random, high - low + 1);
}

uint64_t mend_random_log_between(mend_random *random, uint64_t low, uint64_t high)
{
    uint64_t power_low = mend_power_of_two_floor(low);
    uint64_t doublings = 1;
    while (power_low << doublings <= high && doublings < 63) {
        doublings++;
    }
    for (;;) {
        uint64_t base = power_low << mend_random_below(random, doublings);
        uint64_t size_bytes = base + mend_random_below(random, base);
        if (size_bytes >= low && size_bytes <= high) {
            return size_bytes;
        }
    }
}

void mend_population_init(mend_population *population, mend_trace_builder *builder)
{
    *population = (mend_population){.builder = builder};
}

void mend_population_clear(mend_population *population)
{
    free(population->living);
    *population = (mend_population){.builder = population->builder};
}

static bool make_room(mend_population *population)
{
    mend_living *living = mend_with_room(population->living, population->count, &population->room,
                                         sizeof(mend_living));
    if (living == NULL) {
        population->builder->failure =
            mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the workload");
        return false;
    }
    population->living = living;
    return true;
}

bool mend_population_alloc(mend_population *population, uint64_t size_bytes, uint64_t stream,
                           uint64_t mark)
{
    mend_trace_builder *builder = population->builder;
    if (builder->failure != MEND_OK || !make_room(population)) {
        return false;
    }
    size_bytes = mend_align_up(size_bytes, MEND_GRANULE_BYTES);
    uint32_t block =
        mend_trace_builder_alloc(builder, size_bytes, (mend_trace_actor){.stream = stream});
    if (builder->failure != MEND_OK) {
        return false;
    }
    population->living[population->count++] =
        (mend_living){.size_bytes = size_bytes, .stream = stream, .mark = mark, .block = block};
    population->live_bytes += size_bytes;
    return true;
}

static void free_block(mend_population *population, const mend_living *living)
{
    mend_trace_builder_free(population->builder, living->block,
                            (mend_trace_actor){.stream = living->stream});
    population->live_bytes -= living->size_bytes;
}

void mend_population_drop(mend_population *population, size_t index)
{
    free_block(population, &population->living[index]);
    population->living[index] = population->living[--population->count];
}

void mend_population_sift(mend_population *population, mend_choice chosen, void *context)
{
    size_t kept = 0;
    for (size_t i = 0; i < population->count; i++) {
        mend_living living = population->living[i];
        if (chosen(&living, i, context)) {
            free_block(population, &living);
        } else {
            population->living[kept++] = living;
        }
    }
    population->count = kept;
}
