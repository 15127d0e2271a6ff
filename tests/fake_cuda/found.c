#include "tests/fake_cuda/found.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "driver/cuda.h"
#include "driver/cuda_state.h"
#include "tests/support/test.h"

bool is_old(void)
{
    const char *age = getenv("MEND_FAKE_CUDA");
    return age != NULL && strcmp(age, "old") == 0;
}

fake_cuda *find_fake(void)
{
    fake_cuda_find find = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *function = library != NULL ? dlsym(library, "fake_cuda_get") : NULL;
    EXPECT_TRUE(function != NULL);
    if (function == NULL) {
        return NULL;
    }
    memcpy(&find, &function, sizeof(find));
    fake_cuda *fake = find();
    fake->switches =
        (fake_cuda_switches){.virtual_memory_claimed = true, .everything_claimed = true};
    return fake;
}

mend_sim_ledger ledger_of(const fake_cuda *fake)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(fake->sim, &ledger);
    return ledger;
}

void expect_nothing_left(const fake_cuda *fake)
{
    mend_sim_ledger ledger = ledger_of(fake);
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_U64_EQ(0, ledger.mappings);
    EXPECT_U64_EQ(0, ledger.reservations);
    EXPECT_U64_EQ(0, ledger.streams);
    EXPECT_U64_EQ(0, ledger.events);
    EXPECT_U64_EQ(0, ledger.contexts_open);
    EXPECT_U64_EQ(0, ledger.pending_work);
    EXPECT_U64_EQ(0, fake->modules);
}

bool find_both(fake_cuda **fake, const mend_driver **driver)
{
    *fake = find_fake();
    bool found = *fake != NULL && mend_cuda_driver(driver) == MEND_OK;
    EXPECT_TRUE(found);
    if (found) { /* each test begins as a process does */
        mend_cuda_of(*driver)->probed[0].is_known = false;
    }
    return found;
}
