/*
 * The contract of driver/driver.h as tests, for any implementation of its table: the simulated
 * device, or with MEND_TEST_DEVICE=cuda in the environment the CUDA driver.
 *
 * A test gets an open device whose context is current and leaves nothing behind. Rules broken on
 * purpose go through EXPECT_REFUSED: on the simulated device each must also be explained, and no
 * other may be.
 *
 * Undocumented behavior is in suites whose names end in `_observed`. They must pass on the
 * simulated device, which is our belief. `./run gpu` reports their results and fails for none. No
 * test relies on undefined behavior of the driver, which may end the process.
 */
#ifndef MEND_TESTS_CONTRACT_CONTRACT_H
#define MEND_TESTS_CONTRACT_CONTRACT_H

#include "base/align.h"
#include "driver/driver.h"
#include "mend/mend_sim.h"
#include "tests/support/test.h"

/* Long for a kernel, so that work is still running when the next call is made. */
#define CONTRACT_LONG_NS UINT64_C(200000000)

typedef struct contract {
    const mend_driver *driver;
    mend_sim *sim; /* NULL on a GPU */
    mend_device_info info;
    uint64_t page;
    mend_stream stream; /* for the helpers below, and free to use */
    uint64_t refused;
} contract;

/* False: the device could not be opened, which is recorded. */
bool contract_begin(contract *c);
void contract_end(contract *c);

/* ---- helpers: each records a failure where a call does not succeed -------------------------- */

uint64_t contract_reserve(contract *c, uint64_t size_bytes);
mend_chunk_handle contract_create(contract *c, uint64_t size_bytes);
mend_event contract_event(contract *c);
mend_stream contract_stream(contract *c);
void contract_allow(contract *c, uint64_t address, uint64_t size_bytes);

/* A chunk mapped at the address with access, held by the mapping alone. */
void contract_map_new(contract *c, uint64_t address, uint64_t size_bytes);

/* Unmaps all of a reservation's pages from its start, and frees it. */
void contract_drop(contract *c, uint64_t address, uint64_t mapped_bytes, uint64_t reserved_bytes);

uint64_t contract_free_bytes(contract *c);

/* Free memory is as expected: to the byte when simulated, but for a little of the driver's own on a
 * GPU. */
void contract_expect_free(contract *c, uint64_t expected_bytes);

/* Queues a kernel that writes `value` to every word of the range, and lasts `duration_ns`. */
void contract_write(contract *c, mend_stream stream, uint64_t address, uint64_t size_bytes,
                    uint32_t value, uint64_t duration_ns);
void contract_spin(contract *c, mend_stream stream, uint64_t duration_ns);

/* The words of the range that differ from `value`, as a kernel sees them on c->stream. Waits. */
uint64_t contract_mismatches(contract *c, uint64_t address, uint64_t size_bytes, uint32_t value);

#define CONTRACT_TEST(suite, name)                                                                 \
    static void suite##_##name##_contract(contract *c);                                            \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        contract c;                                                                                \
        if (contract_begin(&c)) {                                                                  \
            suite##_##name##_contract(&c);                                                         \
            contract_end(&c);                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void suite##_##name##_contract(contract *c)

#define EXPECT_STATUS(expected, call)                                                              \
    do {                                                                                           \
        mend_status contract_is = (call);                                                          \
        mend_status contract_expected = (expected);                                                \
        MEND_TEST_CHECK(contract_is == contract_expected, (void)0,                                 \
                        "%s\n  is       %s\n  expected %s", #call, mend_status_name(contract_is),  \
                        mend_status_name(contract_expected));                                      \
    } while (0)
#define EXPECT_OK(call) EXPECT_STATUS(MEND_DRIVER_OK, call)

/* The call breaks a rule: it answers `expected`, and the simulated device explains it. */
#define EXPECT_REFUSED(c, expected, call)                                                          \
    do {                                                                                           \
        EXPECT_STATUS(expected, call);                                                             \
        (c)->refused++;                                                                            \
    } while (0)

/* A call of the table of the contract `c`: it succeeds, answers so, or is refused so. */
#define CALL(member, ...)           c->driver->member(c->driver, ##__VA_ARGS__)
#define PASS(member, ...)           EXPECT_OK(CALL(member, ##__VA_ARGS__))
#define ANSWER(status, member, ...) EXPECT_STATUS(status, CALL(member, ##__VA_ARGS__))
#define REFUSE(status, member, ...) EXPECT_REFUSED(c, status, CALL(member, ##__VA_ARGS__))

#endif
