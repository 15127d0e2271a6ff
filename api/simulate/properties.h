/*
 * Where the runtime's structure of a device's properties has its members: CUDA 12 and 13 have
 * different ones, and a program asks for either by the name of the function. The abi test compares
 * them with CUDA's headers.
 *
 * X(member, type, offset in CUDA 12, offset in CUDA 13, value): the members that are not 0.
 */
#ifndef MEND_SIMULATE_PROPERTIES_H
#define MEND_SIMULATE_PROPERTIES_H

#define SIMULATE_PROPERTIES(X)                                                                     \
    X(sharedMemPerBlock, size_t, 296, 296, 49152)                                                  \
    X(regsPerBlock, int, 304, 304, 65536)                                                          \
    X(warpSize, int, 308, 308, 32)                                                                 \
    X(maxThreadsPerBlock, int, 320, 320, 1024)                                                     \
    X(maxThreadsDim[0], int, 324, 324, 1024)                                                       \
    X(maxThreadsDim[1], int, 328, 328, 1024)                                                       \
    X(maxThreadsDim[2], int, 332, 332, 64)                                                         \
    X(maxGridSize[0], int, 336, 336, 2147483647)                                                   \
    X(maxGridSize[1], int, 340, 340, 65535)                                                        \
    X(maxGridSize[2], int, 344, 344, 65535)                                                        \
    X(totalConstMem, size_t, 352, 352, 65536)                                                      \
    X(major, int, 360, 360, 9)                                                                     \
    X(textureAlignment, size_t, 368, 368, 512)                                                     \
    X(multiProcessorCount, int, 388, 384, 132)                                                     \
    X(canMapHostMemory, int, 400, 392, 1)                                                          \
    X(concurrentKernels, int, 576, 560, 1)                                                         \
    X(asyncEngineCount, int, 600, 584, 3)                                                          \
    X(unifiedAddressing, int, 604, 588, 1)                                                         \
    X(memoryBusWidth, int, 612, 592, 5120)                                                         \
    X(l2CacheSize, int, 616, 596, 50 << 20)                                                        \
    X(maxThreadsPerMultiProcessor, int, 624, 604, 2048)                                            \
    X(sharedMemPerMultiprocessor, size_t, 640, 624, 233472)                                        \
    X(regsPerMultiprocessor, int, 648, 632, 65536)                                                 \
    X(managedMemory, int, 652, 636, 1)                                                             \
    X(cooperativeLaunch, int, 688, 668, 1)                                                         \
    X(sharedMemPerBlockOptin, size_t, 696, 672, 232448)                                            \
    X(maxBlocksPerMultiProcessor, int, 712, 688, 32)                                               \
    X(reservedSharedMemPerBlock, size_t, 720, 696, 1024)                                           \
    X(memoryPoolsSupported, int, 744, 720, 1)

/* Members that differ from device to device: X(member, offset in CUDA 12, offset in CUDA 13). */
#define SIMULATE_OWN_PROPERTIES(X)                                                                 \
    X(name, 0, 0)                                                                                  \
    X(uuid, 256, 256)                                                                              \
    X(totalGlobalMem, 288, 288)                                                                    \
    X(pciBusID, 584, 568)

enum { SIMULATE_PROPERTIES_BYTES_12 = 1032, SIMULATE_PROPERTIES_BYTES_13 = 1008 };

/* Attributes by their number in cudaDeviceAttr, which is that in CUdevice_attribute too:
 * X(number, value). All others are 0. */
#define SIMULATE_ATTRIBUTES(X)                                                                     \
    X(1, 1024)       /* threads of a block */                                                      \
    X(2, 1024)       /* block x */                                                                 \
    X(3, 1024)       /* block y */                                                                 \
    X(4, 64)         /* block z */                                                                 \
    X(5, 2147483647) /* grid x */                                                                  \
    X(6, 65535)      /* grid y */                                                                  \
    X(7, 65535)      /* grid z */                                                                  \
    X(8, 49152)      /* shared memory of a block */                                                \
    X(10, 32)        /* warp */                                                                    \
    X(12, 65536)     /* registers of a block */                                                    \
    X(13, 1000000)   /* clock, in kHz */                                                           \
    X(16, 132)       /* multiprocessors */                                                         \
    X(36, 1000000)   /* memory clock, in kHz */                                                    \
    X(37, 5120)      /* memory bus, in bits */                                                     \
    X(38, 50 << 20)  /* cache */                                                                   \
    X(39, 2048)      /* threads of a multiprocessor */                                             \
    X(41, 1)         /* unified addressing */                                                      \
    X(75, 9)         /* compute capability */                                                      \
    X(81, 233472)    /* shared memory of a multiprocessor */                                       \
    X(82, 65536)     /* registers of a multiprocessor */                                           \
    X(83, 1)         /* managed memory */                                                          \
    X(95, 1)         /* cooperative launch */                                                      \
    X(97, 232448)    /* shared memory of a block, on request */                                    \
    X(99, 1)         /* host memory can be registered */                                           \
    X(102, 1)        /* virtual memory management */                                               \
    X(103, 1)        /* memory shared by file descriptor */                                        \
    X(106, 32)       /* blocks of a multiprocessor */                                              \
    X(111, 1024)     /* shared memory that the system takes of a block */                          \
    X(115, 1)        /* memory pools */

#endif
