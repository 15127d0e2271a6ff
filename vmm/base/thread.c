/* The variables of the thread, and how its first use of them in a child of fork finds the parent's
 * and resets them. */
#include "base/thread.h"

#include <stdatomic.h>

typedef struct thread_state {
    uint64_t generation; /* the generation in which the rest was written */
    mend_thread_error error;
    mend_thread_error failures[MEND_FAILURES]; /* by the depth of driver calls */
    unsigned held_ranks;
} thread_state;

static _Thread_local thread_state this_thread;
_Thread_local unsigned mend_process_driver_depth;
_Thread_local unsigned mend_process_callback_depth;
_Thread_local mend_thread_marks mend_process_own_marks;

atomic_bool mend_process_are_marks_set;
_Atomic(uint32_t) mend_process_common_scope;

/* Reset on the first use in a child of fork, not in the fork handler: a thread's first access to
 * its variables may allocate. */
static thread_state *state_of_this_thread(void)
{
    uint64_t now = mend_process_generation();
    if (this_thread.generation != now) {
        this_thread = (thread_state){.generation = now};
    }
    return &this_thread;
}

mend_thread_error *mend_process_error(void)
{
    return &state_of_this_thread()->error;
}

mend_thread_error *mend_process_failure(void)
{
    const unsigned depth = mend_process_driver_depth;
    return &state_of_this_thread()->failures[depth < MEND_FAILURES ? depth : MEND_FAILURES - 1];
}

uint64_t mend_process_thread_number(void)
{
    static atomic_uint_fast64_t last_thread;
    static _Thread_local uint64_t number;
    if (number == 0) {
        number = atomic_fetch_add_explicit(&last_thread, 1, memory_order_relaxed) + 1;
    }
    return number;
}

unsigned *mend_process_held_ranks(void)
{
    return &state_of_this_thread()->held_ranks;
}
