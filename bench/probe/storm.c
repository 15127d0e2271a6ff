/*
 * The cost for a program while another of its threads maps and unmaps without a pause: the slowdown
 * of streaming kernels, and the time of launches.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "probe/questions.h"
#include "probe/range.h"

/* The storm: a thread that maps, gives access to and unmaps `count` pages at once. */
typedef struct storm {
    probe *p;
    uint64_t count;
    _Atomic bool stop;
    _Atomic uint64_t rounds;
    _Atomic bool ended; /* of itself: a call failed */
    mend_status status;
    pthread_t thread;
} storm;

static void *blow(void *argument)
{
    storm *s = argument;
    const mend_driver *driver = s->p->driver;
    probe_range range;
    driver->context_push(driver, s->p->info.context);
    s->status = probe_range_create(s->p, &range, s->p->page_bytes, s->count);
    while (s->status == MEND_DRIVER_OK && !atomic_load(&s->stop)) {
        s->status = probe_range_map(s->p, &range, 1);
        if (s->status == MEND_DRIVER_OK) {
            s->status = driver->unmap(driver, range.address, probe_range_bytes(&range));
            range.mapped = s->status == MEND_DRIVER_OK ? 0 : range.mapped;
        }
        atomic_fetch_add(&s->rounds, 1);
    }
    atomic_store(&s->ended, true);
    probe_range_drop(s->p, &range);
    driver->context_pop(driver);
    return NULL;
}

/* Returns when it blows, or has failed. */
static bool storm_begin(storm *s, probe *p, uint64_t count)
{
    s->p = p;
    s->count = count;
    if (count == 0) {
        return true;
    }
    if (pthread_create(&s->thread, NULL, blow, s) != 0) {
        return false;
    }
    while (atomic_load(&s->rounds) == 0 && !atomic_load(&s->ended)) {
        sched_yield();
    }
    return true;
}

static void storm_end(storm *s)
{
    if (s->count > 0) {
        atomic_store(&s->stop, true);
        pthread_join(s->thread, NULL);
        probe_expect(s->p, "the storm", s->status);
    }
}

/* How long passes over the load's memory take, one after the other. */
static mend_status time_passes(probe *p, const probe_load *load, probe_samples *samples)
{
    enum { PASSES = 32 };
    mend_status status = MEND_DRIVER_OK;
    for (int round = 0; status == MEND_DRIVER_OK && round < (p->quick ? 3 : 15); round++) {
        uint64_t began_ns = probe_now_ns(p);
        for (int i = 0; status == MEND_DRIVER_OK && i < PASSES; i++) {
            status = probe_stream(p, load->stream, MEND_KERNEL_STREAM, load->address,
                                  load->size_bytes, 0);
        }
        if (status == MEND_DRIVER_OK) {
            status = p->driver->stream_synchronize(p->driver, load->stream);
        }
        probe_sample(samples, (probe_now_ns(p) - began_ns) / PASSES);
    }
    return status;
}

/* How long a launch takes that starts almost nothing. */
static mend_status time_launches(probe *p, const probe_load *load, probe_samples *samples)
{
    const mend_kernel nothing = {.kind = MEND_KERNEL_SPIN};
    mend_status status = MEND_DRIVER_OK;
    for (int i = 0; status == MEND_DRIVER_OK && i < (p->quick ? 128 : 4096); i++) {
        uint64_t began_ns = probe_now_ns(p);
        status = p->driver->launch(p->driver, load->stream, &nothing);
        probe_sample(samples, probe_now_ns(p) - began_ns);
        if (i % 64 == 63 && status == MEND_DRIVER_OK) {
            status = p->driver->stream_synchronize(p->driver, load->stream);
        }
    }
    return status;
}

static void report(probe *p, const char *what, const storm *s, probe_samples *samples)
{
    mend_json record = probe_record(p, "storm");
    mend_json_string(&record, "what", what);
    mend_json_integer(&record, "pages_a_round", s->count);
    mend_json_integer(&record, "storm_rounds", atomic_load(&s->rounds));
    probe_record_samples(&record, samples);
    probe_record_end(p, &record);
    printf("%-7s while %3llu pages come and go: median %10.1f us, p99 %10.1f, max %10.1f "
           "(%llu rounds)\n",
           what, (unsigned long long)s->count, (double)probe_quantile_ns(samples, 50) / 1000,
           (double)probe_quantile_ns(samples, 99) / 1000,
           (double)probe_quantile_ns(samples, 100) / 1000,
           (unsigned long long)atomic_load(&s->rounds));
}

static bool run_one(probe *p, const probe_load *load, uint64_t pages, bool launches)
{
    static probe_samples samples;
    storm s = {0};
    samples.count = 0;
    if (!storm_begin(&s, p, pages)) {
        return probe_expect(p, "a thread", MEND_DRIVER_UNKNOWN);
    }
    mend_status status =
        launches ? time_launches(p, load, &samples) : time_passes(p, load, &samples);
    storm_end(&s);
    report(p, launches ? "launch" : "pass", &s, &samples);
    return probe_expect(p, "kernels beside a storm", status);
}

void probe_storm(probe *p)
{
    static const uint64_t pages[] = {0, 1, 16, 256};
    probe_load load;
    bool goes_on = probe_expect(p, "the load", probe_load_open(p, &load));
    if (goes_on) {
        static probe_samples warm_up;
        goes_on = probe_expect(p, "a first pass", time_passes(p, &load, &warm_up));
    }
    for (size_t i = 0; goes_on && i < sizeof(pages) / sizeof(pages[0]); i++) {
        uint64_t count = p->quick ? mend_min_u64(pages[i], 4) : pages[i];
        for (int launches = 0; goes_on && launches < 2 && !probe_is_over(p); launches++) {
            goes_on = run_one(p, &load, count, launches == 1);
        }
    }
    probe_load_close(p, &load);
}
