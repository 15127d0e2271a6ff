#include "speed/crowd.h"

#include <malloc.h>
#include <stdlib.h>

#include "lab/workloads/population.h"
#include "speed/clock.h"

enum { SEED = 7, LEAST_BYTES = 512, MOST_BYTES = 2048, BLOCKS_PER_HOLE = 4 };

static bool fill(speed_crowd *crowd, const size_t *sizes)
{
    for (size_t i = 0; i < crowd->count; i++) {
        crowd->blocks[i] = crowd->lane->alloc(crowd->lane, sizes[i]);
        if (crowd->blocks[i] == NULL) {
            crowd->count = i;
            return false;
        }
    }
    return true;
}

static void drain(speed_crowd *crowd)
{
    for (size_t i = 0; i < crowd->count; i++) {
        crowd->lane->free(crowd->lane, crowd->blocks[i]);
    }
    crowd->count = 0;
}

/* The first are as good as any when they stand in no order. */
static void shuffle(speed_crowd *crowd, mend_random *random)
{
    for (size_t i = crowd->count; i > 1; i--) {
        size_t other = mend_random_below(random, i);
        void *block = crowd->blocks[i - 1];
        crowd->blocks[i - 1] = crowd->blocks[other];
        crowd->blocks[other] = block;
    }
}

static size_t *draw_sizes(mend_random *random, size_t count)
{
    size_t *sizes = malloc(count * sizeof(size_t));
    for (size_t i = 0; sizes != NULL && i < count; i++) {
        sizes[i] = mend_random_between(random, LEAST_BYTES, MOST_BYTES);
    }
    return sizes;
}

/* Arrays of blocks and of their sizes. The caller frees both. */
static size_t *prepare(speed_crowd *crowd, const speed_lane *lane, mend_random *random,
                       size_t count)
{
    *crowd = (speed_crowd){.lane = lane, .count = count};
    crowd->blocks = calloc(count + 1, sizeof(void *));
    return crowd->blocks == NULL ? NULL : draw_sizes(random, count + 1);
}

bool speed_crowd_create(speed_crowd *crowd, const speed_lane *lane, size_t count)
{
    mend_random random = {.state = SEED};
    size_t *sizes = prepare(crowd, lane, &random, count + count / BLOCKS_PER_HOLE);
    if (sizes == NULL || !fill(crowd, sizes)) {
        crowd->count = sizes == NULL ? 0 : crowd->count;
        free(sizes);
        speed_crowd_destroy(crowd);
        return false;
    }
    free(sizes);
    shuffle(crowd, &random);
    while (crowd->count > count) {
        lane->free(lane, crowd->blocks[--crowd->count]);
    }
    return true;
}

void speed_crowd_destroy(speed_crowd *crowd)
{
    drain(crowd);
    free(crowd->blocks);
    *crowd = (speed_crowd){0};
}

/* ---- under the clock ------------------------------------------------------------------------- */

static double each_ns(uint64_t start_ns, size_t count)
{
    return (double)(speed_cpu_ns() - start_ns) / (double)count;
}

static size_t host_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Each block is replaced once, by one of the size of another. */
static bool churn(speed_crowd *crowd, const size_t *sizes)
{
    for (size_t i = 0; i < crowd->count; i++) {
        crowd->lane->free(crowd->lane, crowd->blocks[i]);
        crowd->blocks[i] = crowd->lane->alloc(crowd->lane, sizes[i]);
        if (crowd->blocks[i] == NULL) {
            crowd->blocks[i] = crowd->blocks[--crowd->count];
            return false;
        }
    }
    return true;
}

static bool measure(speed_crowd *crowd, const size_t *sizes, mend_random *random,
                    speed_crowd_figures *figures)
{
    size_t count = crowd->count;
    size_t bytes_before = host_bytes();
    uint64_t start_ns = speed_cpu_ns();
    if (!fill(crowd, sizes)) {
        return false;
    }
    figures->fill_ns = each_ns(start_ns, count);
    figures->host_bytes = (double)(host_bytes() - bytes_before) / (double)count;
    shuffle(crowd, random);
    start_ns = speed_cpu_ns();
    if (!churn(crowd, sizes)) {
        return false;
    }
    figures->churn_ns = each_ns(start_ns, count);
    shuffle(crowd, random);
    start_ns = speed_cpu_ns();
    drain(crowd);
    figures->drain_ns = each_ns(start_ns, count);
    return true;
}

bool speed_crowd_measure(const speed_lane *lane, size_t count, speed_crowd_figures *figures)
{
    mend_random random = {.state = SEED};
    speed_crowd crowd;
    size_t *sizes = prepare(&crowd, lane, &random, count);
    bool good = sizes != NULL && measure(&crowd, sizes, &random, figures);
    crowd.count = sizes == NULL ? 0 : crowd.count;
    free(sizes);
    speed_crowd_destroy(&crowd);
    return good;
}
