/*
 * The entry points of the fake driver. Each is declared from the lists of the headers here, so that
 * it has the real type, and works as documented by calling the simulated device. Built with
 * FAKE_CUDA_OLD the fake has no functions of CUDA 12.0.
 */
#ifndef MEND_TESTS_FAKE_CUDA_ENTRIES_H
#define MEND_TESTS_FAKE_CUDA_ENTRIES_H

#include "lab/driver/kernels.h"
#include "lab/peers/cuda_pool.h"
#include "tests/support/fake_cuda/fake_cuda.h"

enum { FAKE_DRIVER_VERSION = 12080 };

#define X(name, version, suffix, parameters)                                                       \
    MEND_API mend_status name parameters __asm__(#name suffix);
MEND_CU_FUNCTIONS(X)
MEND_CU_KERNEL_FUNCTIONS(X)
#ifndef FAKE_CUDA_OLD
MEND_CU_OPTIONAL_FUNCTIONS(X)
MEND_CU_POOL_FUNCTIONS(X)
#endif
#undef X

MEND_API fake_cuda *fake_cuda_get(void);

/* The table behind the entry points. */
const mend_driver *inner(void);

/* Memory taken from the device. */
uint64_t fake_cuda_taken_bytes(void);

/* An entry point that is a call of the table. */
#define FORWARD(name, call, parameters, ...)                                                       \
    mend_status name parameters                                                                    \
    {                                                                                              \
        return inner()->call(inner(), __VA_ARGS__);                                                \
    }

#endif
