/* published_choices.c - whether predictions choose well among runs that were measured.
 *
 * Runs of one model, type, cluster and global batch answer one question: how to train it there. Of such a group,
 * with t measured and p predicted,
 *
 *   regret = t(run with the smallest p) / min t - 1                                            (1)
 *
 * and two of its runs are in order if the one with the smaller t has the smaller p.
 *
 *   I1  Only runs with both times count, and only groups of two or more.
 *   I2  Two measured times that differ by less than NEAR say nothing about their order.
 *   I3  Runs with equal predictions are one plan, measured again: there is nothing to choose among them, and the fastest
 *       stands for all.
 */
#include "lab/published_read.h"

#include <string.h>

static const double NEAR = 0.02; /* runs that are repeated differ by about as much */

static bool timed(const struct published *row, const struct dataset *dataset)
{
    return row->dataset == dataset && row->done && row->measured.time_s > 0 &&
           row->predicted.time_s > 0;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_question(const struct published *a, const struct published *b)
{
    return same_text(a->model, b->model) && same_text(a->options, b->options) &&
           same_text(a->cluster, b->cluster) && same_text(a->system, b->system) &&
           a->degrees.global_batch == b->degrees.global_batch &&
           a->degrees.dtype == b->degrees.dtype;
}

/* I3 */
static bool is_same(const struct published *a, const struct published *b)
{
    return a->predicted.time_s == b->predicted.time_s;
}

static bool better_choice(const struct published *row, const struct published *than)
{
    if (is_same(row, than))
        return row->measured.time_s < than->measured.time_s;
    return row->predicted.time_s < than->predicted.time_s;
}

static void add_pair(const struct published *a, const struct published *b, struct decisions *out)
{
    const struct published *fast = a->measured.time_s < b->measured.time_s ? a : b;
    const struct published *slow = fast == a ? b : a;
    if (slow->measured.time_s < fast->measured.time_s * (1 + NEAR) || is_same(a, b)) /* I2, I3 */
        return;
    out->pairs++;
    out->in_order += fast->predicted.time_s < slow->predicted.time_s;
}

/* A group whose first row this is; its rows are marked as seen. */
static void add_group(const struct published_rows *rows, size_t first, bool *seen,
                      struct decisions *out)
{
    const struct published *chosen = &rows->data[first], *fastest = chosen;
    int64_t members = 0;
    for (size_t i = first; i < rows->len; i++) {
        const struct published *row = &rows->data[i];
        if (!timed(row, chosen->dataset) || !same_question(row, &rows->data[first]))
            continue;
        for (size_t j = first; j < i; j++)
            if (seen[j] && timed(&rows->data[j], row->dataset) &&
                same_question(row, &rows->data[j]))
                add_pair(row, &rows->data[j], out);
        seen[i] = true;
        members += members == 0 || !is_same(row, &rows->data[first]);
        chosen = better_choice(row, chosen) ? row : chosen;
        fastest = row->measured.time_s < fastest->measured.time_s ? row : fastest;
    }
    if (members < 2) /* I1 */
        return;
    double regret = chosen->measured.time_s / fastest->measured.time_s - 1; /* (1) */
    out->choices++;
    out->right += chosen == fastest;
    out->regret += regret;
    out->worst = regret > out->worst ? regret : out->worst;
}

struct decisions published_decisions(const struct published_rows *rows,
                                     const struct dataset *dataset)
{
    struct arena *scratch = arena_new();
    struct decisions out = {0};
    bool *seen = ARENA_ARRAY(scratch, bool, rows->len + 1);
    for (size_t i = 0; i < rows->len; i++)
        if (!seen[i] && timed(&rows->data[i], dataset))
            add_group(rows, i, seen, &out);
    if (out.choices)
        out.regret /= (double)out.choices;
    arena_free(scratch);
    return out;
}
