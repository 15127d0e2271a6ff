#include "cli/completion.h"

#include <stdlib.h>
#include <string.h>

static void write_name(FILE *out, const mend_option *option)
{
    fprintf(out, "%s%s", option->name[1] == '\0' ? "-" : "--", option->name);
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void write_commands(FILE *out, const mend_command *const *commands)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        fprintf(out, "%s%s", i == 0 ? "" : " ", commands[i]->name);
    }
}

/* The words that may follow an option. No branch: a file may, or anything. */
static void write_bash_words(FILE *out, const mend_command *command)
{
    for (const mend_option *option = command->options; option->name != NULL; option++) {
        if (option->value == NULL) {
            continue;
        }
        fprintf(out, "    '%s ", command->name);
        write_name(out, option);
        fputs("') words='", out);
        mend_option_print_words(option, " ", out);
        fprintf(out, "' files=%s ;;\n", mend_option_takes_file(option) ? "1" : "");
    }
}

static void write_bash_options(FILE *out, const mend_command *command)
{
    fprintf(out, "        %s) words='", command->name);
    for (const mend_option *option = command->options; option->name != NULL; option++) {
        fputs(option == command->options ? "" : " ", out);
        write_name(out, option);
    }
    /* Of the arguments, words in small letters are completed. Others are files. */
    const mend_option arguments = {"", command->arguments, NULL, NULL};
    fputs("'\n            [[ $current == -* ]] || words='", out);
    size_t count = mend_option_print_words(&arguments, " ", out);
    fprintf(out, "' files=%s ;;\n", count == 0 && *command->arguments != '\0' ? "1" : "");
}

void mend_completion_bash(FILE *out, const mend_command *const *commands)
{
    /* bash parts words at colons, which names of policies have: the line itself does not. */
    fputs("# Completes command lines of mend in bash. Made by `libmend completion bash`.\n"
          "_mend()\n{\n"
          "    local line=${COMP_LINE:0:COMP_POINT} words='' files='' current previous parts\n"
          "    current=${line##* }\n"
          "    read -ra parts <<<\"${line%\"$current\"}\"\n"
          "    previous=${parts[${#parts[@]} - 1]}\n"
          "    case \"${parts[1]:-} $previous\" in\n"
          "    ' '*) words='",
          out);
    write_commands(out, commands);
    fputs("' ;;\n", out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        write_bash_words(out, commands[i]);
    }
    fputs("    *)\n        case \"${parts[1]}\" in\n", out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        write_bash_options(out, commands[i]);
    }
    fputs("        esac ;;\n    esac\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\"\n"
          "        [[ -z $files ]] || compgen -f -- \"$current\")\n"
          "    local known=${current%\"${current##*:}\"}\n"
          "    COMPREPLY=(\"${COMPREPLY[@]#\"$known\"}\")\n"
          "}\ncomplete -o filenames -F _mend libmend mend\n",
          out);
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* A text between apostrophes, where brackets and colons separate the parts for _arguments. */
static void write_quoted(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
        } else {
            fprintf(out, "%s%c", strchr("[]:\\", *text) != NULL ? "\\" : "", *text);
        }
    }
}

/* The words that may follow, `(a b)`, or files. Colons in words are escaped. */
static void write_zsh_words(FILE *out, const mend_option *option)
{
    char *text = NULL;
    size_t size = 0;
    FILE *kept = open_memstream(&text, &size);
    if (kept == NULL) {
        return;
    }
    size_t count = mend_option_print_words(option, " ", kept);
    if (fclose(kept) == 0 && count > 0) {
        fputc('(', out);
        write_quoted(out, text);
        fputc(')', out);
    } else if (mend_option_takes_file(option) || *option->name == '\0') {
        fputs("_files", out);
    }
    free(text);
}

static void write_zsh_option(FILE *out, const mend_option *option)
{
    fputs(" \\\n            '", out);
    write_name(out, option);
    fputc('[', out);
    write_quoted(out, option->what);
    fputc(']', out);
    if (option->value != NULL) {
        fputc(':', out);
        write_quoted(out, option->value);
        fputc(':', out);
        write_zsh_words(out, option);
    }
    fputc('\'', out);
}

void mend_completion_zsh(FILE *out, const mend_command *const *commands)
{
    fputs("#compdef libmend mend\n# Completes command lines of mend in zsh. Made by `libmend "
          "completion "
          "zsh`.\n_mend()\n{\n    local -a commands=(\n",
          out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        fprintf(out, "        '%s:", commands[i]->name);
        write_quoted(out, commands[i]->what);
        fputs("'\n", out);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n"
          "        return\n    fi\n    shift words\n    ((CURRENT--))\n    case $words[1] in\n",
          out);
    for (size_t i = 0; commands[i] != NULL; i++) {
        const mend_command *command = commands[i];
        fprintf(out, "    %s)\n        _arguments", command->name);
        for (const mend_option *option = command->options; option->name != NULL; option++) {
            write_zsh_option(out, option);
        }
        if (*command->arguments != '\0') {
            const mend_option arguments = {"", command->arguments, NULL, NULL};
            fputs(" \\\n            '*:argument:", out);
            write_zsh_words(out, &arguments);
            fputs("'", out);
        }
        fputs(" ;;\n", out);
    }
    fputs("    esac\n}\n_mend \"$@\"\n", out);
}
