/*
 * Changes inputs of the target `operations` by whole operations, so that operations behind a change
 * keep their meaning. Changes of the bytes of one operation or of the place are libFuzzer's.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/operations.h"

typedef struct mutation {
    uint8_t *ops;
    size_t count;
    size_t most;
    uint64_t random;
} mutation;

static size_t draw(mutation *m, size_t bound)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return bound == 0 ? 0 : (size_t)(m->random >> 33) % bound;
}

static uint8_t *at(const mutation *m, size_t number)
{
    return m->ops + number * OPERATION_FIELDS;
}

static void open_gap(mutation *m, size_t number)
{
    memmove(at(m, number + 1), at(m, number), (m->count - number) * OPERATION_FIELDS);
    m->count++;
}

static void drop(mutation *m)
{
    size_t first = draw(m, m->count);
    size_t length = 1 + draw(m, m->count - first < 8 ? m->count - first : 8);
    memmove(at(m, first), at(m, first + length), (m->count - first - length) * OPERATION_FIELDS);
    m->count -= length;
}

/* A new one, or a copy of another, which often is the more telling. */
static void insert(mutation *m)
{
    uint8_t bytes[OPERATION_FIELDS];
    size_t copied = draw(m, m->count);
    bool copies = m->count > 0 && draw(m, 2) != 0;
    for (size_t i = 0; i < OPERATION_FIELDS; i++) {
        bytes[i] = copies ? at(m, copied)[i] : (uint8_t)draw(m, draw(m, 2) != 0 ? 256 : 4);
    }
    if (!copies) {
        bytes[0] = (uint8_t)draw(m, OP_COUNT);
    }
    size_t number = draw(m, m->count + 1);
    open_gap(m, number);
    memcpy(at(m, number), bytes, OPERATION_FIELDS);
}

static void swap(mutation *m)
{
    uint8_t bytes[OPERATION_FIELDS];
    uint8_t *one = at(m, draw(m, m->count));
    uint8_t *other = at(m, draw(m, m->count));
    memcpy(bytes, one, OPERATION_FIELDS);
    memmove(one, other, OPERATION_FIELDS);
    memcpy(other, bytes, OPERATION_FIELDS);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    if (size < FUZZ_PLACE_BYTES || most < FUZZ_PLACE_BYTES + OPERATION_FIELDS) {
        return LLVMFuzzerMutate(data, size, most);
    }
    mutation m = {.ops = data + FUZZ_PLACE_BYTES,
                  .count = (size - FUZZ_PLACE_BYTES) / OPERATION_FIELDS,
                  .most = (most - FUZZ_PLACE_BYTES) / OPERATION_FIELDS,
                  .random = seed};
    size_t choice = draw(&m, 8);
    if (choice == 0) {
        LLVMFuzzerMutate(data, FUZZ_PLACE_BYTES, FUZZ_PLACE_BYTES);
    } else if (m.count == 0 || (choice < 4 && m.count < m.most)) {
        insert(&m);
    } else if (choice == 4) {
        drop(&m);
    } else if (choice == 5) {
        swap(&m);
    } else {
        LLVMFuzzerMutate(at(&m, draw(&m, m.count)), OPERATION_FIELDS, OPERATION_FIELDS);
    }
    return FUZZ_PLACE_BYTES + m.count * OPERATION_FIELDS;
}
