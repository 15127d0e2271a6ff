/* The kernels of mend_kernel_kind as a PTX program, which the driver compiles for its device. */
#ifndef MEND_DRIVER_PTX_H
#define MEND_DRIVER_PTX_H

#include <stdint.h>

#include "driver/driver.h"

/* The text of the program. Static. */
const char *mend_ptx_program(void);

/* The name of a kernel's entry in the program. Static; NULL for an unknown kind. */
const char *mend_ptx_entry(mend_kernel_kind kind);

/* How a kernel is launched. All entries take the same seven parameters, in the order below. */
typedef struct mend_ptx_launch {
    unsigned blocks;
    unsigned threads;
    uint64_t address;
    uint64_t granule_bytes;
    uint64_t stride_bytes;
    uint64_t granule_count;
    uint32_t value;
    uint64_t duration_ns;
    uint64_t mismatches;
} mend_ptx_launch;

mend_ptx_launch mend_ptx_shape(const mend_kernel *kernel);

#endif
