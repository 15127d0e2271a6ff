/* What the generators share: chance from a seed, and the blocks that live at the moment. */
#ifndef MEND_LAB_WORKLOADS_POPULATION_H
#define MEND_LAB_WORKLOADS_POPULATION_H

#include "lab/trace/builder.h"

typedef struct mend_random {
    uint64_t state;
} mend_random;

/* From 0 to bound - 1; bound is not 0. */
uint64_t mend_random_below(mend_random *random, uint64_t bound);

/* From low to high, both included. */
uint64_t mend_random_between(mend_random *random, uint64_t low, uint64_t high);

/* A size from low to high, every power of two as likely as the next. */
uint64_t mend_random_log_between(mend_random *random, uint64_t low, uint64_t high);

typedef struct mend_living {
    uint64_t size_bytes;
    uint64_t stream;
    uint64_t mark; /* the generator's own: a phase, say */
    uint32_t block;
} mend_living;

/* Blocks in the order of their allocation, until one is removed by `drop`. */
typedef struct mend_population {
    mend_trace_builder *builder;
    mend_living *living;
    size_t count;
    size_t room;
    uint64_t live_bytes;
} mend_population;

void mend_population_init(mend_population *population, mend_trace_builder *builder);
void mend_population_clear(mend_population *population);

/* Sizes are rounded up to 512 B. False: the builder has failed, and the generator ends. */
bool mend_population_alloc(mend_population *population, uint64_t size_bytes, uint64_t stream,
                           uint64_t mark);

/* Frees the one at `index`; the last takes its place. */
void mend_population_drop(mend_population *population, size_t index);

/* Frees all that `chosen` says yes to, in order, and keeps the order of the others. */
typedef bool (*mend_choice)(const mend_living *living, size_t index, void *context);
void mend_population_sift(mend_population *population, mend_choice chosen, void *context);

#endif
