/* Descriptions of blocks: a written one is read. A cut, changed or contradictory one is refused,
 * and no byte behind the end is read. */
#include "share/share.h"

#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "tests/support/kit.h"

enum { CHUNKS = 3 };

#define CHUNK_BYTES (2 * MEND_MIB)

static mend_description head_of_three(void)
{
    return (mend_description){.number = 7,
                              .all = {CHUNKS, CHUNKS * CHUNK_BYTES, 512, 2 * CHUNK_BYTES}};
}

static void write_three(void *bytes, const mend_description *head)
{
    for (size_t i = 0; i < CHUNKS; i++) {
        mend_described_chunk chunk = {.size_bytes = CHUNK_BYTES};
        memset(chunk.handle, 'a' + (int)i, sizeof(chunk.handle));
        mend_description_write_chunk(bytes, i, &chunk);
    }
    mend_description_write_head(bytes, head);
}

/* Read from a buffer of just that size, so that a memory checker sees a byte too many. */
static const char *wrong_with(const void *bytes, size_t size_bytes)
{
    mend_description head;
    void *exact = malloc(size_bytes > 0 ? size_bytes : 1);
    memcpy(exact, bytes, size_bytes);
    const char *wrong = mend_description_read(exact, size_bytes, &head);
    free(exact);
    return wrong;
}

#define EXPECT_WRONG(words, bytes, size_bytes)                                                     \
    do {                                                                                           \
        const char *described_wrong = wrong_with(bytes, size_bytes);                               \
        EXPECT_TRUE(described_wrong != NULL && strstr(described_wrong, words) != NULL);            \
    } while (0)

MEND_TEST(share_description, any_cut_and_any_changed_bit_is_noticed)
{
    unsigned char bytes[1024];
    const mend_description written = head_of_three();
    const size_t size = mend_description_size(CHUNKS);
    write_three(bytes, &written);
    for (size_t left = 0; left < size; left++) {
        EXPECT_WRONG("is cut", bytes, left);
    }
    memset(bytes + size, 0, sizeof(bytes) - size);
    EXPECT_WRONG("another size", bytes, size + 1);
    EXPECT_WRONG("another size", bytes, size + sizeof(mend_described_chunk));
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1 << bit);
            EXPECT_TRUE(wrong_with(bytes, size) != NULL);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    }
    bytes[0] ^= 1;
    EXPECT_WRONG("another version", bytes, size);
    bytes[0] ^= 1;
    bytes[size - 1] ^= 1;
    EXPECT_WRONG("was changed", bytes, size);
}

/* FNV-1a of all but the check, for descriptions written by hand. */
static void correct_check(unsigned char *bytes, size_t size)
{
    const size_t at = offsetof(mend_description, check);
    uint64_t check = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        bool is_of_check = i >= at && i < at + sizeof(check);
        check = is_of_check ? check : (check ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    memcpy(bytes + at, &check, sizeof(check));
}

/* With a right check: another program, or a fault of ours, has written it. */
MEND_TEST(share_description, numbers_that_contradict_each_other_are_refused)
{
    static const struct {
        uint64_t all_bytes, offset_bytes, size_bytes;
    } wrong[] = {
        {3 * CHUNK_BYTES, 512, 0},                       /* no block */
        {3 * CHUNK_BYTES, 512, 3 * CHUNK_BYTES},         /* it ends behind the chunks */
        {3 * CHUNK_BYTES, 512, 4 * CHUNK_BYTES},         /* so, too */
        {3 * CHUNK_BYTES, UINT64_MAX - 511, 1024},       /* and where the sum overflows */
        {3 * CHUNK_BYTES, 512, UINT64_MAX - 511},        /* so, too */
        {3 * CHUNK_BYTES, CHUNK_BYTES, 2 * CHUNK_BYTES}, /* not in the first chunk */
        {3 * CHUNK_BYTES, 0, 2 * CHUNK_BYTES},           /* not in the last chunk */
        {3 * CHUNK_BYTES - 1, 512, 2 * CHUNK_BYTES},     /* another sum */
        {3 * CHUNK_BYTES + 1, 512, 2 * CHUNK_BYTES},     /* so, too */
        {(UINT64_C(1) << 60) + 1, 512, 2 * CHUNK_BYTES}, /* more than there is */
        {UINT64_MAX, 512, 2 * CHUNK_BYTES},              /* so, too */
    };
    unsigned char bytes[1024];
    mend_description head;
    const size_t size = mend_description_size(CHUNKS);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        head = head_of_three();
        head.all.all_bytes = wrong[i].all_bytes;
        head.all.offset_bytes = wrong[i].offset_bytes;
        head.all.size_bytes = wrong[i].size_bytes;
        write_three(bytes, &head);
        EXPECT_WRONG("contradicts itself", bytes, size);
    }
    head = head_of_three(); /* a small chunk behind the first is right */
    head.all.all_bytes = 2 * CHUNK_BYTES + 4096;
    head.all.offset_bytes = 8192;
    head.all.size_bytes -= 8192;
    write_three(bytes, &head);
    mend_description_write_chunk(bytes, 1, &(const mend_described_chunk){.size_bytes = 4096});
    mend_description_write_head(bytes, &head);
    EXPECT_TRUE(wrong_with(bytes, size) == NULL);
    head = head_of_three();
    write_three(bytes, &head);
    memset(bytes + offsetof(mend_description, number), 0, sizeof(head.number));
    correct_check(bytes, size);
    EXPECT_WRONG("contradicts itself", bytes, size);
    static const uint64_t sizes[] = {0, UINT64_MAX, UINT64_MAX - 2 * CHUNK_BYTES + 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const mend_described_chunk odd = {.size_bytes = sizes[i]};
        head = head_of_three();
        write_three(bytes, &head);
        mend_description_write_chunk(bytes, 1, &odd);
        mend_description_write_head(bytes, &head);
        EXPECT_WRONG("contradicts itself", bytes, size);
    }
}

/* Of other counts than the size says: none, and such that the product overflows. */
MEND_TEST(share_description, counts_are_those_of_the_size)
{
    static const uint64_t counts[] = {0, 2, 4, UINT64_MAX, UINT64_C(1) << 61};
    unsigned char bytes[1024];
    const mend_description written = head_of_three();
    const size_t at = offsetof(mend_description, all.count);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        write_three(bytes, &written);
        memcpy(bytes + at, &counts[i], sizeof(counts[i]));
        EXPECT_WRONG("another size", bytes, mend_description_size(CHUNKS));
    }
    const uint64_t odd = mend_description_size(CHUNKS) + 1; /* part of a chunk */
    write_three(bytes, &written);
    memcpy(bytes + offsetof(mend_description, description_bytes), &odd, sizeof(odd));
    EXPECT_WRONG("another size", bytes, (size_t)odd);
}
