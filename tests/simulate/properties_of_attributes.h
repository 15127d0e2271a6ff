/* The attributes of a simulated device that are members of the structure of its properties too, and
 * where CUDA 12 and 13 have them. Read from CUDA's headers. The abi test compares CUDA 13's. */
#ifndef MEND_TESTS_SIMULATE_PROPERTIES_OF_ATTRIBUTES_H
#define MEND_TESTS_SIMULATE_PROPERTIES_OF_ATTRIBUTES_H

/* X(attribute, its number, member, offset in CUDA 12, offset in CUDA 13, bytes) */
#define PROPERTIES_OF_ATTRIBUTES(X)                                                                \
    X(MaxThreadsPerBlock, 1, maxThreadsPerBlock, 320, 320, 4)                                      \
    X(MaxBlockDimX, 2, maxThreadsDim[0], 324, 324, 4)                                              \
    X(MaxBlockDimY, 3, maxThreadsDim[1], 328, 328, 4)                                              \
    X(MaxBlockDimZ, 4, maxThreadsDim[2], 332, 332, 4)                                              \
    X(MaxGridDimX, 5, maxGridSize[0], 336, 336, 4)                                                 \
    X(MaxGridDimY, 6, maxGridSize[1], 340, 340, 4)                                                 \
    X(MaxGridDimZ, 7, maxGridSize[2], 344, 344, 4)                                                 \
    X(MaxSharedMemoryPerBlock, 8, sharedMemPerBlock, 296, 296, 8)                                  \
    X(TotalConstantMemory, 9, totalConstMem, 352, 352, 8)                                          \
    X(WarpSize, 10, warpSize, 308, 308, 4)                                                         \
    X(MaxRegistersPerBlock, 12, regsPerBlock, 304, 304, 4)                                         \
    X(TextureAlignment, 14, textureAlignment, 368, 368, 8)                                         \
    X(MultiProcessorCount, 16, multiProcessorCount, 388, 384, 4)                                   \
    X(CanMapHostMemory, 19, canMapHostMemory, 400, 392, 4)                                         \
    X(ConcurrentKernels, 31, concurrentKernels, 576, 560, 4)                                       \
    X(PciBusId, 33, pciBusID, 584, 568, 4)                                                         \
    X(GlobalMemoryBusWidth, 37, memoryBusWidth, 612, 592, 4)                                       \
    X(L2CacheSize, 38, l2CacheSize, 616, 596, 4)                                                   \
    X(MaxThreadsPerMultiProcessor, 39, maxThreadsPerMultiProcessor, 624, 604, 4)                   \
    X(AsyncEngineCount, 40, asyncEngineCount, 600, 584, 4)                                         \
    X(UnifiedAddressing, 41, unifiedAddressing, 604, 588, 4)                                       \
    X(ComputeCapabilityMajor, 75, major, 360, 360, 4)                                              \
    X(ComputeCapabilityMinor, 76, minor, 364, 364, 4)                                              \
    X(MaxSharedMemoryPerMultiprocessor, 81, sharedMemPerMultiprocessor, 640, 624, 8)               \
    X(MaxRegistersPerMultiprocessor, 82, regsPerMultiprocessor, 648, 632, 4)                       \
    X(ManagedMemory, 83, managedMemory, 652, 636, 4)                                               \
    X(CooperativeLaunch, 95, cooperativeLaunch, 688, 668, 4)                                       \
    X(MaxSharedMemoryPerBlockOptin, 97, sharedMemPerBlockOptin, 696, 672, 8)                       \
    X(HostRegisterSupported, 99, hostRegisterSupported, 728, 704, 4)                               \
    X(MaxBlocksPerMultiprocessor, 106, maxBlocksPerMultiProcessor, 712, 688, 4)                    \
    X(ReservedSharedMemoryPerBlock, 111, reservedSharedMemPerBlock, 720, 696, 8)                   \
    X(MemoryPoolsSupported, 115, memoryPoolsSupported, 744, 720, 4)

/* X(attribute, its number, member, offset in CUDA 12, bytes): CUDA 13 has no such member. */
#define PROPERTIES_OF_ATTRIBUTES_IN_12(X)                                                          \
    X(ClockRate, 13, clockRate, 348, 4)                                                            \
    X(MemoryClockRate, 36, memoryClockRate, 608, 4)

#endif
