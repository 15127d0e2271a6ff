/* The clocks of the benchmarks. */
#ifndef MEND_SPEED_CLOCK_H
#define MEND_SPEED_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t speed_read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t speed_now_ns(void)
{
    return speed_read_ns(CLOCK_MONOTONIC);
}

/* Of this thread: does not count while others have the processor. */
static inline uint64_t speed_cpu_ns(void)
{
    return speed_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

#endif
