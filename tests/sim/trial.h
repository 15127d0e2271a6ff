/* Shared by the files of the executor: the state of a trial, the model, and the checks. */
#ifndef MEND_TESTS_SIM_TRIAL_H
#define MEND_TESTS_SIM_TRIAL_H

#include "base/align.h"
#include "base/tree.h"
#include "lab/driver/traced.h"
#include "mend/mend_devices.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_sleep.h"
#include "tests/sim/executor.h"
#include "tests/sim/model.h"
#include "tests/support/follower.h"
#include "tests/support/host_memory.h"
#include "tests/support/turns.h"

typedef struct trial_pool {
    mend_pool *pool;
    mend_stats is;     /* at the last look, see figures.c */
    mend_stats was;    /* at the one before */
    mend_usage usage;  /* at the last look */
    bool has_unmapped; /* chunks that are mapped nowhere, or miss their mapping */
    uint64_t frees;    /* from here on: the model */
    uint64_t out_of_memory;
    uint64_t pressure_calls;
    uint64_t background_trimmed_bytes;
    bool fails_to_collect; /* a background trim has failed */
    trial_zone zones[TRIAL_ZONES];
    uint64_t limit_bytes;
    uint64_t soft_limit_bytes;
    bool lost; /* a call found the context broken. From then on all do */
    mend_follower follower;
    uint64_t history_capacity; /* 0: off */
    uint64_t history_held;     /* events in the ring */
    uint64_t sleeps;
    uint64_t wakes;
    uint64_t dropped_bytes;
    uint64_t range_bytes;
    uint64_t peak_range_bytes;
    uint64_t pages_committed;
    uint64_t pages_decommitted;
} trial_pool;

typedef struct trial_wrapper trial_wrapper; /* see hooks.c */

enum {
    WITNESS_BORN = 256,
    WITNESS_FETCHED = 1024,
    WITNESS_MAPS = 2048
}; /* the last two: more than the pages of a device */

/* A mapping that the driver made for a pool. */
typedef struct trial_mapping {
    uint64_t address;
    uint64_t size_bytes;
    mend_chunk_handle handle;
} trial_mapping;

typedef struct trial_born {
    mend_chunk_handle handle;
    uint64_t size_bytes;
} trial_born;

typedef struct trial_most {
    uint64_t chunk_bytes;
    uint64_t chunks;
    uint64_t mappings;
} trial_most;

/* The driver between the pools and the device: see witness.c. */
typedef struct trial_witness {
    mend_driver table;
    mend_unwatched_driver unwatched; /* behind it */
    struct trial *trial;
    trial_born born[WITNESS_BORN]; /* in the call under way */
    bool lost_count;               /* in this step a call created more than `born` can hold */
    size_t born_count;             /* more than there is room for: not all are known */
    mend_stream captured;          /* in that call the driver said so of it, last, or none */
    mend_chunk_handle fetched[WITNESS_FETCHED]; /* of imports, the newest ones */
    size_t fetched_count;
    uint64_t fetched_maps;            /* of such handles, since the last look */
    uint64_t fetched_releases;        /* the same */
    trial_mapping maps[WITNESS_MAPS]; /* that there are, in no order */
    size_t map_count;
    bool commit_gave_back;  /* in this step a commit released a chunk of its own: undone, or not */
    size_t doubles;         /* of these, mappings of a chunk that has another one */
    bool lost_maps;         /* there were more: nothing is known of granules */
    uint64_t undone_chunks; /* since the last look */
    uint64_t undone_bytes;
    trial_most most; /* that the device held since then */
} trial_witness;

/* Driver calls for the pools since the last look: see figures.c. */
typedef struct trial_seen {
    uint64_t created; /* and not undone */
    uint64_t created_bytes;
    uint64_t released; /* no undone ones */
    uint64_t mapped;
    uint64_t copies;
    uint64_t copied_bytes;
    uint64_t stream_waits;
    uint64_t context_fences;
    uint64_t least_host_waits;
    uint64_t most_host_waits;
    uint64_t least_failures; /* of calls whose failure is always counted */
    uint64_t failures;
    bool is_sure; /* nothing that was to be undone is left */
} trial_seen;

/* X(kind, the call of a pool): in terms of a trial_call `call` and its pool. */
#define TRIAL_POOL_CALLS(X)                                                                        \
    X(ALLOC, trial_call_alloc(call, pool))                                                         \
    X(FREE, trial_call_free(call, pool))                                                           \
    X(RECORD, trial_call_record(call, pool))                                                       \
    X(FORGET, mend_unregister_stream(pool, call->stream))                                          \
    X(TRIM, trial_call_trim(call, pool))                                                           \
    X(ROOM, mend_get_available(pool, call->stream, &call->room))                                   \
    X(SET_LIMIT, mend_set_limit(pool, call->size_bytes))                                           \
    X(COMPACT, mend_compact(pool, &call->limits, &call->pass))                                     \
    X(PIN, mend_pin(pool, call->pointer, call->size_bytes))                                        \
    X(UNPIN, mend_unpin(pool, call->pointer, call->size_bytes))                                    \
    X(EXPORT, trial_call_export(call, pool))                                                       \
    X(IMPORT,                                                                                      \
      mend_import(pool, &call->token, MEND_EXPORT_TOKEN_BYTES, &call->pointer, &call->size_bytes)) \
    X(EXPORT_BY_FABRIC, mend_export(pool, call->pointer,                                           \
                                    KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC),  \
                                    call->described->bytes, call->count,                           \
                                    &call->described->size_bytes, &call->size_bytes))              \
    X(IMPORT_BY_FABRIC, mend_import(pool, call->described->bytes, call->described->size_bytes,     \
                                    &call->pointer, &call->size_bytes))                            \
    X(CLOSE, mend_import_close(pool, call->pointer, call->stream))                                 \
    X(GRAPH_POOL_LIST,                                                                             \
      mend_graph_pool_checkpoint(call->graph_pool, call->blocks, sizeof(mend_graph_pool_block),    \
                                 TRIAL_BLOCKS, &call->count))                                      \
    X(GRAPH_POOL_RESTORE, mend_graph_pool_restore(call->graph_pool, call->blocks,                  \
                                                  sizeof(mend_graph_pool_block), call->count))     \
    X(HISTORY, mend_history_start(pool, call->size_bytes))                                         \
    X(SLEEP, trial_call_sleep(call, pool))                                                         \
    X(WAKE, mend_wake(pool, &call->rules[0].tag, call->count, &call->woken))                       \
    X(READ_KEPT, mend_read_backup(pool, call->pointer, call->size_bytes, call->host, NULL))        \
    X(FIND_KEPT,                                                                                   \
      mend_read_backup(pool, call->pointer, call->size_bytes, NULL, (const void **)&call->host))   \
    X(PREPARE_CHECKPOINT, mend_prepare_checkpoint(pool, NULL))                                     \
    X(GRAPH_POOL_CREATE, mend_graph_pool_create(pool, &call->graph_pool))                          \
    X(GRAPH_POOL_BEGIN, mend_graph_pool_begin(call->graph_pool, call->stream))                     \
    X(GRAPH_POOL_END, mend_graph_pool_end(call->graph_pool))                                       \
    X(GRAPH_POOL_RELEASE, mend_graph_pool_destroy(call->graph_pool, call->stream))                 \
    X(RANGE_CREATE, trial_call_range_create(call, pool))                                           \
    X(COMMIT, trial_call_commit(call))                                                             \
    X(DECOMMIT,                                                                                    \
      mend_range_decommit(call->range, call->offset_bytes, call->size_bytes, call->stream))        \
    X(RECORD_PAGES,                                                                                \
      mend_range_record_stream(call->range, call->offset_bytes, call->size_bytes, call->stream))   \
    X(RANGE_DESTROY, mend_range_destroy(call->range, call->stream))

typedef enum trial_call_kind {
    CALL_NONE,
#define X(kind, made) CALL_##kind,
    TRIAL_POOL_CALLS(X)
#undef X
        CALL_LAUNCH, /* the device's, from here on */
    CALL_LAUNCH_GRAPH,
    CALL_ORDER,
    CALL_MARK,
    CALL_WAIT,
    CALL_SYNCHRONIZE,
    CALL_BEGIN_CAPTURE,
    CALL_END_CAPTURE,
    CALL_SPOIL,
    CALL_ENTER,
    CALL_LEAVE
} trial_call_kind;

struct trial {
    trial_config config;
    trial_outcome *outcome;
    size_t step;
    const operation *op; /* the present one */

    mend_sim *sim;
    const mend_driver *device; /* the program's own way to it */
    mend_context context;
    mend_context other_contexts[TRIAL_OTHER_DEVICES]; /* from device 1 on. NULL: none */
    mend_pool *neighbour;                             /* a pool there, or NULL */
    bool has_joined;                                  /* the device of config.joins */
    trial_witness witness;
    mend_driver *traced; /* the pools' way: traced, then the witness, then the device */
    uint64_t page_bytes;
    uint64_t device_bytes;
    turn_table turns;

    trial_pool pools[TRIAL_POOLS];
    trial_stream streams[TRIAL_STREAMS];
    trial_block blocks[TRIAL_BLOCKS];
    trial_slept slept[TRIAL_BLOCKS]
                     [TRIAL_SLEPT_PAGES]; /* by the pages that a block has a part of */
    trial_graph_pool graph_pools[TRIAL_ALL_GRAPH_POOLS]; /* the program's own come first */
    trial_graph graphs[TRIAL_GRAPHS];
    trial_node nodes[TRIAL_NODES];
    size_t node_count;
    trial_callback callbacks[TRIAL_CALLBACKS];
    bool callbacks_rest; /* they are called, and free nothing */
    bool was_given;      /* one gave the call under way all that it was told is missing */
    bool was_called;     /* one called the pool amid it, which may have given memory back */
    trial_pinned pins[TRIAL_PINS];
    trial_imported imports[TRIAL_IMPORTS];
    trial_range ranges[TRIAL_RANGES];
    int ending; /* a range that is being destroyed, from 1. 0: none */
    trial_described described;
    char recording[96]; /* path of the first pool's. empty: none */
    trial_quota quota;
    trial_checkpoint checkpoints[TRIAL_GRAPH_POOLS];
    uint64_t last_tag;
    uint64_t last_capture;
    uint64_t last_export;
    uint64_t last_begin;
    uint64_t foreign_bytes;
    uint64_t hidden_quota_bytes; /* 0: none */
    bool had_hidden_quota;       /* at any time */
    int pool_count;
    int stream_count;
    int captures; /* under way */

    bool faults_stand;
    bool faults_last;  /* until they are cleared. Else for one step that calls the pool */
    bool malloc_fails; /* in the next call of the pool */
    bool malloc_armed;
    uint8_t malloc_after;
    uint8_t malloc_count;
    bool may_be_lost; /* a call may find the context broken */
    bool stopped;     /* the driver has shut down */

    /* The call of the pool under way: its last one, where a callback makes another. */
    const struct trial_call *calling; /* NULL: none */
    int calling_thread;
    bool has_called; /* in the present step */
    bool had_sleep;  /* since the last look, a call of sleep or wake was made */
    bool had_prepare_checkpoint;
    bool may_unmap; /* in it, a call that may compact met a planted disturbance */

    bool refused;       /* an allocator that was set has refused a request, which did not reach the
                         * pool */
    mend_list wrappers; /* allocators that were set and have not retired */

    struct {
        const char *call;
        int action;
        uint8_t slot;
        uint8_t skips; /* so many calls before it */
        bool set;
        bool was_unseen; /* in the call in which it was sprung: no pool knew of a capture before */
    } ambush;
    bool disturbed; /* an ambush was sprung in the present step */

    trial_seen seen;                 /* from here on: figures.c */
    mend_driver_counters calls_were; /* at the last look */
    bool were_reset;                 /* peaks were, since then */
    bool lacked_memory;              /* malloc has failed since then */
    bool had_others;                 /* of the device, or the driver kept memory, at any time */
    bool had_unmapped;               /* at the last look a pool had chunks mapped nowhere */

    bool has_soft_limit; /* a pool has one, or had */
    bool has_spoilt;     /* a capture the pool could not know of, in this step */
    bool forgiving;      /* the program itself breaks a rule now */
    char violation[400];
};

/* All slots: free ones, too. */
#define TRIAL_EACH_BLOCK(type, block, t)                                                           \
    for (type *block = (t)->blocks; block < (t)->blocks + TRIAL_BLOCKS; block++)

/* ---- checker.c ------------------------------------------------------------------------------- */

/* The conditions. The first time it does not, the trial ends with this finding. */
__attribute__((format(printf, 4, 5))) bool trial_claim(trial *t, trial_verdict verdict, bool holds,
                                                       const char *format, ...);

/* A call that was not a trial_call answered as it had to, and keeps no lock. */
void trial_expect(trial *t, const char *what, mend_result expected, mend_result result);

/* After a step: everything that always holds. */
void trial_check(trial *t);
void trial_check_device(trial *t); /* no rule is broken, no byte wrong */

/* ---- figures.c and witness.c --------------------------------------------------------------- */

/* After a step: every figure of every pool. */
void trial_check_figures(trial *t);

void trial_witness_init(trial *t);

/* No granule of memory is in two blocks, by the driver's calls alone. */
void trial_check_granules(trial *t);
void trial_witness_call(trial *t);   /* a call of a pool begins */
void trial_witness_forget(trial *t); /* its observations up to now */

/* The rest of the limit. */
uint64_t trial_limit_room(const mend_stats *stats);

/* Bytes in empty chunks that no graph pool holds: others can use them, once work is done. Captures
 * forbid to wait for that: none. */
uint64_t trial_empty_bytes(trial *t, int pool);

/* These, and bytes of chunks that can be created, which must be enough for a request. */
uint64_t trial_room(trial *t, int pool);

/* How much room a request must find for its size: so much, where one pool has the device for itself
 * and no graph holds memory. A quarter more, where it depends on others. */
uint64_t trial_enough(const trial *t, uint64_t size_bytes);

mend_stats trial_stats(trial *t, int pool);
mend_sim_ledger trial_ledger(trial *t);

/* Something was planted that may make any call fail. */
bool trial_is_faulty(const trial *t);

/* ---- calls.c: every call is made in a thread that may make it
 * ------------------------------------ */

typedef struct trial_call {
    trial_call_kind kind;
    int pool;
    int at; /* number of the stream of an allocation */
    mend_stream stream;
    mend_stream other;
    void *pointer;
    uint64_t size_bytes;
    uint64_t alignment_bytes;
    void *wanted; /* of an allocation: the address. NULL: any */
    bool in_one_chunk;
    mend_graph_pool *graph_pool;
    mend_graph_pool_block *blocks; /* of CALL_GRAPH_POOL_LIST and CALL_GRAPH_POOL_RESTORE */
    size_t count;
    mend_export_token token;    /* of CALL_EXPORT and CALL_IMPORT */
    trial_described *described; /* of CALL_..._BY_FABRIC. The caller's own */
    mend_sleep_rule rules[3];   /* of CALL_SLEEP. The first tag of CALL_WAKE */
    mend_sleep_report slept;
    mend_wake_report woken;
    mend_compact_limits limits; /* of CALL_COMPACT */
    mend_compact_report pass;
    mend_range *range; /* of the calls of ranges. size_bytes at offset_bytes */
    uint64_t offset_bytes;
    mend_range_part second; /* of CALL_COMMIT: in the same step. Range NULL: none */
    uint64_t page_bytes;
    uint64_t needed_bytes; /* of CALL_COMMIT: pages that are not committed yet. Of CALL_WAKE: chunks
                            * without memory. 0: not known */
    mend_result expected;  /* not MEND_OK: the expected result of the call, without disturbances */
    mend_sim_work work;
    mend_sim_graph *graph;
    mend_event event;
    mend_stream_info info;
    int mode;
    void *host;    /* a backup is read to it, or found */
    bool waits;    /* of a trim */
    bool collects; /* a trim of the surplus alone */
    uint64_t released_bytes;
    bool by_pointer;        /* of a free: the pool gets the pointer alone, and describes the
                             * block */
    bool faulty;            /* something was planted that may make it fail */
    mend_available room;    /* CALL_ROOM's answer */
    uint64_t room_bytes;    /* of an allocation: trial_room before it, as far as that was asked */
    bool makes_none;        /* trial_can_make_chunks said no before it */
    uint64_t fitting_bytes; /* of a refused one: the fitting size by the report */
    char message[160];      /* why the pool's call failed */
    const char *remains;    /* the forbidden remains. NULL: nothing */
    mend_result result;
    trial *trial;
} trial_call;

static inline bool trial_is_in(const trial *t, trial_call_kind kind)
{
    return t->calling != NULL && t->calling->kind == kind;
}

/* A request was refused for lack of memory, and nothing was wrong: was it right to? */
void trial_check_refusal(trial *t, const trial_call *call);
void trial_check_home(trial *t, const trial_call *call);

/* The result of mend_get_available, and whether a request of the size was served at once. */
void trial_check_room(trial *t, const trial_call *ask, const trial_call *call, bool at_once);

/* It says all that must be enough for a request. */
void trial_check_least_room(trial *t, const trial_call *ask);

/* Notes why a call failed, and the fitting size by its report. */
void trial_read_failure(trial_call *call);

/* A refused request, and one right after it: of the same size, or of the fitting size by the
 * report. */
void trial_check_report(trial *t, const trial_call *refused, const trial_call *call);

/* A capture is under way, or a pool may believe in one: that forbids waits. */
bool trial_may_be_captured(const trial *t);

/* So it is, or graph pools keep free memory from everybody else. */
bool trial_holds_memory_for_graphs(const trial *t);

/* A trim that waited and was not disturbed: it went as far as it should. */
void trial_check_trim(trial *t, const trial_call *call);

/* A handle of the stream: the legacy stream has two. */
mend_stream trial_handle(const trial *t, int stream, bool other_name);
int trial_thread_of(const trial *t, int stream, uint8_t wish);

/* Makes the call, in the thread that runs. */
void trial_perform(void *call);
void trial_perform_on_device(trial_call *call);

/* Makes a call of the pool and checks whether it may answer so. */
mend_result trial_call_pool(trial *t, int thread, trial_call *call);

/* No call of the pool is under way, so its locks are free. */
void trial_check_locks(trial *t, int pool);

/* Makes a call of the device's: false where it failed, which only a lost device explains. */
bool trial_call_device(trial *t, int thread, trial_call *call);

/* All queued on `from` so far comes before all queued on `to` from now on. */
bool trial_order(trial *t, int from, int to);
bool trial_wait(trial *t, int from, int to); /* the same, of two streams that can be ordered */

/* Work queued on the stream is recorded. */
static inline bool trial_is_recorded(const trial *t, int stream)
{
    return t->streams[stream].captured && !t->streams[stream].spoilt;
}

/* The stream can be given work that runs, or the pool's events. */
bool trial_is_open(const trial *t, int stream);

/* ---- what operations do: of each the function that does it, false where it does not apply --- */

#define X(kind, take, meaning) bool trial_##take(trial *t, const operation *op);
OPERATION_KINDS(X)
#undef X

/* blocks.c, use.c */
mend_result trial_call_trim(trial_call *call, mend_pool *pool);
mend_result trial_call_in_graph_pool(trial_call *call, mend_pool *pool);
mend_result trial_call_record(const trial_call *call, mend_pool *pool);
void trial_check_history(trial *t, int pool);

/* The recordings of the pools, if the config asks for them: the files, and their live blocks. */
bool trial_open_recording(trial *t, mend_pool_config *config);
void trial_close_recording(trial *t);
void trial_check_recording(trial *t, int pool);
bool trial_holds_chunks(const trial *t, int pool);
void trial_end_pins(trial *t);

/* arguments.c: calls of the pool `which`, and of all devices, that must be refused and change
 * nothing. */
void trial_refuse_arguments(trial *t, uint8_t which);

/* ---- shares.c: exports, and imports into the pools of the process ---------------------------- */

bool trial_is_import(const trial_call *call);

/* Whether MEND_ERROR_NOT_SUPPORTED is right. */
bool trial_may_lack_fabric(const trial *t, const trial_call *call);

void trial_end_shares(trial *t);
mend_result trial_call_export(trial_call *call, mend_pool *pool);

/* The export of a block, or of a page with others, ends with it. */
void trial_end_export(trial *t, const trial_block *block);
bool trial_imports_leave_stream(trial *t, int stream, int heir);
void trial_forget_shares(trial *t); /* the pools end, and all of theirs with them */

/* Bytes of memory that may be held by imports alone, as far as the pools know. */
uint64_t trial_lingering_bytes(const trial *t);
bool trial_use(trial *t, const operation *op, bool writes);
bool trial_move_to(trial *t, trial_block *block, int stream);

/* As frameworks free that know the pointer alone. A block with a tag is described first, then
 * freed. */
mend_result trial_free_by_pointer(const trial_call *call, mend_pool *pool);

/* Whether the pool that is called knows of a capture. */
bool trial_a_capture_is_known(const trial *t);

/* Frees a live block on the stream its state allows, for callbacks and ambushes: in a thread, which
 * is the one that runs where this is inside one of its calls. */
void trial_count_alloc(trial *t, const trial_block *block); /* the model's side of an allocation */
void trial_end_block(trial *t, trial_block *block);         /* and of a free */
/* The live block, or page, around an address. NULL: there is none. */
trial_block *trial_block_at(trial *t, int pool, uint64_t address);
int trial_zone_at(const trial *t, int pool, uint64_t address);
uint32_t trial_scope_at(const trial *t, int pool, uint64_t address);
void trial_expect_stack(trial *t, trial_block *block, uint32_t stack);
bool trial_free_here(trial *t, int thread, bool is_inside, trial_block *block);

/* For callbacks: allocates from the second pool, where there is one, and frees that. */
void trial_borrow_beside(trial *t);
bool trial_join_readers(trial *t, trial_block *block, bool declared_too);
bool trial_is_in_capture(const trial *t, const trial_block *block);

/* streams.c */
bool trial_open_streams(trial *t);

/* The number of devices beside the pool's that have streams. */
int trial_other_devices(const trial_config *config);
void trial_close_streams(trial *t);
bool trial_synchronize(trial *t);

/* graphs.c */
int trial_graph_pool_taking(const trial *t, mend_stream stream);

/* Memory that a capture uses outside of the program's graph pools is like a separate graph pool,
 * which ends with its graph. */
int trial_capture_graph_pool(trial *t, int stream);
static inline bool trial_graph_pool_is_there(const trial_graph_pool *graph_pool)
{
    return graph_pool->graph_pool != NULL || graph_pool->capture != 0;
}
void trial_end_graphs(trial *t);

/* forks.c: captures of several streams. Both are recorded in one capture: */
bool trial_is_beside(const trial *t, int stream, int other);
void trial_note_order(trial *t, int from, int to);
bool trial_note_node(trial *t, int at, const trial_block *block, bool writes);
void trial_enter_capture(trial_stream *stream, uint64_t capture, int origin, int capturer);
void trial_join_origin(trial *t, int origin); /* before the capture ends */
void trial_leave_capture(trial *t, int origin);
void trial_end_captures(trial *t);
void trial_end_graph_pools(trial *t);

/* The chain of all use of a graph pool's memory goes on, on this stream. */
bool trial_follow_graph_pool(trial *t, int graph_pool, int stream);
bool trial_graph_pools_leave_stream(trial *t, int stream, int heir);

/* Whether the pools say which blocks a compaction could not map again. */
void trial_note_unmapped(trial *t);

/* Nothing fails any more: every pool maps all blocks again. */
void trial_map_again(trial *t);

/* disturb.c */
uint64_t trial_duration(const trial *t, uint8_t code);

/* hooks.c */
mend_result trial_hooks_open(trial *t, const mend_pool_config *config, mend_pool **pool);
void trial_hooks_end_allocators(trial *t);
void trial_hooks_close(trial *t);

/* Makes a call of the first pool as hooks do. False where they have no such call. */
bool trial_hooks_take(trial_call *call);

/* end.c */
void trial_finish(trial *t);

static inline uint32_t trial_bit(int number)
{
    return UINT32_C(1) << number;
}

#endif
