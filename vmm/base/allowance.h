/*
 * The system's limits of the process, which decide between a message and an end by a signal, or
 * explain a refusal of the driver. Any thread may ask, under any lock. Nothing is changed, the
 * program's signal handlers neither.
 */
#ifndef MEND_BASE_ALLOWANCE_H
#define MEND_BASE_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether files may be as long as that (RLIMIT_FSIZE). One that grows beyond raises SIGXFSZ, which
 * ends the process: so ask before. If not, errno is EFBIG. */
bool mend_may_be_file_size(uint64_t size_bytes);

/* Whether the process or the system has hardly a file descriptor left. The driver says "out of
 * memory" then, and may need several for one call. *limit is the process's. */
bool mend_lacks_files(uint64_t *limit);

/* The host memory that may still be written: the least of the machine's available memory and the
 * rest of the process's memory control groups, of both versions. Their page cache counts as used.
 * Linux kills a process that writes more, so ask before. UINT64_MAX if nothing is known. Reads
 * files below `root`, "" for the system's own: some 50 us. */
uint64_t mend_host_room_bytes(const char *root);

#endif
