/* Every hook there is, by one face: so that a test can go through all of them. */
#ifndef MEND_TESTS_HOOKS_HOOK_H
#define MEND_TESTS_HOOKS_HOOK_H

#include "tests/hooks/rig.h"

typedef struct hook {
    const char *name;
    bool names_streams;                                              /* else it is given none */
    bool names_sizes;                                                /* at a free */
    void *(*alloc)(hooks_rig *rig, size_t size, mend_stream stream); /* NULL: it was refused */
    void (*free)(hooks_rig *rig, void *pointer, size_t size, mend_stream stream);
} hook;

enum { HOOKS = 5 };
extern const hook hooks[HOOKS];

mend_ort_functions hooks_ort_functions(hooks_rig *rig, mend_stream stream);

/* How often hooks had something to say that they could not return. */
uint64_t hooks_failures(hooks_rig *rig);

#endif
