/* A simulated device for tests of what it judges: every explanation is heard. */
#ifndef MEND_TESTS_UNIT_SIM_FIXTURE_H
#define MEND_TESTS_UNIT_SIM_FIXTURE_H

#include "base/align.h"
#include "driver/driver.h"
#include "mend/mend_sim.h"
#include "tests/support/test.h"

typedef struct sim_fixture {
    mend_sim *sim;
    const mend_driver *driver;
    mend_device_info info;
    mend_stream stream;
    uint64_t page;
    uint64_t heard; /* explanations */
    char last[512]; /* the last of them */
} sim_fixture;

/* 64 MiB in pages of 64 KiB, where `config` does not say otherwise; device 0 is open and its
 * context current. False: recorded as a failure. */
bool sim_fixture_open(sim_fixture *f, const mend_sim_config *config);
void sim_fixture_close(sim_fixture *f);

/* A reservation whose first `mapped_bytes` are one chunk, mapped with access and held by the
 * mapping alone. */
uint64_t sim_fixture_map(sim_fixture *f, uint64_t mapped_bytes, uint64_t reserved_bytes);
mend_chunk_handle sim_fixture_chunk(sim_fixture *f, uint64_t size_bytes);
void sim_fixture_allow(sim_fixture *f, uint64_t address, uint64_t size_bytes);

/* Queues mend_sim work on a stream, until `finish_ns`. */
void sim_fixture_work(sim_fixture *f, mend_stream stream, mend_sim_work_kind kind, uint64_t address,
                      uint64_t size_bytes, uint64_t tag, uint64_t finish_ns);
mend_sim_ledger sim_fixture_ledger(sim_fixture *f);

/* The last explanation contains these words. */
bool sim_fixture_heard(const sim_fixture *f, const char *words);

#define SIM_TEST(suite, name)                                                                      \
    static void suite##_##name##_on_device(sim_fixture *f);                                        \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        sim_fixture f;                                                                             \
        if (sim_fixture_open(&f, NULL)) {                                                          \
            suite##_##name##_on_device(&f);                                                        \
            sim_fixture_close(&f);                                                                 \
        }                                                                                          \
    }                                                                                              \
    static void suite##_##name##_on_device(sim_fixture *f)

#define EXPECT_STATUS(expected, call)                                                              \
    do {                                                                                           \
        mend_status sim_is = (call);                                                               \
        mend_status sim_expected = (expected);                                                     \
        MEND_TEST_CHECK(sim_is == sim_expected, (void)0, "%s\n  is       %s\n  expected %s",       \
                        #call, mend_status_name(sim_is), mend_status_name(sim_expected));          \
    } while (0)
#define EXPECT_OK(call) EXPECT_STATUS(MEND_DRIVER_OK, call)

/* One explanation more than before, with these words. */
#define EXPECT_HEARD(f, count, words)                                                              \
    do {                                                                                           \
        EXPECT_U64_EQ(count, (f)->heard);                                                          \
        MEND_TEST_CHECK(sim_fixture_heard(f, words), (void)0,                                      \
                        "\"%s\" is missing in the explanation \"%s\"", words, (f)->last);          \
    } while (0)

#endif
