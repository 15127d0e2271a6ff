"""numba.cuda.cudadrv."""
