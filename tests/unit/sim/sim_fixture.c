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
    PASS(device_open, 0, &f->info);
    PASS(context_push, f->info.context);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(f->sim, NULL, &f->stream));
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
    PASS(create, size_bytes, &properties, &handle);
    return handle;
}

void sim_fixture_allow(sim_fixture *f, uint64_t address, uint64_t size_bytes)
{
    const int device = 0;
    PASS(set_access, address, size_bytes, &device, 1, MEND_ACCESS_READ_WRITE);
}

uint64_t sim_fixture_map(sim_fixture *f, uint64_t mapped_bytes, uint64_t reserved_bytes)
{
    uint64_t address = 0;
    PASS(reserve, reserved_bytes, 0, 0, &address);
    mend_chunk_handle handle = sim_fixture_chunk(f, mapped_bytes);
    PASS(map, address, mapped_bytes, 0, handle);
    PASS(release, handle);
    sim_fixture_allow(f, address, mapped_bytes);
    return address;
}

void sim_fixture_map_at(sim_fixture *f, uint64_t address, mend_chunk_handle chunk)
{
    PASS(map, address, f->page, 0, chunk);
    sim_fixture_allow(f, address, f->page);
}

mend_event sim_fixture_event(sim_fixture *f)
{
    mend_event event = NULL;
    PASS(event_create, &event);
    return event;
}

mend_stream sim_fixture_stream(sim_fixture *f)
{
    mend_stream stream = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(f->sim, NULL, &stream));
    return stream;
}

void sim_fixture_spin(sim_fixture *f, mend_stream stream, uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    PASS(launch, stream, &kernel);
}

mend_stream_info sim_fixture_info(sim_fixture *f, mend_stream stream)
{
    mend_stream_info info = {0};
    PASS(stream_get_info, stream, &info);
    return info;
}

void sim_fixture_begin_capture(sim_fixture *f, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, stream, MEND_SIM_CAPTURE_GLOBAL));
}

mend_sim_graph *sim_fixture_end_capture(sim_fixture *f, mend_stream stream)
{
    mend_sim_graph *graph = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, stream, &graph));
    return graph;
}

void sim_fixture_launch(sim_fixture *f, mend_sim_graph *graph, uint64_t finish_ns)
{
    EXPECT_RESULT(MEND_OK, mend_sim_graph_launch(f->sim, graph, f->stream, finish_ns));
}

void sim_fixture_work(sim_fixture *f, mend_stream stream, mend_sim_work_kind kind, uint64_t address,
                      uint64_t size_bytes, uint64_t tag, uint64_t finish_ns)
{
    const mend_sim_work work = {sizeof(mend_sim_work), kind, address, size_bytes, tag, finish_ns};
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

mend_kernel sim_kernel(mend_kernel_kind kind, uint64_t address, uint64_t granule_bytes,
                       uint64_t stride_bytes, uint64_t granule_count)
{
    return (mend_kernel){.kind = kind,
                         .address = address,
                         .granule_bytes = granule_bytes,
                         .stride_bytes = stride_bytes,
                         .granule_count = granule_count};
}
