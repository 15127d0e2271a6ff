#include "cli/manual.h"

#include <stdlib.h>

#include "mend/mend.h"

/* Text as troff prints it: a dash of an option is no hyphen, and no line is a request. */
static void write_text(FILE *out, const char *text)
{
    bool is_start = true;
    for (; *text != '\0'; text++) {
        if (is_start && (*text == '.' || *text == '\'')) {
            fputs("\\&", out);
        }
        if (*text == '-') {
            fputs("\\-", out);
        } else if (*text == '\\') {
            fputs("\\e", out);
        } else {
            fputc(*text, out);
        }
        is_start = *text == '\n';
    }
}

/* The output of a command beside its options, as printed. */
static void write_more(FILE *out, const mend_command *command)
{
    char *text = NULL;
    size_t size = 0;
    FILE *kept = open_memstream(&text, &size);
    if (kept == NULL) {
        return;
    }
    command->more(kept);
    if (fclose(kept) == 0) {
        fputs(".PP\n.nf\n", out);
        write_text(out, text);
        fputs(".fi\n", out);
    }
    free(text);
}

static void write_command(FILE *out, const mend_command *command)
{
    fprintf(out, ".SS \"libmend %s [options]%s%s\"\n", command->name,
            *command->arguments ? " " : "", command->arguments);
    write_text(out, command->about);
    fputc('\n', out);
    for (const mend_option *option = command->options; option->name != NULL; option++) {
        char written[128];
        mend_option_write(option, written, sizeof(written));
        fputs(".TP\n.B ", out);
        write_text(out, written);
        fputc('\n', out);
        write_text(out, option->what);
        fputc('\n', out);
    }
    fputs(".PP\n", out);
    write_text(out, command->status);
    fputc('\n', out);
    if (command->more != NULL) {
        write_more(out, command);
    }
}

void mend_manual_write(FILE *out, const mend_command *const *commands)
{
    int version = mend_version();
    fprintf(out, ".TH MEND 1 \"\" \"Mend %d.%d.%d\"\n", version / 10000, version / 100 % 100,
            version % 100);
    fputs(".SH NAME\nlibmend \\- records, reports and replays of GPU memory\n"
          ".SH SYNOPSIS\n.B libmend\n.I COMMAND\n[options]\n.SH COMMANDS\n",
          out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        write_command(out, commands[i]);
    }
}
