/* room.h - inside the planner autoddl: its cases (autoddl.c explains them). */
#ifndef WEFT_SEARCH_AUTODDL_ROOM_H
#define WEFT_SEARCH_AUTODDL_ROOM_H

#include <pthread.h>

#include "search/autoddl/autoddl.h"

/* The number of levels on which splits are narrow (splits.h, I6). */
enum { NARROW_BOTH = 2, NARROW_OUTER = 1, ALL_SPLITS = 0 };

struct step_case {
    int64_t step_samples;
    bool recompute;
    double floor_ns;  /* with any splits */
    int64_t tried_ns; /* the fastest of its trials that fit; 0: none */
};
/* Steps are halved, with recomputation and without. */
enum { MOST_CASES = 2 * 63 };
/* What one thread works on. */
struct stage_cases {
    int32_t stages;
    struct arena *arena;      /* for the times; whoever has taken the cases uses it */
    struct step_times *times; /* what their steps have in common */
    struct assign_work work;  /* I9 */
    size_t count;
    struct step_case data[MOST_CASES];
};

struct autoddl {
    const struct plan_request *request;
    struct planned *out;
    enum assign_search search;
    double beta; /* assign_options */
    struct stop stop;
    ARRAY(struct stage_cases *) stages;
    size_t next_stage; /* the next one for a thread to take */
    /* What threads do with the cases of an S, and the fastest time before that (I4); 0: none. */
    weft_status (*work)(struct autoddl *a, const struct layout_case *about,
                        struct stage_cases *cases);
    int64_t fastest_ns;
    bool cut_short; /* I9: a search ended with work left to do */
    struct progress progress;
    bool failed;          /* a thread has failed: the others take nothing more */
    pthread_mutex_t lock; /* protects everything from `out` on that changes, and simulations */
};

static inline bool autoddl_over(const struct autoddl *a)
{
    return stop_now(&a->stop);
}

/* The fastest trials that fit, of one S and of the others; and a time that the caller knows, which
 * only decides what cannot be faster (autoddl.c, I7). */
struct incumbent {
    int64_t fastest_ns, others_ns, known_ns; /* 0: none */
};

static inline int64_t least_of(int64_t a_ns, int64_t b_ns)
{
    return !a_ns || (b_ns && b_ns < a_ns) ? b_ns : a_ns;
}
static inline double autoddl_to_beat(const struct incumbent *so_far)
{
    return (double)least_of(so_far->fastest_ns, so_far->others_ns);
}
static inline double autoddl_below(const struct incumbent *so_far)
{
    return (double)least_of((int64_t)autoddl_to_beat(so_far), so_far->known_ns);
}

static const double AUTODDL_FAR = 1.1, AUTODDL_NEAR = 1.05;
static const double AUTODDL_FAR_AWAY = 1.25; /* autoddl.c, I8 and I10 */
/* Whether a trial of a case is so near the time to beat, or a known one, that another trial may beat it (autoddl.c,
 * I5). */
static inline bool autoddl_is_near(const struct step_case *c, const struct incumbent *so_far,
                                   double near)
{
    double below = autoddl_below(so_far);
    return below <= 0 || (c->tried_ns > 0 && (double)c->tried_ns < near * below);
}
static inline bool autoddl_is_slower(const struct step_case *c, const struct incumbent *so_far)
{
    return autoddl_below(so_far) > 0 && c->floor_ns >= autoddl_below(so_far);
}

/* Whether a case was solved, and whether it was faster. */
struct solve_outcome {
    bool solved, faster;
};

/* Solves a case's first guess by a few descents, to get a time to beat. */
weft_status autoddl_scout(struct autoddl *a, const struct layout_case *about, struct step_case *c);
/* Solves a case if it may be faster than the time to beat. */
weft_status autoddl_solve(struct autoddl *a, const struct layout_case *about, struct step_case *c,
                          struct incumbent *so_far, struct solve_outcome *out);
/* I5: solves for those options that may be in something faster: exactly if they are few, and by
 * descent, too, if that was not done with all of them. */
weft_status autoddl_solve_rest(struct autoddl *a, const struct layout_case *about,
                               struct step_case *c, bool descend, struct incumbent *so_far,
                               struct solve_outcome *out);

int autoddl_by_floor(const void *a, const void *b); /* of step_case, for qsort */
/* A round of autoddl.c: the cases of an S again with blocks of images, and their floors with these. */
weft_status autoddl_try_blocks(struct autoddl *a, const struct layout_case *about,
                               struct stage_cases *cases);

/* An answer of a case: the option of each operator; of a mixture (mixture.c) those of the copies that fit and of the fast
 * ones, and per stage how many of its layers are fast. */
struct autoddl_answer {
    const int32_t *option;
    const int32_t *fast; /* NULL: all copies have `option` */
    const int64_t *taken, *layers;
    double time_ns, bound_ns; /* by the sum, without overlap; 0: not known */
};
/* Gives a plan what the user asked of all plans. */
void autoddl_settle(const struct autoddl *a, struct plan *plan);
/* Simulates and remembers a plan, which the answer owns; *trial is a copy. */
weft_status autoddl_try(struct autoddl *a, const struct layout_problem *p, struct plan *plan,
                        const struct autoddl_answer *answer, struct trial *trial);
/* Tries the plan in which as many layers as fit take the options `fast`, the others `lean` (mixture.c); *best_ns becomes
 * less if it fits and is faster. */
weft_status autoddl_mix(struct autoddl *a, struct layout_problem *p, const int32_t *lean,
                        const int32_t *fast, int64_t *best_ns);

#endif
