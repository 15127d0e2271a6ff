/* What the parts of the program share. */
#ifndef MEND_TESTS_MODEL_PROGRAM_STATE_H
#define MEND_TESTS_MODEL_PROGRAM_STATE_H

#include "base/align.h"
#include "mend/mend_range.h"
#include "tests/model/program.h"
#include "tests/model/turns.h"
#include "tests/support/test.h"

enum { PROGRAM_BLOCKS = 192, PROGRAM_STREAMS = 24, ANY_THREAD = -1 };

/* The slots of graphs begin behind NO_GRAPH. */
enum { NO_GRAPH = 0, PROGRAM_GRAPHS = 4 };

/* The slots of ranges begin behind NO_RANGE. */
enum { NO_RANGE = 0, PROGRAM_RANGES = 3 };

typedef struct program_stream {
    mend_stream handle;
    int thread;          /* the only one that may use it, or ANY_THREAD */
    bool created;        /* not a default stream */
    bool captured;       /* what is queued is recorded, not run */
    uint64_t longest_ns; /* streams differ in speed */
} program_stream;

/*
 * What was done with a block on its home stream, and on those that were its home before, is
 * ordered. Readers are streams that were behind the last write when they read, and of which the
 * home stream knows nothing.
 */
typedef struct program_block {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t requested_bytes;
    uint64_t tag;
    mend_stream allocated_on; /* as the pool knows it */
    int home;
    bool used; /* work that touches it was queued */
    bool written;
    bool frozen; /* a reader is gone: nobody can wait for it any more, so it is not written again */
    uint32_t readers;  /* a bit for each stream */
    uint32_t declared; /* of the readers, those the pool was given */
    uint32_t known_to; /* all streams the pool was given, and has not forgotten since */
    int range;         /* it is a committed page of this range, and no block */
    int graph;         /* its launches write the block, with this tag */
    bool of_group;     /* the graph keeps the memory: it may be freed before the graph goes */
    uint64_t graph_tag;
} program_block;

typedef struct program_graph {
    mend_sim_graph *graph; /* NULL: none, or its capture is under way */
    mend_group *group;     /* NULL: none */
    bool takes_all;        /* the group takes what is allocated on any stream, not only `origin` */
    int origin;            /* the stream its capture began on */
    int joined;            /* another that took part in it, or -1 */
    int home;              /* a stream behind all launches, or -1 */
} program_graph;

typedef struct program_range {
    mend_range *range; /* NULL: none */
    uint64_t base;
    uint64_t page_bytes;
    uint64_t pages; /* those that the program uses, from the start on */
} program_range;

typedef struct program {
    const program_config *config;
    program_outcome *outcome;
    mend_world world;
    mend_test_random random;
    turn_table turns;
    const mend_driver *driver; /* the program's own way to the device */
    mend_context context;
    mend_driver *traced; /* the pool's way: traced, then the lies, then the device */
    lying_driver liar;
    mend_stream strange; /* a stream of another device */
    program_stream streams[PROGRAM_STREAMS];
    int stream_count;
    program_graph graphs[PROGRAM_GRAPHS];
    program_range ranges[PROGRAM_RANGES];
    int taken; /* the graph whose capture is under way, or NO_GRAPH */
    program_block blocks[PROGRAM_BLOCKS];
    int block_count;
    uint64_t last_tag;
} program;

/* ---- program.c --------------------------------------------------------------------------------
 */

uint64_t program_below(program *p, uint64_t bound);
bool program_one_in(program *p, uint64_t n);

/* What must hold. The first time it does not, the program ends with this finding. */
__attribute__((format(printf, 3, 4))) bool program_claim(program *p, bool holds, const char *format,
                                                         ...);

/* ---- program_calls.c: every call is made in a thread that may make it --------------------------
 */

typedef enum program_call_kind {
    CALL_ALLOC, /* the pool's */
    CALL_FREE,
    CALL_RECORD_STREAM,
    CALL_FORGET_STREAM,
    CALL_TRIM,
    CALL_SET_LIMIT,
    CALL_RANGE_CREATE,
    CALL_COMMIT, /* of size_bytes at offset_bytes of the range */
    CALL_DECOMMIT,
    CALL_RECORD_PAGES,
    CALL_RANGE_DESTROY,
    CALL_GROUP_CREATE,
    CALL_GROUP_BEGIN,
    CALL_GROUP_END,
    CALL_GROUP_RELEASE,
    CALL_LAUNCH, /* the device's */
    CALL_LAUNCH_GRAPH,
    CALL_MARK, /* makes an event and records it */
    CALL_WAIT, /* makes a stream wait for the event, and destroys it */
    CALL_SYNCHRONIZE,
    CALL_ENTER, /* makes the context current */
    CALL_LEAVE
} program_call_kind;

typedef struct program_call {
    program_call_kind kind;
    mend_stream stream;
    void *pointer;
    uint64_t size_bytes;
    uint64_t alignment_bytes;
    mend_event event;
    mend_sim_work work;
    mend_sim_graph *graph;
    mend_group *group;
    mend_range *range;
    uint64_t offset_bytes;
    uint64_t page_bytes;
    bool faulty;       /* faults stood */
    char message[200]; /* why the pool's call failed */
    mend_result result;
    mend_status status;
    program *program;
} program_call;

/* A handle of the stream: the legacy stream has two. */
mend_stream program_handle(program *p, int stream);
int program_thread_of(program *p, int stream);

/* Makes a call of the pool, perhaps with faults. A call that failed has changed nothing. */
mend_result program_try(program *p, int thread, program_call *call);

/* The same for a call that can fail by a fault only: it is made again without. */
void program_must(program *p, int thread, program_call *call);

/* Makes a call of the device's. */
void program_drive(program *p, int thread, program_call *call);

/* All queued on `from` so far comes before all queued on `to` from now on. */
void program_order(program *p, int from, int to);

/* ---- program_blocks.c --------------------------------------------------------------------------
 */

void program_alloc(program *p);

/* NULL: it failed, as it may. */
program_block *program_alloc_on(program *p, int stream);

void program_use(program *p);
void program_share(program *p);
void program_move(program *p);
void program_free_any(program *p);
void program_free(program *p, int at);
void program_look(program *p);

/* Makes another stream the home of a block. */
void program_move_to(program *p, program_block *block, int stream);

/* Puts the home stream behind the readers; those the pool knows of only where asked to. */
void program_join_readers(program *p, program_block *block, bool declared_too);

/* The home stream takes part in a capture, or a reader does: the block is left alone. */
bool program_is_captured(const program *p, const program_block *block);

/* Whether a call for memory may have been refused so: not while memory in free chunks and under the
 * limit would be enough. */
void program_check_refusal(program *p, const program_call *call);

/* Whether no block or page has any of these bytes. */
bool program_is_unowned(const program *p, uint64_t address, uint64_t size_bytes);

/* ---- program_ranges.c --------------------------------------------------------------------------
 */

/* Commits some pages, which then are blocks of the program; or makes or destroys a range. */
void program_commit(program *p);
void program_change_ranges(program *p);
void program_drop_ranges(program *p);

/* What a call about the page needs. */
void program_name_page(const program *p, const program_block *page, program_call *call);

/* ---- program_streams.c -------------------------------------------------------------------------
 */

bool program_open_streams(program *p);
void program_close_streams(program *p);

int program_draw_stream(program *p);

/* A stream ends, and another takes its place, perhaps with its handle; or a thread does. */
void program_end_stream(program *p);

/* The pool forgets a stream that the program goes on using. */
void program_forget_and_go_on(program *p);

/* A stream of another device uses a block, and the next owner of its memory comes after. */
void program_use_strange_stream(program *p);

/* ---- program_graphs.c --------------------------------------------------------------------------
 */

/* Begins a capture, ends it, does something in it, or gives up a graph. */
void program_capture(program *p);
void program_launch_graph(program *p);
void program_drop_graphs(program *p);

/* Whatever became of it. */
void program_end_capture(program *p);

bool program_is_capturing(const program *p);

/* Allocates on a captured stream, for work of the graph. */
void program_alloc_captured(program *p, int stream);

/* The block may be freed: no graph needs it, or one does that keeps the memory and can be put
 * behind the block's uses. */
bool program_graph_lets_free(const program *p, const program_block *block);

/* Launches of the graph come after what is queued on the stream. */
void program_graph_follows(program *p, int slot, int stream);

/* Graphs that were launched on a stream which ends go on on another. */
void program_graphs_leave(program *p, int leaving, int other);

#endif
