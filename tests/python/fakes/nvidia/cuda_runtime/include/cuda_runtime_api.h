/* The header of CUDA's runtime is here. */
