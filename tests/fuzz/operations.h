/* How an input of the target `operations` is laid out: its place, then operations. */
#ifndef MEND_TESTS_FUZZ_OPERATIONS_H
#define MEND_TESTS_FUZZ_OPERATIONS_H

#include "tests/sim/operations.h"

enum { FUZZ_PLACE_BYTES = 18, FUZZ_MOST_OPERATIONS = 256 };

#endif
