/*
 * The workloads of RMM's two benchmarks of its memory resources (random_allocations,
 * multi_stream_allocations), with the published parameters, so that figures can be compared.
 */
#include "base/align.h"
#include "lab/workloads/generators.h"

enum { ALLOCATE_PERCENT = 73 };

/*
 * Twice as many turns as allocations. A turn allocates with a probability of 73 %, as long as
 * allocations are left and the sum stays below `live`. Otherwise it frees a random block. Sizes are
 * uniform up to `max`.
 */
void mend_stress_rmm_random(const uint64_t *parameters, mend_random *random,
                            mend_population *population)
{
    uint64_t live_bytes = parameters[1];
    uint64_t max_bytes = mend_min_u64(parameters[2], live_bytes);
    uint64_t allocations = parameters[3];
    uint64_t done = 0;
    for (uint64_t turn = 0; turn < 2 * allocations; turn++) {
        uint64_t size_bytes = mend_random_between(random, 1, max_bytes);
        bool wants = mend_random_below(random, 100) < ALLOCATE_PERCENT && done < allocations &&
                     population->live_bytes + size_bytes < live_bytes;
        if (population->count > 0 && !wants) {
            mend_population_drop(population, mend_random_below(random, population->count));
        } else if (!mend_population_alloc(population, size_bytes, 0, 0)) {
            return;
        } else {
            done++;
        }
    }
}

/* Each round launches `kernels`, each with its own buffer on the next of `streams` streams. The
 * buffer is freed there right after the launch. */
void mend_stress_rmm_streams(const uint64_t *parameters, mend_random *random,
                             mend_population *population)
{
    (void)random;
    uint64_t kernels = parameters[3] * parameters[4];
    for (uint64_t kernel = 0; kernel < kernels; kernel++) {
        uint64_t stream = kernel % parameters[3] % parameters[2];
        if (!mend_population_alloc(population, parameters[1], stream, 0)) {
            return;
        }
        mend_population_drop(population, 0);
    }
}
