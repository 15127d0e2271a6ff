/* FNV-1a: tells texts apart, and finds accidental cuts and changes. */
#ifndef MEND_BASE_HASH_H
#define MEND_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define MEND_HASH_OF_NOTHING UINT64_C(0xcbf29ce484222325)

/* The hash of the earlier bytes of `hash` followed by these. */
static inline uint64_t mend_hash(uint64_t hash, const void *bytes, size_t count)
{
    for (const unsigned char *at = bytes; count > 0; at++, count--) {
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#endif
