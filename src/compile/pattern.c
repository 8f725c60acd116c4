/* pattern.c - the groups of a pattern, by number.
 *
 * A device's number within its stage is mixed-radix; within one group the pattern's digits take all
 * values, and the number without these digits is the group's number:
 *
 *   without digit (s, d)   x -> x / (s d) * s + x % s                                            (1)
 *   with the digit at 0    x -> x / s * (s d) + x % s                                            (2)
 *
 * (1) is applied from the outermost digit inwards, (2) the other way round.
 *
 *   I1  Digits are outermost first, and of any two the outer's stride is a multiple of the inner's
 *       stride * degree.
 *   I2  Pair i of a send is that of receiver i.
 */
#include "compile/graph.h"

_Static_assert((int)MAX_STEP_DIGITS < (int)MAX_GROUP_LEVELS,
               "a digit, or one that runs cut, without a level");

int64_t pattern_groups(const struct pattern *pattern)
{
    int64_t groups = pattern->devices;
    for (int32_t k = 0; k < pattern->digits; k++)
        groups /= pattern->degree[k];
    return groups;
}

int64_t pattern_sender(const struct pattern *pattern, int64_t receiver)
{
    int64_t sender = reshard_sender(pattern->reshard, receiver), all = pattern->from_devices;
    return pattern->turned ? (sender + all / 2) % all : sender;
}

static struct group pair(const struct pattern *pattern, int64_t receiver)
{
    int64_t from = pattern->from_first + pattern_sender(pattern, receiver);
    return group_range(from, 2, pattern->first + receiver - from);
}

/* Digits that form one digit become one level. */
static void add_level(struct group *group, int64_t count, int64_t stride)
{
    int32_t last = group->levels - 1;
    if (last >= 0 && group->stride[last] * group->count[last] == stride) {
        group->count[last] *= count;
        return;
    }
    group->count[group->levels] = count;
    group->stride[group->levels++] = stride;
}

struct group pattern_group(const struct pattern *pattern, int64_t i)
{
    if (pattern->collective == COLLECTIVE_SEND)
        return pair(pattern, i); /* I2 */
    struct group group = {.first = i, .crossing = pattern->crossing};
    for (int32_t k = pattern->digits - 1; k >= 0; k--) {
        int64_t stride = pattern->stride[k], degree = pattern->degree[k];
        group.first = group.first / stride * (stride * degree) + group.first % stride; /* (2) */
        add_level(&group, degree, stride);
    }
    group.first += pattern->first;
    return group;
}

struct group pattern_group_at(const struct pattern *pattern, int64_t i)
{
    struct group group = pattern_group(pattern, i);
    return group_at(&pattern->order, &group);
}

int64_t pattern_group_of(const struct pattern *pattern, int64_t device)
{
    int64_t number = device - pattern->first;
    for (int32_t k = 0; k < pattern->digits; k++) {
        int64_t stride = pattern->stride[k], degree = pattern->degree[k];
        number = number / (stride * degree) * stride + number % stride; /* (1) */
    }
    return number;
}
