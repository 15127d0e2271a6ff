/* A limit that pools of several processes share, through a small file and without a daemon. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"
#include "quota/quota.h"

/* It changes with every change of the structures below. */
#define MARK UINT64_C(0x336d696c646e656d)
enum {
    SLOTS = 63,
    WORDS = sizeof(mend_limit_claim) / sizeof(uint64_t),
    /* Pending writes of others are looked for so often, with a pause of so long. */
    LOOKS = 100,
    PAUSE_MS = 1
};

/* `check` is of all before it, and 0 for an unused slot. */
typedef struct file_slot {
    mend_limit_claim claim;
    uint64_t check;
} file_slot;

/* In the numbers of this machine: the file is for processes of one machine. */
typedef struct file_content {
    uint64_t mark;
    file_slot slots[SLOTS];
} file_content;

/* The byte whose lock the owner of a slot holds. They lie behind the content. */
#define BYTE_OF_SLOT(at) ((off_t)sizeof(file_content) + (at))

/* ---- the file -------------------------------------------------------------------------------- */

static bool set_lock(int file, short kind, int number)
{
    struct flock lock = {
        .l_type = kind, .l_whence = SEEK_SET, .l_start = BYTE_OF_SLOT(number), .l_len = 1};
    int done;
    do {
        done = fcntl(file, F_OFD_SETLK, &lock);
    } while (done != 0 && errno == EINTR);
    return done == 0;
}

static uint64_t check_of(const mend_limit_claim *claim)
{
    uint64_t words[WORDS];
    uint64_t check = 0;
    memcpy(words, claim, sizeof(words));
    for (uint64_t i = 0; i < WORDS; i++) {
        check += words[i] * (UINT64_C(0x9e3779b97f4a7c15) + 2 * i);
    }
    return check;
}

static bool is_sound(const file_slot *slot)
{
    return slot->check == check_of(&slot->claim) &&
           slot->claim.claimed_bytes <= UINT64_MAX / SLOTS &&
           slot->claim.asked_bytes <= slot->claim.claimed_bytes &&
           slot->claim.wanted_bytes <= UINT64_MAX / SLOTS;
}

/* A slot that is read while it is written may be half of each: it is read again. False: the file is
 * damaged. */
static bool read_content(int file, file_content *content)
{
    for (int i = 0; i < LOOKS; i++) {
        if (pread(file, content, sizeof(*content), 0) != (ssize_t)sizeof(*content) ||
            content->mark != MARK) {
            return false;
        }
        bool are_sound = true;
        for (int at = 0; at < SLOTS; at++) {
            are_sound = are_sound && is_sound(&content->slots[at]);
        }
        if (are_sound) {
            return true;
        }
        (void)poll(NULL, 0, PAUSE_MS);
    }
    return false;
}

static bool write_slot(int file, int number, const mend_limit_claim *claim)
{
    const file_slot written = {*claim, check_of(claim)};
    const off_t at = (off_t)(offsetof(file_content, slots) + sizeof(written) * (size_t)number);
    return mend_may_be_file_size(sizeof(file_content)) &&
           pwrite(file, &written, sizeof(written), at) == (ssize_t)sizeof(written);
}

static bool is_used(const file_content *content, int number)
{
    const file_slot empty = {.check = 0};
    return memcmp(&content->slots[number], &empty, sizeof(empty)) != 0;
}

/* Empties the slots, other than `own`, whose owners have died. */
static void bury_dead(int file, int own, file_content *content)
{
    const mend_limit_claim empty = {0};
    for (int i = 0; i < SLOTS; i++) {
        if (i != own && is_used(content, i) && set_lock(file, F_WRLCK, i)) {
            if (write_slot(file, i, &empty)) {
                content->slots[i] = (file_slot){.check = 0};
            }
            set_lock(file, F_UNLCK, i);
        }
    }
}

/* ---- one slot -------------------------------------------------------------------------------- */

static mend_limit_claim said_by(const mend_limit_slot *slot)
{
    mend_limit_claim said = slot->own;
    said.wanted_bytes = mend_min_u64(said.wanted_bytes, said.limit_bytes);
    return said;
}

/* Reads all slots. False: the file is damaged, which the own slot may show. */
static bool look(mend_limit_slot *slot, file_content *content)
{
    const mend_limit_claim said = said_by(slot);
    slot->is_broken = slot->is_broken || !read_content(slot->file, content) ||
                      memcmp(&content->slots[slot->number].claim, &said, sizeof(said)) != 0;
    return !slot->is_broken;
}

/* Writes the slot, before all later reads. */
static void say(mend_limit_slot *slot)
{
    const mend_limit_claim said = said_by(slot);
    slot->is_broken = slot->is_broken || !write_slot(slot->file, slot->number, &said);
    __sync_synchronize();
}

/* ---- what it says ---------------------------------------------------------------------------- */

static uint64_t room_in(const file_content *content, uint64_t limit_bytes)
{
    uint64_t claimed = 0;
    for (int i = 0; i < SLOTS; i++) {
        claimed += content->slots[i].claim.claimed_bytes;
    }
    return limit_bytes > claimed ? limit_bytes - claimed : 0;
}

typedef enum verdict { STANDS, WAITS, REFUSED } verdict;

/* Whether the limit allows the slot so much more than the `own` that stands. WAITS: it would,
 * except for requests of others, which may be refused. *is_first: none of these has a lower
 * number. */
static verdict judge(const mend_limit_slot *slot, const file_content *content, uint64_t own,
                     uint64_t bytes, bool *is_first)
{
    uint64_t others = 0;
    uint64_t asked = 0;
    *is_first = true;
    for (int i = 0; i < SLOTS; i++) {
        const mend_limit_claim *claim = &content->slots[i].claim;
        others += i != slot->number ? claim->claimed_bytes : 0;
        asked += i != slot->number ? claim->asked_bytes : 0;
        *is_first = *is_first && (i >= slot->number || claim->asked_bytes == 0);
    }
    assert(own <= slot->own.limit_bytes);
    if (bytes > slot->own.limit_bytes - own) {
        return REFUSED;
    }
    const uint64_t left = slot->own.limit_bytes - own - bytes;
    return others <= left ? STANDS : others - asked <= left ? WAITS : REFUSED;
}

static void say_claim(mend_limit_slot *slot, uint64_t claimed_bytes, uint64_t asked_bytes)
{
    slot->own.claimed_bytes = claimed_bytes;
    slot->own.asked_bytes = asked_bytes;
    say(slot);
}

bool mend_shared_limit_file_claim(mend_limit_slot *slot, uint64_t bytes)
{
    file_content content;
    const uint64_t own = slot->own.claimed_bytes;
    bool is_first = true;
    bool asks = false;
    verdict found = WAITS;
    for (int i = 0; i < LOOKS && found == WAITS && look(slot, &content); i++) {
        bury_dead(slot->file, slot->number, &content);
        found = judge(slot, &content, own, bytes, &is_first);
        if (found == STANDS && !asks) { /* only a requested claim may stand */
            say_claim(slot, own + bytes, bytes);
            asks = true;
            found = WAITS;
        } else if (found == WAITS) {
            if (asks && !is_first) {
                say_claim(slot, own, 0);
                asks = false;
            }
            (void)poll(NULL, 0, PAUSE_MS);
        }
    }
    const bool is_granted = found == STANDS || slot->is_broken;
    if (asks || is_granted) {
        say_claim(slot, own + (is_granted ? bytes : 0), 0);
    }
    return is_granted;
}

void mend_shared_limit_file_give(mend_limit_slot *slot, uint64_t bytes)
{
    file_content content;
    (void)look(slot, &content);
    assert(slot->own.claimed_bytes >= bytes);
    say_claim(slot, slot->own.claimed_bytes - bytes, 0);
}

/* The newest number that a slot other than `own` has given or answered, and their wants. */
static uint64_t newest_in(const file_content *content, int own, uint64_t *wanted_bytes)
{
    uint64_t newest = 0;
    *wanted_bytes = 0;
    for (int i = 0; i < SLOTS; i++) {
        const mend_limit_claim *claim = &content->slots[i].claim;
        if (i != own) {
            newest = mend_max_u64(newest, mend_max_u64(claim->want, claim->answered));
            *wanted_bytes += claim->wanted_bytes;
        }
    }
    return newest;
}

/* A new want has a number above all in the file, so a slot that has answered that number has read
 * it. */
uint64_t mend_shared_limit_file_want(mend_limit_slot *slot, uint64_t bytes)
{
    file_content content;
    uint64_t ignored;
    if (slot->own.wanted_bytes == bytes || !look(slot, &content)) {
        return 0;
    }
    bool is_new = bytes > slot->own.wanted_bytes;
    slot->own.wanted_bytes = bytes;
    for (int i = 0; i == 0 || (is_new && i < LOOKS); i++) {
        const uint64_t newest = newest_in(&content, slot->number, &ignored);
        slot->own.want = is_new ? mend_max_u64(newest, slot->own.want) + 1 : slot->own.want;
        say(slot);
        is_new = is_new && look(slot, &content) &&
                 newest_in(&content, slot->number, &ignored) >= slot->own.want;
    }
    return slot->own.want;
}

mend_limit_view mend_shared_limit_file_look(mend_limit_slot *slot, uint64_t want)
{
    file_content content;
    mend_limit_view view = {.room_bytes = UINT64_MAX};
    if (!look(slot, &content)) {
        return view;
    }
    bury_dead(slot->file, slot->number, &content);
    view.room_bytes = room_in(&content, slot->own.limit_bytes);
    for (int i = 0; i < SLOTS; i++) {
        const mend_limit_claim *other = &content.slots[i].claim;
        /* Before its background trims know the want: all that it has. */
        const uint64_t idle_bytes = other->answered >= want ? other->idle_bytes : UINT64_MAX;
        const bool offers = i != slot->number && other->gives_back != 0;
        view.offered_bytes += offers ? mend_min_u64(idle_bytes, other->claimed_bytes) : 0;
    }
    return view;
}

void mend_shared_limit_file_offer(mend_limit_slot *slot, uint64_t idle_bytes, bool gives_back,
                                  uint64_t answered)
{
    file_content content;
    const bool is_new = slot->own.idle_bytes != idle_bytes || slot->own.gives_back != gives_back ||
                        slot->own.answered != answered;
    if (is_new && look(slot, &content)) {
        slot->own.idle_bytes = idle_bytes;
        slot->own.gives_back = gives_back;
        slot->own.answered = answered;
        say(slot);
    }
}

/* Numbers are read before their wants, so that none is skipped. */
uint64_t mend_shared_limit_file_wanted_by_others(mend_limit_slot *slot, uint64_t *newest)
{
    file_content content;
    uint64_t wanted = 0;
    *newest = slot->own.answered;
    if (look(slot, &content)) {
        mend_raise_u64(newest, newest_in(&content, slot->number, &wanted));
    }
    if ((wanted == 0 && *newest == slot->own.answered) || !look(slot, &content)) {
        return 0;
    }
    bury_dead(slot->file, slot->number, &content);
    (void)newest_in(&content, slot->number, &wanted);
    const uint64_t room = room_in(&content, slot->own.limit_bytes);
    return wanted > room ? wanted - room : 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static mend_result refused_by_system(const char *path, const char *what)
{
    return mend_failure(MEND_ERROR_SYSTEM, "shared_limit_file: %.200s %s: %s", path, what,
                        strerror(errno));
}

/* An empty file gets its mark and then its length. Others may do the same at the same time. False:
 * errno says why. */
static bool fill_empty(int file)
{
    uint64_t mark = MARK;
    struct stat about;
    if (fstat(file, &about) != 0 || !mend_may_be_file_size(sizeof(file_content))) {
        return false;
    }
    if (about.st_size == 0 && pwrite(file, &mark, sizeof(mark), 0) != (ssize_t)sizeof(mark)) {
        return false;
    }
    const bool is_begun = about.st_size == 0 || about.st_size == (off_t)sizeof(mark);
    return !is_begun || pread(file, &mark, sizeof(mark), 0) != (ssize_t)sizeof(mark) ||
           mark != MARK || ftruncate(file, sizeof(file_content)) == 0;
}

/* Whether a living slot has another limit, which is then *other. One that is just being buried is
 * waited for. */
static bool names_another(mend_limit_slot *slot, uint64_t *other)
{
    file_content content;
    bool any = true;
    for (int tries = 0; any && tries < LOOKS && look(slot, &content); tries++) {
        bury_dead(slot->file, slot->number, &content);
        any = false;
        for (int i = 0; i < SLOTS; i++) {
            const mend_limit_claim *claim = &content.slots[i].claim;
            if (is_used(&content, i) && claim->limit_bytes != slot->own.limit_bytes) {
                *other = claim->limit_bytes;
                any = true;
            }
        }
        (void)poll(NULL, 0, any ? PAUSE_MS : 0);
    }
    return any && !slot->is_broken;
}

/* Takes the first free slot. */
static mend_result join(const char *path, mend_limit_slot *slot)
{
    file_content content;
    uint64_t other = 0;
    if (!fill_empty(slot->file)) {
        return refused_by_system(path, "cannot be written");
    }
    if (!read_content(slot->file, &content)) {
        return mend_failure(
            MEND_ERROR_INVALID_ARGUMENT,
            "shared_limit_file: %.200s is no file of this version of Mend: name a file that "
            "does not exist, or is empty",
            path);
    }
    while (slot->number < SLOTS && !set_lock(slot->file, F_WRLCK, slot->number)) {
        slot->number++;
    }
    if (slot->number == SLOTS) {
        return mend_failure(MEND_ERROR_SYSTEM,
                            "shared_limit_file: %.200s is shared by %d pools, and that is the most",
                            path, SLOTS);
    }
    say(slot);
    if (slot->is_broken) {
        return refused_by_system(path, "cannot be written");
    }
    if (names_another(slot, &other)) {
        const uint64_t limit_bytes = slot->own.limit_bytes;
        slot->own = (mend_limit_claim){0};
        say(slot);
        return mend_failure(
            MEND_ERROR_INVALID_ARGUMENT,
            "shared_limit_file: the pools of %.200s have a limit of %lu bytes, not of "
            "%lu: all must name the same",
            path, other, limit_bytes);
    }
    return MEND_OK;
}

mend_result mend_shared_limit_file_open(const char *path, uint64_t limit_bytes,
                                        mend_limit_slot *slot)
{
    mend_limit_slot made = {.own.limit_bytes = limit_bytes};
    const char *reason;
    made.file = mend_file_open(path, O_RDWR | O_CREAT, &reason);
    if (made.file < 0) {
        return mend_failure(errno == EPERM ? MEND_ERROR_INVALID_ARGUMENT : MEND_ERROR_SYSTEM,
                            "shared_limit_file: %.200s cannot be opened: %s", path, reason);
    }
    mend_result result = join(path, &made);
    if (result != MEND_OK) {
        close(made.file); /* ends its locks */
        return result;
    }
    *slot = made;
    return MEND_OK;
}

void mend_shared_limit_file_close(mend_limit_slot *slot)
{
    file_content content;
    (void)look(slot, &content);
    slot->own = (mend_limit_claim){0};
    say(slot);
    close(slot->file);
}
