/* Shared by the generators: random numbers from a seed, and the blocks that are live. */
#ifndef MEND_LAB_WORKLOADS_POPULATION_H
#define MEND_LAB_WORKLOADS_POPULATION_H

#include "lab/trace/builder.h"

typedef struct mend_random {
    uint64_t state;
} mend_random;

/* From 0 to bound - 1. Bound is not 0. */
uint64_t mend_random_below(mend_random *random, uint64_t bound);

/* From low to high, both included. */
uint64_t mend_random_between(mend_random *random, uint64_t low, uint64_t high);

/* A size from low to high, with a logarithmic distribution. */
uint64_t mend_random_log_between(mend_random *random, uint64_t low, uint64_t high);

typedef struct mend_living {
    uint64_t size_bytes;
    uint64_t stream;
    uint64_t mark; /* for the generator: for example a phase */
    uint32_t block;
} mend_living;

/* Live blocks in the order of their allocation, until mend_population_drop changes the order. */
typedef struct mend_population {
    mend_trace_builder *builder;
    mend_living *living;
    size_t count;
    size_t room;
    uint64_t live_bytes;
} mend_population;

void mend_population_init(mend_population *population, mend_trace_builder *builder);
void mend_population_clear(mend_population *population);

/* Sizes are rounded up to 512 B. False: the builder has failed, and the generator must end. */
bool mend_population_alloc(mend_population *population, uint64_t size_bytes, uint64_t stream,
                           uint64_t mark);

/* Frees the block at `index`. The last one takes its index. */
void mend_population_drop(mend_population *population, size_t index);

/* Frees all blocks for which `chosen` is true, in order. The others keep their order. */
typedef bool (*mend_choice)(const mend_living *living, size_t index, void *context);
void mend_population_sift(mend_population *population, mend_choice chosen, void *context);

#endif
