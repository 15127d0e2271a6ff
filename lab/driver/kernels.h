/*
 * The CUDA driver's table with kernels, for tools and tests: the library itself never launches, so
 * its table refuses to (mend_driver.launch).
 */
#ifndef MEND_LAB_DRIVER_KERNELS_H
#define MEND_LAB_DRIVER_KERNELS_H

#include "driver/cuda_abi.h"

typedef struct CUmod_st *mend_cu_module;
typedef struct CUfunc_st *mend_cu_function;

/* The functions of the driver that this needs, as those in driver/cuda_abi.h. */
#define MEND_CU_KERNEL_FUNCTIONS(X)                                                                \
    X(cuModuleLoadData, 2000, "", (mend_cu_module * module, const void *image))                    \
    X(cuModuleUnload, 2000, "", (mend_cu_module module))                                           \
    X(cuModuleGetFunction, 2000, "",                                                               \
      (mend_cu_function * function, mend_cu_module module, const char *name))                      \
    X(cuLaunchKernel, 4000, "",                                                                    \
      (mend_cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,   \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, mend_stream stream, void **parameters, void **extra))

/* mend_cuda_driver, whose table also launches. Thread-safe. */
mend_result mend_cuda_driver_with_kernels(const mend_driver **driver);

/* The text of the program. All entries take seven parameters: address, granule_bytes, stride_bytes,
 * granule_count, value, duration_ns and mismatches of mend_kernel. */
extern const char mend_ptx_program[];

/* The name of a kernel's entry in the program. Static. NULL for an unknown kind. */
const char *mend_ptx_entry(mend_kernel_kind kind);

/* How many blocks and threads a kernel is launched with. */
typedef struct mend_ptx_launch {
    unsigned blocks;
    unsigned threads;
} mend_ptx_launch;

mend_ptx_launch mend_ptx_shape(const mend_kernel *kernel);

#endif
