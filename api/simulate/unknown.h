/* Sizes that only a library on a GPU knows, such as cuDNN's workspaces. A program is given the
 * least or the most that it may be, and may be asked which it has been given. */
#ifndef MEND_SIMULATE_UNKNOWN_H
#define MEND_SIMULATE_UNKNOWN_H

#include <stdint.h>

/* X(part, words for the user) */
#define SIMULATE_UNKNOWN_PARTS(X)                                                                  \
    X(CONVOLUTIONS, "cuDNN's convolutions")                                                        \
    X(GRAPHS, "cuDNN's attention")                                                                 \
    X(RECURRENT, "cuDNN's recurrent networks")                                                     \
    X(OTHERS, "cuDNN's batch norm and CTC")

typedef enum simulate_part {
#define X(part, words) SIMULATE_##part,
    SIMULATE_UNKNOWN_PARTS(X)
#undef X
        SIMULATE_PARTS
} simulate_part;

/* Bytes of something that takes `least` to `most`: the least, or with
 * MEND_SIMULATE_WORKSPACES=most in the environment the most. Counts it where they differ. */
uint64_t simulate_unknown(simulate_part part, uint64_t least, uint64_t most);

#endif
