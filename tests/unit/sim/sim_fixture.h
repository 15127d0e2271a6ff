/* A simulated device for tests of its checks: every explanation is noted. */
#ifndef MEND_TESTS_UNIT_SIM_FIXTURE_H
#define MEND_TESTS_UNIT_SIM_FIXTURE_H

#include "base/align.h"
#include "driver/driver.h"
#include "mend/mend_sim.h"
#include "tests/support/kit.h"

typedef struct sim_fixture {
    mend_sim *sim;
    const mend_driver *driver;
    mend_device_info info;
    mend_stream stream;
    uint64_t page;
    uint64_t heard; /* explanations */
    char last[512]; /* the last of them */
} sim_fixture;

/* 64 MiB in pages of 64 KiB, where `config` does not say otherwise. Device 0 is open and its
 * context current. False: recorded as a failure. */
bool sim_fixture_open(sim_fixture *f, const mend_sim_config *config);
void sim_fixture_close(sim_fixture *f);

/* A reservation whose first `mapped_bytes` are one chunk, mapped with access and held by the
 * mapping alone. */
uint64_t sim_fixture_map(sim_fixture *f, uint64_t mapped_bytes, uint64_t reserved_bytes);
mend_chunk_handle sim_fixture_chunk(sim_fixture *f, uint64_t size_bytes);
void sim_fixture_allow(sim_fixture *f, uint64_t address, uint64_t size_bytes);

/* Maps a chunk of a page, with access. */
void sim_fixture_map_at(sim_fixture *f, uint64_t address, mend_chunk_handle chunk);

mend_event sim_fixture_event(sim_fixture *f);
mend_stream sim_fixture_stream(sim_fixture *f);
void sim_fixture_spin(sim_fixture *f, mend_stream stream, uint64_t duration_ns);
mend_stream_info sim_fixture_info(sim_fixture *f, mend_stream stream);

/* A global capture. The end of any, and the launch of its graph. */
void sim_fixture_begin_capture(sim_fixture *f, mend_stream stream);
mend_sim_graph *sim_fixture_end_capture(sim_fixture *f, mend_stream stream);
void sim_fixture_launch(sim_fixture *f, mend_sim_graph *graph, uint64_t finish_ns);

/* Queues mend_sim work on a stream, until `finish_ns`. */
void sim_fixture_work(sim_fixture *f, mend_stream stream, mend_sim_work_kind kind, uint64_t address,
                      uint64_t size_bytes, uint64_t tag, uint64_t finish_ns);
mend_sim_ledger sim_fixture_ledger(sim_fixture *f);

/* Granules of so many bytes, so far apart. */
mend_kernel sim_kernel(mend_kernel_kind kind, uint64_t address, uint64_t granule_bytes,
                       uint64_t stride_bytes, uint64_t granule_count);

/* The last explanation contains these words. */
bool sim_fixture_heard(const sim_fixture *f, const char *words);

/* A case with a device `f`. One where fields of its config are set, and one with a device of its
 * own for each value of a variable. */
#define SIM_TEST(suite, name)                                                                      \
    KIT_CASE(suite, name, sim_fixture, f, sim_fixture_open(f, NULL), sim_fixture_close(f))
#define SIM_TEST_AS(suite, name, ...)                                                              \
    KIT_CASE(suite, name, sim_fixture, f, sim_fixture_open(f, SIM_CONFIG(__VA_ARGS__)),            \
             sim_fixture_close(f))
#define SIM_EACH(suite, name, variable, count, config)                                             \
    KIT_RIG_EACH(suite, name, int, variable, count, sim_fixture, f, sim_fixture_open(f, config),   \
                 sim_fixture_close(f))
#define SIM_CONFIG(...) (&(mend_sim_config){.struct_size = sizeof(mend_sim_config), __VA_ARGS__})

#define EXPECT_STATUS(expected, call)                                                              \
    do {                                                                                           \
        mend_status sim_is = (call);                                                               \
        mend_status sim_expected = (expected);                                                     \
        MEND_TEST_CHECK(sim_is == sim_expected, (void)0, "%s\n  is       %s\n  expected %s",       \
                        #call, mend_status_name(sim_is), mend_status_name(sim_expected));          \
    } while (0)
#define EXPECT_PASS(call) EXPECT_STATUS(MEND_DRIVER_OK, call)

/* One explanation more than before, with these words. */
#define EXPECT_HEARD(f, count, words)                                                              \
    do {                                                                                           \
        EXPECT_U64_EQ(count, (f)->heard);                                                          \
        MEND_TEST_CHECK(sim_fixture_heard(f, words), (void)0,                                      \
                        "\"%s\" is missing in the explanation \"%s\"", words, (f)->last);          \
    } while (0)

/* A driver call of `f` that returns OK, or this. */
#define PASS(member, ...) EXPECT_PASS(f->driver->member(f->driver, ##__VA_ARGS__))
#define ANSWER(status, member, ...)                                                                \
    EXPECT_STATUS(MEND_DRIVER_##status, f->driver->member(f->driver, ##__VA_ARGS__))

/* One that breaks a rule, which is explained with these words. */
#define BREACH(status, words, member, ...)                                                         \
    do {                                                                                           \
        uint64_t sim_heard = f->heard;                                                             \
        ANSWER(status, member, ##__VA_ARGS__);                                                     \
        EXPECT_HEARD(f, sim_heard + 1, words);                                                     \
    } while (0)

#endif
