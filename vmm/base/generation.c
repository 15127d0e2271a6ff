#include "base/generation.h"

_Atomic uint64_t mend_process_generation_now = 1;
