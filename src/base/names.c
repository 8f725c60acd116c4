/* names.c - tables of names: finds the row with a name, and the name that a misspelt word meant. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"

static const char *name_at(const void *rows, size_t stride, size_t i)
{
    const char *name;
    memcpy(&name, (const char *)rows + i * stride, sizeof name);
    return name;
}

static const char **names_of(struct arena *keep, const void *rows, size_t stride, size_t count)
{
    const char **names = ARENA_ARRAY(keep, const char *, count);
    for (size_t i = 0; i < count; i++)
        names[i] = name_at(rows, stride, i);
    return names;
}

int name_index(const char *name, const void *rows, size_t stride, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name_at(rows, stride, i), name) == 0)
            return (int)i;
    return -1;
}

/* Edit distance with transpositions (optimal string alignment); both words must be short. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 48 };
    int n = (int)strlen(a), m = (int)strlen(b);
    if (n >= LONGEST || m >= LONGEST)
        return n;
    int d[LONGEST][LONGEST];
    for (int i = 0; i <= n; i++)
        d[i][0] = i;
    for (int j = 0; j <= m; j++)
        d[0][j] = j;
    for (int i = 1; i <= n; i++) {
        for (int j = 1; j <= m; j++) {
            int change = d[i - 1][j - 1] +
                         (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            int drop = 1 + (d[i - 1][j] < d[i][j - 1] ? d[i - 1][j] : d[i][j - 1]);
            d[i][j] = change < drop ? change : drop;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < d[i][j])
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    }
    return d[n][m];
}

/* The shortest word that begins as this one and goes on, the first of several; NULL if there is none. */
static const char *shortest_longer(const char *word, const char *const *words, size_t count)
{
    const char *found = NULL;
    for (size_t i = 0; *word && i < count; i++) {
        bool begins = strncasecmp(words[i], word, strlen(word)) == 0;
        if (begins && (!found || strlen(words[i]) < strlen(found)))
            found = words[i];
    }
    return found;
}

const char *nearest_word(const char *word, const char *const *words, size_t count)
{
    const char *best = shortest_longer(word, words, count);
    if (best)
        return best;
    int length = (int)strlen(word);
    int best_distance = 1 + length / 3; /* a third of the letters may be wrong */
    for (size_t i = 0; i < count; i++) {
        int d = distance(word, words[i]);
        if (d >= length) /* nothing in common, or too long to compare */
            continue;
        if (d < best_distance || (d == best_distance && !best)) {
            best = words[i];
            best_distance = d;
        }
    }
    return best;
}

const char *nearest_name(const char *name, const void *rows, size_t stride, size_t count)
{
    struct arena *scratch = arena_new();
    const char *near = nearest_word(name, names_of(scratch, rows, stride, count), count);
    arena_free(scratch);
    return near;
}

void hint_near(const char *word)
{
    if (word)
        error_hint("did you mean '%s'?", word);
}

weft_status unknown_name(const char *what, const char *name, const void *rows, size_t stride,
                         size_t count)
{
    struct arena *scratch = arena_new();
    const char **names = names_of(scratch, rows, stride, count), *list = "";
    for (size_t i = 0; i < count; i++)
        if (name_index(names[i], names, sizeof *names, i) < 0) /* releases share a name */
            list = arena_printf(scratch, "%s%s%s", list, i ? ", " : "", names[i]);
    weft_status status =
        bad_argument(NULL, "no %s is called '%.60s', expected one of %s", what, name, list);
    hint_near(nearest_word(name, names, count));
    arena_free(scratch);
    return status;
}
