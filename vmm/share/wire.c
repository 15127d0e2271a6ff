/* The data between processes: the token or the description, which the program carries from the
 * exporter to the importer, and the messages between the two over a socket. Tokens and messages
 * stay on one machine, so their numbers are in its own order. A description may go to another
 * one. */
#include "share/share.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system.h"
#include "base/words.h"

#define MOST_CHUNKS (UINT64_C(1) << 20)
#define MOST_BYTES  (UINT64_C(1) << 60)

bool mend_fetched_is_sound(const mend_fetched *all)
{
    return all->count <= MOST_CHUNKS && all->all_bytes <= MOST_BYTES && all->size_bytes > 0 &&
           all->size_bytes <= all->all_bytes &&
           all->offset_bytes <= all->all_bytes - all->size_bytes;
}

static uint64_t check_of(const mend_token_content *content)
{
    return mend_hash(MEND_HASH_OF_NOTHING, content, offsetof(mend_token_content, check));
}

void mend_token_write(const mend_token_content *content, mend_export_token *token)
{
    mend_token_content whole = *content;
    whole.mark = MEND_SHARE_MARK;
    whole.check = check_of(&whole);
    memcpy(token, &whole, sizeof(*token));
}

bool mend_token_read(const mend_export_token *token, mend_token_content *content)
{
    memcpy(content, token, sizeof(*content));
    return content->mark == MEND_SHARE_MARK && content->check == check_of(content) &&
           content->number != 0;
}

/* The first byte is 0: the name is in no file system, and goes with the socket. */
socklen_t mend_share_address(const unsigned char name[MEND_SHARE_NAME_BYTES],
                             struct sockaddr_un *address)
{
    static const char start[] = "mend-";
    static const char digits[] = "0123456789abcdef";
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    char *at = address->sun_path + 1;
    memcpy(at, start, sizeof(start) - 1);
    at += sizeof(start) - 1;
    for (int i = 0; i < MEND_SHARE_NAME_BYTES; i++) {
        *at++ = digits[name[i] / 16];
        *at++ = digits[name[i] % 16];
    }
    return (socklen_t)(at - (char *)address);
}

bool mend_share_is_of_this_user(int connected)
{
    struct ucred other;
    socklen_t length = sizeof(other);
    return getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 &&
           length == sizeof(other) && other.uid == geteuid();
}

/* As many as a driver call may need. */
enum { SPARE_FILES = 4 };

bool mend_share_lacks_files(uint64_t *limit)
{
    struct rlimit files = {0};
    int spare[SPARE_FILES];
    int count = 0;
    while (count < SPARE_FILES &&
           (spare[count] = mend_file_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))) >= 0) {
        count++;
    }
    const bool lacks = count < SPARE_FILES && (errno == EMFILE || errno == ENFILE);
    while (count > 0) {
        close(spare[--count]);
    }
    *limit = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 0;
    return lacks;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

/* The description of an exported block: the fabric handles of its chunks, and other data for an
 * importer. It says everything, so that no importer asks the exporter: the two may run in
 * containers that share no socket, or on two machines. Numbers are in the exporter's own order. A
 * machine of the other order sees a wrong mark. The bytes may lie at any address. */

/* It changes with every change of the structures. */
#define DESCRIPTION_MARK UINT64_C(0x31636261466d6e4d)

static_assert(sizeof(mend_description) == 8 * sizeof(uint64_t), "no byte is between the numbers");
static_assert(sizeof(mend_described_chunk) == sizeof(uint64_t) + MEND_FABRIC_HANDLE_BYTES,
              "no byte is between size and handle");

size_t mend_description_size(size_t count)
{
    return sizeof(mend_description) + count * sizeof(mend_described_chunk);
}

static uint64_t check_of_description(const void *bytes, const mend_description *head)
{
    const uint64_t check = mend_hash(MEND_HASH_OF_NOTHING, head, offsetof(mend_description, check));
    return mend_hash(check, (const unsigned char *)bytes + sizeof(*head),
                     (size_t)head->description_bytes - sizeof(*head));
}

void mend_description_write_chunk(void *bytes, size_t at, const mend_described_chunk *chunk)
{
    memcpy((unsigned char *)bytes + mend_description_size(at), chunk, sizeof(*chunk));
}

void mend_description_write_head(void *bytes, const mend_description *head)
{
    mend_description whole = *head;
    assert(head->all.count > 0);
    assert(head->number != 0);
    whole.mark = DESCRIPTION_MARK;
    whole.description_bytes = mend_description_size((size_t)head->all.count);
    whole.check = check_of_description(bytes, &whole);
    memcpy(bytes, &whole, sizeof(whole));
}

mend_described_chunk mend_description_chunk(const void *bytes, size_t at)
{
    mend_described_chunk chunk;
    memcpy(&chunk, (const unsigned char *)bytes + mend_description_size(at), sizeof(chunk));
    return chunk;
}

/* Whether the block begins in the first chunk and ends in the last one, and the chunks have the
 * sizes that the beginning says. No sum exceeds 2^61. */
static bool is_sound(const void *bytes, const mend_description *head)
{
    uint64_t sum_bytes = 0;
    uint64_t last_bytes = 0;
    const mend_fetched *all = &head->all;
    if (head->number == 0 || !mend_fetched_is_sound(all)) {
        return false;
    }
    for (size_t i = 0; i < all->count; i++) {
        last_bytes = mend_description_chunk(bytes, i).size_bytes;
        if (last_bytes == 0 || last_bytes > all->all_bytes - sum_bytes ||
            (i == 0 && all->offset_bytes >= last_bytes)) {
            return false;
        }
        sum_bytes += last_bytes;
    }
    return sum_bytes == all->all_bytes &&
           all->offset_bytes + all->size_bytes > sum_bytes - last_bytes;
}

const char *mend_description_read(const void *bytes, size_t size_bytes, mend_description *head)
{
    if (size_bytes < sizeof(*head)) {
        return "is cut: it has less bytes than the beginning of one";
    }
    memcpy(head, bytes, sizeof(*head));
    if (head->mark != DESCRIPTION_MARK) {
        return "is none, or of another version of the library";
    }
    const size_t behind_bytes = size_bytes - sizeof(*head);
    if (head->description_bytes > size_bytes) {
        return "is cut: bytes are missing at its end";
    }
    if (head->description_bytes != size_bytes || head->all.count == 0 ||
        behind_bytes % sizeof(mend_described_chunk) != 0 ||
        behind_bytes / sizeof(mend_described_chunk) != head->all.count) {
        return "has another size than it says";
    }
    if (head->check != check_of_description(bytes, head)) {
        return "was changed";
    }
    return is_sound(bytes, head) ? NULL : "contradicts itself";
}
