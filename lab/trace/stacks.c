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

/* Code that torch.compile made of a graph: its lines are in no source, so its caller is named. */
static bool is_generated(const char *file)
{
    return strncmp(file, "<eval_with_key>", strlen("<eval_with_key>")) == 0;
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

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash == NULL ? file : slash + 1;
}

static void write_label(const stack_frame *user, const stack_frame *inner, char *label, size_t size)
{
    const stack_frame *first = user->file != NULL ? user : inner;
    bool is_inner = first->file == inner->file && first->line == inner->line;
    bool is_module = strcmp(first->name, "<module>") == 0 || first->name[0] == 0;
    int length = snprintf(label, size, "%.60s:%u%s%.40s", base_name(first->file), first->line,
                          is_module ? "" : " ", is_module ? "" : first->name);
    if (!is_inner && length > 0 && (size_t)length < size) {
        snprintf(label + length, size - (size_t)length, " > %.40s (%.40s:%u)", inner->name,
                 base_name(inner->file), inner->line);
    }
}

void mend_trace_name_stack(mend_value frames, char *label, size_t size)
{
    stack_frame user = {0};
    stack_frame inner = {0};
    size_t count = mend_value_count(frames);
    for (size_t i = 0; i < count && user.file == NULL; i++) {
        stack_frame frame = frame_of(frames.items->values[i]);
        if (!is_python(frame.file) || is_generated(frame.file)) {
            continue;
        }
        inner = inner.file == NULL ? frame : inner;
        user = is_library(frame.file) ? user : frame;
    }
    if (user.file == NULL && inner.file == NULL) {
        snprintf(label, size, "%s", count == 0 ? "no stack" : "no Python line in the stack");
        return;
    }
    write_label(&user, &inner, label, size);
    for (char *at = label; *at != 0; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            *at = '?';
        }
    }
}
