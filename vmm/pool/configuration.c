/* MEND_CONF: its options read into the configuration of a pool. */
#include "pool/pool.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "plan/policy.h"

#define LARGEST_PERCENT 100
enum { LEAST_GROWTH_PERCENT = 100, MOST_GROWTH_PERCENT = 10000 };
#define MOST_FRACTION UINT64_C(999999999)
enum { MOST_FRACTION_DIGITS = 9 };
#define LARGEST_PEER 62

typedef enum configuration_kind {
    KIND_BYTES,
    KIND_LIMIT,
    KIND_GROWTH,
    KIND_SWITCH,
    KIND_STRATEGY,
    KIND_LOG,
    KIND_OBSERVE,
    KIND_SHARING,
    KIND_PEERS,
    KIND_COUNT,
    KIND_PATH
} configuration_kind;

typedef enum configuration_key {
#define X(key, field, kind, fallback, meaning) KEY_##key,
    MEND_CONFIGURATION(X)
#undef X
        KEY_COUNT
} configuration_key;

static const struct {
    const char *name;
    configuration_kind kind;
} keys[KEY_COUNT] = {
#define X(key, field, kind, fallback, meaning) {#key, KIND_##kind},
    MEND_CONFIGURATION(X)
#undef X
};

/* " limit chunk ...", for messages. */
#define X(key, field, kind, fallback, meaning) " " #key
static const char all_keys[] = MEND_CONFIGURATION(X);
#undef X

#define BYTES_TAKEN                                                                                \
    "a whole number of bytes up to 2^60, or a number with KiB, MiB, GiB or TiB and at most 9 "     \
    "digits after its point (64GiB, 1.5GiB); a size in bytes has no fraction"

/* The values of a kind, in words, and for kinds of numbers the range of their fields. Only a list
 * of observers has a comma in it. */
static const struct {
    const char *takes;
    int64_t least;
    int64_t most; /* 0: anything */
} kinds[] = {
    [KIND_BYTES] = {BYTES_TAKEN, 0, 0},
    [KIND_LIMIT] = {"1% to 100% of the device's memory (90%), or " BYTES_TAKEN, 0, 0},
    [KIND_GROWTH] = {"100% to 10000%", LEAST_GROWTH_PERCENT, MOST_GROWTH_PERCENT},
    [KIND_SWITCH] = {"on or off", -1, 1},
    [KIND_STRATEGY] = {"1 to 5", 0, MEND_STRATEGY_LEVELS},
    [KIND_LOG] = {"debug, info, warning or off", -1, MEND_LOG_WARNING},
    [KIND_OBSERVE] = {"top, poison, guard and a path that begins with /, joined by commas", 0, 0},
    [KIND_SHARING] = {"off, on, fabric or auto", -1, MEND_SHAREABLE_AUTO},
    [KIND_PEERS] = {"auto, none, or numbers of devices up to 62 joined by + (0+2)", 0, 0},
    [KIND_COUNT] = {"a whole number from 1 to 10^9", 0, 1000000000},
    [KIND_PATH] = {"a path that begins with /, of at most 255 characters", 0, 0},
};

static const struct {
    const char *name;
    uint64_t bytes;
} units[] = {{"", 1}, {"KiB", MEND_KIB}, {"MiB", MEND_MIB}, {"GiB", MEND_GIB}, {"TiB", MEND_TIB}};
enum { UNIT_COUNT = sizeof(units) / sizeof(*units) };

static_assert(sizeof(kinds) / sizeof(*kinds) == KIND_PATH + 1, "each kind is explained");
static_assert(LARGEST_PEER < 63, "a device is a bit of a number that has a sign");

/* A part of the text. */
typedef struct slice {
    const char *text;
    size_t length;
} slice;

/* The arguments for %.*s, cut to fit a message. */
#define SHOWN(part) (int)mend_min_u64((part).length, 60), (part).text

static bool is(slice part, const char *word)
{
    return strlen(word) == part.length && memcmp(part.text, word, part.length) == 0;
}

static slice behind(slice part, size_t length)
{
    return (slice){part.text + length, part.length - length};
}

/* Reads the number at the start of a part. Returns its count of digits. 0: no number, or above
 * `largest`. */
static size_t read_number(slice part, uint64_t largest, uint64_t *number)
{
    uint64_t read = 0;
    size_t digits = 0;
    for (; digits < part.length && isdigit((unsigned char)part.text[digits]); digits++) {
        uint64_t digit = (uint64_t)(part.text[digits] - '0');
        if (digit > largest || read > (largest - digit) / 10) {
            return 0;
        }
        read = read * 10 + digit;
    }
    *number = read;
    return digits;
}

/* Reads "1.75GiB". A fraction of a unit is rounded up to bytes. */
static bool read_bytes(slice value, int64_t *read)
{
    uint64_t number = 0;
    uint64_t fraction = 0;
    uint64_t whole = 1; /* of which it is a fraction */
    size_t length = read_number(value, MEND_LARGEST_REQUEST_BYTES, &number);
    const bool has_point = length > 0 && length < value.length && value.text[length] == '.';
    if (has_point) {
        const size_t digits = read_number(behind(value, length + 1), MOST_FRACTION, &fraction);
        for (size_t i = 0; i < digits && whole <= MOST_FRACTION; i++) {
            whole *= 10;
        }
        length = digits > 0 && digits <= MOST_FRACTION_DIGITS ? length + 1 + digits : 0;
    }
    for (size_t i = has_point; length > 0 && i < UNIT_COUNT; i++) { /* the first is of bytes */
        /* Divides first, so that the product stays below 2^64. */
        const uint64_t each_bytes = units[i].bytes / whole;
        const uint64_t rest_bytes = units[i].bytes % whole;
        const uint64_t more_bytes =
            fraction * each_bytes + (fraction * rest_bytes + whole - 1) / whole;
        if (is(behind(value, length), units[i].name) &&
            number <= (MEND_LARGEST_REQUEST_BYTES - more_bytes) / units[i].bytes) {
            *read = (int64_t)(number * units[i].bytes + more_bytes);
            return true;
        }
    }
    return false;
}

/* Reads a number without a unit. */
static bool read_from_to(slice value, uint64_t least, uint64_t largest, int64_t *read)
{
    uint64_t number = 0;
    size_t digits = read_number(value, largest, &number);
    *read = (int64_t)number;
    return digits == value.length && number >= least; /* which is 1 at least */
}

static bool read_percent(slice value, uint64_t least, uint64_t largest, int64_t *read)
{
    return value.length > 0 && value.text[value.length - 1] == '%' &&
           read_from_to((slice){value.text, value.length - 1}, least, largest, read);
}

/* auto is 0, the default of the field. */
static bool read_peers(slice value, int64_t *read)
{
    uint64_t peers = is(value, "none") ? MEND_PEERS_NONE : 0;
    bool goes_on = peers == 0 && !is(value, "auto");
    for (slice rest = value; goes_on;) {
        uint64_t device = 0;
        const size_t digits = read_number(rest, LARGEST_PEER, &device);
        goes_on = digits < rest.length;
        if (digits == 0 || (goes_on && rest.text[digits] != '+')) {
            return false;
        }
        peers |= UINT64_C(1) << device;
        rest = behind(rest, digits + goes_on);
    }
    *read = (int64_t)peers;
    return true;
}

static bool read_word(slice word, mend_observed *observed)
{
    const int check = is(word, "poison")  ? MEND_CHECK_POISON
                      : is(word, "guard") ? MEND_CHECK_GUARD
                                          : 0;
    if (is(word, "top") && !observed->top) {
        observed->top = true;
    } else if (check != 0 && (observed->checks & check) == 0) {
        observed->checks |= check;
    } else if (word.text[0] == '/' && observed->snapshots[0] == '\0' &&
               word.length < MEND_CONFIGURATION_PATH) {
        memcpy(observed->snapshots, word.text, word.length);
    } else {
        return false;
    }
    return true;
}

size_t mend_configuration_read_observe(const char *text, mend_observed *observed)
{
    *observed = (mend_observed){0};
    size_t length = 0;
    for (const char *at = text; length == 0 || *at == ',';) {
        at += length > 0;
        const size_t bytes = strcspn(at, ",");
        if (!read_word((slice){at, bytes}, observed)) {
            break;
        }
        at += bytes;
        length = (size_t)(at - text);
    }
    return length;
}

static bool read_value(configuration_kind kind, slice value, int64_t *read)
{
    switch (kind) {
    case KIND_BYTES:
        return read_bytes(value, read);
    case KIND_LIMIT:
        if (!read_percent(value, 1, LARGEST_PERCENT, read)) {
            return read_bytes(value, read);
        }
        *read = -*read; /* a percentage is stored as a negative number */
        return true;
    case KIND_GROWTH:
        return read_percent(value, LEAST_GROWTH_PERCENT, MOST_GROWTH_PERCENT, read);
    case KIND_SWITCH:
        *read = is(value, "on") ? 1 : -1;
        return *read == 1 || is(value, "off");
    case KIND_STRATEGY:
    case KIND_COUNT:
        return read_from_to(value, true, (uint64_t)kinds[kind].most, read);
    case KIND_LOG:
        *read = is(value, "debug")     ? MEND_LOG_DEBUG
                : is(value, "info")    ? MEND_LOG_INFO
                : is(value, "warning") ? MEND_LOG_WARNING
                : is(value, "off")     ? -1
                                       : 0;
        return *read != 0;
    case KIND_OBSERVE: {
        mend_observed observed;
        *read = (int64_t)(intptr_t)value.text;
        return value.length > 0 &&
               mend_configuration_read_observe(value.text, &observed) == value.length;
    }
    case KIND_SHARING:
        *read = is(value, "fabric") ? MEND_SHAREABLE_FABRIC
                : is(value, "auto") ? MEND_SHAREABLE_AUTO
                                    : is(value, "on");
        return *read != 0 || is(value, "off");
    case KIND_PEERS:
        return read_peers(value, read);
    case KIND_PATH:
        *read = (int64_t)(intptr_t)value.text;
        return value.text[0] == '/' && value.length < MEND_CONFIGURATION_PATH;
    }
    return false;
}

/* The program's values stay. */
static void set_field(configuration_key key, int64_t value, mend_pool_config *config)
{
    assert(key < KEY_COUNT);
    switch (key) {
#define X(key, field, kind, fallback, meaning)                                                     \
    case KEY_##key:                                                                                \
        config->field = config->field != 0 ? config->field : (__typeof__(config->field))value;     \
        break;
        MEND_CONFIGURATION(X)
#undef X
    case KEY_COUNT:
        break;
    }
}

static mend_result read_item(slice item, bool seen[KEY_COUNT], mend_pool_config *config)
{
    mend_result wrong = MEND_ERROR_INVALID_ARGUMENT;
    if (item.length == 0) {
        return mend_fail(wrong, "MEND_CONF has an empty item; it is written key:value,key:value");
    }
    if (strcspn(item.text, " \t\n\v\f\r") < item.length) {
        return mend_fail(wrong, "MEND_CONF has white space in \"%.*s\"; it takes none",
                         SHOWN(item));
    }
    const char *colon = memchr(item.text, ':', item.length);
    if (colon == NULL) {
        return mend_fail(wrong, "MEND_CONF: \"%.*s\" has no value; an item is written key:value",
                         SHOWN(item));
    }
    slice name = {item.text, (size_t)(colon - item.text)};
    slice value = behind(item, name.length + 1);
    configuration_key key = 0;
    while (key < KEY_COUNT && !is(name, keys[key].name)) {
        key++;
    }
    if (key == KEY_COUNT) {
        return mend_fail(wrong, "MEND_CONF: there is no key \"%.*s\"; the keys are%s", SHOWN(name),
                         all_keys);
    }
    if (seen[key]) {
        return mend_fail(wrong, "MEND_CONF: %s is set twice, again with \"%.*s\"; set it once",
                         keys[key].name, SHOWN(value));
    }
    int64_t read = 0;
    if (!read_value(keys[key].kind, value, &read)) {
        return mend_fail(wrong, "MEND_CONF: %s is \"%.*s\"; it takes %s", keys[key].name,
                         SHOWN(value), kinds[keys[key].kind].takes);
    }
    seen[key] = true;
    if (keys[key].kind == KIND_LIMIT) {
        assert(read >= -LARGEST_PERCENT);
        if (config->limit_bytes == 0 && config->limit_percent == 0) { /* else the program's stays */
            config->limit_bytes = read > 0 ? (uint64_t)read : 0;
            config->limit_percent = read < 0 ? (int)-read : 0;
        }
    } else {
        set_field(key, read, config);
    }
    return MEND_OK;
}

mend_result mend_configuration_read(const char *text, mend_pool_config *config)
{
    if (text == NULL || text[0] == 0) {
        return MEND_OK;
    }
    mend_pool_config read = *config;
    bool seen[KEY_COUNT] = {false};
    for (const char *rest = text;; rest++) {
        /* Ends at a comma, but of a list of observers at one that none follows. */
        static const char list_key[] = "observe:";
        mend_observed observed;
        const size_t list =
            strncmp(rest, list_key, strlen(list_key)) == 0
                ? mend_configuration_read_observe(rest + strlen(list_key), &observed)
                : 0;
        slice item = {rest, list > 0 ? strlen(list_key) + list : strcspn(rest, ",")};
        MEND_TRY(read_item(item, seen, &read));
        rest += item.length;
        if (*rest == 0) {
            break;
        }
    }
    *config = read;
    return MEND_OK;
}

mend_result mend_configuration_check(const mend_pool_config *config)
{
    const struct {
        const char *name;
        configuration_kind kind;
        int64_t value;
    } fields[] = {
#define X(key, field, kind, fallback, meaning)                                                     \
    {#field, KIND_##kind, (int64_t)(intptr_t)config->field},
        MEND_CONFIGURATION(X)
#undef X
    };
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const int64_t least = kinds[fields[i].kind].least;
        const int64_t most = kinds[fields[i].kind].most;
        const bool is_given = most != 0 && fields[i].value != 0;
        if (is_given && (fields[i].value < least || fields[i].value > most)) {
            return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "mend_pool_config.%s is not %lld to %lld",
                             fields[i].name, (long long)least, (long long)most);
        }
    }
    return MEND_OK;
}
