/*
 * Finding the driver: libcuda.so.1 by dlopen, its functions by cuGetProcAddress_v2 or, in drivers
 * before 12.0, by their versioned names. The library is never unloaded, because other code of the
 * process uses it, and its own threads would run into unmapped code.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "driver/cuda_state.h"

typedef struct cuda_library {
    void *handle;
    mend_cu_get_proc_address get_proc_address; /* NULL in drivers before 12.0 */
} cuda_library;

/* dlsym returns an object pointer; POSIX promises the same bytes as the function pointer's. */
static void copy_function(void *target, void *const *source)
{
    memcpy(target, source, sizeof(*source));
}

static void *find_function(const cuda_library *library, const char *name, int version,
                           const char *symbol)
{
    void *function = NULL;
    if (library->get_proc_address == NULL) {
        return dlsym(library->handle, symbol);
    }
    mend_cu_symbol_status found = 0;
    mend_status status =
        library->get_proc_address(name, &function, version, MEND_CU_SYMBOLS_LEGACY_STREAM, &found);
    return status == MEND_DRIVER_OK && found == 0 ? function : NULL;
}

mend_result mend_cuda_load(mend_cu_functions *functions)
{
    cuda_library library = {dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), NULL};
    if (library.handle == NULL) {
        const char *reason = dlerror();
        return mend_fail(MEND_ERROR_NO_DRIVER,
                         "the CUDA driver cannot be loaded (%s); install the NVIDIA driver, or use "
                         "the simulated device",
                         reason != NULL ? reason : "libcuda.so.1");
    }
    void *function = dlsym(library.handle, "cuGetProcAddress_v2");
    copy_function(&library.get_proc_address, &function);

    mend_cu_functions found;
#define X(name, version, suffix, parameters)                                                       \
    function = find_function(&library, #name, version, #name suffix);                              \
    copy_function(&found.name, &function);
    MEND_CU_OPTIONAL_FUNCTIONS(X)
#undef X
#define X(name, version, suffix, parameters)                                                       \
    function = find_function(&library, #name, version, #name suffix);                              \
    if (function == NULL) {                                                                        \
        dlclose(library.handle);                                                                   \
        return mend_fail(MEND_ERROR_NO_DRIVER,                                                     \
                         "libcuda.so.1 has no %s; Mend needs a driver of CUDA 11.3 or later",      \
                         #name suffix);                                                            \
    }                                                                                              \
    copy_function(&found.name, &function);
    MEND_CU_FUNCTIONS(X)
#undef X
    *functions = found;
    return MEND_OK;
}
