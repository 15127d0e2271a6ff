/* Children of fork as parts of a test. */
#ifndef MEND_TESTS_SUPPORT_CHILD_H
#define MEND_TESTS_SUPPORT_CHILD_H

#include <stdbool.h>

/* Whether `body` is true in a child of fork. One that hangs is ended. */
bool mend_test_holds_in_a_child(bool (*body)(void *), void *argument);

/* Ends a child that was forked elsewhere, at once: for its parent, with what the child has counted
 * of the code it ran where coverage is counted. */
_Noreturn void mend_test_end_child(bool holds);

#endif
