/*
 * Tests in C, run by GoogleTest. A file states its cases with MEND_TEST; each registers itself when
 * the program starts, so filters, shuffling, sharding and XML reports of GoogleTest work.
 *
 *     MEND_TEST(tree, keeps_order)
 *     {
 *         EXPECT_U64_EQ(3, count);
 *         ASSERT_TRUE(pointer != NULL);
 *     }
 *
 * EXPECT_... records a failure and goes on; ASSERT_... records it and leaves the function (which
 * returns void). Every test prints the seed it used by mend_test_seed when it fails.
 */
#ifndef MEND_TESTS_SUPPORT_TEST_H
#define MEND_TESTS_SUPPORT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __cplusplus
#include "tests/support/call.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*mend_test_body)(void);

void mend_test_register(const char *suite, const char *name, const char *file, int line,
                        mend_test_body body);

/* Records a failure of the running test at file:line, with a message. */
__attribute__((format(printf, 3, 4))) void mend_test_fail(const char *file, int line,
                                                          const char *format, ...);

/* The functions of the macros. Out of line: a test is little else, and many builds compile it. */
bool mend_test_equal_u64(const char *file, int line, const char *expected_text,
                         const char *actual_text, unsigned long long expected,
                         unsigned long long actual);
bool mend_test_equal_int(const char *file, int line, const char *expected_text,
                         const char *actual_text, long long expected, long long actual);
bool mend_test_equal_pointers(const char *file, int line, const char *expected_text,
                              const char *actual_text, const void *expected, const void *actual);
bool mend_test_equal_texts(const char *file, int line, const char *expected_text,
                           const char *actual_text, const char *expected, const char *actual);

#ifndef __cplusplus
/* Around a call in the same thread. One may be inside another. */
void mend_test_expect_begin(void);
bool mend_test_expect_end(const char *file, int line, const char *actual_text, mend_result actual,
                          mend_result expected);
#endif

/* The running test has recorded a failure. */
bool mend_test_has_failed(void);

/* The calling thread holds a lock of Mend. Builds without assertions do not know. */
bool mend_test_holds_a_lock(void);

/* The name of the running test, without its suite. */
const char *mend_test_name(void);

/* The seed of the running test: MEND_TEST_SEED of the environment, else one drawn from the test's
 * name. Printed with the failure. */
uint64_t mend_test_seed(void);

/* A stream of numbers from a seed: the only source of chance in tests. Never 0 as a state. */
typedef struct mend_test_random {
    uint64_t state;
} mend_test_random;

void mend_test_random_init(mend_test_random *random, uint64_t seed);
uint64_t mend_test_random_next(mend_test_random *random);

/* From 0 to bound - 1. Bound is not 0. */
uint64_t mend_test_random_below(mend_test_random *random, uint64_t bound);

#ifdef __cplusplus
}
#endif

#define MEND_TEST(suite, name)                                                                     \
    static void suite##_##name##_body(void);                                                       \
    __attribute__((constructor)) static void suite##_##name##_register(void)                       \
    {                                                                                              \
        mend_test_register(#suite, #name, __FILE__, __LINE__, suite##_##name##_body);              \
    }                                                                                              \
    static void suite##_##name##_body(void)

#define MEND_TEST_CHECK(condition, leave, ...)                                                     \
    MEND_TEST_CHECK_AT(__FILE__, __LINE__, condition, leave, __VA_ARGS__)

/* The same for a helper that knows which line of a test called it. */
#define MEND_TEST_CHECK_AT(file, line, condition, leave, ...)                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            mend_test_fail(file, line, __VA_ARGS__);                                               \
            leave;                                                                                 \
        }                                                                                          \
    } while (0)

#define MEND_TEST_COMPARE(type, equal, expected, actual, leave)                                    \
    do {                                                                                           \
        type mend_expected = (type)(expected);                                                     \
        type mend_actual = (type)(actual);                                                         \
        if (!equal(__FILE__, __LINE__, #expected, #actual, mend_expected, mend_actual)) {          \
            leave;                                                                                 \
        }                                                                                          \
    } while (0)

#define EXPECT_TRUE(condition)  MEND_TEST_CHECK(condition, (void)0, "false: %s", #condition)
#define ASSERT_TRUE(condition)  MEND_TEST_CHECK(condition, return, "false: %s", #condition)
#define EXPECT_FALSE(condition) MEND_TEST_CHECK(!(condition), (void)0, "true: %s", #condition)
#define ASSERT_FALSE(condition) MEND_TEST_CHECK(!(condition), return, "true: %s", #condition)

#define EXPECT_U64_EQ(expected, actual)                                                            \
    MEND_TEST_COMPARE(unsigned long long, mend_test_equal_u64, expected, actual, (void)0)
#define ASSERT_U64_EQ(expected, actual)                                                            \
    MEND_TEST_COMPARE(unsigned long long, mend_test_equal_u64, expected, actual, return )
#define EXPECT_INT_EQ(expected, actual)                                                            \
    MEND_TEST_COMPARE(long long, mend_test_equal_int, expected, actual, (void)0)
#define ASSERT_INT_EQ(expected, actual)                                                            \
    MEND_TEST_COMPARE(long long, mend_test_equal_int, expected, actual, return )
#define EXPECT_PTR_EQ(expected, actual)                                                            \
    MEND_TEST_COMPARE(const void *, mend_test_equal_pointers, expected, actual, (void)0)
#define EXPECT_STR_EQ(expected, actual)                                                            \
    MEND_TEST_COMPARE(const char *, mend_test_equal_texts, expected, actual, (void)0)

/* A mend_result. Prints names. Its remains are checked too: see support/call.h. */
#define EXPECT_RESULT(expected, actual)                                                            \
    MEND_TEST_RESULT(__FILE__, __LINE__, expected, actual, (void)0)
#define ASSERT_RESULT(expected, actual)                                                            \
    MEND_TEST_RESULT(__FILE__, __LINE__, expected, actual, return )
#define MEND_TEST_RESULT(file, line, expected, actual, leave)                                      \
    do {                                                                                           \
        mend_test_expect_begin();                                                                  \
        mend_result mend_actual = (actual);                                                        \
        if (!mend_test_expect_end(file, line, #actual, mend_actual, expected)) {                   \
            leave;                                                                                 \
        }                                                                                          \
    } while (0)

#endif
