/*
 * Ranges of NVTX's domain "mend", for a profiler that the environment names
 * (NVTX_INJECTION64_PATH): slow steps, as spans of the thread's time. Without one a range is a
 * comparison (base/process.h).
 *
 * This is the program's half of the protocol of NVTX 3: the profiler's library gets a table of
 * places, and stores there the functions that it wants to be called.
 */
#ifndef MEND_RECORD_NVTX_H
#define MEND_RECORD_NVTX_H

#include <stdbool.h>

#include "base/process.h"

/* Loads the profiler that NVTX_INJECTION64_PATH names, once in a process, before its first pool.
 * Not in a program with more rights than its user. True: there is one. It keeps pointers into this
 * library, which must stay. The caller holds no lock. */
bool mend_nvtx_load(void);

#endif
