/* forks.h - inside auto: where a plan's operators part into branches that do not need each other (forks.c). */
#ifndef WEFT_SEARCH_AUTO_FORKS_H
#define WEFT_SEARCH_AUTO_FORKS_H

#include "plan/plan.h"

struct fork_branch {
    int64_t *data; /* instances, the last of the walk first: its output is what the join reads */
    size_t len, cap;
};
struct fork {
    int64_t join;
    ARRAY(struct fork_branch) branches; /* at least two */
};
struct forks {
    struct fork *data;
    size_t len, cap;
};
void find_forks(struct arena *keep, const struct plan *plan, struct forks *out);

#endif
