/* contest_memory.c - the memory of a stage as Aceso's authors count it, who limited it to 28,000 MB
 * (section 3.3; the artifact, microsoft/SuperScaler: search/aceso_cost_model.py).
 *
 * With the rows of the authors' table for the operators of a stage, after which s more stages come,
 *
 *   state + (s + 1) (input + A) + again + max( max R_forward + max R_backward, weights )           (1)
 *
 * where state is 16 bytes per parameter, A is what all operators allocate less what recomputation saves, and
 * `again` is the largest amount that is recomputed at once. R is what PyTorch's allocator took from the device
 * when an operator was measured alone: gradients, and cuDNN's workspaces of up to 7 GB. "We opt to
 * overestimate the amount of reserved memory."
 *
 *   I1  Operators that share storage count once: a softmax and the dropout after it count as 1.5 dropouts.
 *   I2  If neighbours are recomputed, the first one saves what it allocates, unless a layer begins after it.
 *   I3  What was not measured cannot be searched: there must be a row for every operator's micro-batch,
 *       tensor parallelism and split.
 *   I4  Operators that the authors' models lack, or have as parts of others, need nothing; they have no
 *       name (aceso_plan.h).
 */
#include <stdio.h>
#include <string.h>

#include "exchange/exchange.h"
#include "lab/aceso_contest.h"

static const char DEVICE[] = "V100-SXM2-32GB";

/* What (1) needs of one row, in bytes. */
struct needs {
    double weights, allocates, input, forward, backward; /* the last two are R */
    bool begins_layer;                                   /* I2 */
};
/* The rows of operators with one name. */
struct name_rows {
    const char *name;
    ARRAY(int64_t) rows;
};
/* An instance that the authors' model has. */
struct listed {
    int32_t op, name;
    bool conv;
};
struct footprints {
    struct operator_profile *row;
    struct needs *needs; /* per row */
    size_t rows;
    ARRAY(struct name_rows) names;
    ARRAY(struct listed) list;
    int64_t *before;  /* how many of the list come before each instance, and before the end */
    const char *head; /* the operator with the head and the loss; NULL if there is none */
    double state_per_weight; /* bytes of state per byte of weights */
};

/* ---- reading the table ----------------------------------------------------------------------- */

/* By I1. */
static double allocates(const struct operator_profile *row)
{
    const char *op = row->op;
    bool first = strstr(op, "0-0") != NULL;
    if (strcmp(op, "enc-attention-softmax") == 0 || strcmp(op, "bn1") == 0 || strstr(op, "-bn3") ||
        (strstr(op, "-downsample") && !first))
        return 0;
    return (double)row->activation_bytes * (strcmp(op, "enc-attention-dropout") == 0 ? 1.5 : 1);
}

/* For I2. */
static bool begins_layer(const struct operator_profile *row)
{
    return strcmp(row->op, "enc-1st-layernorm") == 0 || strstr(row->op, "-conv1");
}

static struct needs needs_of(const struct operator_profile *row)
{
    return (struct needs){.weights = (double)row->weight_bytes,
                          .allocates = allocates(row),
                          .input = (double)row->input_bytes,
                          .forward = (double)row->forward_reserved_bytes,
                          .backward = (double)row->backward_reserved_bytes,
                          .begins_layer = begins_layer(row)};
}

/* The number of a name; a new name has no rows yet. */
static int32_t name_number(struct arena *keep, struct footprints *prints, const char *name)
{
    for (size_t i = 0; i < prints->names.len; i++)
        if (strcmp(prints->names.data[i].name, name) == 0)
            return (int32_t)i;
    array_push(keep, &prints->names, (struct name_rows){.name = arena_copy_text(keep, name)});
    return (int32_t)prints->names.len - 1;
}

static void index_rows(struct arena *keep, struct footprints *prints)
{
    prints->needs = ARENA_ARRAY(keep, struct needs, prints->rows + 1);
    for (size_t i = 0; i < prints->rows; i++) {
        int32_t name = name_number(keep, prints, prints->row[i].op);
        array_push(keep, &prints->names.data[name].rows, (int64_t)i);
        prints->needs[i] = needs_of(&prints->row[i]);
    }
}

static weft_status list_instances(struct arena *keep, const struct model *model,
                                  const struct cluster *cluster, struct footprints *prints)
{
    struct arena *scratch = arena_new();
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_new(model, cluster, &plan));
    prints->before = ARENA_ARRAY(keep, int64_t, (size_t)plan->instances + 1);
    for (int64_t i = 0; i < plan->instances; i++) {
        int32_t op = plan->instance[i].op;
        const char *name = aceso_operator_name(scratch, prints->head, plan_path(scratch, plan, i));
        if (name) {
            struct listed listed = {op, name_number(keep, prints, name),
                                    model->op[op].kind == OP_CONV};
            array_push(keep, &prints->list, listed);
        }
        prints->before[i + 1] = (int64_t)prints->list.len;
    }
done:
    plan_free(plan);
    arena_free(scratch);
    return status;
}

weft_status footprints_new(struct arena *keep, const struct model *model,
                           const struct cluster *cluster, struct footprints **out)
{
    enum { STATE_BYTES = 16 };
    struct footprints *prints = ARENA_NEW(keep, struct footprints);
    struct profile *profile = NULL;
    weft_status status;
    TRY(profile_open_shipped(DEVICE, &profile));
    const struct aceso_table *table = aceso_table_of(model->name);
    if (table) {
        TRY(profile_operators(profile, DEVICE, table->dtype, table->name, keep, &prints->row,
                              &prints->rows));
        prints->state_per_weight = STATE_BYTES / dtype_bytes(table->dtype);
        prints->head = model->name[0] == 'g' ? "gpt-post-process" : "t5-post-process";
    }
    index_rows(keep, prints);
    TRY(list_instances(keep, model, cluster, prints));
    *out = prints;
done:
    profile_close(profile);
    return status;
}

/* ---- operators with their splits ------------------------------------------------------------- */

/* An operator of the list with its split. */
struct laid_op {
    const struct needs *needs; /* NULL if it was not measured with this split (I3) */
    bool again;                /* recomputed */
};

static const struct needs *find_needs(const struct footprints *prints, int32_t name,
                                      int64_t micro_batch, int64_t tp, int64_t algo)
{
    const struct name_rows *rows = &prints->names.data[name];
    for (size_t i = 0; i < rows->rows.len; i++) {
        const struct operator_profile *row = &prints->row[rows->rows.data[i]];
        if (row->microbatch == micro_batch && row->tp == tp && row->algo == algo)
            return &prints->needs[rows->rows.data[i]];
    }
    return NULL;
}

static const void *lay(const void *context, struct arena *keep, const struct choice *choice,
                       int64_t devices, int64_t batch)
{
    const struct footprints *prints = context;
    struct laid_op *out = ARENA_ARRAY(keep, struct laid_op, prints->list.len + 1);
    for (size_t i = 0; i < prints->list.len; i++) {
        const struct listed *listed = &prints->list.data[i];
        const struct choice *own = &choice[listed->op];
        int64_t dp = split_degree(&own->split, DIM_BATCH);
        bool by_inputs = listed->conv && split_degree(&own->split, DIM_IN) > 1;
        out[i] = (struct laid_op){
            find_needs(prints, listed->name, batch / dp, devices / dp, by_inputs), own->recompute};
    }
    return out;
}

/* ---- (1) ------------------------------------------------------------------------------------- */

/* Sums over consecutive operators. */
struct part_bytes {
    double weights, forward, backward, input;
    double kept, again, segment; /* A, `again`, and what is recomputed together with the last one */
    const struct laid_op *last;
};

/* fmax, which is a call into the library: a search adds up operators by the billion. */
static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Adds the activations of the last operator, once it is known what comes after it; NULL if nothing does. */
static void settle(struct part_bytes *sums, const struct laid_op *next)
{
    const struct laid_op *one = sums->last;
    bool pair = next && one->again && next->again, ends = !pair || next->needs->begins_layer;
    sums->kept += ends ? one->needs->allocates : 0; /* I2 */
    sums->segment += pair ? one->needs->allocates : 0;
    sums->again = larger(sums->again, sums->segment);
    sums->segment = ends ? 0 : sums->segment;
}

static void add(struct part_bytes *sums, const struct laid_op *one)
{
    if (sums->last)
        settle(sums, one);
    else
        sums->input = one->needs->input;
    sums->last = one;
    sums->weights += one->needs->weights;
    sums->forward = larger(sums->forward, one->needs->forward);
    sums->backward = larger(sums->backward, one->needs->backward);
}

static struct counted count_part(const void *context, const struct counted_run *run, int32_t runs)
{
    static const struct counted NEVER = {COUNTED_NEVER, 0};
    const struct footprints *prints = context;
    struct part_bytes sums = {0};
    for (int32_t r = 0; r < runs; r++) {
        const struct laid_op *laid = run[r].laid;
        for (int64_t i = prints->before[run[r].first]; i < prints->before[run[r].last]; i++) {
            if (!laid[i].needs)
                return NEVER; /* I3 */
            add(&sums, &laid[i]);
        }
    }
    if (!sums.last)
        return NEVER;
    settle(&sums, NULL);
    double reserved = larger(sums.forward + sums.backward, sums.weights);
    return (struct counted){
        .always = (int64_t)(sums.weights * prints->state_per_weight + sums.again + reserved),
        .each = (int64_t)(sums.input + sums.kept)};
}

struct memory_count footprints_count(const struct footprints *prints)
{
    return (struct memory_count){prints, lay, count_part};
}
