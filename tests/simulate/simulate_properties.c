/* A simulated device has the same properties in the structure, as a program of CUDA 12 or 13 reads
 * it, and as attributes. */
#include <stdio.h>
#include <string.h>

#include "tests/simulate/properties_of_attributes.h"
#include "tests/simulate/runtime.h"

typedef struct member {
    const char *name;
    int attribute;
    size_t at;
    size_t bytes;
} member;

static const member members_in_12[] = {
#define X(name, number, member, in_12, in_13, bytes) {#name, number, in_12, bytes},
    PROPERTIES_OF_ATTRIBUTES(X)
#undef X
#define X(name, number, member, in_12, bytes) {#name, number, in_12, bytes},
        PROPERTIES_OF_ATTRIBUTES_IN_12(X)
#undef X
};

static const member members_in_13[] = {
#define X(name, number, member, in_12, in_13, bytes) {#name, number, in_13, bytes},
    PROPERTIES_OF_ATTRIBUTES(X)
#undef X
};

#define COUNT_OF(members) (sizeof(members) / sizeof(*(members)))

/* Nothing but the members is filled behind the name, the number and the memory of a device. */
static void compare(const runtime *r, char *properties, size_t bytes, const member *members,
                    size_t count, int device)
{
    enum { OWN_BYTES = 296 };
    int filled = 0;
    for (size_t i = 0; i < count; i++) {
        int answer = -1;
        uint64_t value = 0;
        memcpy(&value, properties + members[i].at, members[i].bytes); /* low bytes come first */
        memset(properties + members[i].at, 0, members[i].bytes);
        EXPECT_OK(r->cudaDeviceGetAttribute(&answer, members[i].attribute, device));
        char by_structure[96];
        char by_attribute[96];
        snprintf(by_structure, sizeof(by_structure), "%s %lld", members[i].name, (long long)value);
        snprintf(by_attribute, sizeof(by_attribute), "%s %d", members[i].name, answer);
        EXPECT_STR_EQ(by_structure, by_attribute);
        filled += value != 0;
    }
    EXPECT_TRUE(filled > 25);
    for (size_t i = OWN_BYTES; i < bytes; i++) {
        EXPECT_INT_EQ(0, properties[i]);
    }
}

RUNTIME_TEST(simulate_properties, an_attribute_says_what_the_structure_of_properties_says)
{
    char properties[1040];
    for (int device = 0; device < 2; device++) {
        EXPECT_OK(r->cudaGetDeviceProperties_v2(properties, device));
        compare(r, properties, 1032, members_in_12, COUNT_OF(members_in_12), device);
        EXPECT_OK(r->cudaGetDeviceProperties(properties, device));
        compare(r, properties, 1008, members_in_13, COUNT_OF(members_in_13), device);
    }
}

RUNTIME_TEST(simulate_properties, every_other_attribute_is_of_mapped_memory)
{
    for (int i = 0; i < 200; i++) {
        int answer = -1;
        bool is_known = i == 102 || i == 103 || i == 128; /* it is mapped, shared in two ways */
        for (size_t k = 0; k < COUNT_OF(members_in_12); k++) {
            is_known |= members_in_12[k].attribute == i;
        }
        EXPECT_OK(r->cudaDeviceGetAttribute(&answer, i, 1));
        EXPECT_TRUE(is_known || answer == 0);
    }
}
