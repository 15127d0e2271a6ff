/* Free runs found by their size, and inserted and removed as they change. */
#include "layout/sizes.h"

#define RUN_OF(node) MEND_CONTAINER_OR_NULL(node, mend_run, by_size)

MEND_TREE_ORDER_BY_TWO(compare, mend_run, by_size, size_bytes, address);

static bool is_smaller(const mend_tree_node *run, const void *size_bytes)
{
    return MEND_CONTAINER_OF(run, mend_run, by_size)->size_bytes < *(const uint64_t *)size_bytes;
}

/* The exponent of the size, and the bits behind its first one. */
static unsigned class_of(uint64_t size_bytes)
{
    assert(size_bytes >= MEND_GRANULE_BYTES);
    unsigned exponent = 63 - (unsigned)__builtin_clzll(size_bytes);
    unsigned step = (unsigned)(size_bytes >> (exponent - MEND_SIZE_STEP_BITS)) &
                    ((1U << MEND_SIZE_STEP_BITS) - 1);
    return (exponent - 9) << MEND_SIZE_STEP_BITS | step;
}
static_assert(MEND_GRANULE_BYTES == 1 << 9, "the smallest class is that of the granule");

/* The first run of this class and those above, or NULL. */
static mend_run *first_from(const mend_sizes *sizes, unsigned first)
{
    if (first >= MEND_SIZE_CLASSES) {
        return NULL;
    }
    unsigned word = first / 64;
    uint64_t bits = sizes->words[word] & (UINT64_MAX << first % 64);
    while (bits == 0 && ++word < MEND_SIZE_WORDS) {
        bits = sizes->words[word];
    }
    const unsigned at = word * 64 + (bits != 0 ? (unsigned)__builtin_ctzll(bits) : 0);
    return bits != 0 ? RUN_OF(mend_tree_first(&sizes->classes[at])) : NULL;
}

void mend_sizes_init(mend_sizes *sizes)
{
    *sizes = (mend_sizes){0};
    for (int i = 0; i < MEND_SIZE_CLASSES; i++) {
        mend_tree_init(&sizes->classes[i], compare);
    }
}

void mend_sizes_insert(mend_sizes *sizes, mend_run *run)
{
    unsigned at = class_of(run->size_bytes);
    mend_tree_insert_by(&sizes->classes[at], &run->by_size, compare);
    sizes->words[at / 64] |= UINT64_C(1) << at % 64;
    sizes->count++;
}

void mend_sizes_remove(mend_sizes *sizes, mend_run *run)
{
    unsigned at = class_of(run->size_bytes);
    mend_tree *class = &sizes->classes[at];
    assert(sizes->count > 0);
    sizes->count--;
    if (class->count > 1) {
        mend_tree_remove(class, &run->by_size);
        return;
    }
    assert(class->root == &run->by_size); /* most runs are alone in their class */
    mend_tree_init(class, compare);
    sizes->words[at / 64] &= ~(UINT64_C(1) << at % 64);
}

mend_run *mend_sizes_at_least(const mend_sizes *sizes, uint64_t size_bytes)
{
    unsigned at = class_of(size_bytes);
    mend_tree_node *found = mend_tree_first_from(&sizes->classes[at], &size_bytes, is_smaller);
    return found != NULL ? RUN_OF(found) : first_from(sizes, at + 1);
}

mend_run *mend_sizes_next(const mend_sizes *sizes, const mend_run *run)
{
    mend_tree_node *next = mend_tree_next(&run->by_size);
    return next != NULL ? RUN_OF(next) : first_from(sizes, class_of(run->size_bytes) + 1);
}

mend_run *mend_sizes_last(const mend_sizes *sizes)
{
    for (int word = MEND_SIZE_WORDS - 1; word >= 0; word--) {
        if (sizes->words[word] != 0) {
            int bit = 63 - __builtin_clzll(sizes->words[word]);
            return RUN_OF(mend_tree_last(&sizes->classes[word * 64 + bit]));
        }
    }
    return NULL;
}

bool mend_sizes_has(const mend_sizes *sizes, const mend_run *run)
{
    const mend_tree *class = &sizes->classes[class_of(run->size_bytes)];
    mend_run key = {.address = run->address, .size_bytes = run->size_bytes};
    return mend_tree_at_or_after(class, &key.by_size) == &run->by_size;
}

static bool is_valid_class(const mend_tree *class, unsigned at)
{
    const mend_run *first = RUN_OF(mend_tree_first(class));
    const mend_run *last = RUN_OF(mend_tree_last(class));
    return first != NULL && class_of(first->size_bytes) == at && class_of(last->size_bytes) == at &&
           mend_tree_is_valid(class);
}

/* Of the classes that have a bit. A run of another one is missing in the sum. */
bool mend_sizes_are_valid(const mend_sizes *sizes)
{
    size_t count = 0;
    for (unsigned word = 0; word < MEND_SIZE_WORDS; word++) {
        for (uint64_t bits = sizes->words[word]; bits != 0; bits &= bits - 1) {
            const unsigned at = word * 64 + (unsigned)__builtin_ctzll(bits);
            if (at >= MEND_SIZE_CLASSES || !is_valid_class(&sizes->classes[at], at)) {
                return false;
            }
            count += sizes->classes[at].count;
        }
    }
    return count == sizes->count;
}
