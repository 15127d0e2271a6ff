/*
 * The description of an exported block: the fabric handles of its chunks, and what an importer must
 * know beside them. It says everything, so that no importer asks the exporter: the two may run in
 * containers that share no socket, or on two machines. Numbers are in the exporter's own order; a
 * machine of the other order sees a wrong mark. The bytes may lie at any address.
 */
#ifndef MEND_SHARE_DESCRIPTION_H
#define MEND_SHARE_DESCRIPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

/* What a description begins with. */
typedef struct mend_description {
    uint64_t mark;
    uint64_t description_bytes; /* all of it */
    uint64_t number;            /* of the export in its process; never 0 */
    uint64_t count;             /* chunks */
    uint64_t all_bytes;         /* their sum */
    uint64_t offset_bytes;      /* from the start of the first chunk to the block */
    uint64_t size_bytes;        /* of the block */
    uint64_t check;             /* of all other bytes */
} mend_description;

/* Behind it, for each chunk in the order of addresses. */
typedef struct mend_described_chunk {
    uint64_t size_bytes;
    unsigned char handle[MEND_FABRIC_HANDLE_BYTES];
} mend_described_chunk;

/* The size of a description of so many chunks. */
size_t mend_description_size(size_t count);

/* Writes a description, part by part: each chunk, then the beginning, whose mark, size and check
 * are filled in here. `bytes` has room for mend_description_size(head->count). */
void mend_description_write_chunk(void *bytes, size_t at, const mend_described_chunk *chunk);
void mend_description_write_head(void *bytes, const mend_description *head);

/* NULL: the bytes are a sound description, and *head is its beginning. Otherwise what is wrong with
 * them, behind "the description". Reads no byte behind `size_bytes`. */
const char *mend_description_read(const void *bytes, size_t size_bytes, mend_description *head);

/* A chunk of a sound description. */
mend_described_chunk mend_description_chunk(const void *bytes, size_t at);

#endif
