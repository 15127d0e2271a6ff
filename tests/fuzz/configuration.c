/*
 * Bytes as MEND_CONF: taken whole or refused with its reason. The program's values stay. A pool
 * made of it works on a small device, or is refused in words, and leaves nothing behind.
 */
#include "pool/pool.h"

#include "base/align.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_sim.h"
#include "tests/fuzz/fuzz.h"

/* A bit for each of the program's own settings. */
static mend_pool_config program_config(uint8_t bits)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.limit_bytes = bits & 1 ? 64 * MEND_MIB : 0;
    config.address_reservation_bytes = bits & 2 ? 64 * MEND_MIB : 0;
    config.strategy = bits & 4 ? 5 : 0;
    config.allow_stream_waits = bits & 8 ? -1 : 0;
    return config;
}

static void check_stays(const mend_pool_config *before, const mend_pool_config *after)
{
#define X(key, field, kind, fallback, meaning)                                                     \
    FUZZ_CHECK(before->field == 0 || before->field == after->field, "%s has changed", #key);
    MEND_CONFIGURATION(X)
#undef X
    bool had_limit = before->limit_bytes != 0 || before->limit_percent != 0;
    FUZZ_CHECK(!had_limit || before->limit_percent == after->limit_percent, "limit has changed");
    FUZZ_CHECK(after->limit_bytes == 0 || after->limit_percent == 0, "two limits");
    FUZZ_CHECK(after->limit_percent >= 0 && after->limit_percent <= 100, "a limit above all");
}

static void check_same(const mend_pool_config *before, const mend_pool_config *after)
{
#define X(key, field, kind, fallback, meaning)                                                     \
    FUZZ_CHECK(before->field == after->field, "a refused text changed %s", #key);
    MEND_CONFIGURATION(X)
#undef X
    FUZZ_CHECK(before->limit_percent == after->limit_percent, "a refused text changed limit");
}

static void use_pool(mend_pool *pool)
{
    static const uint64_t sizes[] = {1, 512, 100000, 3 * MEND_MIB, 40 * MEND_MIB};
    enum { SIZES = sizeof(sizes) / sizeof(*sizes) };
    void *pointers[SIZES] = {NULL};
    for (size_t i = 0; i < SIZES; i++) {
        mend_result result = mend_alloc(pool, sizes[i], NULL, &pointers[i]);
        FUZZ_CHECK(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY ||
                       result == MEND_ERROR_OUT_OF_ADDRESS_SPACE,
                   "%s", mend_result_name(result));
    }
    FUZZ_CHECK(mend_validate(pool) == MEND_OK, "the pool contradicts itself");
    for (size_t i = 0; i < SIZES; i++) {
        mend_result result = mend_free(pool, pointers[i], NULL);
        FUZZ_CHECK(result == MEND_OK, "%s", mend_result_name(result));
    }
    FUZZ_CHECK(mend_validate(pool) == MEND_OK, "the pool contradicts itself");
}

static void try_pool(const mend_pool_config *read)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim *sim = NULL;
    device.memory_bytes = 96 * MEND_MIB;
    FUZZ_CHECK(mend_sim_create(&device, &sim) == MEND_OK, "no device");
    mend_pool_config config = *read;
    config.shared_limit_file = NULL; /* writes no files */
    config.record = NULL;
    config.observe = NULL;
    config.driver = mend_sim_driver(sim);
    mend_pool *pool = NULL;
    mend_result result = mend_pool_create(&config, &pool);
    if (result == MEND_OK) {
        use_pool(pool);
        FUZZ_CHECK(mend_pool_destroy(pool) == MEND_OK, "the pool's end");
    } else if (result == MEND_ERROR_NOT_SUPPORTED) { /* the device has no peers */
        fuzz_check_failure(MEND_ERROR_NOT_SUPPORTED, result, "mend_pool_config.peers names device");
    } else {
        fuzz_check_refusal(result, "");
    }
    mend_sim_get_ledger(sim, &ledger);
    FUZZ_CHECK(ledger.violations == 0, "%s", mend_sim_first_violation(sim));
    FUZZ_CHECK(ledger.chunks + ledger.mappings + ledger.reservations + ledger.events == 0,
               "something was left behind");
    mend_sim_destroy(sim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return -1;
    }
    char *text = fuzz_text(data + 1, size - 1);
    mend_pool_config before = program_config(data[0]);
    mend_pool_config config = before;
    mend_result result = mend_configuration_read(text, &config);
    if (result == MEND_OK) {
        check_stays(&before, &config);
        try_pool(&config);
    } else {
        check_same(&before, &config);
        fuzz_check_refusal(result, "MEND_CONF");
    }
    free(text);
    return 0;
}
