/* The kernels of mend_kernel_kind as a PTX program, which the driver compiles for its device. */
#ifndef MEND_DRIVER_PTX_H
#define MEND_DRIVER_PTX_H

#include <stdint.h>

#include "driver/driver.h"

/* The text of the program. All entries take seven parameters: address, granule_bytes, stride_bytes,
 * granule_count, value, duration_ns and mismatches of mend_kernel. */
extern const char mend_ptx_program[];

/* The name of a kernel's entry in the program. Static; NULL for an unknown kind. */
const char *mend_ptx_entry(mend_kernel_kind kind);

/* How many blocks and threads a kernel is launched with. */
typedef struct mend_ptx_launch {
    unsigned blocks;
    unsigned threads;
} mend_ptx_launch;

mend_ptx_launch mend_ptx_shape(const mend_kernel *kernel);

#endif
