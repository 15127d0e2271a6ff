/*
 * Mend waits for other processes by the wall clock, which a busy machine lets run out. In programs
 * that are linked with --wrap for mend_now_ms it stands still.
 */
#ifndef MEND_TESTS_SUPPORT_PATIENCE_H
#define MEND_TESTS_SUPPORT_PATIENCE_H

#include <stdbool.h>

/* The system starts no thread for the library: --wrap for mend_start_service. */
void mend_test_refuse_threads(bool refuses);

/* Whether patience has ended at the next look at the clock. */
void mend_test_let_patience_end(bool ends);

#endif
