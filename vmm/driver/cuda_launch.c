/* Launching the small kernels of tools and tests: loaded once per open device, at first use. */
#include <assert.h>
#include <string.h>

#include "driver/cuda_state.h"
#include "driver/ptx.h"

static mend_status load_kernels(const mend_cu_functions *functions, mend_cuda_device *device)
{
    assert(device->opens > 0);
    assert(device->module == NULL);
    mend_cu_module module = NULL;
    mend_cu_function kernel[MEND_KERNEL_KINDS];
    mend_status status = functions->cuModuleLoadData(&module, mend_ptx_program);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    for (int kind = 0; kind < MEND_KERNEL_KINDS; kind++) {
        status = functions->cuModuleGetFunction(&kernel[kind], module,
                                                mend_ptx_entry((mend_kernel_kind)kind));
        if (status != MEND_DRIVER_OK) {
            functions->cuModuleUnload(module);
            return status;
        }
    }
    device->module = module;
    memcpy(device->kernel, kernel, sizeof(kernel));
    return MEND_DRIVER_OK;
}

/* The kernel in the current context, which is that of an open device. */
static mend_status find_kernel(mend_cuda *cuda, mend_kernel_kind kind, mend_cu_function *kernel)
{
    assert(kind < MEND_KERNEL_KINDS);
    mend_context current = NULL;
    mend_status status = cuda->functions.cuCtxGetCurrent(&current);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    status = MEND_DRIVER_INVALID_CONTEXT;
    mend_mutex_lock(&cuda->mutex);
    for (int i = 0; i < MEND_CUDA_DEVICE_LIMIT; i++) {
        mend_cuda_device *device = &cuda->device[i];
        if (device->opens == 0 || device->context != current) {
            continue;
        }
        status = device->module != NULL ? MEND_DRIVER_OK : load_kernels(&cuda->functions, device);
        if (status == MEND_DRIVER_OK) {
            *kernel = device->kernel[kind];
        }
        break;
    }
    mend_mutex_unlock(&cuda->mutex);
    return status;
}

mend_status mend_cuda_launch(const mend_driver *driver, mend_stream stream,
                             const mend_kernel *kernel)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    if (mend_ptx_entry(kernel->kind) == NULL || !mend_kernel_is_sound(kernel)) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    mend_cu_function function = NULL;
    mend_status status = find_kernel(cuda, kernel->kind, &function);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    const mend_ptx_launch launch = mend_ptx_shape(kernel);
    mend_kernel own = *kernel; /* the driver's interface takes no constants */
    void *parameters[] = {&own.address, &own.granule_bytes, &own.stride_bytes, &own.granule_count,
                          &own.value,   &own.duration_ns,   &own.mismatches};
    return cuda->functions.cuLaunchKernel(function, launch.blocks, 1, 1, launch.threads, 1, 1, 0,
                                          stream, parameters, NULL);
}
