/* Chance for tests. Separate from the programs' main, for programs with their own. */
#include "tests/support/test.h"

void mend_test_random_init(mend_test_random *random, uint64_t seed)
{
    random->state = seed;
}

uint64_t mend_test_random_next(mend_test_random *random) /* splitmix64 */
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t mend_test_random_below(mend_test_random *random, uint64_t bound)
{
    return mend_test_random_next(random) % bound;
}
