/*
 * Operations: what a trial does, as plain data. Any sequence of any bytes is a program that keeps
 * the rules of mend.h: numbers are taken modulo what there is, and an operation that does not apply
 * is skipped. So seeds, shrinking, exhaustive search and fuzzing all use the same ones.
 */
#ifndef MEND_TESTS_SIM_OPERATIONS_H
#define MEND_TESTS_SIM_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(kind, what it does with its fields) */
#define OPERATION_KINDS(X)                                                                         \
    X(ALLOC,                                                                                       \
      "a block of `size` and `alignment` in `slot`, on `stream`; amount 1: and writes it; 8 "      \
      "more: where the last block in `slot` was")                                                  \
    X(SIBLING_ALLOC, "the same in the second pool of the device")                                  \
    X(WRITE, "work on the home stream writes the block, for `amount`")                             \
    X(VERIFY, "work on the home stream compares the block, for `amount`")                          \
    X(SHARE, "another stream reads the block; amount: 0 declared before, 1 after, 2 not at all")   \
    X(MOVE, "another stream waits for the home stream of the block, and is its home from now on")  \
    X(RECORD, "declares a stream that does not use the block")                                     \
    X(FREE,                                                                                        \
      "frees the block; amount: 0 to 3 at home, 4 elsewhere, 5 on no stream, 6 after a "           \
      "wait of the host; 8 more: and once more; 32 more: after a last look, by work in flight; "   \
      "64 more: in its group, or in group `size`")                                                 \
    X(MISTAKE, "a call that must fail, number `amount` / 3; an amount of 0 modulo 3: many that "   \
               "lack arguments")                                                                   \
    X(INFO, "asks for the block at `slot`, `amount` 256ths inside")                                \
    X(RESET_PEAKS, "resets peak statistics")                                                       \
    X(ADVANCE, "the clock runs on by `amount`")                                                    \
    X(SYNCHRONIZE, "the host waits for all work")                                                  \
    X(TRIM, "gives back to `amount` 256ths of the device; an odd slot: the second pool; a "        \
            "stream of 3 modulo 4: and waits for what it needs; of 2: collects instead")           \
    X(SET_LIMIT, "sets the limit to `amount` 256ths of the device; an odd size: to `amount` "      \
                 "modulo 32 of them more than lives; an odd slot: the second pool; a thread of "   \
                 "3: the soft limit")                                                              \
    X(FORGET, "the pool forgets a stream that is used on")                                         \
    X(REPLACE_STREAM, "a stream is forgotten and destroyed, and another made; amount 1: where "    \
                      "streams may vanish, it does")                                               \
    X(REPLACE_THREAD, "a thread ends with its stream, and another begins")                         \
    X(GROUP_CREATE, "a group, in `slot`")                                                          \
    X(GROUP_BEGIN, "the group takes `stream`; amount 1: every stream")                             \
    X(GROUP_END, "the group takes nothing more")                                                   \
    X(GROUP_RELEASE, "the group ends on `stream`; amount 1: on no stream")                         \
    X(CAPTURE_BEGIN, "captures `stream` in the mode `amount`")                                     \
    X(CAPTURE_END, "ends the capture of `stream`: a graph in `slot`")                              \
    X(CAPTURE_SPOIL, "does what spoils the capture of `stream`")                                   \
    X(GRAPH_LAUNCH, "launches the graph in `slot` on `stream`, for `amount`")                      \
    X(GRAPH_DESTROY, "destroys the graph in `slot`")                                               \
    X(ADD_CALLBACK, "a pressure callback, which frees up to `amount` blocks from `slot` on")       \
    X(REMOVE_CALLBACK, "removes it")                                                               \
    X(FOREIGN, "another process holds `amount` 256ths of the device")                              \
    X(AMBUSH, "in the next call number `size` of the driver: what `amount` says")                  \
    X(FAULT,                                                                                       \
      "call number `size` fails, after `alignment` calls, `amount` times, as `thread` says")       \
    X(CLEAR_FAULTS, "no call fails any more")                                                      \
    X(LATE_EVENTS, "events are reported `amount` late")                                            \
    X(FAIL_MALLOC, "in the next call of the pool `amount` allocations fail, after `slot`")         \
    X(LOSE_DEVICE, "the context breaks after `amount` calls")                                      \
    X(SHUT_DOWN, "the driver shuts down")                                                          \
    X(FORK, "a child finds that the pool is not its own")                                          \
    X(DEFRAG,                                                                                      \
      "compactions, copying at most `amount` modulo 8 pages (0: no bound); an odd slot: the "      \
      "second pool")                                                                               \
    X(SET_ALLOCATOR, "below the hooks: Mend's own, or one that wraps it, as `amount` says; where " \
                     "`size` says so it lets only a few blocks live")                              \
    X(ROOM,                                                                                        \
      "asks how much could be had on `stream`, and for a block in `slot` of just so much; an "     \
      "odd amount: of 512 bytes more")                                                             \
    X(PIN, "pins the block in `slot`; a size of 1 to 3 modulo 4: so many pages from it on")        \
    X(UNPIN, "undoes the pin number `slot`")                                                       \
    X(ALLOC_IN, "a block in `slot` that names its group, number `amount` / 4; 1: and writes it")   \
    X(CHECKPOINT, "lists the blocks of the group in `slot`")                                       \
    X(RESTORE, "restores the group in `slot` as it was listed")                                    \
    X(HISTORY,                                                                                     \
      "begins the history of pool `slot` with a ring of `size` events, which grows by the power "  \
      "of two `amount`; a size of 0 modulo 4: ends it")                                            \
    X(EXPORT, "exports the block in `slot`, by a pointer `size` modulo 8 granules inside")         \
    X(IMPORT,                                                                                      \
      "imports the first exported block from `slot` on; an odd size: into the second pool")        \
    X(CLOSE,                                                                                       \
      "closes the first import from `slot` on, on the stream that used it last; an odd amount: "   \
      "on none")                                                                                   \
    X(EXPORT_BY_FABRIC,                                                                            \
      "exports the block in `slot` by fabric handles, by a pointer `size` modulo 8 granules "      \
      "inside; an odd amount: asks for the size of the description first")                         \
    X(IMPORT_BY_FABRIC,                                                                            \
      "imports by the newest description, if its block is live; an odd size: into the second "     \
      "pool")                                                                                      \
    X(SLEEP,                                                                                       \
      "puts blocks to sleep: by `size` modulo 4 rules, of what is kept as `amount` says, the "     \
      "others as `alignment` says; an odd stream: skips what is pinned; an odd slot: of the "      \
      "second pool")                                                                               \
    X(WAKE, "wakes what sleeps; an odd amount: of tag `size`; an odd slot: of the second pool")    \
    X(RANGE_CREATE,                                                                                \
      "a growable range in `slot`, of `amount` modulo 40 pages more than one, with pages as "      \
      "`size` says; an odd alignment: in the second pool")                                         \
    X(COMMIT,                                                                                      \
      "commits `alignment` pages more than one of the range in `slot`, from page `size` on, for "  \
      "`stream`; amount 1: and writes them; 15 modulo 16: for no stream")                          \
    X(DECOMMIT,                                                                                    \
      "decommits such pages on `stream`; amount 5 modulo 8: on none; 32 more: after a last look, " \
      "by work in flight; 64 more: after one of the next stream, which is declared")               \
    X(ZEROS, "lets such pages read as zeros, where they are not committed, and looks at some on "  \
             "`stream`; amount 1: by work in flight")                                              \
    X(RANGE_DESTROY, "destroys the range in `slot` on `stream`; amount: as DECOMMIT")              \
    X(RANGE_MISTAKE, "calls about the range in `slot` that must fail; an even amount: during a "   \
                     "capture")                                                                    \
    X(MEMBER,                                                                                      \
      "another process holds `amount` 256ths of the limit that the pools share by a file; an odd " \
      "slot: it dies before that")                                                                 \
    X(TO_HOST,                                                                                     \
      "moves blocks to the host; an odd amount: those of tag `size`; an odd slot: of the second "  \
      "pool")                                                                                      \
    X(TO_DEVICE, "moves them back, by the same fields")                                            \
    X(QUIESCE, "prepares the pool for a checkpoint; if it is alone, the process is checkpointed, " \
               "and restored")                                                                     \
    X(USE_IMPORT, "work on `stream` reads the first import from `slot` on, for `amount`")

typedef enum operation_kind {
#define X(kind, meaning) OP_##kind,
    OPERATION_KINDS(X)
#undef X
        OP_COUNT
} operation_kind;

/* Fields an operation has no use for are ignored. */
typedef struct operation {
    uint8_t kind;
    uint8_t slot;
    uint8_t stream;
    uint8_t size;
    uint8_t alignment;
    uint8_t thread;
    uint8_t amount;
} operation;

enum { OPERATION_FIELDS = 7 };

const char *operation_name(uint8_t kind);

/* One operation from OPERATION_FIELDS bytes, in the order of the fields. */
operation operation_decode(const uint8_t *bytes);

#endif
