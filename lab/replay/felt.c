#include "lab/replay/felt.h"

#include <stdlib.h>

#include "lab/support/histogram.h"

/* A row takes the host 5 us, and each allocation queues a kernel, 1,024 at most, as measured on an
 * H200. Where the GPU is the slower one, the program waits for it now and then, as at the end of a
 * step. Real H200s take up to twice the prices of the list (bench/results/gpu.md). */
enum { QUEUED = 1024, ROWS_OF_STEP = 6000, LONG_NS = 5000000 };
static const double row_us = 5, of_price = 1.6, kernel_us[] = {13, 5};
enum { GPU_BOUND, HOST_BOUND, KINDS };

typedef struct pipeline {
    double host_us; /* when the host is done, and the GPU */
    double gpu_us;
    double half_us; /* when the first half was */
    double end_us[QUEUED];
    uint64_t kernels;
} pipeline;

struct mend_felt {
    uint64_t rows;
    uint64_t row;
    mend_histogram ns;
    uint64_t above;
    pipeline with[KINDS];
    pipeline without[KINDS]; /* an allocator that costs nothing */
};

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double end_of(const pipeline *p)
{
    return later(p->host_us, p->gpu_us);
}

mend_felt *mend_felt_create(uint64_t rows)
{
    mend_felt *felt = calloc(1, sizeof(*felt));
    if (felt != NULL) {
        felt->rows = rows;
    }
    return felt;
}

/* A wait of the host in the allocator lasts until the GPU has nothing to do. */
static void step(pipeline *p, int kind, bool is_alloc, double cost_us, bool waits, bool step_ends)
{
    p->host_us += row_us;
    p->host_us = (waits ? end_of(p) : p->host_us) + cost_us;
    if (is_alloc) {
        double *end_us = &p->end_us[p->kernels++ % QUEUED];
        p->host_us = later(p->host_us, *end_us);
        p->gpu_us = end_of(p) + kernel_us[kind];
        *end_us = p->gpu_us;
    }
    if (kind == GPU_BOUND && step_ends) {
        p->host_us = end_of(p);
    }
}

void mend_felt_row(mend_felt *felt, bool is_alloc, uint64_t driver_ns, bool waited)
{
    const uint64_t row = felt->row++;
    const bool step_ends = row % ROWS_OF_STEP == ROWS_OF_STEP - 1;
    const double cost_us = (double)driver_ns * of_price / 1000;
    for (int kind = 0; kind < KINDS; kind++) {
        if (row == felt->rows / 2) {
            felt->with[kind].half_us = end_of(&felt->with[kind]);
            felt->without[kind].half_us = end_of(&felt->without[kind]);
        }
        step(&felt->with[kind], kind, is_alloc, cost_us, waited, step_ends);
        step(&felt->without[kind], kind, is_alloc, 0, false, step_ends);
    }
    if (row >= felt->rows / 10) {
        const uint64_t felt_ns = (uint64_t)(cost_us * 1000);
        mend_histogram_add(&felt->ns, felt_ns);
        felt->above += felt_ns > LONG_NS;
    }
}

static double added_percent(const mend_felt *felt, int kind)
{
    const double with = end_of(&felt->with[kind]) - felt->with[kind].half_us;
    const double without = end_of(&felt->without[kind]) - felt->without[kind].half_us;
    return without > 0 ? 100 * (with - without) / without : 0;
}

mend_replay_felt mend_felt_result(const mend_felt *felt)
{
    return (mend_replay_felt){
        .longest_us = (double)felt->ns.max / 1000,
        .p999_us = (double)mend_histogram_quantile(&felt->ns, 0.999) / 1000,
        .above_5_ms = felt->above,
        .gpu_bound_percent = added_percent(felt, GPU_BOUND),
        .host_bound_percent = added_percent(felt, HOST_BOUND),
    };
}
