/* The fake libcuda as a test finds it, and the real driver's table over it. */
#ifndef MEND_TESTS_FAKE_CUDA_FOUND_H
#define MEND_TESTS_FAKE_CUDA_FOUND_H

#include "tests/support/fake_cuda/fake_cuda.h"

/* MEND_FAKE_CUDA says so: a driver before CUDA 12.0. */
bool is_old(void);

/* The fake behind the entry points, its switches as at first; NULL, recorded, if it is not the
 * library that is found. */
fake_cuda *find_fake(void);

/* Both, or a failed test. */
bool find_both(fake_cuda **fake, const mend_driver **driver);

mend_sim_ledger ledger_of(const fake_cuda *fake);
void expect_nothing_left(const fake_cuda *fake);

#endif
