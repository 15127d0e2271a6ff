#include "tests/unit/memory/stream_rig.h"

mend_stream stream_rig_create(stream_rig *r)
{
    mend_stream stream = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r->sim, NULL, &stream));
    return stream;
}

uint32_t stream_rig_find(stream_rig *r, mend_stream handle, uint32_t graph_pool)
{
    uint32_t index = MEND_STREAM_UNKNOWN;
    EXPECT_RESULT(MEND_OK, mend_streams_find(&r->streams, handle, graph_pool, &index));
    return index;
}

static bool open_on(stream_rig *r, int devices)
{
    *r = (stream_rig){0};
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.device_count = devices;
    if (mend_sim_create(&config, &r->sim) != MEND_OK) {
        return false;
    }
    r->device = mend_sim_driver(r->sim);
    r->driver = *r->device;
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->device_open(r->device, 0, &r->info));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->context_push(r->device, r->info.context));
    EXPECT_RESULT(MEND_OK, mend_streams_init(&r->streams, &r->driver, &r->home, r->info.context,
                                             false, NULL));
    for (int i = 0; i < 2; i++) {
        r->handles[i] = stream_rig_create(r);
    }
    return true;
}

bool stream_rig_open(stream_rig *r)
{
    if (!open_on(r, 1)) {
        return false;
    }
    r->first = stream_rig_find(r, r->handles[0], 0);
    r->second = stream_rig_find(r, r->handles[1], 0);
    return true;
}

bool stream_rig_open_unmet(stream_rig *r)
{
    return open_on(r, 2);
}

void stream_rig_close(stream_rig *r)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_streams_clear(&r->streams).status);
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->context_pop(r->device));
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->device_close(r->device, 0));
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(r->sim, &ledger));
    EXPECT_U64_EQ(0, ledger.events);
    EXPECT_STR_EQ("", mend_sim_first_violation(r->sim));
    mend_sim_destroy(r->sim);
}

mend_stamp stream_rig_work_and_free(stream_rig *r, uint32_t stream, uint64_t duration_ns)
{
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    mend_stream handle = r->streams.items[stream].handle;
    EXPECT_INT_EQ(MEND_DRIVER_OK, r->device->launch(r->device, handle, &spin));
    return mend_streams_stamp(&r->streams, stream, 1);
}

mend_stamp stream_rig_work_and_close(stream_rig *r, uint32_t stream, uint64_t duration_ns)
{
    mend_stamp stamp = stream_rig_work_and_free(r, stream, duration_ns);
    EXPECT_RESULT(MEND_OK, mend_streams_close_epoch(&r->streams, stream));
    return stamp;
}
