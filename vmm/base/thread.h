/*
 * What belongs to one thread of the process: its last error, the ranks of the locks that it holds,
 * its number, the callbacks that it is inside of. In a child of fork it starts empty.
 */
#ifndef MEND_BASE_THREAD_H
#define MEND_BASE_THREAD_H

#include "mend/mend.h"

enum { MEND_MESSAGE_BYTES = 768 };

typedef struct mend_thread_error {
    mend_result result;
    int driver_status;
    const char *driver_name; /* static; NULL when none */
    const char *driver_call; /* static; NULL when none */
    char message[MEND_MESSAGE_BYTES];
    mend_shortfall shortfall; /* struct_size 0: none */
} mend_thread_error;

/* The last failure that a call of this thread answered with in this process; and the one noted
 * last, by a call that may work around it (base/error.h). */
mend_thread_error *mend_process_error(void);
mend_thread_error *mend_process_failure(void);

/* How many driver calls the calling thread is inside of. A simulated device lets the program make
 * calls there, and what they note is kept apart from what the call outside has noted: down to
 * MEND_FAILURES - 1 of them. */
enum { MEND_FAILURES = 3 };
unsigned *mend_process_driver_depth(void);

/* The calling thread's number, from 1, which no other thread of the process ever has. */
uint64_t mend_process_thread_number(void);

/* How many locks of each rank the calling thread holds, four bits a rank; none in a child of fork.
 * Debug builds only. */
unsigned *mend_process_held_ranks(void);

/* How many pressure callbacks the calling thread is inside of. A child of fork is inside of them as
 * the thread was that forked. */
unsigned *mend_process_callback_depth(void);

#endif
