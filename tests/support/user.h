/* In the place of the C library's geteuid: a test may be another user for a moment. */
#ifndef MEND_TESTS_SUPPORT_USER_H
#define MEND_TESTS_SUPPORT_USER_H

#include <stdatomic.h>

/* How far from this user's number. */
extern atomic_uint mend_test_pretended_user;

#endif
