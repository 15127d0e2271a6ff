/* The number that tells a process what it inherited through fork. */
#ifndef MEND_BASE_GENERATION_H
#define MEND_BASE_GENERATION_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Never 0, and different from that of every ancestor of the process. What was made under another
 * number was inherited through fork. It may not be touched, not even its locks: a thread that does
 * not exist in the child may hold them. No system call, no lock.
 */
extern _Atomic uint64_t mend_process_generation_now __attribute__((visibility("hidden")));
static inline uint64_t mend_process_generation(void)
{
    return atomic_load_explicit(&mend_process_generation_now, memory_order_relaxed);
}

/* Called in the child of a fork. */
static inline void mend_process_next_generation(void)
{
    atomic_fetch_add_explicit(&mend_process_generation_now, 1, memory_order_relaxed);
}

#endif
