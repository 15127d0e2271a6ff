/*
 * Digits are found with integers, so that no rounding of floating point shows in a message.
 *
 * Names lie in hash tables of chains, the newest first: one for scopes, one for all else. Entries
 * lie in pieces that never move.
 */
#include "base/words.h"

#include <stdio.h>

#include "base/align.h"

static const struct {
    uint64_t bytes;
    const char *name;
} units[] = {{MEND_TIB, "TiB"}, {MEND_GIB, "GiB"}, {MEND_MIB, "MiB"}, {MEND_KIB, "KiB"}};
enum { UNITS = sizeof(units) / sizeof(units[0]) };

static_assert(MEND_TIB < UINT64_C(1) << 57, "a hundred times the rest of a unit is a number");
static_assert(MEND_AMOUNT_BYTES >= sizeof("16777216.00 TiB"), "all of 64 bits can be shown");

mend_amount mend_words_rounded(uint64_t bytes, bool is_above)
{
    mend_amount amount;
    int unit = 0;
    while (unit < UNITS && bytes < units[unit].bytes) {
        unit++;
    }
    if (unit == UNITS) {
        snprintf(amount.text, sizeof(amount.text), "%u bytes", (unsigned)bytes);
        return amount;
    }
    uint64_t whole = bytes / units[unit].bytes;
    uint64_t rest = bytes % units[unit].bytes * 100; /* no overflow: a unit is far below 2^57 */
    uint64_t hundredths = rest / units[unit].bytes + (is_above && rest % units[unit].bytes != 0);
    snprintf(amount.text, sizeof(amount.text), "%lu.%02u %s", whole + hundredths / 100,
             (unsigned)(hundredths % 100), units[unit].name);
    return amount;
}

void mend_words_make_printable(char *text)
{
    for (; *text != 0; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

uint32_t mend_names_count(mend_process_names *names)
{
    return atomic_load_explicit(&names->count, memory_order_acquire);
}

const mend_name_entry *mend_names_entry(mend_process_names *names, uint32_t index)
{
    assert(index > 0);
    assert(index <= mend_names_count(names));
    return &names->pieces[index / MEND_NAME_PIECE][index % MEND_NAME_PIECE];
}

_Atomic(uint32_t) *mend_names_bucket(mend_name_kind kind, uint64_t number)
{
    const uint64_t hash = (number + kind) * UINT64_C(0x9E3779B97F4A7C15);
    return &mend_process_own_names.buckets[(hash >> 32) % MEND_NAME_BUCKETS];
}

const char *mend_names_find(mend_name_kind kind, uint64_t number)
{
    uint32_t at = atomic_load_explicit(mend_names_bucket(kind, number), memory_order_acquire);
    while (at != 0) {
        const mend_name_entry *entry = mend_names_entry(&mend_process_own_names, at);
        if (entry->number == number && entry->kind == (uint32_t)kind) {
            return entry->name[0] != '\0' ? entry->name : NULL;
        }
        at = entry->next;
    }
    return NULL;
}

/* Writes a name, so that paths are unique: a separator in a name has a backslash before it. Returns
 * the bytes, which may be more than fit. */
static size_t write_name(const char *name, char *text, size_t text_bytes)
{
    size_t used = 0;
    for (; *name != '\0'; name++) {
        const char *const before = *name == '/' || *name == '\\' ? "\\" : "";
        used += (size_t)snprintf(text + (used < text_bytes ? used : text_bytes),
                                 used < text_bytes ? text_bytes - used : 0, "%s%c", before, *name);
    }
    return used;
}

/* Innermost names alone of a deep path: a program that forgets pops has 65,535 of them. */
void mend_scopes_write_path(uint32_t number, char *text, size_t text_bytes)
{
    uint32_t path[MEND_SCOPE_PATH_NAMES];
    size_t count = 0;
    for (; number != 0 && count < MEND_SCOPE_PATH_NAMES; count++) {
        path[count] = number;
        number = mend_scopes_around(number);
    }
    size_t used = (size_t)snprintf(text, text_bytes, "%s", number != 0 ? ".../" : "");
    while (count-- > 0 && used < text_bytes) {
        used += write_name(mend_scopes_entry(path[count])->name, text + used, text_bytes - used);
        if (count > 0 && used < text_bytes) {
            used += (size_t)snprintf(text + used, text_bytes - used, "/");
        }
    }
}
