/* Threads: locks with a rank, and the state of one thread of the process: its last error, its
 * number, the ranks of the locks that it holds, and how many callbacks and driver calls it is
 * inside of. A child of fork starts without an error and without locks. */
#ifndef MEND_BASE_THREAD_H
#define MEND_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mend/mend.h"

enum { MEND_MESSAGE_BYTES = 1024, MEND_OWNERS_TOLD = 4 };

typedef struct mend_thread_error {
    mend_result result;
    int driver_status;
    const char *driver_name; /* static. NULL: none */
    const char *driver_call; /* static. NULL: none */
    char message[MEND_MESSAGE_BYTES];
    mend_oom_report oom_report;          /* struct_size 0: none */
    mend_owner owners[MEND_OWNERS_TOLD]; /* of that. The last is the suspect. 0 blocks: none */
} mend_thread_error;

/* The failure that a call of this thread returned last (the thread's last error), and the failure
 * noted last, which a call may still work around (base/error.h). */
mend_thread_error *mend_process_error(void);
mend_thread_error *mend_process_failure(void);

/* How many driver calls the calling thread is inside of. A simulated device lets the program call
 * Mend from inside one. The notes of such calls are separate from the outer call's, for up to
 * MEND_FAILURES - 1 nested calls. */
enum { MEND_FAILURES = 3 };
extern _Thread_local unsigned mend_process_driver_depth __attribute__((visibility("hidden")));

/* The calling thread's number, from 1. No other thread of the process ever gets it. */
uint64_t mend_process_thread_number(void);

/* How many locks of each rank the calling thread holds, four bits for each rank. None in a child of
 * fork. Debug builds only. */
unsigned *mend_process_held_ranks(void);

/* How many pressure callbacks the calling thread is inside of. The thread that forked keeps its
 * count in the child. */
extern _Thread_local unsigned mend_process_callback_depth __attribute__((visibility("hidden")));

/* The marks of the calling thread for its blocks. */
typedef struct mend_thread_marks {
    uint64_t sleep_tag;       /* 0: none */
    uint64_t alignment_bytes; /* of the blocks that it allocates, at least. 0: as each call asks */
    int8_t in_one_chunk;      /* these switches are as in mend_alloc_options */
    int8_t plain;
    uint32_t scope;         /* number of the scope that the thread is in (base/words.h). 0: none */
    uint32_t depth;         /* scopes that it is inside of */
    uint32_t shares_from;   /* depth from which on its scope is the common one. 0: it is not */
    uint32_t failed_scopes; /* scopes begun since one could not be named */
    uint32_t stack;         /* of the next block that it allocates. 0: none */
    bool is_in_source;      /* of stacks */
    uint64_t unasked_bytes; /* small blocks since the source was asked about one */
    uint64_t shares_in;     /* the process in which it began to share */
} mend_thread_marks;

/* Whether a thread of the process ever set any. Most programs do not, and they are not read then.
 */
extern atomic_bool mend_process_are_marks_set __attribute__((visibility("hidden")));
static inline bool mend_process_has_marks(void)
{
    return atomic_load_explicit(&mend_process_are_marks_set, memory_order_relaxed);
}

/* The thread's own, to change them. */
extern _Thread_local mend_thread_marks mend_process_own_marks __attribute__((visibility("hidden")));

/* The scope of threads that are in none of their own. 0: none. */
extern _Atomic(uint32_t) mend_process_common_scope __attribute__((visibility("hidden")));

/* The current marks for a block. */
static inline mend_thread_marks mend_process_marks(void)
{
    mend_thread_marks marks = mend_process_own_marks;
    if (marks.scope == 0) {
        marks.scope = atomic_load_explicit(&mend_process_common_scope, memory_order_acquire);
    }
    return marks;
}

/* The stack that was found for the block that the thread allocates now. It has none after this. */
static inline uint32_t mend_process_take_stack(void)
{
    mend_thread_marks *own = &mend_process_own_marks;
    const uint32_t stack = own->stack;
    own->stack = 0;
    return stack;
}

/* The number by which a process finds state inherited through fork: never 0, and different from the
 * number of every ancestor. State with another number may not be touched, not even its locks: a
 * thread that does not exist in the child may hold them. No system call, no lock. */
extern _Atomic uint64_t mend_process_generation_now __attribute__((visibility("hidden")));
static inline uint64_t mend_process_generation(void)
{
    return atomic_load_explicit(&mend_process_generation_now, memory_order_relaxed);
}

/* ---- mutex.c --------------------------------------------------------------------------------- */

/* A lock with a rank. A thread may wait for a lock only while it holds no lock of the same or a
 * higher rank. Debug builds assert it. Locks may be released in any order. */

/* From the outermost lock to the innermost. */
typedef enum mend_lock_rank {
    MEND_RANK_PROCESS = 1, /* the list of pools, the loaded driver */
    MEND_RANK_GROW = 2,    /* one pool's right to change mappings. Held during slow driver calls */
    MEND_RANK_POOL = 3,    /* one pool's heap and statistics. Released during slow driver calls */
    MEND_RANK_DRIVER = 4,  /* decorators and the simulated device */
    MEND_RANK_SHARE = 5,   /* exports of the process, and its begun graph pools */
    MEND_RANK_LOG = 6
} mend_lock_rank;

typedef struct mend_mutex {
    pthread_mutex_t mutex;
    mend_lock_rank rank;
} mend_mutex;

#define MEND_MUTEX_INITIALIZER(lock_rank)                                                          \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, lock_rank                                                       \
    }

void mend_mutex_init(mend_mutex *mutex, mend_lock_rank rank);
void mend_mutex_destroy(mend_mutex *mutex);
void mend_mutex_lock(mend_mutex *mutex);
void mend_mutex_unlock(mend_mutex *mutex);

/* Takes the lock if it is free. Never waits, so any order of ranks is allowed. The lock then counts
 * like any other. */
bool mend_mutex_try_lock(mend_mutex *mutex);

/* For assertions: whether the calling thread holds a lock of this one's rank. Whether it holds none
 * of a rank or of a higher one. A lock that was never initialized, as in a heap that a test lays
 * out by hand, counts as held. */
#ifndef NDEBUG
bool mend_mutex_is_held(const mend_mutex *mutex);
bool mend_mutex_none_is_held_from(mend_lock_rank rank);
#endif

/* Releases the mutex, waits for a change that another thread makes under it, and takes it again. It
 * is the innermost one that the caller holds. Wakeups without a change are possible. */
void mend_condition_wait(pthread_cond_t *condition, mend_mutex *mutex);
void mend_condition_wake_all(pthread_cond_t *condition);

#endif
