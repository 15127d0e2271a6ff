#include "tests/support/patience.h"

#include <stdatomic.h>

#include "share/share.h"

enum { LONG_MS = 1000000 };

static _Atomic(uint64_t) now_ms = 1;
static atomic_bool runs;

void mend_test_let_patience_end(bool ends)
{
    atomic_store(&runs, ends);
}

/* The linker's name for the function that --wrap puts in the place of the library's. */
uint64_t __wrap_mend_now_ms(void);

uint64_t __wrap_mend_now_ms(void)
{
    return atomic_fetch_add(&now_ms, atomic_load(&runs) ? LONG_MS : 0);
}
