#include "tests/sim/operations.h"

static const char *const names[OP_COUNT] = {
#define X(kind, meaning) #kind,
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

static void print_field(FILE *out, const char *name, uint8_t value)
{
    if (value != 0) {
        fprintf(out, ", .%s = %d", name, value);
    }
}

void operation_print(FILE *out, const operation *op)
{
    fprintf(out, "        {.kind = OP_%s", operation_name(op->kind));
    print_field(out, "slot", op->slot);
    print_field(out, "stream", op->stream);
    print_field(out, "size", op->size);
    print_field(out, "alignment", op->alignment);
    print_field(out, "thread", op->thread);
    print_field(out, "amount", op->amount);
    fprintf(out, "},\n");
}
