"""A stub of Numba's CUDA target: external memory management."""
