#include "tests/sim/script.h"

#include <stdlib.h>
#include <string.h>

/* A word, or a separator. A word may be the name of the value behind it. */
typedef struct reader {
    const char *at;
    char word[48];
} reader;

static bool next_word(reader *r)
{
    r->at += strspn(r->at, " ,");
    const size_t length = strcspn(r->at, " ,");
    snprintf(r->word, sizeof(r->word), "%.*s", (int)length, r->at);
    r->at += length;
    return length > 0;
}

static bool next_number(reader *r, unsigned long *number)
{
    char *end = NULL;
    const bool is_there = next_word(r);
    *number = strtoul(r->word, &end, 0);
    return is_there && *end == '\0';
}

static bool read_place(reader r, trial_config *config)
{
    *config = trial_config_default;
    while (next_word(&r)) {
        uint32_t *field = NULL;
        unsigned long number = 0;
#define X(name, usual, meaning) field = strcmp(r.word, #name) == 0 ? &config->name : field;
        TRIAL_CONFIG(X)
#undef X
        if (field == NULL || !next_number(&r, &number)) {
            return false;
        }
        *field = (uint32_t)number;
    }
    return true;
}

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
#define FIELD(name)                                                                                \
    {                                                                                              \
#name, offsetof(operation, name)                                                           \
    }
    FIELD(slot), FIELD(stream), FIELD(size), FIELD(alignment), FIELD(thread), FIELD(amount),
#undef FIELD
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static bool read_kind(const char *word, operation *op)
{
    uint8_t kind = 0;
    while (kind < OP_COUNT && strcmp(word, operation_name(kind)) != 0) {
        kind++;
    }
    *op = (operation){.kind = kind};
    return kind < OP_COUNT;
}

static bool read_field(reader *r, operation *op)
{
    unsigned long number = 0;
    size_t i = 0;
    while (i < FIELDS && strcmp(r->word, fields[i].name) != 0) {
        i++;
    }
    if (i == FIELDS || !next_number(r, &number) || number > UINT8_MAX) {
        return false;
    }
    ((uint8_t *)op)[fields[i].offset] = (uint8_t)number;
    return true;
}

int trial_read_script(const char *place, const char *text, trial_config *config, operation *ops,
                      int most)
{
    reader r = {.at = text};
    int count = 0;
    bool begins = true;
    bool is_right = read_place((reader){.at = place}, config);
    while (is_right && next_word(&r)) {
        if (strcmp(r.word, "/") == 0) {
            begins = true;
        } else if (begins) {
            is_right = count < most && read_kind(r.word, &ops[count++]);
            begins = false;
        } else {
            is_right = read_field(&r, &ops[count - 1]);
        }
    }
    return is_right ? count : -1;
}

void trial_print(FILE *out, const char *name, const trial_config *config, const operation *ops,
                 size_t count)
{
    const char *comma = "";
    fprintf(out, "HOLDS(regression, %s,\n      \"", name);
#define X(field, usual, meaning)                                                                   \
    if (config->field != (usual)) {                                                                \
        fprintf(out, "%s" #field " %u", comma, config->field);                                     \
        comma = ", ";                                                                              \
    }
    TRIAL_CONFIG(X)
#undef X
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s%s", i == 0 ? "\",\n      \"" : " / \"\n      \"",
                operation_name(ops[i].kind));
        for (size_t k = 0; k < FIELDS; k++) {
            const uint8_t value = ((const uint8_t *)&ops[i])[fields[k].offset];
            if (value != 0) {
                fprintf(out, " %s %u", fields[k].name, value);
            }
        }
    }
    fprintf(out, "\")\n");
}
