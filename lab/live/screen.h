/* The terminal of a command that shows the same again and again: its keys, and its end. */
#ifndef MEND_LAB_LIVE_SCREEN_H
#define MEND_LAB_LIVE_SCREEN_H

#include <stdbool.h>

/* Whether standard output is a terminal. From then on keys come one by one and unseen, if standard
 * input is one too, until mend_screen_end: also where a signal ends the command. */
bool mend_screen_begin(void);
void mend_screen_end(void);

/* Empties the screen. */
void mend_screen_clear(void);

/* Waits for so long at most. The key that was pressed. 0: none. 'q' also where a signal or the end
 * of the input ends the command. */
char mend_screen_key(int wait_ms);

#endif
