/*
 * Programs as PyTorch runs them, drawn from a seed: threads with a stream each make tensors, fill
 * them, use some on side streams behind an event, and drop them, their own and each other's, while
 * work is in flight. A thread that gets memory too early spoils contents that another still reads.
 */
#ifndef MEND_TESTS_HOOKS_TORCH_PROGRAM_H
#define MEND_TESTS_HOOKS_TORCH_PROGRAM_H

#include "tests/hooks/rig.h"
#include "tests/hooks/torch_contract.h"

typedef struct torch_program {
    hooks_rig *rig;
    torch_contract *contract;
    uint64_t seed;
    int threads; /* each with a stream. 1: the program runs the same way every time */
    int steps;   /* of each */
} torch_program;

/* The result of a program. */
typedef struct torch_verdict {
    const char *finding; /* of the contract. "" */
    bool device_is_well;
    uint64_t tensors;       /* made */
    uint64_t out_of_memory; /* raised, with the text that PyTorch's users look for */
    uint64_t other_raises;
} torch_verdict;

/* Runs it to its end, with all tensors dropped and all work done. */
torch_verdict torch_program_run(torch_program *program);

/* Nothing is wrong with it. */
bool torch_verdict_is_clean(const torch_verdict *verdict);

#endif
