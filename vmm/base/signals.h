/*
 * SIGUSR2, by which people ask a pool for a snapshot: a handler that rings bells, and leaves the
 * rest to the threads that hear them. And threads of the library, which take no signals.
 */
#ifndef MEND_BASE_SIGNALS_H
#define MEND_BASE_SIGNALS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * From now on SIGUSR2 writes to `bell`, an eventfd that does not block, and then calls the
 * program's own handler, if there is one. A child of fork has the handler that the program had. The
 * caller holds no lock, and the code stays loaded. False: MEND_BELLS bells are there, or another
 * handler has come above Mend's, which may or may not call it.
 */
bool mend_signals_hear(int bell);

/* No more, and no thread writes to it when this returns. With the last bell the program has its own
 * handler back, unless it has set another meanwhile. */
void mend_signals_miss(int bell);

/* How often the signal has come while there was a bell. A bell is written behind it. */
unsigned mend_signals_count(void);

/*
 * Starts a thread that takes no signals, which are for the program's threads. Debuggers and `top
 * -H` show `name`, at most 15 characters. The thread runs when this returns. So a fork right after
 * it does not find the C library, or a sanitizer, in the middle of a start, whose locks a child
 * would wait for for ever.
 */
bool mend_signals_start_thread(pthread_t *thread, const char *name, void *(*run)(void *),
                               void *context);

/* dlclose leaves the library in the process from now on. */
void mend_hold_library(void);

/* mend_signals_start_thread of one that holds the library, whose code it may run until the process
 * ends. */
bool mend_start_service(pthread_t *thread, const char *name, void *(*run)(void *), void *context);

/* A clock for patience between threads and processes. */
uint64_t mend_now_ms(void);

#endif
