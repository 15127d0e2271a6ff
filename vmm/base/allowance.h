/*
 * What the system lets the process have: the limits that decide between a message and an end by a
 * signal, or that explain a refusal of the driver's. Any thread may ask, under any lock; nothing is
 * changed, the program's signal handlers neither.
 */
#ifndef MEND_BASE_ALLOWANCE_H
#define MEND_BASE_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether files may be as long as that (RLIMIT_FSIZE). One that grows beyond raises SIGXFSZ, which
 * ends the process: so ask before. If not, errno is EFBIG. */
bool mend_may_be_file_size(uint64_t size_bytes);

/* Whether the process or the system has hardly a file descriptor left. The driver says "out of
 * memory" then, and may need several for one call. *limit is that of the process. */
bool mend_lacks_files(uint64_t *limit);

/* How much more memory of the host may be written: the least of what the machine has available and
 * what the process's memory control groups leave, of both versions; their page cache counts as
 * used. Linux kills a process that writes more, so ask before. UINT64_MAX if nothing is known.
 * Reads files below `root`, "" for the system's own: some 50 us. */
uint64_t mend_host_room_bytes(const char *root);

#endif
