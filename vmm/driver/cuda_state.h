/* The state of the CUDA driver: the loaded functions and the open devices. */
#ifndef MEND_DRIVER_CUDA_STATE_H
#define MEND_DRIVER_CUDA_STATE_H

#include "base/align.h"
#include "base/thread.h"
#include "driver/cuda_abi.h"
#include "driver/driver.h"

enum { MEND_CUDA_DEVICE_LIMIT = 64 };

/* A device between its first device_open and its last device_close. */
typedef struct mend_cuda_device {
    int opens;
    mend_context context;
} mend_cuda_device;

typedef struct mend_cuda {
    mend_driver table; /* its `state` is this structure */
    mend_cu_functions functions;
    mend_status init_status; /* result of cuInit. If it failed, every call returns it */
    mend_mutex mutex;        /* guards the members below */
    mend_cuda_device device[MEND_CUDA_DEVICE_LIMIT];
    /* Also after the device is closed. No page size: not probed yet. */
    mend_device_info probed[MEND_CUDA_DEVICE_LIMIT];
} mend_cuda;

static inline mend_cuda *mend_cuda_of(const mend_driver *driver)
{
    return driver->state;
}

static inline const mend_cu_functions *mend_cuda_functions(const mend_driver *driver)
{
    return &mend_cuda_of(driver)->functions;
}

/* MEND_ERROR_NO_DRIVER, with the missing name in the message. */
mend_result mend_cuda_load(mend_cu_functions *functions);

/* The driver's structure for how to create a chunk. */
static inline mend_cu_chunk_properties
mend_cuda_chunk_properties(const mend_chunk_properties *properties)
{
    mend_cu_chunk_properties result = {.type = MEND_CU_ALLOCATION_PINNED,
                                       .share_types = properties->share_types,
                                       .location = {MEND_CU_LOCATION_DEVICE, properties->device},
                                       .flags.rdma = properties->rdma ? 1 : 0};
    return result;
}

/* The functions of the table: in cuda.c, or in files of their own. */
#define X(member, name, bytes, parameters, arguments) mend_status mend_cuda_##member parameters;
MEND_DRIVER_CALLS(X)
#undef X

#endif
