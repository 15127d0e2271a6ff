/* The fake libcuda as a test finds it, and the real driver's table over it. */
#ifndef MEND_TESTS_FAKE_CUDA_FOUND_H
#define MEND_TESTS_FAKE_CUDA_FOUND_H

#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/test.h"

/* MEND_FAKE_CUDA says so: a driver before CUDA 12.0. */
bool is_old(void);

/* The fake behind the entry points, its switches as at first, the driver over it, and the driver's
 * last description of device 0. find_both: false, recorded, if another library is found. */
extern fake_cuda *fake;
extern const mend_driver *cuda;
extern mend_device_info info;
bool find_both(void);

/* In the context of device 0, from the one to the other. */
bool enter_device(void);
void leave_device(void);

mend_sim_ledger ledger_of_fake(void);
void expect_nothing_left(void);

#define EXPECT_OK(call) EXPECT_INT_EQ(MEND_DRIVER_OK, call)
#define ASSERT_OK(call) ASSERT_INT_EQ(MEND_DRIVER_OK, call)

/* A test that finds both, and leaves nothing. OPEN_TEST: in the context of device 0. */
#define FAKE_TEST(name)                                                                            \
    static void name(void);                                                                        \
    MEND_TEST(fake_cuda, name)                                                                     \
    {                                                                                              \
        ASSERT_TRUE(find_both());                                                                  \
        name();                                                                                    \
        expect_nothing_left();                                                                     \
    }                                                                                              \
    static void name(void)
#define OPEN_TEST(name)                                                                            \
    static void name##_inside(void);                                                               \
    FAKE_TEST(name)                                                                                \
    {                                                                                              \
        ASSERT_TRUE(enter_device());                                                               \
        name##_inside();                                                                           \
        leave_device();                                                                            \
    }                                                                                              \
    static void name##_inside(void)

#endif
