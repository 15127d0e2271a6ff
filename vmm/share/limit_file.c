/* A limit that pools of several processes share, through a small file and without a daemon. */
#include "share/share.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allowance.h"
#include "base/error.h"

/* It changes with every change of the structures below. */
#define MARK UINT64_C(0x326d696c646e656d)
enum { SLOTS = 63 };

/* In the numbers of this machine: the file is for processes of one machine. */
typedef struct file_content {
    uint64_t mark;
    uint64_t limit_bytes;
    uint64_t wants; /* so many were there: the number of the newest */
    uint64_t unused;
    mend_limit_claim slots[SLOTS];
} file_content;

/* The byte whose lock is held while the content is read and changed, and that of a slot. They lie
 * behind the content. */
#define BYTE_OF_CONTENT  ((off_t)sizeof(file_content))
#define BYTE_OF_SLOT(at) (BYTE_OF_CONTENT + 1 + (at))

/* ---- the file -------------------------------------------------------------------------------- */

static bool set_lock(int file, short kind, off_t byte, bool waits)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int done;
    do {
        done = fcntl(file, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
    } while (done != 0 && errno == EINTR);
    return done == 0;
}

static bool is_sound(const file_content *content)
{
    bool sound = content->mark == MARK;
    for (int i = 0; i < SLOTS; i++) {
        sound = sound && content->slots[i].claimed_bytes <= UINT64_MAX / SLOTS &&
                content->slots[i].wanted_bytes <= UINT64_MAX / SLOTS;
    }
    return sound;
}

static bool read_content(int file, file_content *content)
{
    return pread(file, content, sizeof(*content), 0) == (ssize_t)sizeof(*content) &&
           is_sound(content);
}

static bool write_content(int file, const file_content *content)
{
    return mend_may_be_file_size(sizeof(*content)) &&
           pwrite(file, content, sizeof(*content), 0) == (ssize_t)sizeof(*content);
}

/* Whether the slot has no living owner; then the caller holds its lock. */
static bool takes_slot(int file, int number)
{
    return set_lock(file, F_WRLCK, BYTE_OF_SLOT(number), false);
}

/* The same, and the caller does not keep the lock: that of the content keeps others out. */
static bool is_dead(int file, int number)
{
    return takes_slot(file, number) && set_lock(file, F_UNLCK, BYTE_OF_SLOT(number), false);
}

/* Empties the slots, other than `own`, whose owners have died. True if there was one. */
static bool bury_dead(int file, int own, file_content *content)
{
    const mend_limit_claim empty = {0};
    bool any = false;
    for (int i = 0; i < SLOTS; i++) {
        bool is_used = memcmp(&content->slots[i], &empty, sizeof(empty)) != 0;
        if (i != own && is_used && is_dead(file, i)) {
            content->slots[i] = empty;
            any = true;
        }
    }
    return any;
}

static uint64_t room_in(const file_content *content)
{
    uint64_t claimed = 0;
    for (int i = 0; i < SLOTS; i++) {
        claimed += content->slots[i].claimed_bytes;
    }
    return content->limit_bytes > claimed ? content->limit_bytes - claimed : 0;
}

/* ---- one slot -------------------------------------------------------------------------------- */

/* Begins a change: the content is locked and read. False: the file is damaged. */
static bool begin(mend_limit_slot *slot, file_content *content)
{
    if (slot->is_broken) {
        return false;
    }
    if (set_lock(slot->file, F_WRLCK, BYTE_OF_CONTENT, true)) {
        if (read_content(slot->file, content)) {
            return true;
        }
        set_lock(slot->file, F_UNLCK, BYTE_OF_CONTENT, false);
    }
    slot->is_broken = true;
    return false;
}

static void end(mend_limit_slot *slot, file_content *content)
{
    mend_limit_claim *said = &content->slots[slot->number];
    *said = slot->own;
    said->wanted_bytes = mend_min_u64(said->wanted_bytes, slot->limit_bytes);
    slot->is_broken = !write_content(slot->file, content);
    set_lock(slot->file, F_UNLCK, BYTE_OF_CONTENT, false);
}

bool mend_limit_file_claim(mend_limit_slot *slot, uint64_t bytes)
{
    file_content content;
    if (!begin(slot, &content)) {
        slot->own.claimed_bytes += bytes;
        return true;
    }
    bool fits = bytes <= room_in(&content);
    if (!fits && bury_dead(slot->file, slot->number, &content)) {
        fits = bytes <= room_in(&content);
    }
    slot->own.claimed_bytes += fits ? bytes : 0;
    end(slot, &content);
    return fits;
}

void mend_limit_file_give(mend_limit_slot *slot, uint64_t bytes)
{
    file_content content;
    bool is_begun = begin(slot, &content);
    assert(slot->own.claimed_bytes >= bytes);
    slot->own.claimed_bytes -= bytes;
    if (is_begun) {
        end(slot, &content);
    }
}

uint64_t mend_limit_file_want(mend_limit_slot *slot, uint64_t bytes)
{
    file_content content;
    uint64_t want = 0;
    if (slot->own.wanted_bytes != bytes && begin(slot, &content)) {
        content.wants += bytes > slot->own.wanted_bytes;
        want = content.wants;
        slot->own.wanted_bytes = bytes;
        end(slot, &content);
    }
    return want;
}

/* What the slot may still give back. Before its collections know the want: all that it has. */
static uint64_t offered_in(const mend_limit_claim *slot, uint64_t want)
{
    uint64_t idle_bytes = slot->answered >= want ? slot->idle_bytes : UINT64_MAX;
    return slot->gives_back != 0 ? mend_min_u64(idle_bytes, slot->claimed_bytes) : 0;
}

mend_limit_view mend_limit_file_look(mend_limit_slot *slot, uint64_t want)
{
    file_content content;
    mend_limit_view view = {.room_bytes = UINT64_MAX};
    if (!begin(slot, &content)) {
        return view;
    }
    bury_dead(slot->file, slot->number, &content);
    view.room_bytes = room_in(&content);
    for (int i = 0; i < SLOTS; i++) {
        view.offered_bytes += i != slot->number ? offered_in(&content.slots[i], want) : 0;
    }
    end(slot, &content);
    return view;
}

void mend_limit_file_offer(mend_limit_slot *slot, uint64_t idle_bytes, bool gives_back,
                           uint64_t answered)
{
    file_content content;
    const bool is_new = slot->own.idle_bytes != idle_bytes || slot->own.gives_back != gives_back ||
                        slot->own.answered != answered;
    if (is_new && begin(slot, &content)) {
        slot->own.idle_bytes = idle_bytes;
        slot->own.gives_back = gives_back;
        slot->own.answered = answered;
        end(slot, &content);
    }
}

static uint64_t wanted_in(const file_content *content, int own)
{
    uint64_t bytes = 0;
    for (int i = 0; i < SLOTS; i++) {
        bytes += i != own ? content->slots[i].wanted_bytes : 0;
    }
    return bytes;
}

/* The caller is asked often, and mostly nobody waits: then the file is read once, without a lock.
 * What is read so may be half written; it counts only if it is as it was. */
uint64_t mend_limit_file_wanted_by_others(mend_limit_slot *slot, uint64_t *newest)
{
    file_content content;
    *newest = slot->own.answered;
    if (slot->is_broken || (read_content(slot->file, &content) && content.wants == *newest &&
                            wanted_in(&content, slot->number) == 0)) {
        return 0;
    }
    if (!begin(slot, &content)) {
        return 0;
    }
    bury_dead(slot->file, slot->number, &content);
    *newest = content.wants;
    uint64_t room = room_in(&content);
    uint64_t wanted = wanted_in(&content, slot->number);
    end(slot, &content);
    return wanted > room ? wanted - room : 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static mend_result refused_by_system(const char *path, const char *what)
{
    return mend_failure(MEND_ERROR_SYSTEM, "the limit file %.200s %s: %s", path, what,
                        strerror(errno));
}

/* With the content's lock: reads the file, or fills an empty one, and takes its first free slot. */
static mend_result join(const char *path, uint64_t limit_bytes, mend_limit_slot *slot)
{
    file_content content = {.mark = MARK, .limit_bytes = limit_bytes};
    struct stat about;
    if (fstat(slot->file, &about) != 0) {
        return refused_by_system(path, "cannot be looked at");
    }
    if (!S_ISREG(about.st_mode) || (about.st_size != 0 && !read_content(slot->file, &content))) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "%.200s is no limit file of this version of Mend: name a file that "
                            "does not exist, or is empty",
                            path);
    }
    while (slot->number < SLOTS && !takes_slot(slot->file, slot->number)) {
        slot->number++;
    }
    if (slot->number == SLOTS) {
        return mend_failure(MEND_ERROR_SYSTEM,
                            "the limit file %.200s is shared by %d pools, and "
                            "that is the most",
                            path, SLOTS);
    }
    bury_dead(slot->file, slot->number, &content);
    content.slots[slot->number] = (mend_limit_claim){0};
    bool is_alone = true; /* then the limit of the file is this pool's from now on */
    for (int i = 0; i < SLOTS && is_alone; i++) {
        is_alone = i == slot->number || is_dead(slot->file, i);
    }
    if (!is_alone && content.limit_bytes != limit_bytes) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "the pools that share the limit file %.200s have a limit of %llu "
                            "bytes, not of %llu: all must name the same",
                            path, (unsigned long long)content.limit_bytes,
                            (unsigned long long)limit_bytes);
    }
    content.limit_bytes = limit_bytes;
    return write_content(slot->file, &content) ? MEND_OK
                                               : refused_by_system(path, "cannot be written");
}

mend_result mend_limit_file_open(const char *path, uint64_t limit_bytes, mend_limit_slot *slot)
{
    mend_limit_slot made = {.limit_bytes = limit_bytes};
    made.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (made.file < 0) {
        return refused_by_system(path, "cannot be opened");
    }
    if (!set_lock(made.file, F_WRLCK, BYTE_OF_CONTENT, true)) {
        mend_result result = refused_by_system(path, "cannot be locked");
        close(made.file);
        return result;
    }
    mend_result result = join(path, limit_bytes, &made);
    set_lock(made.file, F_UNLCK, BYTE_OF_CONTENT, false);
    if (result != MEND_OK) {
        close(made.file); /* ends its locks */
        return result;
    }
    *slot = made;
    return MEND_OK;
}

void mend_limit_file_close(mend_limit_slot *slot)
{
    file_content content;
    if (begin(slot, &content)) {
        *slot = (mend_limit_slot){.file = slot->file, .number = slot->number};
        end(slot, &content);
    }
    close(slot->file);
}
