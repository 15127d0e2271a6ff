/* A launch of a kernel that nothing is known of but its stream. */
#ifndef MEND_SIMULATE_LAUNCH_H
#define MEND_SIMULATE_LAUNCH_H

#include "driver/driver.h"

/* Returns a code of cudaError_t. */
int simulate_launch(mend_stream stream);

#endif
