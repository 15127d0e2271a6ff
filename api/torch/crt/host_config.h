/*
 * The requirements of CUDA's compiler for the host's compiler: none, because it does not run. See
 * host_defines.h.
 */
#ifndef MEND_CRT_HOST_CONFIG_H
#define MEND_CRT_HOST_CONFIG_H

#endif
