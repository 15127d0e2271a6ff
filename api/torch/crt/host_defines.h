/*
 * The macros that CUDA's headers expect, for a host compiler alone. pip installs the headers of
 * CUDA's runtime with PyTorch, but not the headers of its compiler (crt/), which they include. This
 * file takes their place where no CUDA toolkit is installed beside them: it marks declarations with
 * nothing, but for their alignment, which is a part of the ABI.
 */
#ifndef MEND_CRT_HOST_DEFINES_H
#define MEND_CRT_HOST_DEFINES_H

/* Calls. */
#define CUDARTAPI
#define CUDARTAPI_CDECL

/* Layout: vector types have the alignment that they have on the device. */
#define __align__(n)         __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)

/* Where a function runs, and where a variable is. */
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)

/* Declarations that CUDA's compiler knows. */
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __annotate__(a)
#define __location__(a)
#define __specialization_static

#define __no_return__ __attribute__((noreturn))
#undef __forceinline__
#define __forceinline__ __inline__ __attribute__((always_inline))

#endif
