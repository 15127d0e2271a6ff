#include "lab/support/command.h"

#include <getopt.h>
#include <string.h>

#include "mend/mend.h"

enum { COLUMN = 27, WIDTH = 98, MOST_OPTIONS = 32 };

static bool is_short(const mend_option *option)
{
    return option->name[1] == '\0';
}

void mend_option_write(const mend_option *option, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s%s", is_short(option) ? "-" : "--", option->name,
             option->value != NULL ? " " : "", option->value != NULL ? option->value : "");
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The next word of a value, and its length. NULL after the last. Capitals stand for something else,
 * brackets for more of the same. */
static const char *next_word(const char **rest, size_t *length)
{
    while (*rest != NULL && **rest != '\0') {
        const char *word = *rest;
        *length = strcspn(word, "|");
        *rest = word + *length + (word[*length] == '|' ? 1 : 0);
        if (strcspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ[") >= *length) {
            return word;
        }
    }
    return NULL;
}

size_t mend_option_print_words(const mend_option *option, const char *separator, FILE *out)
{
    const char *rest = option->value;
    size_t count = 0;
    size_t length;
    for (const char *word; (word = next_word(&rest, &length)) != NULL; count++) {
        fprintf(out, "%s%.*s", count == 0 ? "" : separator, (int)length, word);
    }
    for (size_t i = 0; option->word != NULL && option->word(i) != NULL; i++, count++) {
        fprintf(out, "%s%s", count == 0 ? "" : separator, option->word(i));
    }
    return count;
}

bool mend_option_takes_file(const mend_option *option)
{
    return option->value != NULL &&
           (strstr(option->value, "FILE") != NULL || strstr(option->value, "DIR") != NULL);
}

static bool takes_only_words(const mend_option *option)
{
    return strchr(option->value, '|') != NULL &&
           strpbrk(option->value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ[") == NULL;
}

static bool is_word(const mend_option *option, const char *text)
{
    const char *rest = option->value;
    size_t length;
    for (const char *word; (word = next_word(&rest, &length)) != NULL;) {
        if (strlen(text) == length && strncmp(text, word, length) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { OPTION_END = -1, OPTION_BAD = -2, OPTION_HELP = -3 };

static int refuse(const mend_command *command, const char *what, const char *text, bool lists)
{
    fprintf(stderr, "libmend %s: %s \"%s\"", command->name, what, text);
    if (!lists) {
        fprintf(stderr, "; see libmend %s --help\n", command->name);
        return OPTION_BAD;
    }
    fputs("; there are:", stderr);
    for (const mend_option *option = command->options; option->name != NULL; option++) {
        fprintf(stderr, " %s%s", is_short(option) ? "-" : "--", option->name);
    }
    fprintf(stderr, "\nsee libmend %s --help\n", command->name);
    return OPTION_BAD;
}

static int refuse_word(const mend_command *command, const mend_option *option, const char *text)
{
    fprintf(stderr, "libmend %s: %s%s: no \"%s\"; there are: ", command->name,
            is_short(option) ? "-" : "--", option->name, text);
    mend_option_print_words(option, ", ", stderr);
    fputs("\n", stderr);
    return OPTION_BAD;
}

static int next_option(const mend_command *command, int argc, char **argv, char **value)
{
    struct option longs[MOST_OPTIONS] = {{0}};
    char shorts[2 * MOST_OPTIONS + 4] = ":h";
    size_t short_count = strlen(shorts);
    size_t long_count = 0;
    for (int i = 0; command->options[i].name != NULL && long_count < MOST_OPTIONS - 1; i++) {
        const mend_option *option = &command->options[i];
        if (is_short(option)) {
            shorts[short_count++] = option->name[0];
            if (option->value != NULL) {
                shorts[short_count++] = ':';
            }
        } else {
            longs[long_count++] =
                (struct option){option->name, option->value != NULL, NULL, 256 + i};
        }
    }
    int found = getopt_long(argc, argv, shorts, longs, NULL);
    *value = optarg;
    if (found == -1) {
        return OPTION_END;
    }
    if (found == 'h') {
        return OPTION_HELP;
    }
    if (found == ':') {
        return refuse(command, "a value is missing after", argv[optind - 1], false);
    }
    if (found == '?') {
        char letter[] = {'-', (char)optopt, '\0'};
        bool is_letter = optopt > 0 && optopt < 256;
        return refuse(command, optopt >= 256 ? "no value belongs to" : "no option",
                      is_letter ? letter : argv[optind - 1], optopt < 256);
    }
    for (int i = 0; command->options[i].name != NULL; i++) {
        const mend_option *option = &command->options[i];
        bool is_it = is_short(option) ? found == option->name[0] : found == 256 + i;
        if (is_it && option->value != NULL && takes_only_words(option) &&
            !is_word(option, optarg)) {
            return refuse_word(command, option, optarg);
        }
        if (is_it) {
            return strcmp(option->name, "help") == 0 ? OPTION_HELP : i;
        }
    }
    return OPTION_BAD;
}

/* ---- help ------------------------------------------------------------------------------------ */

/* Prints text from a column on, in lines that begin at `indent`. */
static void print_wrapped(FILE *out, const char *text, size_t column, size_t indent)
{
    size_t at = column;
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        if (at > indent && at + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", (int)length, text);
        at += length;
        text += length + strspn(text + length, " ");
    }
    fputc('\n', out);
}

void mend_command_usage(const mend_command *command, FILE *out)
{
    fprintf(out, "usage: libmend %s [options]%s%s\n", command->name, *command->arguments ? " " : "",
            command->arguments);
}

static void print_help(const mend_command *command, FILE *out)
{
    mend_command_usage(command, out);
    fputc('\n', out);
    print_wrapped(out, command->about, 0, 0);
    fputc('\n', out);
    for (const mend_option *option = command->options; option->name != NULL; option++) {
        char text[128];
        mend_option_write(option, text, sizeof(text));
        fprintf(out, "  %-*s", COLUMN - 2, text);
        if (strlen(text) + 3 > COLUMN) {
            fprintf(out, "\n%*s", COLUMN, "");
        }
        print_wrapped(out, option->what, COLUMN, COLUMN);
    }
    fputs("\n", out);
    print_wrapped(out, command->status, 0, 0);
    if (command->more != NULL) {
        fputc('\n', out);
        command->more(out);
    }
}

/* ---- a command line -------------------------------------------------------------------------- */

bool mend_command_read(const mend_command *command, int argc, char **argv, mend_option_taker take,
                       void *arguments, int *status)
{
    *status = MEND_STATUS_BAD_USAGE;
    optind = 0;
    opterr = 0;
    char *value;
    for (int option; (option = next_option(command, argc, argv, &value)) != OPTION_END;) {
        if (option == OPTION_HELP) {
            print_help(command, stdout);
            *status = 0;
        }
        if (option < 0 || !take(option, value, arguments)) {
            return false;
        }
    }
    if (*command->arguments == '\0' && optind < argc) {
        refuse(command, "no option", argv[optind], true);
        return false;
    }
    return true;
}

int mend_command_fail(const mend_command *command, const char *what)
{
    mend_error error = MEND_ERROR_INIT;
    mend_get_last_error(&error);
    fprintf(stderr, "libmend %s: %s%s%s\n", command->name, what, *what == '\0' ? "" : ": ",
            error.message[0] != '\0' ? error.message : mend_result_name(error.result));
    return MEND_STATUS_BAD_USAGE;
}
