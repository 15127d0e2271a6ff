/*
 * Operations: the steps of a trial, as plain data. Any sequence of any bytes is a program that
 * obeys mend.h: numbers are taken modulo the existing objects, and an operation that does not apply
 * is skipped. So seeds, shrinking, exhaustive search and fuzzing all use the same ones.
 */
#ifndef MEND_TESTS_SIM_OPERATIONS_H
#define MEND_TESTS_SIM_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(kind, its function trial_..., the meaning of its fields) */
#define OPERATION_KINDS(X)                                                                         \
    X(ALLOC, alloc,                                                                                \
      "a block of `size` and `alignment` in `slot`, on `stream`; amount 1: and writes it; 8 "      \
      "more: where the last block in `slot` was; 16 more: in one chunk; 32 more: and, if that is " \
      "refused, once more, and what the report says would fit")                                    \
    X(SIBLING_ALLOC, alloc, "the same in the second pool of the device")                           \
    X(WRITE, use_block, "work on the home stream writes the block, for `amount`")                  \
    X(VERIFY, use_block, "work on the home stream compares the block, for `amount`")               \
    X(SHARE, share,                                                                                \
      "another stream reads the block; amount: 0 declared before, 1 after, 2 not at all")          \
    X(MOVE, move,                                                                                  \
      "another stream waits for the home stream of the block, and is its home from now on")        \
    X(RECORD, record, "declares a stream that does not use the block")                             \
    X(FREE, free,                                                                                  \
      "frees the block; amount: 0 to 3 at home, 4 elsewhere, 5 on no stream, 6 after a "           \
      "wait of the host; 8 more: and once more; 32 more: after a last look, by work in flight; "   \
      "64 more: in its graph pool, or in graph pool `size`")                                       \
    X(MISTAKE, mistake,                                                                            \
      "a call that must fail, number `amount` / 3; an amount of 0 modulo 3: many that "            \
      "lack arguments")                                                                            \
    X(INFO, info, "asks for the block at `slot`, `amount` 256ths inside")                          \
    X(RESET_PEAKS, reset_peaks, "resets peak statistics")                                          \
    X(ADVANCE, advance, "the clock runs on by `amount`")                                           \
    X(SYNCHRONIZE, await_all, "the host waits for all work")                                       \
    X(TRIM, trim,                                                                                  \
      "gives back to `amount` 256ths of the device; an odd slot: the second pool; a "              \
      "stream of 3 modulo 4: and waits for what it needs; of 2: collects instead")                 \
    X(SET_LIMIT, set_limit,                                                                        \
      "sets the limit to `amount` 256ths of the device; an odd size: to `amount` "                 \
      "modulo 32 of them more than lives; an odd slot: the second pool; a thread of "              \
      "3: the soft limit")                                                                         \
    X(FORGET, forget, "the pool forgets a stream that is used on")                                 \
    X(REPLACE_STREAM, replace_stream,                                                              \
      "a stream is forgotten and destroyed, and another made; amount 1: where "                    \
      "streams may vanish, it does")                                                               \
    X(REPLACE_THREAD, replace_thread, "a thread ends with its stream, and another begins")         \
    X(GRAPH_POOL_CREATE, graph_pool_operation, "a graph pool, in `slot`")                          \
    X(GRAPH_POOL_BEGIN, graph_pool_operation,                                                      \
      "the graph pool takes `stream`; amount 1: every stream")                                     \
    X(GRAPH_POOL_END, graph_pool_operation, "the graph pool takes nothing more")                   \
    X(GRAPH_POOL_RELEASE, graph_pool_operation,                                                    \
      "the graph pool ends on `stream`; amount 1: on no stream")                                   \
    X(CAPTURE_BEGIN, capture_operation, "captures `stream` in the mode `amount`")                  \
    X(CAPTURE_END, capture_operation, "ends the capture of `stream`: a graph in `slot`")           \
    X(CAPTURE_SPOIL, capture_operation, "does what spoils the capture of `stream`")                \
    X(GRAPH_LAUNCH, launch_graph, "launches the graph in `slot` on `stream`, for `amount`")        \
    X(GRAPH_DESTROY, destroy_graph, "destroys the graph in `slot`")                                \
    X(ADD_CALLBACK, change_callback,                                                               \
      "a pressure callback, which frees up to `amount` blocks from `slot` on; 4 more: lets the "   \
      "pool have as much more as it hears is missing; 8: calls the pools, and frees nothing; 16: " \
      "frees until so much more is empty")                                                         \
    X(REMOVE_CALLBACK, change_callback, "removes it")                                              \
    X(FOREIGN, change_foreign,                                                                     \
      "another process holds `amount` 256ths of the device; a stream of 3 modulo 4: the process "  \
      "has a quota of so much, or all it has, and the driver does not say; of 0: none")            \
    X(AMBUSH, lay_ambush,                                                                          \
      "in the call number `size` of the driver, or in any, if `stream` is above 3, after "         \
      "`alignment` and twice `thread` of them: what `amount` says")                                \
    X(FAULT, plant_fault,                                                                          \
      "call number `size` fails, after `alignment` calls, `amount` times, as `thread` says")       \
    X(CLEAR_FAULTS, clear_faults, "no call fails any more")                                        \
    X(LATE_EVENTS, delay_events, "events are reported `amount` late")                              \
    X(FAIL_MALLOC, fail_malloc,                                                                    \
      "in the next call of the pool `amount` allocations fail, after `slot`")                      \
    X(LOSE_DEVICE, lose_device, "the context breaks after `amount` calls")                         \
    X(SHUT_DOWN, shut_down, "the driver shuts down")                                               \
    X(FORK, fork_child, "a child finds that the pool is not its own")                              \
    X(COMPACT, compact,                                                                            \
      "compactions, copying at most `amount` modulo 8 pages (0: no bound); an odd slot: the "      \
      "second pool")                                                                               \
    X(SET_ALLOCATOR, set_allocator,                                                                \
      "below the hooks: Mend's own, or one that wraps it, as `amount` says; where "                \
      "`size` says so it lets only a few blocks live")                                             \
    X(ROOM, ask_room,                                                                              \
      "asks how much could be had on `stream`, and for a block in `slot` of just so much; an "     \
      "odd amount: of 512 bytes more")                                                             \
    X(PIN, pin, "pins the block in `slot`; a size of 1 to 3 modulo 4: so many pages from it on")   \
    X(UNPIN, unpin, "undoes the pin number `slot`")                                                \
    X(ALLOC_IN, alloc_in,                                                                          \
      "a block in `slot` that names its graph pool, number `amount` / 4; 1: and writes it")        \
    X(CHECKPOINT, checkpoint_graph_pool, "lists the blocks of the graph pool in `slot`")           \
    X(RESTORE, restore_graph_pool, "restores the graph pool in `slot` as it was listed")           \
    X(HISTORY, set_history,                                                                        \
      "begins the history of pool `slot` with a ring of `size` events, which grows by the power "  \
      "of two `amount`; a size of 0 modulo 4: ends it")                                            \
    X(EXPORT, export_block,                                                                        \
      "exports the block in `slot`, by a pointer `size` modulo 8 granules inside; an odd "         \
      "alignment: of a page, with up to `alignment` / 2 modulo 4 of those behind it")              \
    X(IMPORT, import_block,                                                                        \
      "imports the first exported block from `slot` on; an odd size: into the second pool")        \
    X(CLOSE, close_import,                                                                         \
      "closes the first import from `slot` on, on the stream that used it last; an odd amount: "   \
      "on none")                                                                                   \
    X(EXPORT_BY_FABRIC, describe_block,                                                            \
      "exports the block in `slot` by fabric handles, by a pointer `size` modulo 8 granules "      \
      "inside; an odd amount: asks for the size of the description first")                         \
    X(IMPORT_BY_FABRIC, import_described,                                                          \
      "imports by the newest description, if its block is live; an odd size: into the second "     \
      "pool")                                                                                      \
    X(SLEEP, put_to_sleep,                                                                         \
      "puts blocks to sleep: by `size` modulo 4 rules, of what is kept as `amount` says, the "     \
      "others as `alignment` says; an odd stream: skips what is pinned; an odd slot: of the "      \
      "second pool")                                                                               \
    X(WAKE, wake,                                                                                  \
      "wakes what sleeps; an odd amount: of tag `size`; an odd slot: of the second pool")          \
    X(RANGE_CREATE, create_range,                                                                  \
      "a growable range in `slot`, of `amount` modulo 40 pages more than one, with pages as "      \
      "`size` says; an odd alignment: in the second pool")                                         \
    X(COMMIT, commit,                                                                              \
      "commits `alignment` pages more than one of the range in `slot`, from page `size` on, for "  \
      "`stream`; amount 1: and writes them; 15 modulo 16: for no stream; 64 more: and those of "   \
      "the next range of the pool, in one step")                                                   \
    X(DECOMMIT, decommit,                                                                          \
      "decommits such pages on `stream`; amount 5 modulo 8: on none; 32 more: after a last look, " \
      "by work in flight; 64 more: after one of the next stream, which is declared")               \
    X(RANGE_DESTROY, destroy_range,                                                                \
      "destroys the range in `slot` on `stream`; amount: as DECOMMIT")                             \
    X(RANGE_MISTAKE, range_mistake,                                                                \
      "calls about the range in `slot` that must fail; an even amount: during a "                  \
      "capture")                                                                                   \
    X(MEMBER, change_member,                                                                       \
      "another process holds `amount` 256ths of the limit that the pools share by a file; an odd " \
      "slot: it dies before that")                                                                 \
    X(PREPARE_CHECKPOINT, prepare_checkpoint,                                                      \
      "prepares the pool for a checkpoint; if it is alone, the process is checkpointed, "          \
      "and restored")                                                                              \
    X(USE_IMPORT, use_import,                                                                      \
      "work on `stream` reads the first import from `slot` on, for `amount`")                      \
    X(RECALL, recall, "what lives by the recording of pool `slot` lives")                          \
    X(READ_KEPT, read_backup,                                                                      \
      "reads what is kept of the first block from `slot` on that slept, from some byte on; an "    \
      "odd amount: and of what is behind it; 2 more: finds it; 4 more: the block behind it is "    \
      "freed before")                                                                              \
    X(CAPTURE_WAIT, capture_wait,                                                                  \
      "`stream` waits for the stream `slot`, which is captured, and joins its capture")

typedef enum operation_kind {
#define X(kind, take, meaning) OP_##kind,
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
