/* rows.c - manners as rows of choices, their tables, and plans.
 *
 *   I1  Each level of recomputation adds operators to the one before it: none; of those that
 *       selective recomputation names, the ones after the softmax (only in the space artifact); all
 *       that selective recomputation names; also those that compute no products; all operators of
 *       every layer. In the space largest, between none and all: operators by what they keep.
 *   I2  Tables of one device do not depend on which device it is.
 */
#include "search/aceso/room.h"

#include <string.h>

/* ---- choices --------------------------------------------------------------------------------- */

static struct degrees degrees_of(const struct problem *p, const struct manner *m, int64_t devices)
{
    struct degrees d = p->request->pins;
    d.dp = dp_of(devices, m->tp, m->cp);
    d.tp = m->tp;
    d.pp = d.pieces = d.segments = d.micro_batch = 1;
    d.cp = m->cp;
    d.ep = m->ep;
    d.sequence = m->sequence;
    d.shard = m->shard;
    d.offload = m->offload;
    d.global_batch = d.dp;
    return d;
}

static weft_status judge_choices(struct judge *j, const struct manner *manner, int32_t level,
                                 int64_t devices, struct arena *keep, struct choice **out)
{
    const struct problem *p = j->problem;
    const struct model *model = p->request->model;
    struct degrees d = degrees_of(p, manner, devices);
    *out = NULL;
    if (d.dp < 1 || d.dp % d.ep)
        return WEFT_OK;
    if (lower_degrees(model, &d, keep, out)) {
        error_clear();
        *out = NULL;
        return WEFT_OK;
    }
    for (int32_t i = 0; i < model->ops; i++) {
        (*out)[i].recompute = p->recomputed[level][i];
        bool flipped = p->flip[i] >= 0 && manner->variant >> p->flip[i] & 1;
        if (flipped && !split_flip(&model->op[i], &(*out)[i].split)) {
            *out = NULL;
            break;
        }
    }
    return WEFT_OK;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static weft_status make_run(struct judge *j, const struct run_key *key, struct whole_table **out)
{
    struct arena *scratch = arena_new();
    const struct memory_count *count = j->problem->study->count;
    struct choice *choice;
    const struct row_table *table;
    weft_status status;
    *out = NULL;
    TRY(judge_choices(j, &key->manner, key->level, key->devices, scratch, &choice));
    if (!choice || key->step_samples % dp_of(key->devices, key->manner.tp, key->manner.cp))
        goto done;
    struct table_key k = {.first_device = key->first_device,
                          .devices = key->devices,
                          .step_samples = key->step_samples,
                          .row = tables_row(j->estimator->tables, choice),
                          .order = (uint16_t)key->order,
                          .many =
                              table_micro_batches(&j->estimator->settings,
                                                  j->problem->global_batch / key->step_samples)};
    TRY(table_find(j->estimator->tables, &k, &table));
    *out = whole_table_new(j->arena, &j->problem->fold, table);
    if (count)
        (*out)->laid =
            count->lay(count->context, j->arena, choice, key->devices, key->step_samples);
done:
    arena_free(scratch);
    return status;
}

weft_status judge_run(struct judge *j, const struct run_key *key, const struct whole_table **out)
{
    struct run_key k = *key;
    if (k.devices == 1)
        k.first_device = 0; /* I2 */
    uint64_t hash = hash_bytes(&k, sizeof k, 2) | 1;
    int32_t number = (int32_t)hash_get(&j->by_run, hash);
    weft_status status = WEFT_OK;
    if (number < 0) {
        struct whole_table *made;
        TRY(make_run(j, &k, &made));
        number = (int32_t)j->runs.len;
        array_push(j->arena, &j->runs, made);
        *hash_at(&j->by_run, j->arena, hash) = number;
    }
    *out = j->runs.data[number];
done:
    return status;
}

/* ---- plans ----------------------------------------------------------------------------------- */

weft_status judge_plan(struct judge *judge, const struct config *c, struct plan **out)
{
    const struct problem *p = judge->problem;
    struct arena *scratch = arena_new();
    struct plan *plan = NULL;
    int64_t cut[ACESO_MOST_PARTS], devices[MOST_STAGES];
    weft_status status;
    TRY(plan_new(p->request->model, p->request->cluster, &plan));
    estimate_settings_give(&p->settings, plan);
    plan->global_batch = p->global_batch;
    plan->step_samples = c->step_samples;
    plan->schedule = config_schedule(c)->name;
    for (int32_t k = 0; k < config_parts(c); k++)
        cut[k] = c->part[k].end;
    for (int32_t i = 0; i < c->stages; i++)
        devices[i] = c->devices[i];
    TRY(plan_map(plan, c->stages, c->pieces, cut, devices));
    for (int32_t k = 0; k < config_parts(c); k++) {
        struct part_run run[MOST_RUNS];
        int32_t runs = part_runs(part_first(c, k), &c->part[k], run);
        int64_t each = c->devices[k % c->stages];
        for (int32_t r = 0; r < runs; r++) {
            struct choice *choice;
            TRY(judge_choices(judge, &run[r].manner, run[r].level, each, scratch, &choice));
            for (int64_t i = run[r].first; choice && i < run[r].last; i++)
                TRY(plan_choose(plan, i, &choice[plan->instance[i].op]));
        }
    }
    TRY(plan_check(plan));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    arena_free(scratch);
    return status;
}
