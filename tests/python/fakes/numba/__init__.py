"""A stand-in for Numba's CUDA target: external memory management."""
