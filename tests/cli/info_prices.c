/* libmend info measures: on a device whose clock moves by a list of prices, it finds that list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/measure/lists.h"
#include "lab/measure/measure.h"
#include "lab/measure/prices.h"
#include "lab/measure/trials.h"
#include "lab/support/costs.h"
#include "tests/support/kit.h"

typedef struct info_world {
    mend_sim *sim;
    mend_measure_bench bench;
} info_world;

static bool open_world(info_world *world, const mend_sim_prices *prices)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = 2 * MEND_GIB;
    config.content = MEND_SIM_CONTENT_BYTES;
    config.prices_advance_clock = 1;
    config.prices = prices;
    memset(world, 0, sizeof(*world));
    bool created = mend_sim_create(&config, &world->sim) == MEND_OK;
    EXPECT_TRUE(created);
    if (!created) {
        return false;
    }
    mend_measure_bench *bench = &world->bench;
    const mend_driver *driver = mend_sim_driver(world->sim);
    bench->driver = driver;
    bench->series = calloc(MEND_MEASURE_MOST_SERIES, sizeof(*bench->series));
    bool open = bench->series != NULL &&
                driver->device_open(driver, 0, &bench->info) == MEND_DRIVER_OK &&
                driver->context_push(driver, bench->info.context) == MEND_DRIVER_OK &&
                driver->stream_create(driver, &bench->work) == MEND_DRIVER_OK &&
                driver->stream_create(driver, &bench->other) == MEND_DRIVER_OK;
    EXPECT_TRUE(open);
    return open;
}

static void close_world(info_world *world)
{
    const mend_driver *driver = world->bench.driver;
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->stream_destroy(driver, world->bench.work));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->stream_destroy(driver, world->bench.other));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_pop(driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
    mend_sim_ledger left = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(world->sim, &left));
    EXPECT_U64_EQ(0, left.chunks + left.mappings + left.reservations + left.events + left.streams);
    free(world->bench.series);
    mend_sim_destroy(world->sim);
}

/* A case on the device of the reference list. */
#define INFO_TEST(suite, name)                                                                     \
    KIT_CASE(suite, name, info_world, world, open_world(world, NULL), close_world(world))

/* A copy over the link is no call of its own, and is not measured. */
static bool is_measured(const char *row)
{
    return strcmp(row, "host_copy") != 0;
}

/* The output of `write`, read back as a cost table. */
static bool read_back(const mend_measure_bench *bench, mend_sim_prices *prices)
{
    char path[] = "/tmp/mend-prices-XXXXXX";
    int descriptor = mkstemp(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (file == NULL) {
        return false;
    }
    mend_measure_write_costs(bench, file);
    bool read = fclose(file) == 0 && mend_costs_read(path, prices) == MEND_OK;
    remove(path);
    return read;
}

static void expect_close(const char *what, uint64_t expected, uint64_t is, uint64_t tolerance)
{
    uint64_t apart = expected > is ? expected - is : is - expected;
    MEND_TEST_CHECK(apart <= tolerance, (void)0, "%s is %llu, expected %llu", what,
                    (unsigned long long)is, (unsigned long long)expected);
}

static void expect_same_prices(const mend_sim_prices *expected, const mend_sim_prices *is)
{
    /* Durations are whole nanoseconds, so a fitted part may be one off. */
#define X(call)                                                                                    \
    if (is_measured(#call)) {                                                                      \
        expect_close(#call " call_ns", expected->call.call_ns, is->call.call_ns, 1);               \
        expect_close(#call " mapping_ns", expected->call.mapping_ns, is->call.mapping_ns, 1);      \
        expect_close(#call " mib_ns", expected->call.mib_ns, is->call.mib_ns, 1);                  \
    }
    MEND_SIM_PRICED_CALLS(X)
#undef X
}

/* On a device of these prices, or of the reference where they are NULL, that list is found. */
static void expect_found(const mend_sim_prices *prices)
{
    info_world world;
    mend_sim_prices expected = MEND_SIM_PRICES_INIT;
    mend_sim_prices found = MEND_SIM_PRICES_INIT;
    mend_sim_prices_named("reference", &expected);
    ASSERT_TRUE(open_world(&world, prices));
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_measure(&world.bench, stderr));
    ASSERT_TRUE(read_back(&world.bench, &found));
    expect_same_prices(prices != NULL ? prices : &expected, &found);
    close_world(&world);
}

MEND_TEST(info_prices, any_list_is_found_again)
{
    mend_sim_prices prices = MEND_SIM_PRICES_INIT;
    mend_test_random random;
    expect_found(NULL);
    mend_sim_prices_named("reference", &prices);
    mend_test_random_init(&random, mend_test_seed());
    mend_sim_price *mapped[] = {&prices.set_access, &prices.unmap};
    for (size_t i = 0; i < 2; i++) {
        mapped[i]->call_ns = mend_test_random_below(&random, 50000);
        mapped[i]->mapping_ns = mend_test_random_below(&random, 20000);
        mapped[i]->mib_ns = mend_test_random_below(&random, 2000);
    }
    prices.create.call_ns = mend_test_random_below(&random, 200000);
    prices.create.mib_ns = mend_test_random_below(&random, 5000);
    prices.map.call_ns = mend_test_random_below(&random, 3000);
    expect_found(&prices);
}

static uint64_t samples(const mend_measure_bench *bench, mend_driver_call call)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < bench->series_count; i++) {
        count += bench->series[i].call == call ? bench->series[i].sample_count : 0;
    }
    return count;
}

/* A call that fails every time takes its own figures along, and no others. */
INFO_TEST(info_prices, a_failure_leaves_the_rest)
{
    mend_sim_prices found = MEND_SIM_PRICES_INIT;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "async_alloc";
    fault.status = MEND_DRIVER_NOT_PERMITTED;
    fault.count = UINT64_MAX;
    ASSERT_RESULT(MEND_OK, mend_sim_fail(world->sim, &fault));
    EXPECT_INT_EQ(MEND_DRIVER_NOT_PERMITTED, mend_measure(&world->bench, stderr));
    EXPECT_U64_EQ(6, world->bench.left_out);
    EXPECT_U64_EQ(0, samples(&world->bench, MEND_CALL_async_alloc));
    EXPECT_TRUE(samples(&world->bench, MEND_CALL_set_access) >= 200);
    EXPECT_TRUE(samples(&world->bench, MEND_CALL_event_record) == MEND_MEASURE_MOST_SAMPLES);
    ASSERT_TRUE(read_back(&world->bench, &found));
    EXPECT_TRUE(found.set_access.call_ns > 0);
}

/* With little time everything has been measured a little. With none left nothing more is begun. */
INFO_TEST(info_prices, a_budget_is_kept_and_shared)
{
    mend_measure_bench *bench = &world->bench;
    const mend_driver *driver = bench->driver;
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_measure(bench, stderr));
    uint64_t all_samples = samples(bench, MEND_CALL_set_access);
    uint64_t before_ns = driver->clock_ns(driver);
    bench->end_ns = before_ns + UINT64_C(3000000000);
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_measure(bench, stderr));
    EXPECT_TRUE(driver->clock_ns(driver) < before_ns + UINT64_C(4000000000));
    EXPECT_TRUE(bench->left_out > 0);
    EXPECT_TRUE(samples(bench, MEND_CALL_set_access) < all_samples);
    EXPECT_TRUE(samples(bench, MEND_CALL_set_access) >= 20);
    EXPECT_TRUE(samples(bench, MEND_CALL_event_record) > 0);
    EXPECT_TRUE(samples(bench, MEND_CALL_plain_alloc) > 0);
}

/* The simulated device keeps the rules as they are known. The trials must see them. */
INFO_TEST(info_trials, the_questions_are_answered)
{
    static const char *const answers[] = {
        "mapped by size: no", "mapped by offset: no", "create waits for a running kernel: no",
        "set_access waits for a running kernel: no", "unmap waits for a running kernel: no"};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ASSERT_TRUE(out != NULL);
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_measure_try(&world->bench, out));
    fclose(out);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        MEND_TEST_CHECK(strstr(text, answers[i]) != NULL, (void)0, "no \"%s\" in:\n%s", answers[i],
                        text);
    }
    free(text);
}
