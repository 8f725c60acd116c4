/* path.h - a pair of layouts on one mesh, and the steps between them; private to compile. */
#ifndef WEFT_COMPILE_PATH_H
#define WEFT_COMPILE_PATH_H

#include "compile/compile.h"

/* Two layouts, each cut at the other's digits. */
enum { MAX_MESH_DIGITS = 2 * MAX_LAYOUT_DIGITS };
struct mesh {
    int64_t elements;
    int32_t digits;
    struct step_digit digit[MAX_MESH_DIGITS]; /* innermost first; before: from, after: to */
};

struct step_list {
    struct reshard_step *data;
    size_t len, cap;
};

/* Appends the steps of least volume among path.c's moves; of equal volumes the fewest steps. */
void find_path(struct arena *keep, const struct mesh *mesh, struct step_list *out);

/* The same, with each path found once for tensors of all sizes (path_memo.c). */
struct paths;
struct paths *paths_new(struct arena *keep);
void paths_find(struct paths *paths, struct arena *keep, const struct mesh *mesh,
                struct step_list *out);

#endif
