/* What PyTorch and libmend.torch ask of Mend by text: settings of PyTorch's own allocator, and
 * pools whose memory can be shared, on devices that have none such. */
#include <stdio.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "tests/hooks/rig.h"
#include "tests/support/test.h"

static void expect_without_effect(size_t count, const char *names, const char *settings)
{
    char text[256];
    EXPECT_U64_EQ(count, hooks_get()->mend_torch_settings_without_effect(settings, text, 256));
    EXPECT_STR_EQ(names, text);
}

MEND_TEST(torch_settings, those_without_effect_are_named)
{
    expect_without_effect(0, "", "");
    expect_without_effect(1, "max_split_size_mb", "max_split_size_mb:100");
    expect_without_effect(2, "expandable_segments, max_split_size_mb",
                          " expandable_segments : True,pinned_use_background_threads:True,"
                          "max_split_size_mb:20");
    expect_without_effect(0, "",
                          "roundup_power2_divisions:[256:1,512:2,>:4],throw_on_cudamalloc_oom:True,"
                          "per_process_memory_fraction:0.5,pinned_num_register_threads:4,"
                          "graph_capture_record_stream_reuse:True");
    expect_without_effect(
        1, "garbage_collection_threshold",
        "roundup_power2_divisions:[256:1,512:2],garbage_collection_threshold:0.6,");
    expect_without_effect(1, "x", ",,x,,");
}

MEND_TEST(torch_settings, names_that_do_not_fit_are_left_out)
{
    char text[8] = "_______";
    const hooks_functions *f = hooks_get();
    EXPECT_U64_EQ(3, f->mend_torch_settings_without_effect("abc:1,defghi:2,k:3", text, 7));
    EXPECT_STR_EQ("abc, k", text);
    EXPECT_U64_EQ(3, f->mend_torch_settings_without_effect("abc:1,defghi:2,k:3", text, 6));
    EXPECT_STR_EQ("abc", text);
    EXPECT_U64_EQ(1, f->mend_torch_settings_without_effect("abc:1", NULL, 0));
}

/* ---- devices that cannot share --------------------------------------------------------------- */

static const mend_driver *simulated;
static mend_driver lacking;

static mend_status open_without_sharing(const mend_driver *driver, int device,
                                        mend_device_info *info)
{
    (void)driver;
    mend_status status = simulated->device_open(simulated, device, info);
    info->share_file_descriptor = false;
    return status;
}

HOOKS_TEST(torch_settings, a_device_that_cannot_share_has_memory_that_cannot, MIB)
{
    static const char conf[] = "strategy:3,shareable:auto,address_reservation:1GiB";
    char before[256];
    const char *set = getenv("MEND_CONF");
    snprintf(before, sizeof(before), "%s", set != NULL ? set : "");
    simulated = mend_sim_driver(rig->sim);
    lacking = *simulated;
    lacking.device_open = open_without_sharing;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = &lacking;
    HOOKS_OK(mend_set_default_config(0, &config));
    setenv("MEND_CONF", conf, 1);
    EXPECT_RESULT(MEND_OK, rig->f->mend_torch_use_device(0));
    const char *left = getenv("MEND_CONF"); /* the environment is the program's */
    EXPECT_STR_EQ(conf, left != NULL ? left : "");
    setenv("MEND_CONF", before, 1);
}
