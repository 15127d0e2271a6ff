/* The number by which a process knows what it inherited through fork. */
#ifndef MEND_BASE_GENERATION_H
#define MEND_BASE_GENERATION_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * A number, never 0, that a process shares with none of its ancestors. What was made under another
 * one was inherited through fork and may not be touched, not even its locks, which a thread that
 * the child does not have may hold. No system call, no lock.
 */
extern _Atomic uint64_t mend_process_generation_now __attribute__((visibility("hidden")));
static inline uint64_t mend_process_generation(void)
{
    return atomic_load_explicit(&mend_process_generation_now, memory_order_relaxed);
}

/* In a child of fork. */
static inline void mend_process_next_generation(void)
{
    atomic_fetch_add_explicit(&mend_process_generation_now, 1, memory_order_relaxed);
}

#endif
