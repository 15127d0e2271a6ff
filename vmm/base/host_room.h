/* How much more memory the host can give this process. */
#ifndef MEND_BASE_HOST_ROOM_H
#define MEND_BASE_HOST_ROOM_H

#include <stdint.h>

/* How much more memory of the host may be written: the least of what the machine has available and
 * what the process's memory control groups leave, of both versions; their page cache counts as
 * used. Linux kills a process that writes more, so ask before. UINT64_MAX if nothing is known.
 * Reads files below `root`, "" for the system's own: some 50 us. */
uint64_t mend_host_room_bytes(const char *root);

#endif
