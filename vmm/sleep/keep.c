/* Backups of sleeping chunks: which bytes, where, their way there and back, and their reading. */
#include "sleep/sleep.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "base/system.h"
#include "pool/pool.h"

/* Only the bytes of blocks are kept, in pieces: a copy costs about as much as copying GAP_BYTES, so
 * blocks with smaller gaps between them are one piece. Bytes for files pass through two buffers.
 * All chunks of a call share a file, which ends with the last of them. */

#define GAP_BYTES   (UINT64_C(64) << 10)
#define STAGE_BYTES (UINT64_C(8) << 20)

/* ---- what is kept ---------------------------------------------------------------------------- */

mend_sleep_rule mend_rule_at(const mend_sleep_options *options, size_t at)
{
    mend_sleep_rule rule;
    assert(at < options->rule_count);
    mend_element_read(&rule, sizeof(rule), options->rules, options->rule_bytes, at);
    return rule;
}

int mend_rule_of(const mend_sleep_options *options, uint64_t tag)
{
    for (size_t i = 0; i < options->rule_count; i++) {
        const mend_sleep_rule rule = mend_rule_at(options, i);
        if (rule.tag == tag) {
            return rule.backup;
        }
    }
    return MEND_BACKUP_DEFAULT;
}

int mend_keep_of(const mend_sleep_options *options, uint64_t tag)
{
    const int backup = mend_rule_of(options, tag);
    if (backup != MEND_BACKUP_DEFAULT || options->others != MEND_BACKUP_DEFAULT) {
        return backup != MEND_BACKUP_DEFAULT ? backup : options->others;
    }
    return options->rule_count == 0 ? MEND_BACKUP_HOST : MEND_STAY_RESIDENT;
}

mend_contents *mend_keep_plan(const mend_sleep_options *options, const mend_chunk *chunk,
                              const mend_span *first, size_t spans)
{
    mend_contents *kept = calloc(1, sizeof(*kept) + spans * sizeof(kept->pieces[0]));
    if (kept == NULL) {
        return NULL;
    }
    kept->address = chunk->address;
    mend_kept_piece *last = NULL;
    for (const mend_span *span = first; spans > 0; span = span->next, spans--) {
        const uint64_t from = mend_max_u64(span->address, chunk->address) - chunk->address;
        const uint64_t end = mend_min_u64(mend_span_end(span) - chunk->address, chunk->size_bytes);
        const int backup = span->live ? mend_keep_of(options, span->sleep_tag) : 0;
        assert(backup != MEND_STAY_RESIDENT);
        kept->dropped_bytes += backup == MEND_DISCARD ? end - from : 0;
        if (backup != MEND_BACKUP_HOST && backup != MEND_BACKUP_FILE) {
            continue;
        }
        if (last == NULL || last->backup != backup ||
            from - (last->offset_bytes + last->size_bytes) >= GAP_BYTES) {
            last = &kept->pieces[kept->piece_count++];
            *last = (mend_kept_piece){.offset_bytes = from, .backup = backup};
        }
        last->size_bytes = end - last->offset_bytes;
    }
    for (size_t i = 0; i < kept->piece_count; i++) {
        mend_kept_piece *piece = &kept->pieces[i];
        uint64_t *bytes = piece->backup == MEND_BACKUP_HOST ? &kept->host_bytes : &kept->file_bytes;
        piece->at =
            *bytes; /* in a file it begins where the chunk's part does, which is not known */
        *bytes += piece->size_bytes;
    }
    mend_contents *less =
        realloc(kept, sizeof(*kept) + kept->piece_count * sizeof(kept->pieces[0]));
    return less != NULL ? less : kept;
}

void mend_keep_empty(mend_heap *heap, mend_contents *kept)
{
    mend_keep_count(heap, kept, false);
    kept->host_bytes = 0;
    kept->file_bytes = 0;
    kept->piece_count = 0;
    mend_sleep_file_leave(&kept->file);
    heap->keeping.room_bytes -= kept->room_bytes;
    kept->room_bytes = 0;
    mend_keep_drop_host(heap, kept->host, kept->registered_bytes);
    kept->host = NULL;
}

/* The piece that holds these bytes of the chunk. NULL: they were not kept in one. */
static const mend_kept_piece *piece_of(const mend_contents *kept, uint64_t offset_bytes,
                                       uint64_t size_bytes)
{
    for (size_t i = 0; i < kept->piece_count; i++) {
        const mend_kept_piece *piece = &kept->pieces[i];
        if (piece->offset_bytes <= offset_bytes &&
            offset_bytes + size_bytes <= piece->offset_bytes + piece->size_bytes) {
            return piece;
        }
    }
    return NULL;
}

bool mend_keep_has_part(const mend_chunk *chunk, const mend_span *span)
{
    const uint64_t chunk_end = chunk->address + chunk->size_bytes;
    const uint64_t from = mend_max_u64(span->address, chunk->address);
    const uint64_t end = mend_min_u64(mend_span_end(span), chunk_end);
    return piece_of(chunk->kept, from - chunk->address, end - from) != NULL;
}

void mend_keep_count(mend_heap *heap, const mend_contents *kept, bool begins)
{
    const uint64_t one = begins ? 1 : UINT64_MAX; /* which is -1 */
    assert(begins || (heap->keeping.host_bytes >= kept->host_bytes &&
                      heap->keeping.file_bytes >= kept->file_bytes));
    heap->keeping.host_bytes += one * kept->host_bytes;
    heap->keeping.file_bytes += one * kept->file_bytes;
    heap->counters.dropped_bytes += begins ? kept->dropped_bytes : 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* They have no name, so that they end with the process. */

static mend_result refused(const char *what, int error)
{
    return mend_failure(MEND_ERROR_SYSTEM, "%s for contents that sleep: %s%s", what,
                        strerror(error),
                        error == EFBIG ? " (the process's limit of file sizes, ulimit -f)" : "");
}

/* Where the file system has no files without a name, one that loses its name at once. */
static int open_named(const char *directory)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof(path), "%s/mend-sleep-XXXXXX", directory);
    if (length >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int descriptor = mend_file_keep(mkostemp(path, O_CLOEXEC));
    if (descriptor >= 0) {
        unlink(path);
    }
    return descriptor;
}

/* Makes an empty file in a directory, with one use. MEND_ERROR_SYSTEM. */
static mend_result open_file(const char *directory, mend_kept_file **file)
{
    mend_kept_file *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return mend_no_host_memory("a file of a sleep");
    }
    made->uses = 1;
    made->descriptor = mend_file_keep(open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (made->descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        made->descriptor = open_named(directory);
    }
    if (made->descriptor < 0) {
        int error = errno;
        free(made);
        return mend_failure(MEND_ERROR_SYSTEM, "no file can be made in \"%s\" for contents: %s",
                            directory, strerror(error));
    }
    *file = made;
    return MEND_OK;
}

/* Takes space of the disk for more bytes at the end. A file system that cannot says that it is full
 * while it is written. */
static mend_result extend(mend_kept_file *file, uint64_t size_bytes)
{
    const bool fits = mend_may_be_file_size(file->size_bytes + size_bytes);
    int error = fits ? EINTR : EFBIG;
    while (error == EINTR) {
        const int done = fallocate(file->descriptor, 0, (off_t)file->size_bytes, (off_t)size_bytes);
        error = done == 0 ? 0 : errno;
    }
    if (error != 0 && error != EOPNOTSUPP && error != ENOSYS) {
        return refused(fits ? "the file system has no space" : "a file cannot be so long", error);
    }
    file->size_bytes += size_bytes;
    return MEND_OK;
}

/* Writes from `out`, or where that is NULL reads to `in`. MEND_ERROR_SYSTEM. */
static mend_result pass_file(mend_heap *heap, const mend_kept_file *file, const void *out, void *in,
                             uint64_t size_bytes, uint64_t at)
{
    int error = out == NULL || mend_may_be_file_size(at + size_bytes) ? 0 : EFBIG;
    mend_heap_unlock(heap);
    for (uint64_t done = 0; done < size_bytes && error == 0;) {
        const size_t left = (size_t)(size_bytes - done);
        const off_t to = (off_t)(at + done);
        const ssize_t count = out != NULL
                                  ? pwrite(file->descriptor, (const char *)out + done, left, to)
                                  : pread(file->descriptor, (char *)in + done, left, to);
        done += count > 0 ? (uint64_t)count : 0;
        error = count < 0 && errno != EINTR ? errno : 0;
        error = count == 0 && out == NULL ? EIO : error; /* it was cut */
    }
    mend_heap_lock(heap);
    return error == 0
               ? MEND_OK
               : refused(out != NULL ? "a file could not be written" : "a file could not be read",
                         error);
}

/* ---- the copies of a call -------------------------------------------------------------------- */

/* Its stream, its file and its buffers. */
typedef struct keeper {
    mend_heap *heap;
    mend_stream stream;
    bool has_stream;
    mend_kept_file *file;     /* of a save */
    mend_contents *stages[2]; /* records of the buffers alone */
    int next_stage;
    uint64_t staged_at;    /* contents of the other buffer: the offset in the file */
    uint64_t staged_bytes; /* ... and its size. 0: nothing */
} keeper;

static mend_result synchronize(keeper *k)
{
    const mend_driver *driver = k->heap->driver;
    return mend_driver_result(
        k->heap, MEND_ANSWER(stream_synchronize, driver->stream_synchronize(driver, k->stream)));
}

static mend_result copy(keeper *k, uint64_t to, uint64_t from, uint64_t size_bytes)
{
    const mend_driver *driver = k->heap->driver;
    return mend_driver_result(
        k->heap, MEND_ANSWER(copy, driver->copy(driver, to, from, size_bytes, k->stream)));
}

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static mend_result write_staged(keeper *k)
{
    return k->staged_bytes == 0 ? MEND_OK
                                : pass_file(k->heap, k->file, k->stages[1 - k->next_stage]->host,
                                            NULL, k->staged_bytes, k->staged_at);
}

/* One piece, through the buffers. `file` is NULL to save. */
static mend_result pass_piece(keeper *k, uint64_t address, const mend_kept_piece *piece,
                              const mend_kept_file *file)
{
    for (uint64_t done = 0; done < piece->size_bytes; done += STAGE_BYTES) {
        const uint64_t bytes = mend_min_u64(piece->size_bytes - done, STAGE_BYTES);
        const uint64_t at = piece->at + done;
        void *stage = k->stages[k->next_stage]->host;
        if (file != NULL) { /* read to a buffer while the other one is copied */
            MEND_TRY(pass_file(k->heap, file, NULL, stage, bytes, at));
            MEND_TRY(synchronize(k)); /* from here on the other buffer can be read to */
            MEND_TRY(copy(k, address + done, address_of(stage), bytes));
        } else {                      /* copied to a buffer while the other one is written */
            MEND_TRY(synchronize(k)); /* the other buffer is full */
            MEND_TRY(copy(k, address_of(stage), address + done, bytes));
            MEND_TRY(write_staged(k));
            k->staged_at = at;
            k->staged_bytes = bytes;
        }
        k->next_stage = 1 - k->next_stage;
    }
    return MEND_OK;
}

/* Space for the backup: host memory, and a part of the file. */
static mend_result take_room(keeper *k, mend_contents *kept)
{
    if (kept->file_bytes > 0) {
        for (size_t i = 0; i < kept->piece_count; i++) {
            bool is_in_file = kept->pieces[i].backup == MEND_BACKUP_FILE;
            kept->pieces[i].at += is_in_file ? k->file->size_bytes : 0;
        }
        MEND_TRY(extend(k->file, kept->file_bytes));
        kept->file = k->file;
        kept->file->uses++;
    }
    return mend_keep_take_room(k->heap, kept);
}

static mend_result pass_all(keeper *k, const mend_cluster parts[], size_t count, bool out,
                            const char *directory)
{
    bool has_files = false;
    for (size_t i = 0; i < count; i++) {
        has_files = has_files || parts[i].kept->file_bytes > 0;
    }
    if (has_files && out) {
        MEND_TRY(open_file(directory, &k->file));
    }
    for (int i = 0; i < 2 && has_files; i++) {
        k->stages[i] = calloc(1, sizeof(*k->stages[i]));
        MEND_TRY(k->stages[i] != NULL ? mend_keep_take_host(k->heap, STAGE_BYTES, out, k->stages[i])
                                      : mend_no_host_memory("a sleep's buffer"));
    }
    mend_status status = k->heap->driver->stream_create(k->heap->driver, &k->stream);
    k->has_stream = status == MEND_DRIVER_OK;
    MEND_TRY(mend_driver_result(k->heap, MEND_ANSWER(stream_create, status)));
    for (size_t i = 0; i < count && out; i++) { /* before others take their memory */
        mend_copies_take_own(k->heap, parts[i].kept);
    }
    for (size_t i = 0; i < count; i++) {
        mend_contents *kept = parts[i].kept;
        MEND_TRY(out ? take_room(k, kept) : MEND_OK);
        for (size_t at = 0; at < kept->piece_count; at++) {
            const mend_kept_piece *piece = &kept->pieces[at];
            const uint64_t address = kept->address + piece->offset_bytes;
            const uint64_t host = address_of(kept->host) + piece->at;
            MEND_TRY(piece->backup == MEND_BACKUP_FILE
                         ? pass_piece(k, address, piece, out ? NULL : kept->file)
                     : out ? copy(k, host, address, piece->size_bytes)
                           : copy(k, address, host, piece->size_bytes));
        }
    }
    MEND_TRY(synchronize(k));
    return write_staged(k);
}

mend_result mend_keep_copy(mend_heap *heap, const mend_cluster parts[], size_t count, bool out,
                           const char *directory)
{
    keeper k = {.heap = heap};
    const mend_result result = pass_all(&k, parts, count, out, directory);
    if (k.has_stream) {
        (void)mend_retire_end_copies(heap, k.stream); /* after a failure they may run */
        (void)mend_driver_did(heap, heap->driver->stream_destroy(heap->driver, k.stream));
    }
    for (int i = 0; i < 2; i++) {
        mend_keep_drop(heap, k.stages[i]);
    }
    mend_sleep_file_leave(&k.file);
    return result;
}

/* ---- mend_read_backup ------------------------------------------------------------------------ */

/* While bytes are copied, `state` is released. No driver call. */

static mend_result not_there(uint64_t address, const char *why)
{
    return mend_failure(MEND_ERROR_INVALID_ARGUMENT, "mend_read_backup: the memory at 0x%llx %s",
                        (unsigned long long)address, why);
}

/* How many of these awake bytes are of blocks with a copy: behind a block may be another one that
 * never slept. */
static uint64_t copied_bytes(const mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    const uint64_t end = address + size_bytes;
    uint64_t at = address;
    const mend_span *span = mend_heap_span_at(heap, address);
    while (span != NULL && at < end && span->address <= at && span->live && span->has_copy) {
        at = span->address + span->size_bytes;
        span = span->next;
    }
    return mend_min_u64(at, end) - address;
}

/* Bytes that one piece has. */
typedef struct backup_part {
    const mend_contents *kept;
    bool is_in_file;
    uint64_t at; /* where in the host's memory or the file */
    uint64_t size_bytes;
} backup_part;

/* Finds as much as one piece has: of the backup, or of the copy that a wake left. */
static mend_result find_part(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                             backup_part *found)
{
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, address);
    if (chunk == NULL) {
        return not_there(address, "is not of the pool");
    }
    const bool sleeps = mend_chunk_sleeps(chunk);
    const mend_span *span = sleeps ? NULL : mend_heap_span_at(heap, address);
    const bool has_copy = span != NULL && span->live && span->has_copy;
    const mend_contents *kept = sleeps     ? chunk->kept
                                : has_copy ? mend_copy_at(heap, address)
                                           : NULL;
    if (kept == NULL) {
        return not_there(address, "does not sleep, and has no copy");
    }
    const mend_kept_piece *piece = piece_of(kept, address - kept->address, 1);
    if (piece == NULL || (piece->backup == MEND_BACKUP_FILE && kept->file == NULL)) {
        return not_there(address, "has no backup");
    }
    const uint64_t inside = address - kept->address - piece->offset_bytes;
    const uint64_t bytes = mend_min_u64(size_bytes, piece->size_bytes - inside);
    *found = (backup_part){.kept = kept,
                           .is_in_file = piece->backup == MEND_BACKUP_FILE,
                           .at = piece->at + inside,
                           .size_bytes = sleeps ? bytes : copied_bytes(heap, address, bytes)};
    return MEND_OK;
}

static mend_result find_backup(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                               const void **host)
{
    backup_part part;
    MEND_TRY(find_part(heap, address, size_bytes, &part));
    if (part.is_in_file || part.size_bytes < size_bytes) {
        return mend_failure(
            MEND_ERROR_NOT_SUPPORTED, "mend_read_backup: the backup of the memory at 0x%llx is %s",
            (unsigned long long)address, part.is_in_file ? "in a file" : "in several places");
    }
    *host = (const unsigned char *)part.kept->host + part.at;
    return MEND_OK;
}

static mend_result read_backup(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    backup_part part;
    for (uint64_t seen = 0; seen < size_bytes; seen += part.size_bytes) { /* before a write */
        MEND_TRY(find_part(heap, address + seen, size_bytes - seen, &part));
    }
    for (uint64_t done = 0; done < size_bytes; done += part.size_bytes) {
        unsigned char *to = (unsigned char *)host + done;
        MEND_TRY(find_part(heap, address + done, size_bytes - done, &part));
        if (part.is_in_file) {
            MEND_TRY(pass_file(heap, part.kept->file, NULL, to, part.size_bytes, part.at));
            continue;
        }
        mend_heap_unlock(heap);
        memcpy(to, (const unsigned char *)part.kept->host + part.at, (size_t)part.size_bytes);
        mend_heap_lock(heap);
    }
    return MEND_OK;
}

mend_result mend_read_backup(mend_pool *pool, const void *address, uint64_t size_bytes, void *copy,
                             const void **host)
{
    MEND_INVALID_IF(pool == NULL || (copy == NULL) == (host == NULL),
                    "mend_read_backup: pool is NULL, or not one of copy and host is");
    MEND_INVALID_IF(host != NULL && size_bytes == 0, "mend_read_backup: the size is 0");
    const uint64_t at = (uint64_t)(uintptr_t)address;
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, host != NULL ? find_backup(&pool->heap, at, size_bytes, host)
                                                  : read_backup(&pool->heap, at, size_bytes, copy));
}
