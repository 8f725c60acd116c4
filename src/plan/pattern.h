/* pattern.h - names for sets of nodes of the module tree. Private to the room.
 *
 *   layers                 a module, and all below it
 *   layers.7  layers.0-9   by number; layers.0-38/2 takes every second one
 *   layers.*.mlp.up        * stands for one or more names, so *.attn is every attn
 *   head.*norm             * and ? within a name, as in a shell
 *   #.12-15                instances by number in the walk, for names that are not plain
 *
 *   I1  A pattern matches an instance if it matches the beginning of its path; if it matches
 *       several beginnings, the shortest counts. Its number of names is the depth of the match.
 */
#ifndef WEFT_PLAN_PATTERN_H
#define WEFT_PLAN_PATTERN_H

#include "plan/plan.h"

enum { MAX_NAMES = 63 }; /* of one path; everything after that counts as one name */

/* A path such as "layers.7.attn.qkv" in its parts. */
struct name_path {
    int names;
    const char **name;
};
struct name_path path_split(struct arena *keep, const char *text);

enum word_kind { WORD_NAME, WORD_RANGE, WORD_GLOB, WORD_ANY };
struct pattern_word {
    enum word_kind kind;
    const char *text;
    int64_t first, last, stride; /* of a range */
};
struct name_pattern {
    const char *text;
    int words;
    struct pattern_word word[MAX_NAMES];
};
/* Errors are reported at `where`. */
weft_status pattern_parse(struct arena *keep, const struct doc *where, const char *text,
                          struct name_pattern *out);

/* The paths of all instances of a plan in their parts; an instance whose path is not plain, or not
 * unique, is named by its number ("#.12"). */
struct name_paths {
    struct name_path *path; /* per instance */
    bool *plain;
};
struct name_paths paths_of(struct arena *keep, const struct plan *plan);
int paths_match(const struct name_paths *paths, int64_t instance,
                const struct name_pattern *pattern);

/* The error for a pattern that matches nothing, with the nearest name as a hint. */
weft_status pattern_unknown(const struct doc *where, const struct plan *plan,
                            const struct name_paths *paths, const struct name_pattern *pattern);
/* Checks that the upper end of every range in a pattern exists. */
weft_status pattern_check_ranges(const struct doc *where, const struct plan *plan,
                                 const struct name_paths *paths,
                                 const struct name_pattern *pattern);

#endif
