/*
 * Values that were read from a file: numbers, texts, lists and dictionaries, in one store that
 * frees them all. Readers push values, and move pushed values into a list or a dictionary. A value
 * may be in several lists, but no list holds itself at any depth, and none is nested deeper than
 * MEND_VALUE_DEPTH.
 */
#ifndef MEND_LAB_SUPPORT_VALUES_H
#define MEND_LAB_SUPPORT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mend/mend.h"

/* The most host memory of a store, unless its reader lowers it. */
#define MEND_VALUE_STORE_BYTES (UINT64_C(1) << 32)

/* The most values that a walk through all lists meets. Values may be shared: without a limit few
 * bytes describe more of them than anybody can walk through. Snapshots that fit into the host
 * memory have fewer. */
#define MEND_VALUE_MOST_WEIGHT (UINT64_C(1) << 32)

enum {
    MEND_VALUE_DEPTH = 64,
    MEND_VALUE_TEXT_BYTES = 4096 /* longer texts are cut */
};

typedef enum mend_value_kind {
    MEND_VALUE_ABSENT,
    MEND_VALUE_OTHER,  /* nothing, a fraction, a negative or a larger number */
    MEND_VALUE_NUMBER, /* true is 1 */
    MEND_VALUE_TEXT,
    MEND_VALUE_LIST, /* or a tuple */
    MEND_VALUE_DICT
} mend_value_kind;

typedef struct mend_value {
    mend_value_kind kind;
    union {
        uint64_t number;
        const char *text;
        struct mend_value_items *items;
    };
} mend_value;

typedef struct mend_value_items {
    mend_value *values; /* of a dictionary: a key, its value, the next key, and so on */
    size_t count;
    size_t room;
    uint64_t weight; /* values in it and in all that it holds, each as often as it is held */
    uint32_t depth;  /* 1: holds no list */
    bool is_held;    /* is in another one, and changes no more */
} mend_value_items;

typedef struct mend_value_store {
    const char *const *keys; /* other keys of dictionaries are left out. NULL: none is */
    uint64_t bytes_left;
    struct mend_value_chunk *chunks;
    char *free_bytes; /* the rest of the newest chunk */
    size_t free_count;
    mend_value *stack;
    size_t count;
    size_t room;
    const char *reason; /* why a call failed. NULL: none did */
    bool is_out_of_memory;
} mend_value_store;

/* `keys` ends with NULL and is borrowed. */
void mend_value_store_init(mend_value_store *store, const char *const *keys);
void mend_value_store_clear(mend_value_store *store);

/* Memory for `size` bytes, aligned for any value. NULL: the store says why. */
void *mend_value_store_take(mend_value_store *store, size_t size);

/* Counts memory that a reader takes itself. False: the store says why. */
bool mend_value_store_charge(mend_value_store *store, uint64_t size);

/* A call that returns false has given the store its reason. */
bool mend_value_push(mend_value_store *store, mend_value value);
bool mend_value_push_text(mend_value_store *store, const char *text, size_t length);
bool mend_value_push_empty(mend_value_store *store, mend_value_kind kind);

/* Moves the values pushed from index `from` on to the end of a list, or into a dictionary as keys
 * and values in turn. */
bool mend_value_move(mend_value_store *store, mend_value into, size_t from);

/* Whether dictionaries keep this key. */
bool mend_value_store_keeps(const mend_value_store *store, const char *key);

/* MEND_ERROR_INVALID_ARGUMENT with "path: byte N: reason", or MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_value_store_fail(const mend_value_store *store, const char *path,
                                  uint64_t position, const char *reason);

/* The value of a key. Absent, too, where `dict` is no dictionary. */
mend_value mend_value_of(mend_value dict, const char *key);

/* The number of values in a list. 0 if it is no list. */
size_t mend_value_count(mend_value list);

#endif
