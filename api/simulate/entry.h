/* Common to every function of the simulated runtime: it is exported, and has no prototype here,
 * because programs have CUDA's own headers, which are not needed here. */
#ifndef MEND_SIMULATE_ENTRY_H
#define MEND_SIMULATE_ENTRY_H

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define SIMULATE_EXPORT __attribute__((visibility("default")))

/* CUDA's version of the simulated driver: 1000 * major + 10 * minor. */
enum { SIMULATE_DRIVER_VERSION = 13020 };

/* The codes of cudaError_t that the simulated runtime returns itself. Codes of the simulated device
 * are the driver's, which have the same values. */
enum {
    CUDA_SUCCESS = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_INVALID_DIRECTION = 21,
    CUDA_MISSING_CONFIGURATION = 52,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_HANDLE = 400,
    CUDA_ILLEGAL_STATE = 401,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_PEER_ENABLED = 704,
    CUDA_PEER_NOT_ENABLED = 705,
    CUDA_REGISTERED = 712,
    CUDA_NOT_REGISTERED = 713,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_CAPTURE_UNSUPPORTED = 900,
    CUDA_CAPTURE_INVALIDATED = 901,
    CUDA_CAPTURE_UNMATCHED = 903,
    CUDA_CAPTURE_UNJOINED = 904,
    CUDA_CAPTURE_WRONG_THREAD = 908,
    CUDA_UNKNOWN = 999
};

#endif
