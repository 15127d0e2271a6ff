/*
 * Compares the simulated runtime's structures with the CUDA toolkit, at compile time. CUDA 12 and
 * 13 lay them out differently. Each is compared where the toolkit is of that version.
 */
#include <cuda.h>
#include <driver_types.h>
#include <stddef.h>

#include "simulate/properties.h"
#include "tests/simulate/properties_of_attributes.h"

#define OF_THIS_CUDA(in_12, in_13) (CUDA_VERSION >= 13000 ? (in_13) : (in_12))

#define X(member, type, in_12, in_13, attribute, value)                                            \
    _Static_assert(offsetof(struct cudaDeviceProp, member) == OF_THIS_CUDA(in_12, in_13),          \
                   "the place of " #member);                                                       \
    _Static_assert(sizeof(((struct cudaDeviceProp *)0)->member) == sizeof(type),                   \
                   "the size of " #member);
SIMULATE_PROPERTIES(X)
#undef X

#if CUDA_VERSION < 13000
#define X(member, type, in_12, attribute, value)                                                   \
    _Static_assert(offsetof(struct cudaDeviceProp, member) == in_12, "the place of " #member);
SIMULATE_PROPERTIES_OF_12(X)
#undef X
#endif

/* The tests' list of attributes. */
#if CUDA_VERSION >= 13000
#define X(name, number, member, in_12, in_13, bytes)                                               \
    _Static_assert(cudaDevAttr##name == number, "the number of " #name);                           \
    _Static_assert(offsetof(struct cudaDeviceProp, member) == in_13, "the place of " #member);     \
    _Static_assert(sizeof(((struct cudaDeviceProp *)0)->member) == bytes, "the size of " #member);
PROPERTIES_OF_ATTRIBUTES(X)
#undef X
#endif

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
