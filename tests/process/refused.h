/* A pool inherited through fork. */
#ifndef MEND_TESTS_PROCESS_REFUSED_H
#define MEND_TESTS_PROCESS_REFUSED_H

#include "tests/process/rig.h"

/* Every call on the rig's pool and graph pool answers MEND_ERROR_FORKED, says so, and touches
 * nothing. Only a free of NULL succeeds. */
void refused_check(const rig *inherited);

#endif
