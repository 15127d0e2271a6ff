#include "tests/fake_cuda/found.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/cuda_state.h"
#include "driver/driver.h"
#include "lab/driver/kernels.h"
#include "tests/support/files.h"

bool is_old(void)
{
    const char *age = getenv("MEND_FAKE_CUDA");
    return age != NULL && strcmp(age, "old") == 0;
}

fake_cuda *fake;
const mend_driver *cuda;
mend_device_info info;

bool find_both(void)
{
    fake_cuda_find find = NULL;
    mend_test_files_stay = true;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *function = library != NULL ? dlsym(library, "fake_cuda_get") : NULL;
    if (function == NULL || mend_cuda_driver_with_kernels(&cuda) != MEND_OK) {
        return false;
    }
    memcpy(&find, &function, sizeof(find));
    fake = find();
    fake->switches =
        (fake_cuda_switches){.virtual_memory_claimed = true, .everything_claimed = true};
    mend_cuda_of(cuda)->probed[0].granularity_bytes = 0; /* each test begins as a process does */
    return true;
}

bool enter_device(void)
{
    return cuda->device_open(cuda, 0, &info) == MEND_DRIVER_OK &&
           cuda->context_push(cuda, info.context) == MEND_DRIVER_OK;
}

void leave_device(void)
{
    int current = 0;
    EXPECT_OK(cuda->context_pop(cuda));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_CONTEXT, cuda->context_device(cuda, &current));
    EXPECT_OK(cuda->device_close(cuda, 0));
}

mend_sim_ledger ledger_of_fake(void)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(fake->sim, &ledger);
    return ledger;
}

/* Only pinned pages are kept from children of fork. */
static bool has_pinned_pages(void)
{
    char line[512];
    bool has_any = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        has_any = has_any || (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dc ") != NULL);
    }
    return file == NULL || fclose(file) != 0 || has_any;
}

void expect_nothing_left(void)
{
    EXPECT_FALSE(has_pinned_pages());
    const mend_sim_ledger ledger = ledger_of_fake();
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_U64_EQ(0, ledger.mappings);
    EXPECT_U64_EQ(0, ledger.reservations);
    EXPECT_U64_EQ(0, ledger.streams);
    EXPECT_U64_EQ(0, ledger.events);
    EXPECT_U64_EQ(0, ledger.contexts_open);
    EXPECT_U64_EQ(0, ledger.pending_work);
    EXPECT_U64_EQ(0, ledger.host_allocations);
    EXPECT_U64_EQ(0, fake->registered);
    EXPECT_U64_EQ(0, fake->modules);
    EXPECT_U64_EQ(0, fake->user_objects);
}
