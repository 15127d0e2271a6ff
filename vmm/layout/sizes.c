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
    const unsigned exponent = 63 - (unsigned)__builtin_clzll(size_bytes);
    const unsigned first_bits = (unsigned)(size_bytes >> (exponent - MEND_SIZE_STEP_BITS));
    return ((exponent - 9) << MEND_SIZE_STEP_BITS) + first_bits - (1U << MEND_SIZE_STEP_BITS);
}
static_assert(MEND_GRANULE_BYTES == 1 << 9, "the smallest class is that of the granule");

static mend_tree class_at(const mend_sizes *sizes, unsigned at)
{
    return (mend_tree){.root = sizes->roots[at], .compare = compare};
}

/* As most runs are in their class. */
static bool is_alone(const mend_run *run)
{
    const mend_tree_node *node = &run->by_size;
    return mend_tree_parent(node) == NULL && node->child[0] == NULL && node->child[1] == NULL;
}

/* The first run of this class and those above, or NULL. */
static mend_run *first_from(const mend_sizes *sizes, unsigned first)
{
    if (first >= MEND_SIZE_CLASSES) {
        return NULL;
    }
    unsigned word = first / 64;
    uint64_t bits = sizes->words[word] & (UINT64_MAX << first % 64);
    if (bits == 0) {
        const uint64_t above = sizes->used & (UINT64_MAX - 1) << word;
        if (above == 0) {
            return NULL;
        }
        word = (unsigned)__builtin_ctzll(above);
        bits = sizes->words[word];
    }
    mend_tree_node *node = sizes->roots[word * 64 + (unsigned)__builtin_ctzll(bits)];
    while (node->child[0] != NULL) {
        node = node->child[0];
    }
    return RUN_OF(node);
}

void mend_sizes_insert(mend_sizes *sizes, mend_run *run)
{
    const unsigned at = class_of(run->size_bytes);
    mend_tree_insert_at(&sizes->roots[at], &run->by_size, compare);
    sizes->words[at / 64] |= UINT64_C(1) << at % 64;
    sizes->used |= UINT64_C(1) << at / 64;
    sizes->count++;
}

void mend_sizes_remove(mend_sizes *sizes, mend_run *run)
{
    const unsigned at = class_of(run->size_bytes);
    assert(sizes->count > 0);
    sizes->count--;
    if (!is_alone(run)) {
        mend_tree_detach(&sizes->roots[at], &run->by_size);
        return;
    }
    assert(sizes->roots[at] == &run->by_size);
    sizes->roots[at] = NULL;
    sizes->words[at / 64] &= ~(UINT64_C(1) << at % 64);
    sizes->used ^= (uint64_t)(sizes->words[at / 64] == 0) << at / 64;
}

mend_run *mend_sizes_at_least(const mend_sizes *sizes, uint64_t size_bytes)
{
    const unsigned at = class_of(size_bytes);
    const mend_tree class = class_at(sizes, at);
    mend_tree_node *found = mend_tree_first_from(&class, &size_bytes, is_smaller);
    return found != NULL ? RUN_OF(found) : first_from(sizes, at + 1);
}

mend_run *mend_sizes_next(const mend_sizes *sizes, const mend_run *run)
{
    mend_tree_node *next = is_alone(run) ? NULL : mend_tree_next(&run->by_size);
    return next != NULL ? RUN_OF(next) : first_from(sizes, class_of(run->size_bytes) + 1);
}

mend_run *mend_sizes_last(const mend_sizes *sizes)
{
    if (sizes->used == 0) {
        return NULL;
    }
    const unsigned word = 63 - (unsigned)__builtin_clzll(sizes->used);
    const unsigned bit = 63 - (unsigned)__builtin_clzll(sizes->words[word]);
    const mend_tree class = class_at(sizes, word * 64 + bit);
    return RUN_OF(mend_tree_last(&class));
}

bool mend_sizes_has(const mend_sizes *sizes, const mend_run *run)
{
    const mend_tree class = class_at(sizes, class_of(run->size_bytes));
    mend_run key = {.address = run->address, .size_bytes = run->size_bytes};
    return mend_tree_at_or_after(&class, &key.by_size) == &run->by_size;
}

static bool is_valid_class(mend_tree class, unsigned at)
{
    const mend_run *first = RUN_OF(mend_tree_first(&class));
    const mend_run *last = RUN_OF(mend_tree_last(&class));
    return first != NULL && class_of(first->size_bytes) == at && class_of(last->size_bytes) == at &&
           mend_tree_is_valid(&class);
}

/* Of the classes that have a bit. A run of another one is missing in the sum. */
bool mend_sizes_are_valid(const mend_sizes *sizes)
{
    size_t count = 0;
    for (unsigned word = 0; word < MEND_SIZE_WORDS; word++) {
        if ((sizes->words[word] != 0) != (sizes->used >> word & 1)) {
            return false;
        }
        for (uint64_t bits = sizes->words[word]; bits != 0; bits &= bits - 1) {
            const unsigned at = word * 64 + (unsigned)__builtin_ctzll(bits);
            mend_tree class = class_at(sizes, at < MEND_SIZE_CLASSES ? at : 0);
            MEND_TREE_EACH(mend_run, run, by_size, &class) {
                class.count++;
            }
            if (at >= MEND_SIZE_CLASSES || !is_valid_class(class, at)) {
                return false;
            }
            count += class.count;
        }
    }
    return count == sizes->count;
}
