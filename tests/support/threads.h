/* Threads of a test that begin, do one thing and end. */
#ifndef MEND_TESTS_SUPPORT_THREADS_H
#define MEND_TESTS_SUPPORT_THREADS_H

#include <stddef.h>

/* Runs `body` in so many threads at once, each with an element of an array, and returns when all
 * have ended. One that cannot be started is a failure of the test. Elements of no bytes are the
 * same for all. */
#define mend_test_run_threads(body, elements, count)                                               \
    mend_test_run_threads_of(body, elements,                                                       \
                             (size_t)((char *)&(elements)[1] - (char *)(elements)), count)
void mend_test_run_threads_of(void *(*body)(void *element), void *elements, size_t element_bytes,
                              size_t count);

/* The same with one thread. */
void mend_test_run_thread(void *(*body)(void *argument), void *argument);

#endif
