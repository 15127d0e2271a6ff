/* The number itself. base/process.c adds one to it in a child of fork. */
#include "base/generation.h"

_Atomic uint64_t mend_process_generation_now = 1;
