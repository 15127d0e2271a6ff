/*
 * The properties of a simulated device: in the runtime's structure, and as attributes. CUDA 12 and
 * 13 have different structures, and a program asks for either by the name of the function. The abi
 * test compares them with CUDA's headers. An attribute is by its number in cudaDeviceAttr, which is
 * that in CUdevice_attribute too. Most are members of the structure. Members and attributes that
 * are not here are 0.
 *
 * MEND_SIMULATE_ATTRIBUTES="75=8,76=6,16=82" in the environment gives attributes of this list the
 * values of another GPU, and MEND_SIMULATE_NAME its name.
 */
#ifndef MEND_SIMULATE_PROPERTIES_H
#define MEND_SIMULATE_PROPERTIES_H

/* X(member, type, offset in CUDA 12, offset in CUDA 13, attribute, value) */
#define SIMULATE_PROPERTIES(X)                                                                     \
    X(sharedMemPerBlock, size_t, 296, 296, 8, 49152)                                               \
    X(regsPerBlock, int, 304, 304, 12, 65536)                                                      \
    X(warpSize, int, 308, 308, 10, 32)                                                             \
    X(maxThreadsPerBlock, int, 320, 320, 1, 1024)                                                  \
    X(maxThreadsDim[0], int, 324, 324, 2, 1024)                                                    \
    X(maxThreadsDim[1], int, 328, 328, 3, 1024)                                                    \
    X(maxThreadsDim[2], int, 332, 332, 4, 64)                                                      \
    X(maxGridSize[0], int, 336, 336, 5, 2147483647)                                                \
    X(maxGridSize[1], int, 340, 340, 6, 65535)                                                     \
    X(maxGridSize[2], int, 344, 344, 7, 65535)                                                     \
    X(totalConstMem, size_t, 352, 352, 9, 65536)                                                   \
    X(major, int, 360, 360, 75, 9)                                                                 \
    X(minor, int, 364, 364, 76, 0)                                                                 \
    X(textureAlignment, size_t, 368, 368, 14, 512)                                                 \
    X(multiProcessorCount, int, 388, 384, 16, 132)                                                 \
    X(canMapHostMemory, int, 400, 392, 19, 1)                                                      \
    X(concurrentKernels, int, 576, 560, 31, 1)                                                     \
    X(asyncEngineCount, int, 600, 584, 40, 3)                                                      \
    X(unifiedAddressing, int, 604, 588, 41, 1)                                                     \
    X(memoryBusWidth, int, 612, 592, 37, 5120)                                                     \
    X(l2CacheSize, int, 616, 596, 38, 50 << 20)                                                    \
    X(maxThreadsPerMultiProcessor, int, 624, 604, 39, 2048)                                        \
    X(sharedMemPerMultiprocessor, size_t, 640, 624, 81, 233472)                                    \
    X(regsPerMultiprocessor, int, 648, 632, 82, 65536)                                             \
    X(managedMemory, int, 652, 636, 83, 1)                                                         \
    X(cooperativeLaunch, int, 688, 668, 95, 1)                                                     \
    X(sharedMemPerBlockOptin, size_t, 696, 672, 97, 232448)                                        \
    X(maxBlocksPerMultiProcessor, int, 712, 688, 106, 32)                                          \
    X(reservedSharedMemPerBlock, size_t, 720, 696, 111, 1024)                                      \
    X(hostRegisterSupported, int, 728, 704, 99, 1)                                                 \
    X(memoryPoolsSupported, int, 744, 720, 115, 1)

/* X(member, type, offset in CUDA 12, attribute, value): CUDA 13 has no such member. */
#define SIMULATE_PROPERTIES_OF_12(X)                                                               \
    X(clockRate, int, 348, 13, 1000000)                                                            \
    X(memoryClockRate, int, 608, 36, 1000000)

/* Attributes without a member: X(attribute, value). */
#define SIMULATE_ATTRIBUTES(X)                                                                     \
    X(102, 1) /* virtual memory management */                                                      \
    X(103, 1) /* memory shared by file descriptor */

/* Members that differ from device to device: X(member, offset in CUDA 12, offset in CUDA 13). The
 * attribute of pciBusID is the device's number, too. */
#define SIMULATE_OWN_PROPERTIES(X)                                                                 \
    X(name, 0, 0)                                                                                  \
    X(uuid, 256, 256)                                                                              \
    X(totalGlobalMem, 288, 288)                                                                    \
    X(pciBusID, 584, 568)

enum { SIMULATE_PROPERTIES_BYTES_12 = 1032, SIMULATE_PROPERTIES_BYTES_13 = 1008 };

enum { SIMULATE_PCI_BUS_ATTRIBUTE = 33 };

#endif
