/* Children of fork as parts of a test. */
#ifndef MEND_TESTS_SUPPORT_CHILD_H
#define MEND_TESTS_SUPPORT_CHILD_H

#include <stdbool.h>

/* Ends this process by SIGPROF when it has computed for so many seconds more, however busy the
 * machine is, and by SIGALRM when it has not ended after many minutes: a deadlock. */
void mend_test_limit(unsigned processor_s);

/* Whether a process that this signal has ended had reached such a limit. */
bool mend_test_is_late(int signal_number);

/* Whether `body` is true in a child of fork. One that hangs is ended. */
bool mend_test_holds_in_a_child(bool (*body)(void *), void *argument);

/* A case in such a child, which has the process to itself. Its body returns what is asked of it. */
#define CHILD_TEST(suite, name)                                                                    \
    static bool suite##_##name##_in_a_child(void *unused);                                         \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        EXPECT_TRUE(mend_test_holds_in_a_child(suite##_##name##_in_a_child, NULL));                \
    }                                                                                              \
    static bool suite##_##name##_in_a_child(__attribute__((unused)) void *unused)

/* Ends a child that was forked elsewhere, at once: for its parent, with the child's coverage where
 * coverage is counted. */
_Noreturn void mend_test_end_child(bool holds);

#endif
