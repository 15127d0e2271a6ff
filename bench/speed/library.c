#include "speed/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *open_one(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
    }
    return handle;
}

bool speed_find(void *handle, const char *name, void *call)
{
    /* POSIX: a pointer to a function looks like one to an object. */
    void *symbol = dlsym(handle, name);
    memcpy(call, &symbol, sizeof(symbol));
    return symbol != NULL;
}

bool speed_library_open(const char *folder, speed_library *library)
{
    folder = folder != NULL ? folder : MEND_BENCH_LIBRARIES;
    void *mend = open_one(folder, "libmend.so");
    void *sim = open_one(folder, "libmend_sim.so");
    bool good = mend != NULL && sim != NULL;
#define X(function) good = good && speed_find(mend, #function, &library->function);
    SPEED_MEND_CALLS(X)
#undef X
#define X(function) (void)(good && speed_find(mend, #function, &library->function));
    SPEED_DEVICE_CALLS(X)
#undef X
#define X(function) good = good && speed_find(sim, #function, &library->function);
    SPEED_SIM_CALLS(X)
#undef X
    return good;
}
