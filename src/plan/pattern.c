/* pattern.c - patterns on the module tree: reading, matching, and suggestions for misspelt ones.
 *
 * Matching keeps the set of positions in the path that the words so far can have reached, as bits:
 *
 *   reach_0 = {0},  reach_i = {j + 1 : j in reach_(i-1), word i matches name j}              (1)
 *   for a * alone: reach_i = {j : j > min reach_(i-1)}                                       (2)
 *
 *   I1  A path has at most MAX_NAMES names, so positions fit in 64 bits.
 */
#include "plan/pattern.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

_Static_assert(MAX_NAMES < 64, "positions are bits of a word (I1)");

enum { MAX_STARS = 8 }; /* in one word: shell patterns with more can take exponential time */

struct name_path path_split(struct arena *keep, const char *text)
{
    const char *name[MAX_NAMES];
    int names = 0;
    for (char *rest = arena_copy_text(keep, text); rest;) {
        name[names++] = rest;
        rest = names < MAX_NAMES ? strchr(rest, '.') : NULL;
        if (rest)
            *rest++ = '\0';
    }
    struct name_path path = {names, ARENA_ARRAY(keep, const char *, (size_t)names)};
    memcpy(path.name, name, sizeof *name * (size_t)names);
    return path;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const char *read_digits(const char *text, int64_t *out)
{
    int64_t value = 0;
    const char *at = text;
    for (; isdigit((unsigned char)*at) && at - text < 18; at++)
        value = value * 10 + (*at - '0');
    *out = value;
    return at == text ? NULL : at;
}

/* 0-9 or 0-9/3 */
static bool read_range(const char *text, struct pattern_word *out)
{
    const char *at = read_digits(text, &out->first);
    if (!at || *at != '-')
        return false;
    at = read_digits(at + 1, &out->last);
    out->stride = 1;
    if (at && *at == '/')
        at = read_digits(at + 1, &out->stride);
    return at && *at == '\0';
}

static struct pattern_word word_of(const char *text)
{
    struct pattern_word word = {.kind = WORD_NAME, .text = text};
    if (strcmp(text, "*") == 0)
        word.kind = WORD_ANY;
    else if (read_range(text, &word))
        word.kind = WORD_RANGE;
    else if (strpbrk(text, "*?"))
        word.kind = WORD_GLOB;
    return word;
}

static weft_status check_word(const struct doc *where, const char *pattern,
                              const struct pattern_word *word)
{
    if (word->text[0] == '\0')
        return doc_error(where, "write names with one dot between them: layers.0-9.attn",
                         "'%.80s' has an empty name between its dots", pattern);
    if (word->kind == WORD_RANGE && (word->last < word->first || word->stride < 1))
        return doc_error(where, "a range goes up: 0-9, or 0-9/3 for every third",
                         "'%.80s' has the range '%.40s', which is empty", pattern, word->text);
    int stars = 0;
    for (const char *at = word->text; *at; at++)
        stars += *at == '*';
    if (stars > MAX_STARS)
        return doc_error(where, NULL, "'%.80s' has %d stars in one name, expected at most %d",
                         pattern, stars, MAX_STARS);
    return WEFT_OK;
}

weft_status pattern_parse(struct arena *keep, const struct doc *where, const char *text,
                          struct name_pattern *out)
{
    struct name_path path = path_split(keep, text);
    *out = (struct name_pattern){.text = text, .words = path.names};
    for (int i = 0; i < path.names; i++) {
        out->word[i] = word_of(path.name[i]);
        weft_status status = check_word(where, text, &out->word[i]);
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* ---- matching -------------------------------------------------------------------------------- */

static bool in_range(const struct pattern_word *word, const char *name)
{
    int64_t number;
    const char *end = read_digits(name, &number);
    return end && *end == '\0' && number >= word->first && number <= word->last &&
           (number - word->first) % word->stride == 0;
}

static bool word_matches(const struct pattern_word *word, const char *name)
{
    if (word->kind == WORD_RANGE)
        return in_range(word, name);
    if (word->kind == WORD_GLOB)
        return fnmatch(word->text, name, 0) == 0;
    return strcmp(word->text, name) == 0;
}

static uint64_t step(const struct pattern_word *word, const struct name_path *path, uint64_t reach)
{
    uint64_t all = (UINT64_C(2) << path->names) - 1, next = 0;
    if (word->kind == WORD_ANY) {
        uint64_t lowest = reach & (~reach + 1);
        return all & ~((lowest << 1) - 1); /* (2) */
    }
    for (int j = 0; j < path->names; j++)
        if ((reach >> j & 1) && word_matches(word, path->name[j]))
            next |= UINT64_C(2) << j; /* (1) */
    return next;
}

/* The depth of the match (I1), 0 if there is none. */
static int pattern_match(const struct name_pattern *pattern, const struct name_path *path)
{
    uint64_t reach = 1;
    for (int i = 0; i < pattern->words && reach; i++)
        reach = step(&pattern->word[i], path, reach);
    return reach ? __builtin_ctzll(reach) : 0;
}

/* ---- the paths of a plan --------------------------------------------------------------------- */

/* Whether a pattern reads the name literally. */
static bool is_plain_name(const char *name)
{
    struct pattern_word unused;
    for (const char *at = name; *at; at++)
        if (!isgraph((unsigned char)*at) || strchr("*?[]\\#", *at))
            return false;
    return *name && !read_range(name, &unused);
}

static bool is_plain(const struct name_path *path)
{
    for (int i = 0; i < path->names; i++)
        if (!is_plain_name(path->name[i]))
            return false;
    return path->names < MAX_NAMES;
}

struct name_paths paths_of(struct arena *keep, const struct plan *plan)
{
    size_t count = (size_t)plan->instances;
    struct name_paths paths = {ARENA_ARRAY(keep, struct name_path, count),
                               ARENA_ARRAY(keep, bool, count)};
    struct arena *scratch = arena_new();
    struct map *seen = map_new(scratch);
    for (int64_t i = 0; i < plan->instances; i++) {
        const char *text = plan_path(scratch, plan, i);
        int64_t before;
        paths.path[i] = path_split(keep, text);
        paths.plain[i] = is_plain(&paths.path[i]);
        if (map_get(seen, text, &before))
            paths.plain[i] = paths.plain[before] = false;
        map_put(seen, text, i);
    }
    arena_free(scratch);
    return paths;
}

int paths_match(const struct name_paths *paths, int64_t instance,
                const struct name_pattern *pattern)
{
    if (strcmp(pattern->word[0].text, "#") != 0)
        return pattern_match(pattern, &paths->path[instance]);
    char digits[24];
    const char *number[] = {"#", digits};
    snprintf(digits, sizeof digits, "%lld", (long long)instance);
    return pattern_match(pattern, &(struct name_path){2, number});
}

/* ---- suggestions ----------------------------------------------------------------------------- */

/* The largest number of words of the pattern that match the beginning of some path. */
static int words_matched(const struct plan *plan, const struct name_paths *paths,
                         const struct name_pattern *pattern)
{
    struct name_pattern head = *pattern;
    for (head.words = pattern->words - 1; head.words > 0; head.words--)
        for (int64_t i = 0; i < plan->instances; i++)
            if (paths_match(paths, i, &head))
                return head.words;
    return 0;
}

/* The names that may follow the words of `head`. */
struct followers {
    struct arena *arena;
    struct map *seen;
    ARRAY(const char *) names;
    int64_t low, high; /* range of the names that are numbers; high < low: none */
};

static void add_follower(struct followers *all, const char *name)
{
    int64_t number;
    const char *end = read_digits(name, &number);
    if (end && *end == '\0') {
        all->low = number < all->low ? number : all->low;
        all->high = number > all->high ? number : all->high;
    } else if (map_put(all->seen, name, 0)) {
        array_push(all->arena, &all->names, name);
    }
}

/* After a * any name further down may follow. */
static void find_followers(const struct plan *plan, const struct name_paths *paths,
                           const struct name_pattern *head, struct followers *out)
{
    bool any = head->words && head->word[head->words - 1].kind == WORD_ANY;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct name_path *path = &paths->path[i];
        int depth = head->words ? pattern_match(head, path) : 0;
        int end = any ? path->names : depth + 1;
        for (int k = depth; (depth || !head->words) && k < end && k < path->names; k++)
            add_follower(out, path->name[k]);
    }
}

static const char *list_names(const struct followers *followers)
{
    const char *text = "";
    for (size_t i = 0; i < followers->names.len; i++)
        text =
            arena_printf(followers->arena, "%s%s%s", text, i ? ", " : "", followers->names.data[i]);
    return text;
}

static void hint_followers(const struct name_pattern *head, const struct followers *followers,
                           const char *word)
{
    enum { FEW = 16 };
    const char *near = nearest_word(word, followers->names.data, followers->names.len);
    const char *after = head->words ? head->word[head->words - 1].text : "the model";
    if (near)
        error_hint("did you mean '%s'?", near);
    else if (followers->high >= followers->low && strcmp(after, "*") != 0)
        error_hint("%s goes from %lld to %lld", after, (long long)followers->low,
                   (long long)followers->high);
    else if (followers->names.len == 0)
        error_hint("%s is an operator and has nothing below it", after);
    else if (followers->names.len <= FEW)
        error_hint("there are %s", list_names(followers));
}

static void hint_nearest(const struct plan *plan, const struct name_paths *paths,
                         const struct name_pattern *pattern, int words)
{
    if (strcmp(pattern->word[0].text, "#") == 0) {
        error_hint("instances go from #.0 to #.%lld", (long long)plan->instances - 1);
        return;
    }
    struct arena *scratch = arena_new();
    struct followers followers = {.arena = scratch, .seen = map_new(scratch), .low = INT64_MAX};
    followers.high = -1;
    struct name_pattern head = *pattern;
    head.words = words;
    find_followers(plan, paths, &head, &followers);
    hint_followers(&head, &followers, pattern->word[words].text);
    arena_free(scratch);
}

weft_status pattern_unknown(const struct doc *where, const struct plan *plan,
                            const struct name_paths *paths, const struct name_pattern *pattern)
{
    weft_status status =
        doc_error(where, "`weft inspect MODEL --ops` lists modules and operators",
                  "'%.80s' is not a module or operator of %s", pattern->text, plan->model->name);
    hint_nearest(plan, paths, pattern, words_matched(plan, paths, pattern));
    return status;
}

static bool matches_any(const struct plan *plan, const struct name_paths *paths,
                        const struct name_pattern *pattern)
{
    for (int64_t i = 0; i < plan->instances; i++)
        if (paths_match(paths, i, pattern))
            return true;
    return false;
}

weft_status pattern_check_ranges(const struct doc *where, const struct plan *plan,
                                 const struct name_paths *paths, const struct name_pattern *pattern)
{
    struct name_pattern head = *pattern;
    for (int i = 0; i < pattern->words; i++) {
        struct pattern_word *word = &head.word[i];
        head.words = i + 1;
        if (word->kind != WORD_RANGE)
            continue;
        int64_t first = word->first;
        word->first = word->last -= (word->last - first) % word->stride;
        if (!matches_any(plan, paths, &head)) {
            weft_status status =
                doc_error(where, NULL, "'%.80s' reaches beyond %s: there is no %lld", pattern->text,
                          plan->model->name, (long long)word->last);
            hint_nearest(plan, paths, pattern, i);
            return status;
        }
        *word = pattern->word[i];
    }
    return WEFT_OK;
}
