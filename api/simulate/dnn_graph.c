/*
 * cuDNN's graphs: convolutions and attention. Descriptors store their values. Engines support any
 * graph. How much workspace one takes is not known without a GPU. We offer two: the first takes as
 * much as the operands that it may have to bring into another order, where that is asked for, and
 * the second takes nothing.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/dnn.h"
#include "simulate/entry.h"
#include "simulate/unknown.h"

/* cudnnBackendDescriptorType_t */
enum {
    ENGINE_HEURISTICS = 4,
    PLAN = 5,
    FIRST_CONVOLUTION = 10,
    LAST_CONVOLUTION = 12,
    GRAPH = 15,
    TENSOR = 17
};

/* cudnnBackendAttributeName_t */
enum {
    HEURISTICS_GRAPH = 201,
    HEURISTICS_RESULTS = 202,
    CONFIGURATION_ENGINE = 300,
    CONFIGURATION_WORKSPACE = 303,
    CONFIGURATION_SHARED = 304,
    PLAN_CONFIGURATION = 401,
    PLAN_WORKSPACE = 402,
    GRAPH_OPERATIONS = 801,
    GRAPH_ENGINES = 802,
    TENSOR_TYPE = 901,
    TENSOR_SIZES = 902,
    TENSOR_STRIDES = 903,
    TENSOR_IS_VIRTUAL = 907,
    TENSOR_IS_BY_VALUE = 908,
    ENGINE_INDEX = 1301
};

/* cudnnBackendAttributeType_t */
enum {
    HANDLE = 0,
    BOOLEAN = 2,
    INT64 = 3,
    DOUBLE = 5,
    POINTER = 6,
    DESCRIPTOR = 15,
    CHAR = 24,
    FRACTION = 26
};

typedef struct attribute {
    int name, type;
    int64_t count;
    struct attribute *next;
    char bytes[];
} attribute;

typedef struct descriptor {
    int kind;
    attribute *first;
    int64_t workspace;
} descriptor;

static size_t width_of(int type)
{
    switch (type) {
    case BOOLEAN:
    case CHAR:
        return 1;
    case HANDLE:
    case INT64:
    case DOUBLE:
    case POINTER:
    case DESCRIPTOR:
        return 8;
    case FRACTION:
        return 16;
    default:
        return 4;
    }
}

static const attribute *find(const descriptor *d, int name)
{
    const attribute *found = d->first;
    while (found != NULL && found->name != name) {
        found = found->next;
    }
    return found;
}

/* A number of an attribute, or the first one of several. 0 where it was not set. */
static int64_t number_of(const descriptor *d, int name)
{
    const attribute *found = find(d, name);
    int64_t value = 0;
    if (found != NULL && found->count > 0) {
        memcpy(&value, found->bytes, width_of(found->type));
    }
    return value;
}

static descriptor *descriptor_at(const attribute *list, int64_t i)
{
    descriptor *found = NULL;
    memcpy(&found, list->bytes + (size_t)i * sizeof(void *), sizeof(void *));
    return found;
}

SIMULATE_EXPORT int cudnnBackendCreateDescriptor(int kind, descriptor **d)
{
    *d = calloc(1, sizeof(**d));
    if (*d == NULL) {
        return DNN_ALLOC_FAILED;
    }
    (*d)->kind = kind;
    return DNN_SUCCESS;
}

SIMULATE_EXPORT int cudnnBackendDestroyDescriptor(descriptor *d)
{
    attribute *next = d != NULL ? d->first : NULL;
    while (next != NULL) {
        attribute *one = next;
        next = one->next;
        free(one);
    }
    free(d);
    return DNN_SUCCESS;
}

SIMULATE_EXPORT int cudnnBackendSetAttribute(descriptor *d, int name, int type, int64_t count,
                                             const void *values)
{
    if (d == NULL || count < 0 || (values == NULL && count > 0)) {
        return DNN_BAD_PARAMETER;
    }
    size_t bytes = (size_t)count * width_of(type);
    attribute *made = malloc(sizeof(*made) + bytes);
    if (made == NULL) {
        return DNN_ALLOC_FAILED;
    }
    *made = (attribute){.name = name, .type = type, .count = count, .next = d->first};
    if (bytes > 0) {
        memcpy(made->bytes, values, bytes);
    }
    d->first = made; /* an earlier one of the name is found no more */
    return DNN_SUCCESS;
}

/* ---- workspaces ------------------------------------------------------------------------------ */

/* The size of a copy of a tensor in another order. One with channels last is in the right order. */
static int64_t copy_of(const descriptor *tensor)
{
    const attribute *sizes = find(tensor, TENSOR_SIZES);
    const attribute *strides = find(tensor, TENSOR_STRIDES);
    if (sizes == NULL || strides == NULL || strides->count < 2 ||
        number_of(tensor, TENSOR_IS_VIRTUAL) != 0 || number_of(tensor, TENSOR_IS_BY_VALUE) != 0) {
        return 0;
    }
    int64_t of_channels = 0;
    int64_t bytes = (int64_t)simulate_dnn_width((int)number_of(tensor, TENSOR_TYPE));
    memcpy(&of_channels, strides->bytes + sizeof(int64_t), sizeof(of_channels));
    for (int64_t i = 0; i < sizes->count; i++) {
        int64_t size = 0;
        memcpy(&size, sizes->bytes + (size_t)i * sizeof(size), sizeof(size));
        bytes *= i == 1 ? (size + 7) / 8 * 8 : size;
    }
    return of_channels == 1 ? 0 : (bytes + 255) / 256 * 256;
}

static int64_t copies_of(const descriptor *operation)
{
    int64_t bytes = 0;
    for (const attribute *a = operation->first; a != NULL; a = a->next) {
        for (int64_t i = 0; a->type == DESCRIPTOR && i < a->count; i++) {
            const descriptor *operand = descriptor_at(a, i);
            bytes += operand != NULL && operand->kind == TENSOR ? copy_of(operand) : 0;
        }
    }
    return bytes;
}

static int64_t workspace_of(const descriptor *graph)
{
    const attribute *operations = find(graph, GRAPH_OPERATIONS);
    int64_t bytes = 0;
    bool is_convolution = false;
    for (int64_t i = 0; operations != NULL && i < operations->count; i++) {
        const descriptor *operation = descriptor_at(operations, i);
        bytes += copies_of(operation);
        is_convolution |=
            operation->kind >= FIRST_CONVOLUTION && operation->kind <= LAST_CONVOLUTION;
    }
    return (int64_t)simulate_unknown(is_convolution ? SIMULATE_CONVOLUTIONS : SIMULATE_GRAPHS, 0,
                                     (uint64_t)bytes);
}

/* Findings about a graph pass from a descriptor to the next that is made of it. */
SIMULATE_EXPORT int cudnnBackendFinalize(descriptor *d)
{
    int from = d->kind == ENGINE_HEURISTICS ? HEURISTICS_GRAPH : PLAN_CONFIGURATION;
    const attribute *source = find(d, from);
    if (d->kind == GRAPH) {
        d->workspace = workspace_of(d);
    } else if (source != NULL && source->count > 0) {
        d->workspace = descriptor_at(source, 0)->workspace;
    }
    return DNN_SUCCESS;
}

/* ---- asked ----------------------------------------------------------------------------------- */

/* The engines that can do a graph, best first, in descriptors that the caller has made. */
static int64_t give_engines(const descriptor *heuristics, int64_t wanted, char *out)
{
    int64_t count = heuristics->workspace > 0 ? 2 : 1;
    for (int64_t i = 0; out != NULL && i < count && i < wanted; i++) {
        descriptor *engine = NULL;
        memcpy(&engine, out + (size_t)i * sizeof(void *), sizeof(void *));
        engine->workspace = i == 0 ? heuristics->workspace : 0;
    }
    return out != NULL && wanted < count ? wanted : count;
}

static int64_t give_number(int64_t value, int type, int64_t wanted, void *out)
{
    if (out != NULL && wanted > 0) {
        memcpy(out, &value, width_of(type)); /* low bytes first */
    }
    return 1;
}

static int64_t give_kept(const attribute *kept, int64_t wanted, void *out)
{
    int64_t count = kept == NULL ? 0 : kept->count;
    if (out != NULL && count > 0 && wanted > 0) {
        memcpy(out, kept->bytes, width_of(kept->type) * (size_t)(wanted < count ? wanted : count));
    }
    return count;
}

SIMULATE_EXPORT int cudnnBackendGetAttribute(const descriptor *d, int name, int type,
                                             int64_t wanted, int64_t *count, void *out)
{
    int64_t given = 0;
    switch (name) {
    case HEURISTICS_RESULTS:
        given = give_engines(d, wanted, out);
        break;
    case CONFIGURATION_WORKSPACE:
    case PLAN_WORKSPACE:
        given = give_number(d->workspace, INT64, wanted, out);
        break;
    case PLAN_CONFIGURATION:
    case CONFIGURATION_ENGINE:
        given = 1; /* an empty one, as the caller made it */
        break;
    case CONFIGURATION_SHARED:
    case ENGINE_INDEX:
        given = give_number(0, type, wanted, out);
        break;
    case GRAPH_ENGINES:
        given = give_number(1, type, wanted, out);
        break;
    default:
        given = give_kept(find(d, name), wanted, out);
    }
    if (count != NULL) {
        *count = given;
    }
    return DNN_SUCCESS;
}

SIMULATE_EXPORT int cudnnBackendExecute(const dnn_handle *handle, const descriptor *plan,
                                        const descriptor *operands)
{
    return plan == NULL || operands == NULL ? DNN_BAD_PARAMETER : simulate_dnn_launch(handle);
}
