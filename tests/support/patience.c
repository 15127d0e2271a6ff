#include "tests/support/patience.h"

#include <pthread.h>
#include <stdatomic.h>

#include "share/share.h"

enum { LONG_MS = 1000000 };

static _Atomic(uint64_t) now_ms = 1;
static atomic_bool runs;

void mend_test_let_patience_end(bool ends)
{
    atomic_store(&runs, ends);
}

static atomic_bool no_threads;

void mend_test_refuse_threads(bool refuses)
{
    atomic_store(&no_threads, refuses);
}

/* The linker's names for the functions that --wrap puts in the place of the library's. */
uint64_t __wrap_mend_now_ms(void);
bool __real_mend_start_service(pthread_t *, const char *, void *(*)(void *), void *);
bool __wrap_mend_start_service(pthread_t *, const char *, void *(*)(void *), void *);

bool __wrap_mend_start_service(pthread_t *thread, const char *name, void *(*run)(void *),
                               void *context)
{
    return !atomic_load(&no_threads) && __real_mend_start_service(thread, name, run, context);
}

uint64_t __wrap_mend_now_ms(void)
{
    return atomic_fetch_add(&now_ms, atomic_load(&runs) ? LONG_MS : 0);
}
