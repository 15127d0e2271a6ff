#include "speed/crew.h"

#include <pthread.h>
#include <stdlib.h>

#include "lab/support/histogram.h"
#include "lab/workloads/population.h"
#include "speed/clock.h"

enum { SLOTS = 256, STEPS = 4096, WARM_CALLS = 4 * SLOTS };

/* The next operations: drawn before, so that chance costs nothing under the clock. */
typedef struct step {
    size_t size_bytes;
    size_t slot;
} step;

typedef struct member {
    const speed_lane *lane;
    const speed_work *work;
    pthread_barrier_t *barrier;
    pthread_t thread;
    mend_histogram times;
    step steps[STEPS];
    void *blocks[SLOTS];
    uint64_t seed;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t cpu_ns;
    bool reads_clock;
    bool has_failed;
} member;

static void draw_steps(member *self)
{
    mend_random random = {.state = self->seed};
    const speed_work *work = self->work;
    bool is_pair = work->low_bytes == work->high_bytes;
    for (size_t i = 0; i < STEPS; i++) {
        self->steps[i].size_bytes =
            is_pair ? work->low_bytes
                    : mend_random_log_between(&random, work->low_bytes, work->high_bytes);
        self->steps[i].slot = is_pair ? 0 : mend_random_below(&random, SLOTS);
    }
}

/* One call: allocates into an empty place, frees a full one. */
static inline void do_step(member *self, size_t index)
{
    const step *now = &self->steps[index % STEPS];
    void **block = &self->blocks[now->slot];
    if (*block != NULL) {
        self->lane->free(self->lane, *block);
        *block = NULL;
        return;
    }
    *block = self->lane->alloc(self->lane, now->size_bytes);
    self->has_failed |= *block == NULL;
}

static void do_steps(member *self, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        do_step(self, i);
    }
}

static void do_steps_by_the_clock(member *self, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t start_ns = speed_now_ns();
        do_step(self, i);
        mend_histogram_add(&self->times, speed_now_ns() - start_ns);
    }
}

static void *run_member(void *context)
{
    member *self = context;
    draw_steps(self);
    do_steps(self, WARM_CALLS);
    pthread_barrier_wait(self->barrier);
    uint64_t cpu_start_ns = speed_cpu_ns();
    self->start_ns = speed_now_ns();
    if (self->reads_clock) {
        do_steps_by_the_clock(self, self->work->calls);
    } else {
        do_steps(self, self->work->calls);
    }
    self->end_ns = speed_now_ns();
    self->cpu_ns = speed_cpu_ns() - cpu_start_ns;
    pthread_barrier_wait(self->barrier);
    for (size_t i = 0; i < SLOTS; i++) {
        if (self->blocks[i] != NULL) {
            self->lane->free(self->lane, self->blocks[i]);
        }
    }
    return NULL;
}

/* ---- the crew -------------------------------------------------------------------------------- */

typedef struct crew {
    member *members;
    size_t count;
    pthread_barrier_t barrier;
} crew;

/* A thread that cannot be started would leave the others waiting at the barrier: so the program
 * ends. */
static bool work_together(crew *all, const speed_heap *heap, const speed_work *work,
                          bool reads_clock)
{
    for (size_t i = 0; i < all->count; i++) {
        member *one = &all->members[i];
        *one = (member){.lane = speed_heap_lane(heap, i),
                        .work = work,
                        .barrier = &all->barrier,
                        .seed = i + 1,
                        .reads_clock = reads_clock};
        if (pthread_create(&one->thread, NULL, run_member, one) != 0) {
            abort();
        }
    }
    bool good = true;
    for (size_t i = 0; i < all->count; i++) {
        pthread_join(all->members[i].thread, NULL);
        good = good && !all->members[i].has_failed;
    }
    return good;
}

static void take_speed(const crew *all, speed_figures *figures)
{
    uint64_t cpu_ns = all->members[0].cpu_ns;
    uint64_t start_ns = all->members[0].start_ns;
    uint64_t end_ns = all->members[0].end_ns;
    for (size_t i = 1; i < all->count; i++) {
        const member *one = &all->members[i];
        start_ns = one->start_ns < start_ns ? one->start_ns : start_ns;
        end_ns = one->end_ns > end_ns ? one->end_ns : end_ns;
        cpu_ns += one->cpu_ns;
    }
    figures->seconds = (double)(end_ns - start_ns) / 1e9;
    figures->cpu_ns = (double)cpu_ns / (double)(all->count * all->members[0].work->calls);
}

static void take_times(const crew *all, speed_figures *figures)
{
    mend_histogram *times = &all->members[0].times;
    for (size_t i = 1; i < all->count; i++) {
        mend_histogram_merge(times, &all->members[i].times);
    }
    figures->p50_ns = mend_histogram_quantile(times, 0.50);
    figures->p99_ns = mend_histogram_quantile(times, 0.99);
    figures->p999_ns = mend_histogram_quantile(times, 0.999);
    figures->max_ns = times->max;
}

bool speed_crew_run(const speed_heap *heap, size_t thread_count, const speed_work *work,
                    speed_figures *figures)
{
    crew all = {.count = thread_count};
    all.members = calloc(thread_count, sizeof(member));
    if (all.members == NULL) {
        return false;
    }
    pthread_barrier_init(&all.barrier, NULL, (unsigned)thread_count);
    bool good = work_together(&all, heap, work, false);
    take_speed(&all, figures);
    good = good && work_together(&all, heap, work, true);
    take_times(&all, figures);
    pthread_barrier_destroy(&all.barrier);
    free(all.members);
    return good;
}
