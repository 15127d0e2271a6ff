/* Small programs, written down as a snapshot of PyTorch or as a log of allocations. */
#ifndef MEND_TESTS_CLI_REPORT_PROGRAM_H
#define MEND_TESTS_CLI_REPORT_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "lab/report/report.h"
#include "tests/cli/fixture.h"

#define MIB (UINT64_C(1) << 20)

typedef struct program {
    FILE *out;
    char *text;
    size_t size;
    bool is_log;
    uint64_t next; /* the next address: blocks never share one */
    uint64_t events;
} program;

void program_begin(program *p, bool is_log);

/* A line of train.py asks for a block. The block is its address. */
uint64_t program_alloc(program *p, unsigned line, uint64_t size_bytes);
void program_free(program *p, uint64_t block, uint64_t size_bytes);
void program_alloc_at(program *p, uint64_t address, unsigned line, uint64_t size_bytes);
void program_refuse(program *p, uint64_t size_bytes, uint64_t device_free);
/* "segment_alloc" and the like. Only of a snapshot. */
void program_segment(program *p, const char *action, uint64_t address, uint64_t size_bytes);

/* Ends the file. `state` is the part of the snapshot behind its events: "" or JSON that begins with
 * a comma. */
fixture_file program_end(program *p, const char *state);

/* As in fixture.h. */
#define ENDING_REPORT __attribute__((cleanup(program_end_report)))
static inline void program_end_report(mend_report **report)
{
    mend_report_destroy(*report);
}

/* One of the programs in report_program.c. */
fixture_file program_named(const char *name, bool is_log);

#endif
