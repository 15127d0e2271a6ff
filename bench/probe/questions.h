/* The questions that mend-probe asks, one file a question. */
#ifndef MEND_BENCH_PROBE_QUESTIONS_H
#define MEND_BENCH_PROBE_QUESTIONS_H

#include "probe/probe.h"

/* Each stops when probe_is_over says so, prints for people and records for programs. */
void probe_captures(probe *p);
void probe_mappings(probe *p);
void probe_storm(probe *p);
void probe_memory(probe *p);
void probe_queue(probe *p);
void probe_aliases(probe *p);
void probe_bandwidth(probe *p);
void probe_entries(probe *p);
void probe_repeat(probe *p);

#endif
