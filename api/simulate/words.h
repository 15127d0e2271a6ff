/* Messages of the simulated runtime to the user of a program, on standard error. */
#ifndef MEND_SIMULATE_WORDS_H
#define MEND_SIMULATE_WORDS_H

__attribute__((format(printf, 1, 2))) void simulate_say(const char *format, ...);

#endif
