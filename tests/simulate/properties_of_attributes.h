/*
 * The attributes of a device that are members of the structure of its properties too, and where
 * that has them in CUDA 12 and 13. Read from CUDA's headers. The abi test compares CUDA 13's.
 */
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
    X(MaxPitch, 11, memPitch, 312, 312, 8)                                                         \
    X(MaxRegistersPerBlock, 12, regsPerBlock, 304, 304, 4)                                         \
    X(TextureAlignment, 14, textureAlignment, 368, 368, 8)                                         \
    X(MultiProcessorCount, 16, multiProcessorCount, 388, 384, 4)                                   \
    X(Integrated, 18, integrated, 396, 388, 4)                                                     \
    X(CanMapHostMemory, 19, canMapHostMemory, 400, 392, 4)                                         \
    X(MaxTexture1DWidth, 21, maxTexture1D, 408, 396, 4)                                            \
    X(MaxTexture2DWidth, 22, maxTexture2D[0], 420, 404, 4)                                         \
    X(MaxTexture2DHeight, 23, maxTexture2D[1], 424, 408, 4)                                        \
    X(MaxTexture3DWidth, 24, maxTexture3D[0], 456, 440, 4)                                         \
    X(MaxTexture3DHeight, 25, maxTexture3D[1], 460, 444, 4)                                        \
    X(MaxTexture3DDepth, 26, maxTexture3D[2], 464, 448, 4)                                         \
    X(MaxTexture2DLayeredWidth, 27, maxTexture2DLayered[0], 492, 476, 4)                           \
    X(MaxTexture2DLayeredHeight, 28, maxTexture2DLayered[1], 496, 480, 4)                          \
    X(MaxTexture2DLayeredLayers, 29, maxTexture2DLayered[2], 500, 484, 4)                          \
    X(SurfaceAlignment, 30, surfaceAlignment, 568, 552, 8)                                         \
    X(ConcurrentKernels, 31, concurrentKernels, 576, 560, 4)                                       \
    X(EccEnabled, 32, ECCEnabled, 580, 564, 4)                                                     \
    X(PciBusId, 33, pciBusID, 584, 568, 4)                                                         \
    X(PciDeviceId, 34, pciDeviceID, 588, 572, 4)                                                   \
    X(TccDriver, 35, tccDriver, 596, 580, 4)                                                       \
    X(GlobalMemoryBusWidth, 37, memoryBusWidth, 612, 592, 4)                                       \
    X(L2CacheSize, 38, l2CacheSize, 616, 596, 4)                                                   \
    X(MaxThreadsPerMultiProcessor, 39, maxThreadsPerMultiProcessor, 624, 604, 4)                   \
    X(AsyncEngineCount, 40, asyncEngineCount, 600, 584, 4)                                         \
    X(UnifiedAddressing, 41, unifiedAddressing, 604, 588, 4)                                       \
    X(MaxTexture1DLayeredWidth, 42, maxTexture1DLayered[0], 484, 468, 4)                           \
    X(MaxTexture1DLayeredLayers, 43, maxTexture1DLayered[1], 488, 472, 4)                          \
    X(MaxTexture2DGatherWidth, 45, maxTexture2DGather[0], 448, 432, 4)                             \
    X(MaxTexture2DGatherHeight, 46, maxTexture2DGather[1], 452, 436, 4)                            \
    X(MaxTexture3DWidthAlt, 47, maxTexture3DAlt[0], 468, 452, 4)                                   \
    X(MaxTexture3DHeightAlt, 48, maxTexture3DAlt[1], 472, 456, 4)                                  \
    X(MaxTexture3DDepthAlt, 49, maxTexture3DAlt[2], 476, 460, 4)                                   \
    X(PciDomainId, 50, pciDomainID, 592, 576, 4)                                                   \
    X(TexturePitchAlignment, 51, texturePitchAlignment, 376, 376, 8)                               \
    X(MaxTextureCubemapWidth, 52, maxTextureCubemap, 480, 464, 4)                                  \
    X(MaxTextureCubemapLayeredWidth, 53, maxTextureCubemapLayered[0], 504, 488, 4)                 \
    X(MaxTextureCubemapLayeredLayers, 54, maxTextureCubemapLayered[1], 508, 492, 4)                \
    X(MaxSurface1DWidth, 55, maxSurface1D, 512, 496, 4)                                            \
    X(MaxSurface2DWidth, 56, maxSurface2D[0], 516, 500, 4)                                         \
    X(MaxSurface2DHeight, 57, maxSurface2D[1], 520, 504, 4)                                        \
    X(MaxSurface3DWidth, 58, maxSurface3D[0], 524, 508, 4)                                         \
    X(MaxSurface3DHeight, 59, maxSurface3D[1], 528, 512, 4)                                        \
    X(MaxSurface3DDepth, 60, maxSurface3D[2], 532, 516, 4)                                         \
    X(MaxSurface1DLayeredWidth, 61, maxSurface1DLayered[0], 536, 520, 4)                           \
    X(MaxSurface1DLayeredLayers, 62, maxSurface1DLayered[1], 540, 524, 4)                          \
    X(MaxSurface2DLayeredWidth, 63, maxSurface2DLayered[0], 544, 528, 4)                           \
    X(MaxSurface2DLayeredHeight, 64, maxSurface2DLayered[1], 548, 532, 4)                          \
    X(MaxSurface2DLayeredLayers, 65, maxSurface2DLayered[2], 552, 536, 4)                          \
    X(MaxSurfaceCubemapWidth, 66, maxSurfaceCubemap, 556, 540, 4)                                  \
    X(MaxSurfaceCubemapLayeredWidth, 67, maxSurfaceCubemapLayered[0], 560, 544, 4)                 \
    X(MaxSurfaceCubemapLayeredLayers, 68, maxSurfaceCubemapLayered[1], 564, 548, 4)                \
    X(MaxTexture2DLinearWidth, 70, maxTexture2DLinear[0], 436, 420, 4)                             \
    X(MaxTexture2DLinearHeight, 71, maxTexture2DLinear[1], 440, 424, 4)                            \
    X(MaxTexture2DLinearPitch, 72, maxTexture2DLinear[2], 444, 428, 4)                             \
    X(MaxTexture2DMipmappedWidth, 73, maxTexture2DMipmap[0], 428, 412, 4)                          \
    X(MaxTexture2DMipmappedHeight, 74, maxTexture2DMipmap[1], 432, 416, 4)                         \
    X(ComputeCapabilityMajor, 75, major, 360, 360, 4)                                              \
    X(ComputeCapabilityMinor, 76, minor, 364, 364, 4)                                              \
    X(MaxTexture1DMipmappedWidth, 77, maxTexture1DMipmap, 412, 400, 4)                             \
    X(StreamPrioritiesSupported, 78, streamPrioritiesSupported, 628, 608, 4)                       \
    X(GlobalL1CacheSupported, 79, globalL1CacheSupported, 632, 612, 4)                             \
    X(LocalL1CacheSupported, 80, localL1CacheSupported, 636, 616, 4)                               \
    X(MaxSharedMemoryPerMultiprocessor, 81, sharedMemPerMultiprocessor, 640, 624, 8)               \
    X(MaxRegistersPerMultiprocessor, 82, regsPerMultiprocessor, 648, 632, 4)                       \
    X(ManagedMemory, 83, managedMemory, 652, 636, 4)                                               \
    X(IsMultiGpuBoard, 84, isMultiGpuBoard, 656, 640, 4)                                           \
    X(MultiGpuBoardGroupID, 85, multiGpuBoardGroupID, 660, 644, 4)                                 \
    X(HostNativeAtomicSupported, 86, hostNativeAtomicSupported, 664, 648, 4)                       \
    X(PageableMemoryAccess, 88, pageableMemoryAccess, 672, 652, 4)                                 \
    X(ConcurrentManagedAccess, 89, concurrentManagedAccess, 676, 656, 4)                           \
    X(ComputePreemptionSupported, 90, computePreemptionSupported, 680, 660, 4)                     \
    X(CanUseHostPointerForRegisteredMem, 91, canUseHostPointerForRegisteredMem, 684, 664, 4)       \
    X(CooperativeLaunch, 95, cooperativeLaunch, 688, 668, 4)                                       \
    X(MaxSharedMemoryPerBlockOptin, 97, sharedMemPerBlockOptin, 696, 672, 8)                       \
    X(HostRegisterSupported, 99, hostRegisterSupported, 728, 704, 4)                               \
    X(PageableMemoryAccessUsesHostPageTables, 100, pageableMemoryAccessUsesHostPageTables, 704,    \
      680, 4)                                                                                      \
    X(DirectManagedMemAccessFromHost, 101, directManagedMemAccessFromHost, 708, 684, 4)            \
    X(MaxBlocksPerMultiprocessor, 106, maxBlocksPerMultiProcessor, 712, 688, 4)                    \
    X(MaxPersistingL2CacheSize, 108, persistingL2CacheMaxSize, 620, 600, 4)                        \
    X(MaxAccessPolicyWindowSize, 109, accessPolicyMaxWindowSize, 716, 692, 4)                      \
    X(ReservedSharedMemoryPerBlock, 111, reservedSharedMemPerBlock, 720, 696, 8)                   \
    X(SparseCudaArraySupported, 112, sparseCudaArraySupported, 732, 708, 4)                        \
    X(HostRegisterReadOnlySupported, 113, hostRegisterReadOnlySupported, 736, 712, 4)              \
    X(TimelineSemaphoreInteropSupported, 114, timelineSemaphoreInteropSupported, 740, 716, 4)      \
    X(MemoryPoolsSupported, 115, memoryPoolsSupported, 744, 720, 4)                                \
    X(GPUDirectRDMASupported, 116, gpuDirectRDMASupported, 748, 724, 4)                            \
    X(GPUDirectRDMAFlushWritesOptions, 117, gpuDirectRDMAFlushWritesOptions, 752, 728, 4)          \
    X(GPUDirectRDMAWritesOrdering, 118, gpuDirectRDMAWritesOrdering, 756, 732, 4)                  \
    X(MemoryPoolSupportedHandleTypes, 119, memoryPoolSupportedHandleTypes, 760, 736, 4)            \
    X(ClusterLaunch, 120, clusterLaunch, 772, 748, 4)                                              \
    X(DeferredMappingCudaArraySupported, 121, deferredMappingCudaArraySupported, 764, 740, 4)      \
    X(IpcEventSupport, 125, ipcEventSupported, 768, 744, 4)

/* X(attribute, its number, member, offset in CUDA 12, bytes): CUDA 13 has no such member. */
#define PROPERTIES_OF_ATTRIBUTES_IN_12(X)                                                          \
    X(ClockRate, 13, clockRate, 348, 4)                                                            \
    X(GpuOverlap, 15, deviceOverlap, 384, 4)                                                       \
    X(KernelExecTimeout, 17, kernelExecTimeoutEnabled, 392, 4)                                     \
    X(ComputeMode, 20, computeMode, 404, 4)                                                        \
    X(MemoryClockRate, 36, memoryClockRate, 608, 4)                                                \
    X(MaxTexture1DLinearWidth, 69, maxTexture1DLinear, 416, 4)                                     \
    X(SingleToDoublePrecisionPerfRatio, 87, singleToDoublePrecisionPerfRatio, 668, 4)              \
    X(CooperativeMultiDeviceLaunch, 96, cooperativeMultiDeviceLaunch, 692, 4)

/* X(attribute, its number, member, offset in CUDA 13, bytes): CUDA 12 has no such member. */
#define PROPERTIES_OF_ATTRIBUTES_IN_13(X)                                                          \
    X(MpsEnabled, 133, mpsEnabled, 764, 4)                                                         \
    X(HostNumaId, 134, hostNumaId, 768, 4)                                                         \
    X(GpuPciDeviceId, 139, gpuPciDeviceID, 772, 4)                                                 \
    X(GpuPciSubsystemId, 140, gpuPciSubsystemID, 776, 4)                                           \
    X(HostNumaMultinodeIpcSupported, 143, hostNumaMultinodeIpcSupported, 780, 4)

#endif
