/*
 * What CUDA's compiler asks of the host's compiler: nothing, where it does not run. See
 * host_defines.h.
 */
#ifndef MEND_CRT_HOST_CONFIG_H
#define MEND_CRT_HOST_CONFIG_H

#endif
