/*
 * Moments at which a test acts inside of other threads. Programs that use it are linked with
 * --wrap=pwrite and --wrap=mend_heap_unlock_after_read.
 */
#ifndef MEND_TESTS_SUPPORT_MOMENTS_H
#define MEND_TESTS_SUPPORT_MOMENTS_H

#include <stddef.h>

/* From now on the hook is called before each pwrite of the process, by any thread, or behind each
 * look at a heap that took both of its locks. NULL: no more. */
void mend_test_before_writes(void (*hook)(const void *bytes, size_t count));
void mend_test_behind_looks(void (*hook)(void));

#endif
