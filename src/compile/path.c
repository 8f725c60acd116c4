/* path.c - the cheapest steps from one layout to another on one mesh.
 *
 * A shortest path over layouts (AutoDDL, section 4.2). Digits that hold the same before and after
 * stay as they are; each other digit is at every moment at one of its few *options*. A step moves
 * some digits at once, by one row of RULES:
 *
 *   slice           copy -> split                 nothing
 *   all-reduce      partial -> copy               2 (n - 1) / n * local
 *   reduce-scatter  partial -> split              (n - 1) / n * local before
 *   all-gather      split -> copy                 (n - 1) / n * local after
 *   all-to-all      split, copy -> split, copy    (n - 1) / n * local, equal before and after   (1)
 *
 * for n devices that differ only in the moved digits (AutoDDL, Table 2).
 *
 *   I1  Every layout on the way is independent (layout.h, I1). A step between two such layouts is
 *       sound: together its group holds everything that the digits outside it select, and after it
 *       each member holds its share of that.
 *   I2  Digits that move together go to where they end, or to copies; a digit that moves alone, or
 *       the only one among others that ends as a copy, may go to any of its options. So a partial
 *       sum may be scattered on its way to a copy, and splits may change places before one is
 *       gathered.
 *   I3  Each step adds a little to the volume, so that of equal paths the shorter one is found.
 *   I4  A state is skipped if the end is further from it than a known path allows: no such state
 *       lies on a shortest path, so the result is the same.
 *   I5  Such a path is known because a first search always goes where cost plus rest is least.
 *
 * The least that is left from a state: a device needs a share w of the elements and has i of it, on
 * average over devices and elements,
 *
 *   rest = elements * (w - i)                                                                  (2)
 *
 * i is 1/d for each digit of degree d that is split now or in the end, times another 1/d for one
 * digit whose two splits differ: those agree for one element in d.
 *
 * Because of I2, and because digits stay, some paths are not considered, above all those that let
 * devices with copies share a sum and gather it again, over links that are otherwise idle and may
 * be slow. Compared with all paths on 2 x 2 x 2 devices, 92 % of the pairs have the least volume,
 * the worst 1.5 times that (tests/compile/test_reshard.c).
 */
#include <math.h>
#include <string.h>

#include "compile/path_room.h"

/* ---- the volume of a step -------------------------------------------------------------------- */

enum { COPY = 1, PARTIAL = 2, SPLIT = 4 }; /* sets of what a digit can hold */

static const struct rule {
    int kind;
    unsigned before, after;
    double passes;  /* times (n - 1) / n of the elements */
    bool same_size; /* a device holds as much after the step as before */
} RULES[] = {
    {STEP_SLICE, COPY, SPLIT, 0, false},
    {COLLECTIVE_ALL_REDUCE, PARTIAL, COPY, 2, true},
    {COLLECTIVE_REDUCE_SCATTER, PARTIAL, SPLIT, 1, false},
    {COLLECTIVE_ALL_GATHER, SPLIT, COPY, 1, false},
    {COLLECTIVE_ALL_TO_ALL, SPLIT | COPY, SPLIT | COPY, 1, true},
};

static unsigned set_of(int64_t hold)
{
    return hold > 0 ? SPLIT : hold == HOLD_COPY ? COPY : PARTIAL;
}

int64_t step_members(const struct reshard_step *step)
{
    int64_t members = 1;
    for (int32_t i = 0; i < step->digits; i++)
        members *= step->digit[i].degree;
    return members;
}

static double volume_of(const struct rule *rule, double members, double elements)
{
    return rule->passes * (members - 1) / members * elements; /* (1) */
}

double step_volume(const struct reshard_step *step)
{
    double members = (double)step_members(step), elements = (double)step->elements;
    if (step->kind == COLLECTIVE_SEND || step->kind == COLLECTIVE_HALO ||
        step->kind == COLLECTIVE_BROADCAST)
        return elements;
    for (size_t i = 0; i < COUNT_OF(RULES); i++)
        if (RULES[i].kind == step->kind)
            return volume_of(&RULES[i], members, elements);
    return 0;
}

/* ---- the layouts on the way ------------------------------------------------------------------ */

static const double STEP_SHARE = 1e-7; /* of the tensor, per step (I3) */
/* costs that differ relatively by less than this are equal */
static const double ROUNDING = 1e-9;

enum soundness { NOT_ASKED, SOUND, UNSOUND };

static int32_t state_of(const struct path_search *s, const int64_t *hold)
{
    int32_t state = 0;
    for (int32_t i = s->moving - 1; i >= 0; i--) {
        int32_t k = 0;
        while (s->move[i].option[k] != hold[i])
            k++;
        state = state * s->move[i].options + k;
    }
    return state;
}

static void holds_of(const struct path_search *s, int32_t state, int64_t *hold)
{
    for (int32_t i = 0; i < s->moving; i++) {
        hold[i] = s->move[i].option[state % s->move[i].options];
        state /= s->move[i].options;
    }
}

/* I1 */
static bool sound(const struct path_search *s, const int64_t *hold)
{
    bool good = true;
    for (int32_t i = 0; good && i < s->moving; i++) {
        int64_t degree = s->move[i].digit->degree;
        for (int32_t k = 0; good && k < i; k++)
            good = splits_independent(hold[i], degree, hold[k], s->move[k].digit->degree);
        for (int32_t k = 0; good && k < s->stay; k++)
            good =
                splits_independent(hold[i], degree, s->staying[k]->before, s->staying[k]->degree);
    }
    return good;
}

static int64_t local_of(const struct path_search *s, const int64_t *hold)
{
    int64_t local = s->elements;
    for (int32_t i = 0; i < s->moving; i++)
        if (hold[i] > 0)
            local /= s->move[i].digit->degree;
    return local;
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct group step_group(const struct reshard_step *step, int64_t device)
{
    struct group group = {.first = device};
    for (int32_t i = step->digits - 1; i >= 0; i--) {
        const struct step_digit *digit = &step->digit[i];
        int32_t last = group.levels - 1;
        group.first -= device / digit->mesh_stride % digit->degree * digit->mesh_stride;
        if (last >= 0 && group.stride[last] * group.count[last] == digit->mesh_stride) {
            group.count[last] *= digit->degree;
        } else {
            group.count[group.levels] = digit->degree;
            group.stride[group.levels++] = digit->mesh_stride;
        }
    }
    return group;
}

_Static_assert((int)MAX_STEP_DIGITS <= (int)MAX_GROUP_LEVELS,
               "a step whose group has too many levels");

/* The difference between two layouts as one step. */
static struct reshard_step step_between(const struct path_search *s, const int64_t *before,
                                        const int64_t *after)
{
    int64_t in = local_of(s, before), out = local_of(s, after);
    struct reshard_step step = {.elements = in > out ? in : out};
    for (int32_t i = s->moving - 1; i >= 0; i--)
        if (before[i] != after[i]) {
            step.digit[step.digits] = *s->move[i].digit;
            step.digit[step.digits].before = before[i];
            step.digit[step.digits++].after = after[i];
        }
    return step;
}

/* The rule that a step follows, NULL: none. */
static const struct rule *find_rule(unsigned was, unsigned is, bool same_size)
{
    for (size_t i = 0; i < COUNT_OF(RULES); i++)
        if (!(was & ~RULES[i].before) && !(is & ~RULES[i].after) &&
            (same_size || !RULES[i].same_size))
            return &RULES[i];
    return NULL;
}

static struct reshard_step whole_step(const struct path_search *s, const int64_t *before,
                                      const int64_t *after)
{
    struct reshard_step step = step_between(s, before, after);
    unsigned was = 0, is = 0;
    for (int32_t i = 0; i < step.digits; i++) {
        was |= set_of(step.digit[i].before);
        is |= set_of(step.digit[i].after);
    }
    step.kind = find_rule(was, is, local_of(s, before) == local_of(s, after))->kind;
    return step;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* (2) */
static double rest_of(const struct path_search *s, const int64_t *hold)
{
    double wanted = 1, there = 1, agree = 1;
    for (int32_t i = 0; i < s->moving; i++) {
        const struct step_digit *digit = s->move[i].digit;
        int64_t after = digit->after;
        double degree = (double)digit->degree;
        wanted /= after > 0 ? degree : 1;
        there /= after > 0 || hold[i] > 0 ? degree : 1;
        if (after > 0 && hold[i] > 0 && after != hold[i] && degree > agree &&
            splits_independent(after, digit->degree, hold[i], digit->degree))
            agree = degree;
    }
    return (double)s->elements * (wanted - there / agree) * (1 - ROUNDING);
}

static bool sound_state(struct path_search *s, int32_t state)
{
    int64_t hold[MAX_STEP_DIGITS];
    if (s->soundness[state] == NOT_ASKED) {
        holds_of(s, state, hold);
        s->soundness[state] = sound(s, hold) ? SOUND : UNSOUND;
        s->rest[state] = rest_of(s, hold);
    }
    return s->soundness[state] == SOUND;
}

/* A state that is being left, and what all steps from it share. */
struct leaving {
    int32_t state;
    int64_t hold[MAX_STEP_DIGITS], local;
    /* of each digit, in the state's number */
    int32_t weight[MAX_STEP_DIGITS], option[MAX_STEP_DIGITS];
    double least; /* the least cost of any step from it */
};

static struct leaving leave(const struct path_search *s, int32_t state)
{
    struct leaving from = {.state = state};
    int32_t weight = 1;
    holds_of(s, state, from.hold);
    from.local = local_of(s, from.hold);
    from.least = s->cost[state] + STEP_SHARE * (double)s->mesh->elements;
    for (int32_t i = 0; i < s->moving; i++) {
        from.weight[i] = weight;
        from.option[i] = state / weight % s->move[i].options;
        weight *= s->move[i].options;
    }
    return from;
}

/* What some digits do in a step; motions of two sets of digits can be joined. */
struct motion {
    int32_t change; /* in the state's number */
    unsigned was, is;
    int64_t members;
    int64_t joined, cut; /* degrees of splits that end, and of those that begin */
};

static struct motion motion_of(const struct path_search *s, const struct leaving *from,
                               int32_t digit, int32_t option)
{
    int64_t degree = s->move[digit].digit->degree, before = from->hold[digit];
    int64_t after = s->move[digit].option[option];
    if (option == from->option[digit])
        return (struct motion){.members = 1, .joined = 1, .cut = 1};
    return (struct motion){.change = (option - from->option[digit]) * from->weight[digit],
                           .was = set_of(before),
                           .is = set_of(after),
                           .members = degree,
                           .joined = before > 0 ? degree : 1,
                           .cut = after > 0 ? degree : 1};
}

static struct motion join(const struct motion *a, const struct motion *b)
{
    return (struct motion){a->change + b->change,   a->was | b->was,       a->is | b->is,
                           a->members * b->members, a->joined * b->joined, a->cut * b->cut};
}

/* Most motions follow no rule, are no better than a known one, or are too long a detour (I4); all
 * of this is cheap to check. */
static void relax(struct path_search *s, const struct leaving *from, const struct motion *motion)
{
    int32_t next = from->state + motion->change;
    bool mixed = motion->was & PARTIAL && motion->was != PARTIAL;
    if (!motion->was || mixed || motion->is & PARTIAL || from->least >= s->cost[next])
        return;
    int64_t local = from->local * motion->joined / motion->cut;
    int64_t elements = from->local > local ? from->local : local;
    const struct rule *rule = find_rule(motion->was, motion->is, from->local == local);
    if (!rule)
        return;
    double cost = s->cost[from->state] +
                  volume_of(rule, (double)motion->members, (double)elements) +
                  STEP_SHARE * (double)s->mesh->elements;
    if (cost < s->cost[next] && sound_state(s, next) && cost + s->rest[next] <= s->most) {
        if (isinf(s->cost[next]))
            s->open[s->opened++] = (int16_t)next;
        s->cost[next] = cost;
        s->parent[next] = (int16_t)from->state;
        if (next == s->end)
            s->most = cost * (1 + ROUNDING); /* I4 */
    }
}

/* The motions of all subsets of the digits in `set` that go where `to` says. Returns how many there
 * are, the empty one first. */
static unsigned join_sets(const struct motion *to, unsigned set, struct motion *joint)
{
    unsigned count = 1;
    joint[0] = (struct motion){.members = 1, .joined = 1, .cut = 1};
    for (unsigned left = set; left; left &= left - 1, count *= 2)
        for (unsigned i = 0; i < count; i++)
            joint[count + i] = join(&joint[i], &to[__builtin_ctz(left)]);
    return count;
}

static void move_sets(struct path_search *s, const struct leaving *from, const struct motion *to,
                      unsigned set)
{
    struct motion joint[1 << MAX_STEP_DIGITS];
    unsigned count = join_sets(to, set, joint);
    for (unsigned i = 1; i < count; i++)
        relax(s, from, &joint[i]);
}

/* The digits of a set go to where they end, except for the one that ends as a copy: it takes over
 * what they leave, and is gathered later. */
static void move_around(struct path_search *s, const struct leaving *from,
                        const struct motion *joint, unsigned count, int32_t last)
{
    for (int32_t k = 0; k < s->move[last].options; k++) {
        struct motion one = motion_of(s, from, last, k);
        for (unsigned i = 0; one.was && i < count; i++) {
            struct motion all = join(&one, &joint[i]);
            relax(s, from, &all);
        }
    }
}

/* I2; partial sums never move together with others, since no rule allows that. */
static void move_together(struct path_search *s, const struct leaving *from)
{
    struct motion joint[1 << MAX_STEP_DIGITS];
    struct motion to_end[MAX_STEP_DIGITS], to_copy[MAX_STEP_DIGITS];
    unsigned ends = 0, copies = 0, become_copies = 0, half[2] = {0, 0};
    for (int32_t i = 0; i < s->moving; i++) {
        int32_t k = 0;
        while (s->move[i].option[k] != HOLD_COPY)
            k++;
        to_end[i] = motion_of(s, from, i, 1); /* the second option */
        to_copy[i] = motion_of(s, from, i, k);
        ends |= to_end[i].was ? 1U << i : 0;
        copies |= to_copy[i].was ? 1U << i : 0;
        become_copies |= s->move[i].digit->after == HOLD_COPY ? 1U << i : 0;
        half[from->hold[i] == HOLD_PARTIAL] |= 1U << i;
    }
    for (int h = 0; h < 2; h++) {
        move_sets(s, from, to_end, ends & half[h]);
        move_sets(s, from, to_copy, copies & half[h]);
        unsigned count = join_sets(to_end, ends & half[h] & ~become_copies, joint);
        for (unsigned left = become_copies & half[h]; left; left &= left - 1)
            move_around(s, from, joint, count, __builtin_ctz(left));
    }
}

static void move_alone(struct path_search *s, const struct leaving *from)
{
    for (int32_t i = 0; i < s->moving; i++)
        for (int32_t k = 0; k < s->move[i].options; k++) {
            struct motion motion = motion_of(s, from, i, k);
            relax(s, from, &motion);
        }
}

static double key_of(const struct path_search *s, int32_t state)
{
    return s->guided ? s->cost[state] + s->rest[state] : s->cost[state];
}

/* Takes the open state of least cost; of equal ones the first. */
static int32_t take_nearest(struct path_search *s)
{
    int32_t best = 0;
    double least = key_of(s, s->open[0]);
    for (int32_t i = 1; i < s->opened; i++) {
        double key = key_of(s, s->open[i]);
        if (key < least || (key == least && s->open[i] < s->open[best])) {
            best = i;
            least = key;
        }
    }
    int32_t state = s->open[best];
    s->open[best] = s->open[--s->opened];
    return state;
}

static void search_from(struct path_search *s, int32_t begin, bool guided)
{
    for (int32_t i = 0; i < s->states; i++)
        s->cost[i] = INFINITY;
    s->cost[begin] = 0;
    s->parent[begin] = -1;
    s->opened = 0;
    s->guided = guided;
    for (int32_t state = begin; state != s->end; state = take_nearest(s)) {
        struct leaving from = leave(s, state);
        move_together(s, &from);
        move_alone(s, &from);
    }
}

static void emit(struct arena *keep, const struct path_search *s, int32_t state,
                 struct step_list *out)
{
    int32_t parent = s->parent[state];
    if (parent < 0)
        return;
    emit(keep, s, parent, out);
    int64_t before[MAX_STEP_DIGITS], after[MAX_STEP_DIGITS];
    holds_of(s, parent, before);
    holds_of(s, state, after);
    array_push(keep, out, whole_step(s, before, after));
}

/* ---- without a search ------------------------------------------------------------------------ */

/* Moves one digit at a time, first all to copies and then to where they end. */
static void one_by_one(struct arena *keep, const struct mesh *mesh, struct step_list *out)
{
    struct mesh whole = *mesh, rest = *mesh;
    for (int32_t i = 0; i < mesh->digits; i++)
        if (mesh->digit[i].before != mesh->digit[i].after)
            whole.digit[i].after = rest.digit[i].before = HOLD_COPY;
    struct mesh *half[] = {&whole, &rest};
    for (size_t h = 0; h < COUNT_OF(half); h++)
        for (int32_t i = 0; i < mesh->digits; i++) {
            struct mesh one = *half[h];
            for (int32_t k = 0; k < mesh->digits; k++)
                if (k != i)
                    one.digit[k].before = one.digit[k].after =
                        k < i ? half[h]->digit[k].after : half[h]->digit[k].before;
            find_path(keep, &one, out);
        }
}

void find_path(struct arena *keep, const struct mesh *mesh, struct step_list *out)
{
    struct path_search s;
    int64_t begin_hold[MAX_STEP_DIGITS], end_hold[MAX_STEP_DIGITS];
    if (!path_begin(&s, mesh)) {
        one_by_one(keep, mesh, out);
        return;
    }
    for (int32_t i = 0; i < s.moving; i++) {
        begin_hold[i] = s.move[i].digit->before;
        end_hold[i] = s.move[i].digit->after;
    }
    s.end = state_of(&s, end_hold);
    s.most = INFINITY;
    memset(s.soundness, NOT_ASKED, sizeof *s.soundness * (size_t)s.states);
    search_from(&s, state_of(&s, begin_hold), true); /* I5 */
    search_from(&s, state_of(&s, begin_hold), false);
    emit(keep, &s, s.end, out);
}
