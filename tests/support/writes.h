/* Writes to files, watched. Programs that use it are linked with --wrap=pwrite. */
#ifndef MEND_TESTS_SUPPORT_WRITES_H
#define MEND_TESTS_SUPPORT_WRITES_H

#include <stddef.h>

/* From now on this is called before each pwrite of the process, by whoever writes. NULL: no more.
 */
void mend_test_before_writes(void (*hook)(const void *bytes, size_t count));

#endif
