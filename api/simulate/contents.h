/*
 * Knowledge about the bytes in a device's memory: whether a copy from the host put them there, a
 * fill, or neither. Kernels do nothing here, so bytes that a kernel would have written are whatever
 * lay there before. A program that reads them is told about, and reads a defined value.
 */
#ifndef MEND_SIMULATE_CONTENTS_H
#define MEND_SIMULATE_CONTENTS_H

#include <stdint.h>

typedef enum simulate_contents {
    SIMULATE_RAW,     /* nothing is known: as the memory was made, all zeros */
    SIMULATE_STALE,   /* the bytes are of an earlier block, or were not saved */
    SIMULATE_GUESSED, /* worked out from others that are not known: read as they are, and told */
    SIMULATE_CHOSEN,  /* the same, from choices: of parts of them the sum is known */
    SIMULATE_FILLED,  /* by a fill, which a kernel may have overwritten */
    SIMULATE_COPIED   /* from the host */
} simulate_contents;

/* From now on the range holds that. */
void simulate_contents_set(uint64_t address, uint64_t bytes, simulate_contents contents);

/* The same as another range: a copy within the device. */
void simulate_contents_copy(uint64_t target, uint64_t source, uint64_t bytes);

/* The program has copied bytes of a device to `target`. Counts it as a read unless all of them are
 * COPIED. Unknown bytes get the value of the listener, else 0, in each 8 bytes. */
void simulate_contents_read(char *target, uint64_t source, uint64_t bytes);

#endif
