/*
 * Keys are read by poll and read, not by stdio. Signals that would end the program end the loop of
 * the command instead, so that the terminal is left as it was found.
 */
#include "lab/live/screen.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static struct termios as_found;
static bool has_keys;
static volatile sig_atomic_t is_ended;

static void end_soon(int number)
{
    (void)number;
    is_ended = 1;
}

static void set_keys(void)
{
    struct termios raw = as_found;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

bool mend_screen_begin(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    if (!isatty(STDOUT_FILENO)) {
        return false;
    }
    has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &as_found) == 0;
    memset(&action, 0, sizeof(action));
    action.sa_handler = end_soon;
    for (size_t i = 0; has_keys && i < sizeof(numbers) / sizeof(*numbers); i++) {
        (void)sigaction(numbers[i], &action, NULL);
    }
    return true;
}

void mend_screen_end(void)
{
    if (has_keys) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &as_found);
    }
}

void mend_screen_clear(void)
{
    fputs("\033[H\033[2J", stdout);
}

char mend_screen_key(int wait_ms)
{
    struct pollfd input = {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN};
    char key = 0;
    if (has_keys) {
        set_keys(); /* a shell that had stopped the command has changed that */
    }
    const int ready = is_ended ? 0 : poll(&input, 1, wait_ms);
    if (is_ended || (ready > 0 && read(STDIN_FILENO, &key, 1) == 0)) {
        return 'q';
    }
    return key;
}
