#include "tests/cli/report_program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void program_begin(program *p, bool is_log)
{
    *p = (program){.is_log = is_log, .next = 64 * MIB};
    p->out = open_memstream(&p->text, &p->size);
    fputs(is_log ? TRACE_HEAD : "{\"device_traces\": [[", p->out);
}

static const char *comma(program *p)
{
    return p->events++ == 0 ? "" : ",";
}

void program_alloc_at(program *p, uint64_t address, unsigned line, uint64_t size_bytes)
{
    if (p->is_log) {
        fprintf(p->out, "0,0,allocate,%" PRIu64 ",%" PRIu64 ",0\n", address, size_bytes);
        return;
    }
    fprintf(p->out,
            "%s\n{\"action\": \"alloc\", \"addr\": %" PRIu64 ", \"size\": %" PRIu64
            ", \"stream\": 0, \"frames\": [",
            comma(p), address, size_bytes);
    if (line != 0) {
        fprintf(p->out,
                "{\"filename\": \"/x/site-packages/torch/m.py\", \"line\": 7, \"name\": \"call\"}, "
                "{\"filename\": \"/home/u/train.py\", \"line\": %u, \"name\": \"<module>\"}",
                line);
    }
    fputs("]}", p->out);
}

uint64_t program_alloc(program *p, unsigned line, uint64_t size_bytes)
{
    uint64_t address = p->next;
    p->next += size_bytes;
    program_alloc_at(p, address, line, size_bytes);
    return address;
}

void program_free(program *p, uint64_t block, uint64_t size_bytes)
{
    if (p->is_log) {
        fprintf(p->out, "0,0,free,%" PRIu64 ",%" PRIu64 ",0\n", block, size_bytes);
        return;
    }
    fprintf(p->out,
            "%s\n{\"action\": \"free_completed\", \"addr\": %" PRIu64 ", \"size\": %" PRIu64
            ", \"stream\": 0}",
            comma(p), block, size_bytes);
}

void program_segment(program *p, const char *action, uint64_t address, uint64_t size_bytes)
{
    fprintf(p->out,
            "%s\n{\"action\": \"%s\", \"addr\": %" PRIu64 ", \"size\": %" PRIu64 ", \"stream\": 0}",
            comma(p), action, address, size_bytes);
}

void program_refuse(program *p, uint64_t size_bytes, uint64_t device_free)
{
    if (p->is_log) {
        fprintf(p->out, "0,0,allocate failure,(nil),%" PRIu64 ",0\n", size_bytes);
        return;
    }
    fprintf(p->out,
            "%s\n{\"action\": \"oom\", \"size\": %" PRIu64 ", \"device_free\": %" PRIu64
            ", \"stream\": 0}",
            comma(p), size_bytes, device_free);
}

fixture_file program_end(program *p, const char *state)
{
    if (!p->is_log) {
        fprintf(p->out, "]]%s}\n", state);
    }
    fclose(p->out);
    fixture_file file = fixture_write(p->is_log ? ".csv" : ".json", p->text, p->size);
    free(p->text);
    return file;
}

enum { STEPS = 60, PARTS = 4 };

#define KEPT  (3 * MIB)
#define TABLE (3 * MIB)

/* By default it has STEPS steps, and keeps blocks in each of them, or in none. */
static const struct program_kind {
    const char *name;
    int steps;
    int keep_every;      /* each nth step keeps a block. 0: none */
    int keep_until;      /* of the steps before this one */
    uint64_t kept_bytes; /* of such a block. 0: KEPT */
    int forget_every;    /* all that is kept is freed after each nth step. 0: never */
    bool has_table;      /* each step replaces a block by a larger one */
    bool has_second_model;
    bool fails;
    bool goes_on;             /* without the leak, as long again */
    bool frees;               /* its kept blocks, and it still has its weights */
    bool ends;                /* by freeing all that it has */
    uint64_t temporary_bytes; /* of each of a step's blocks. 0: 32 MiB */
} kinds[] = {
    {.name = "steady"},
    {.name = "short", .steps = 12, .keep_every = 1},
    {.name = "fills up", .keep_every = 1, .keep_until = STEPS / 8},
    {.name = "fills up late", .keep_every = 1, .keep_until = STEPS / 2},
    {.name = "second model", .has_second_model = true},
    {.name = "accumulates", .keep_every = 1, .forget_every = 12},
    {.name = "grows", .has_table = true},
    {.name = "leaks", .keep_every = 1},
    {.name = "leaks a little", .keep_every = 1, .kept_bytes = 16384},
    {.name = "leaks slowly", .keep_every = 3},
    {.name = "leaks and fails", .keep_every = 1, .fails = true},
    {.name = "leaks, fails, goes on", .keep_every = 1, .fails = true, .goes_on = true},
    {.name = "leaks and ends", .keep_every = 1, .ends = true},
    {.name = "collects and frees", .keep_every = 1, .frees = true},
    {.name = "is one pass", .keep_every = 1, .temporary_bytes = 3 * MIB},
    {.name = "is one pass, and fails", .keep_every = 1, .temporary_bytes = 3 * MIB, .fails = true},
    {.name = "is one pass, freed again", .keep_every = 1, .temporary_bytes = 3 * MIB, .ends = true},
    {.name = "keeps graphs", .steps = 8 * STEPS, .keep_every = 1, .temporary_bytes = 3 * MIB},
};

/* Memory of a program beside its weights. */
typedef struct kept_blocks {
    uint64_t blocks[8 * STEPS];
    size_t count;
    uint64_t table;
} kept_blocks;

static void forget(program *p, kept_blocks *kept)
{
    while (kept->count > 0) {
        program_free(p, kept->blocks[--kept->count], KEPT);
    }
}

/* Temporary blocks, and other steps of the program. */
static void step(program *p, const struct program_kind *kind, kept_blocks *kept, int i)
{
    const uint64_t bytes = kind->temporary_bytes != 0 ? kind->temporary_bytes : 32 * MIB;
    uint64_t parts[PARTS];
    for (int k = 0; k < PARTS; k++) {
        parts[k] = program_alloc(p, 10, bytes);
    }
    for (int k = 0; k < PARTS; k++) {
        program_free(p, parts[k], bytes);
    }
    if (kind->keep_every > 0 && (kind->keep_until == 0 || i < kind->keep_until) &&
        i % kind->keep_every == 0) {
        kept->blocks[kept->count++] =
            program_alloc(p, 20, kind->kept_bytes != 0 ? kind->kept_bytes : KEPT);
    }
    if (kind->forget_every > 0 && (i + 1) % kind->forget_every == 0) {
        forget(p, kept);
    }
    if (kind->has_second_model && i == STEPS / 2) {
        program_alloc(p, 25, 50 * MIB);
    }
    if (kind->has_table) {
        uint64_t before = (uint64_t)i * TABLE;
        uint64_t grown = program_alloc(p, 30, before + TABLE);
        if (before > 0) {
            program_free(p, kept->table, before);
        }
        kept->table = grown;
    }
}

fixture_file program_named(const char *name, bool is_log)
{
    const struct program_kind *kind = kinds;
    while (strcmp(kind->name, name) != 0) {
        kind++;
    }
    program p;
    kept_blocks kept = {0};
    const int steps = kind->steps > 0 ? kind->steps : STEPS;
    program_begin(&p, is_log);
    const uint64_t weights = program_alloc(&p, 5, 100 * MIB);
    for (int i = 0; i < steps; i++) {
        step(&p, kind, &kept, i);
    }
    if (kind->fails) {
        program_refuse(&p, 64 * MIB, 0);
    }
    if (kind->ends || kind->frees || kind->goes_on) {
        forget(&p, &kept);
    }
    if (kind->ends) {
        program_free(&p, weights, 100 * MIB);
    }
    for (int i = 0; kind->goes_on && i < steps; i++) {
        step(&p, &kinds[0], &kept, i);
    }
    return program_end(&p, "");
}
