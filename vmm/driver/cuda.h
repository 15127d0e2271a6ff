/* The real driver: libcuda.so.1, found at run time. No CUDA header is needed to build. */
#ifndef MEND_DRIVER_CUDA_H
#define MEND_DRIVER_CUDA_H

#include "driver/driver.h"

/*
 * The table of the CUDA driver, loaded once per process and never unloaded. MEND_OK;
 * MEND_ERROR_NO_DRIVER if libcuda.so.1 cannot be loaded or lacks a call that Mend needs
 * (mend_last_error names it). Thread-safe.
 */
mend_result mend_cuda_driver(const mend_driver **driver);

#endif
