#include "lab/trace/stacks.h"

#include <stdio.h>
#include <string.h>

typedef struct stack_frame {
    const char *file; /* whole path. NULL: no frame */
    const char *name;
    unsigned line;
} stack_frame;

static const char *text_of(mend_value dict, const char *key)
{
    mend_value value = mend_value_of(dict, key);
    return value.kind == MEND_VALUE_TEXT ? value.text : "";
}

static stack_frame frame_of(mend_value value)
{
    mend_value line = mend_value_of(value, "line");
    return (stack_frame){text_of(value, "filename"), text_of(value, "name"),
                         line.kind == MEND_VALUE_NUMBER ? (unsigned)line.number : 0};
}

/* Frames of C and C++ have other endings. */
static bool is_python(const char *file)
{
    size_t length = strlen(file);
    return file[0] == '<' || (length > 3 && strcmp(file + length - 3, ".py") == 0) ||
           strstr(file, "ipykernel") != NULL;
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash == NULL ? file : slash + 1;
}

/* Code that torch.compile made: its lines are in no source, so its caller is named. Inductor names
 * a file by the hash of its text, and its folder by two letters of that. */
static bool is_generated(const char *file)
{
    const char *name = base_name(file);
    return strncmp(file, "<eval_with_key>", strlen("<eval_with_key>")) == 0 ||
           (name - file >= 4 && strlen(name) > 50 && name[0] == 'c' &&
            strncmp(name - 3, name + 1, 2) == 0 && name[-4] == '/');
}

/* Before Python 3.12 these have frames of their own, in the line of the function around them. */
static bool is_part_of_line(const char *name)
{
    static const char *const parts[] = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (strcmp(name, parts[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Where a module calls what the program wrote for it, itself or by torch.compile. */
static bool is_call_of_module(const char *file)
{
    static const char own[] = "torch/nn/modules/module.py";
    const size_t length = strlen(file);
    return (length >= strlen(own) && strcmp(file + length - strlen(own), own) == 0) ||
           strstr(file, "torch/_dynamo/") != NULL;
}

static bool is_library(const char *file)
{
    static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
                                        "<frozen"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (strstr(file, parts[i]) != NULL) {
            return true;
        }
    }
    return strncmp(file, "torch/", strlen("torch/")) == 0;
}

static void write_label(const stack_frame *line, const stack_frame *caller,
                        const stack_frame *inner, char *label, size_t size)
{
    const bool is_module = strcmp(line->name, "<module>") == 0 || line->name[0] == 0;
    const bool is_one_file = caller->file != NULL && strcmp(caller->file, line->file) == 0;
    char number[16] = "";
    char from[64] = "";
    char into[96] = "";
    if (is_one_file && caller->line != line->line) {
        snprintf(from, sizeof(from), " from line %u", caller->line);
    } else if (caller->file != NULL && !is_one_file) {
        snprintf(from, sizeof(from), " from %.40s:%u", base_name(caller->file), caller->line);
    }
    if (strcmp(inner->file, line->file) != 0 || inner->line != line->line) {
        snprintf(into, sizeof(into), " > %.40s (%.40s:%u)", inner->name, base_name(inner->file),
                 inner->line);
    }
    if (line->line > 0) {
        snprintf(number, sizeof(number), ":%u", line->line);
    }
    snprintf(label, size, "%.60s%s%s%.40s%s%s", base_name(line->file), number, is_module ? "" : " ",
             is_module ? "" : line->name, from, into);
}

void mend_trace_name_stack(mend_value frames, char *label, size_t size)
{
    stack_frame inner = {0};
    stack_frame line = {0};
    stack_frame caller = {0};
    const size_t count = mend_value_count(frames);
    for (size_t i = 0; i < count; i++) {
        const stack_frame frame = frame_of(frames.items->values[i]);
        if (!is_python(frame.file) || is_generated(frame.file) || is_part_of_line(frame.name)) {
            continue;
        }
        if (caller.file != NULL && !is_call_of_module(frame.file)) {
            break;
        }
        inner = inner.file == NULL ? frame : inner;
        caller = line.file == NULL || is_library(frame.file) ? (stack_frame){0} : frame;
        line = line.file == NULL && !is_library(frame.file) ? frame : line;
    }
    if (inner.file == NULL) {
        snprintf(label, size, "%s", count == 0 ? "no stack" : "no Python line in the stack");
        return;
    }
    write_label(line.file != NULL ? &line : &inner, &caller, &inner, label, size);
    for (char *at = label; *at != 0; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            *at = '?';
        }
    }
}
