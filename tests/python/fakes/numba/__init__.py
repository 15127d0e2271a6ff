"""A override for Numba's CUDA target: external memory management."""
