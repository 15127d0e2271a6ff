#include "simulate/unknown.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/entry.h"

static _Atomic uint64_t counts[SIMULATE_PARTS];

uint64_t simulate_unknown(simulate_part part, uint64_t least, uint64_t most)
{
    const char *asked = getenv("MEND_SIMULATE_WORKSPACES");
    counts[part] += least != most;
    return asked != NULL && strcmp(asked, "most") == 0 ? most : least;
}

/* How often the program got an unknown size, by part. NULL ends the list. */
SIMULATE_EXPORT const char *mend_simulate_unknown(unsigned part, uint64_t *count)
{
    static const char *const words[] = {
#define X(part, text) text,
        SIMULATE_UNKNOWN_PARTS(X)
#undef X
    };
    *count = part < SIMULATE_PARTS ? counts[part] : 0;
    return part < SIMULATE_PARTS ? words[part] : NULL;
}
