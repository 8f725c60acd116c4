/* shell_case.c - the branches of a case.
 *
 * Over a word that is known the branch is taken whose pattern is the first to match. Where the word or a pattern is not
 * known, or a pattern has [letters], which are not read, any of the branches from there on may be taken.
 */
#include <ctype.h>
#include <string.h>

#include "exchange/shell_room.h"

static void skip_blanks(struct shell_reader *r)
{
    while (r->next < r->end && (isspace((unsigned char)*r->next) || *r->next == '#'))
        if (*r->next == '#')
            skip_comment(r);
        else
            r->line += *r->next++ == '\n';
}

/* A word that is not split and stands for itself: what a case asks about, and its patterns. */
static struct shell_text take_alone(struct shell_reader *r)
{
    struct open_word word = {.line = r->line};
    skip_blanks(r);
    r->whole = true;
    while (r->next < r->end && !ends_word(*r->next))
        take_part(r, &word);
    r->whole = false;
    return word.text;
}

/* Of patterns with * and ?. */
static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL, *back = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            back = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++back;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

/* Whether this branch is taken is not known, and therefore of none after it. */
static void begin_doubtful(struct shell_reader *r)
{
    branches_ask(r->values, NULL);
    branches_next(r->values);
}

void take_patterns(struct shell_reader *r)
{
    static const char LAST[] = "esac";
    const char *asked = branches_asked(r->values);
    bool known = asked != NULL, taken = false, all = false;
    skip_blanks(r);
    if ((size_t)(r->end - r->next) >= sizeof LAST - 1 &&
        strncmp(r->next, LAST, sizeof LAST - 1) == 0)
        return;
    r->next += r->next < r->end && *r->next == '(';
    while (r->next < r->end && *r->next != ')') {
        struct shell_text pattern = take_alone(r);
        const char *plain = shell_plain(r->scratch, &pattern);
        known &= !shell_doubt(&pattern) && !strchr(plain, '[');
        taken |= asked && matches(plain, asked);
        all |= strcmp(plain, "*") == 0;
        while (r->next < r->end && *r->next != ')' && ends_word(*r->next))
            r->line += *r->next++ == '\n';
    }
    r->next += r->next < r->end;
    if (known || branches_taken(r->values))
        branches_know(r->values, taken);
    else
        begin_doubtful(r);
    if (all)
        branches_has_all(r->values);
}

void begin_case(struct shell_reader *r)
{
    struct shell_text asked = take_alone(r);
    branches_open(r->values, BLOCK_CASE);
    if (!shell_doubt(&asked))
        branches_ask(r->values, shell_plain(r->scratch, &asked));
    take_alone(r); /* in */
    take_patterns(r);
}
