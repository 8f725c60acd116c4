/* typed_again.c - a command line as it can be typed again, without what the next command says itself. */
#include <string.h>

#include "cli/cli.h"

/* A word as a shell takes it. */
static const char *shell_word(struct arena *keep, const char *word)
{
    if (*word && !word[strcspn(word, " \t\"'\\$`&|;<>()*?[]{}#~!")])
        return word;
    const char *quoted = "";
    size_t plain = strcspn(word, "'");
    for (; word[plain]; word += plain + 1, plain = strcspn(word, "'"))
        quoted = arena_printf(keep, "%s%.*s'\\''", quoted, (int)plain, word);
    return arena_printf(keep, "'%s%s'", quoted, word);
}

/* Whether a word is this option, by itself or with its value after `=`, and how many words it is of then. */
static int words_of_option(const char *word, const char *option)
{
    size_t len = strlen(option);
    return strncmp(word, option, len) != 0 ? 0 : word[len] == '\0' ? 2 : word[len] == '=';
}

/* How many words from here on the next command says itself: a file to write, a framework without a release. */
static int words_said_again(char **argv)
{
    int output = words_of_option(argv[0], "-o") + words_of_option(argv[0], "--output");
    int framework = words_of_option(argv[0], "--for");
    const char *name = framework == 2 ? argv[1] : argv[0];
    return output ? output : name && !strchr(name, '@') ? framework : 0;
}

const char *cli_typed_again(struct arena *keep, int argc, char **argv)
{
    char *line = arena_copy_text(keep, argv[0]);
    for (int i = 1, again; i < argc; i += again ? again : 1)
        if (!(again = words_said_again(argv + i)))
            line = arena_printf(keep, "%s %s", line, shell_word(keep, argv[i]));
    plain_text(line);
    return line;
}
