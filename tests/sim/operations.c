#include "tests/sim/operations.h"

static const char *const names[OP_COUNT] = {
#define X(kind, take, meaning) #kind,
    OPERATION_KINDS(X)
#undef X
};

const char *operation_name(uint8_t kind)
{
    return names[kind % OP_COUNT];
}

operation operation_decode(const uint8_t *bytes)
{
    return (operation){.kind = (uint8_t)(bytes[0] % OP_COUNT),
                       .slot = bytes[1],
                       .stream = bytes[2],
                       .size = bytes[3],
                       .alignment = bytes[4],
                       .thread = bytes[5],
                       .amount = bytes[6]};
}
