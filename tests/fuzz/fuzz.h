/*
 * Shared by the fuzzing targets. A target is one function that takes any bytes. libFuzzer calls it
 * with its own bytes, and main.c with files. A target that finds something ends the process, as a
 * sanitizer does.
 */
#ifndef MEND_TESTS_FUZZ_FUZZ_H
#define MEND_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "mend/mend.h"

/* libFuzzer's names. The target, and, where a target has one, its own way to change an input of
 * `size` bytes into another of `most` bytes at most, in place, whose size it returns. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

/* The conditions. */
#define FUZZ_CHECK(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #condition);                \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The bytes as a text, which ends at their first 0. The caller frees it. */
char *fuzz_text(const uint8_t *data, size_t size);

/* A file in memory with these bytes, the same for a slot each time: its path, which stays valid. */
enum { FUZZ_FILES = 2 };
const char *fuzz_file(int slot, const uint8_t *data, size_t size);

/* The calling thread's last failure was a refusal that says why, in printable characters, and
 * begins so. */
void fuzz_check_refusal(mend_result result, const char *beginning);

/* The same of any failure. */
void fuzz_check_failure(mend_result expected, mend_result result, const char *beginning);

/* A trace obeys the promises of lab/trace/trace.h. */
struct mend_trace;
void fuzz_check_trace(const struct mend_trace *trace);

#endif
