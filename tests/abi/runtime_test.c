/*
 * Holds what the stand-in for CUDA's runtime knows of the runtime's structures against those of the
 * CUDA toolkit, at compile time. CUDA 12 and 13 lay them out differently; each is compared where
 * the toolkit is of that version.
 */
#include <cuda.h>
#include <driver_types.h>
#include <stddef.h>

#include "simulate/properties.h"

#define OF_THIS_CUDA(in_12, in_13) (CUDA_VERSION >= 13000 ? (in_13) : (in_12))

#define X(member, type, in_12, in_13, value)                                                       \
    _Static_assert(offsetof(struct cudaDeviceProp, member) == OF_THIS_CUDA(in_12, in_13),          \
                   "the place of " #member);                                                       \
    _Static_assert(sizeof(((struct cudaDeviceProp *)0)->member) == sizeof(type),                   \
                   "the size of " #member);
SIMULATE_PROPERTIES(X)
#undef X

#define X(member, in_12, in_13)                                                                    \
    _Static_assert(offsetof(struct cudaDeviceProp, member) == OF_THIS_CUDA(in_12, in_13),          \
                   "the place of " #member);
SIMULATE_OWN_PROPERTIES(X)
#undef X

_Static_assert(sizeof(struct cudaDeviceProp) ==
                   OF_THIS_CUDA(SIMULATE_PROPERTIES_BYTES_12, SIMULATE_PROPERTIES_BYTES_13),
               "the size of the properties");
_Static_assert(offsetof(struct cudaPointerAttributes, device) == 4 &&
                   offsetof(struct cudaPointerAttributes, devicePointer) == 8 &&
                   offsetof(struct cudaPointerAttributes, hostPointer) == 16,
               "the attributes of a pointer");
_Static_assert(sizeof(struct cudaFuncAttributes) == 144 &&
                   offsetof(struct cudaFuncAttributes, maxThreadsPerBlock) == 24 &&
                   offsetof(struct cudaFuncAttributes, numRegs) == 28 &&
                   offsetof(struct cudaFuncAttributes, ptxVersion) == 32 &&
                   offsetof(struct cudaFuncAttributes, binaryVersion) == 36,
               "the attributes of a kernel");
_Static_assert(offsetof(cudaLaunchConfig_t, stream) == 32, "the configuration of a launch");

int main(void)
{
    return 0;
}
