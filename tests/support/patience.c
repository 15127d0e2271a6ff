#include "tests/support/patience.h"

#include <stdatomic.h>

#include "share/share.h"

static atomic_bool clock_runs;

void mend_test_let_patience_end(bool ends)
{
    atomic_store(&clock_runs, ends);
}

/* The linker's names for the function that --wrap puts this in front of. */
uint64_t __real_mend_now_ms(void);
uint64_t __wrap_mend_now_ms(void);

uint64_t __wrap_mend_now_ms(void)
{
    return atomic_load(&clock_runs) ? __real_mend_now_ms() : 1;
}
