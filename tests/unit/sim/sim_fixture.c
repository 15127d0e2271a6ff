#include "tests/unit/sim/sim_fixture.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_MEMORY_BYTES (64 * MEND_MIB)
#define DEFAULT_PAGE_BYTES   (64 * MEND_KIB)

static void hear(void *context, const char *explanation)
{
    sim_fixture *f = context;
    f->heard++;
    snprintf(f->last, sizeof(f->last), "%s", explanation);
}

bool sim_fixture_open(sim_fixture *f, const mend_sim_config *config)
{
    *f = (sim_fixture){0};
    mend_sim_config filled = MEND_SIM_CONFIG_INIT;
    if (config != NULL) {
        filled = *config;
    }
    filled.memory_bytes = filled.memory_bytes != 0 ? filled.memory_bytes : DEFAULT_MEMORY_BYTES;
    filled.page_bytes = filled.page_bytes != 0 ? filled.page_bytes : DEFAULT_PAGE_BYTES;
    filled.on_violation = hear;
    filled.violation_context = f;
    mend_result result = mend_sim_create(&filled, &f->sim);
    EXPECT_RESULT(MEND_OK, result);
    if (result != MEND_OK) {
        return false;
    }
    f->driver = mend_sim_driver(f->sim);
    EXPECT_OK(f->driver->device_open(f->driver, 0, &f->info));
    EXPECT_OK(f->driver->context_push(f->driver, f->info.context));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(f->sim, &f->stream));
    f->page = f->info.granularity_bytes;
    return true;
}

/* The thread's stack goes with the device. */
void sim_fixture_close(sim_fixture *f)
{
    mend_sim_ledger ledger = sim_fixture_ledger(f);
    EXPECT_U64_EQ(f->heard, ledger.violations);
    mend_sim_destroy(f->sim);
}

mend_chunk_handle sim_fixture_chunk(sim_fixture *f, uint64_t size_bytes)
{
    const mend_chunk_properties properties = {0};
    mend_chunk_handle handle = 0;
    EXPECT_OK(f->driver->create(f->driver, size_bytes, &properties, &handle));
    return handle;
}

void sim_fixture_allow(sim_fixture *f, uint64_t address, uint64_t size_bytes)
{
    const int device = 0;
    EXPECT_OK(
        f->driver->set_access(f->driver, address, size_bytes, &device, 1, MEND_ACCESS_READ_WRITE));
}

uint64_t sim_fixture_map(sim_fixture *f, uint64_t mapped_bytes, uint64_t reserved_bytes)
{
    uint64_t address = 0;
    EXPECT_OK(f->driver->reserve(f->driver, reserved_bytes, 0, 0, &address));
    mend_chunk_handle handle = sim_fixture_chunk(f, mapped_bytes);
    EXPECT_OK(f->driver->map(f->driver, address, mapped_bytes, 0, handle));
    EXPECT_OK(f->driver->release(f->driver, handle));
    sim_fixture_allow(f, address, mapped_bytes);
    return address;
}

void sim_fixture_work(sim_fixture *f, mend_stream stream, mend_sim_work_kind kind, uint64_t address,
                      uint64_t size_bytes, uint64_t tag, uint64_t finish_ns)
{
    const mend_sim_work work = {kind, address, size_bytes, tag, finish_ns};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(f->sim, stream, &work));
}

mend_sim_ledger sim_fixture_ledger(sim_fixture *f)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(f->sim, &ledger));
    return ledger;
}

bool sim_fixture_heard(const sim_fixture *f, const char *words)
{
    return strstr(f->last, words) != NULL;
}
