/* Settings of PyTorch's own allocator (PYTORCH_CUDA_ALLOC_CONF): most mean nothing to Mend. */
#include <stdbool.h>
#include <string.h>

#include "mend/mend_torch.h"

/* Settings that Mend obeys or does not need, and settings of pinned host memory, which stays
 * PyTorch's. */
static const char *const meant[] = {"roundup_power2_divisions", "per_process_memory_fraction",
                                    "throw_on_cudamalloc_oom", "graph_capture_record_stream_reuse",
                                    "pinned_"};

static bool has_meaning(const char *name)
{
    for (size_t i = 0; i < sizeof(meant) / sizeof(meant[0]); i++) {
        if (strncmp(name, meant[i], strlen(meant[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The end of a setting: its comma outside of brackets, or the end of all. */
static const char *end_of(const char *setting)
{
    int depth = 0;
    while (*setting != '\0' && (*setting != ',' || depth > 0)) {
        depth += (*setting == '[') - (*setting == ']');
        setting++;
    }
    return setting;
}

/* Writes a name behind the others, if it fits. */
static void add(char *names, size_t capacity, const char *name, size_t length)
{
    size_t used = capacity > 0 ? strlen(names) : 0;
    size_t comma = used > 0 ? 2 : 0;
    if (used + comma + length < capacity) {
        memcpy(names + used, ", ", comma);
        memcpy(names + used + comma, name, length);
        names[used + comma + length] = '\0';
    }
}

size_t mend_torch_settings_without_effect(const char *settings, char *names, size_t capacity)
{
    size_t count = 0;
    if (capacity > 0) {
        names[0] = '\0';
    }
    while (*settings != '\0') {
        const char *end = end_of(settings);
        const char *name = settings + strspn(settings, " \t");
        size_t length = strcspn(name, ":, \t");
        if (length > 0 && name < end && !has_meaning(name)) {
            count++;
            add(names, capacity, name, length);
        }
        settings = end + (*end == ',');
    }
    return count;
}
