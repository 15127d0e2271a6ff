#include "tests/support/threads.h"

#include <pthread.h>

#include "tests/support/test.h"

enum { MOST_THREADS = 16 };

void mend_test_run_threads_of(void *(*body)(void *element), void *elements, size_t element_bytes,
                              size_t count)
{
    pthread_t threads[MOST_THREADS];
    size_t started = 0;
    while (started < count && started < MOST_THREADS &&
           pthread_create(&threads[started], NULL, body,
                          (char *)elements + started * element_bytes) == 0) {
        started++;
    }
    EXPECT_U64_EQ(count, started);
    for (size_t i = 0; i < started; i++) {
        EXPECT_INT_EQ(0, pthread_join(threads[i], NULL));
    }
}

void mend_test_run_thread(void *(*body)(void *argument), void *argument)
{
    mend_test_run_threads_of(body, argument, 0, 1);
}
