/* weights.c - the weights that lie on this device, and what they begin with.
 *
 * What a weight begins with depends on the seed, its name and the element's place in the whole:
 *
 *   value(i) = deviation * normal(hash(seed, name, i))                                           (1)
 *
 * with zeros for biases, ones for the weights of norms, and padding zero. Deviations: an embedding's
 * 0.02 (GPT-2), a product's sqrt(1 / inputs), before a ReLU of an image sqrt(2 / inputs) (He et al.,
 * 2015, Eq. 10), of an adapter's second product 0.
 *
 *   I1  A copy of a tied weight (plan/tied.c) has the owner's name and so its numbers.
 *   I2  With state sharding each weight is cut into equal shares by its elements here, so that copies of a tied
 *       weight that lie alike are cut alike; a member's part of a bucket is its shares of all.
 */
#include "run/rank/room.h"

#include <math.h>
#include <string.h>

enum update { UPDATED_ELEMENTS, UPDATED_WHOLE, UPDATED_NEVER };

/* ---- how they lie ---------------------------------------------------------------------------- */

static int64_t whole_elements(const struct operand *operand)
{
    int64_t elements = 1;
    for (int axis = 0; axis < operand->axes; axis++)
        elements *= operand->size[axis];
    return elements;
}

/* Of devices whose gradients are copies of each other's, the first adds its to the sum. */
static bool contributes(const struct rank *r, const struct laid *laid, int32_t weight,
                        const struct pattern *pattern)
{
    struct layout layout =
        layout_of(laid->op, &laid->op->weight[weight].operand, choice_split(laid->choice, true),
                  r->plan->step_samples, FLOW_GRADIENT);
    int64_t mesh = 1;
    for (int64_t i = layout.digits - 1; i >= 0; i--) {
        int64_t degree = layout.digit[i].degree;
        for (int32_t k = 0; layout.digit[i].hold == HOLD_COPY && k < pattern->digits; k++) {
            int64_t low = pattern->stride[k], high = low * pattern->degree[k];
            int64_t from = low > mesh ? low : mesh;
            int64_t to = high < mesh * degree ? high : mesh * degree;
            if (from < to && r->device / from % (to / from) != 0)
                return false;
        }
        mesh *= degree;
    }
    return true;
}

static void add_weight(struct rank *r, struct store *store, int64_t instance, int32_t weight)
{
    const struct laid *laid = r->local_op[instance].laid;
    const struct weight *w = &laid->op->weight[weight];
    const struct bucket *bucket = &r->graph->bucket[store->bucket];
    struct held_weight *held = &r->weight[r->weights];
    struct arena *scratch = arena_new();
    int64_t named = weight == 0 ? plan_weight_owner(r->plan, instance) : instance;
    const char *name = weight == 0 ? r->local_op[named].laid->op->weight[0].name : w->name;
    *held = (struct held_weight){.instance = instance,
                                 .weight = weight,
                                 .store = (int32_t)(store - r->store),
                                 .elements = whole_elements(&w->operand),
                                 .first = store->count,
                                 .place = store->part,
                                 .contributes = true};
    held->name = arena_printf(r->arena, "%s.%s", plan_path(scratch, r->plan, named), name);
    held->layout =
        layout_of(laid->op, &w->operand, &laid->choice->split, r->plan->step_samples, FLOW_FORWARD);
    held->count = layout_local(&held->layout);
    held->share = ceil_div(held->count, store->members);
    if (store->shard)
        held->contributes = contributes(r, laid, weight, &r->graph->pattern[bucket->pattern]) &&
                            (bucket->across < 0 ||
                             contributes(r, laid, weight, &r->graph->pattern[bucket->across]));
    store->count += held->count;
    store->part += held->share;
    store->weights_count++;
    r->weight_of[instance * MAX_KIND_WEIGHTS + weight] = r->weights++;
    arena_free(scratch);
}

static void find_members(struct rank *r, struct store *store)
{
    const struct bucket *bucket = &r->graph->bucket[store->bucket];
    store->shard = bucket->shard;
    store->members = 1;
    if (!store->shard)
        return;
    const struct pattern *pattern = &r->graph->pattern[bucket->pattern];
    int64_t own = r->plan->stage[r->stage].first_device + r->device;
    struct group group = pattern_group(pattern, pattern_group_of(pattern, own));
    store->members = (int32_t)group_size(&group);
    for (int32_t i = 0; i < store->members; i++)
        if (group_device(&group, i) == own)
            store->member = i;
}

static bool is_matrix(const struct rank *r, const struct op *op, int32_t weight)
{
    return r->options->optimizer.kind == OPTIMIZER_MUON && weight == 0 &&
           op->weight[0].operand.axes >= 2 && is_orthogonalised(UPDATE_MUON, op);
}

static enum update update_of(const struct rank *r, const struct op *op, int32_t weight)
{
    if (op->frozen)
        return UPDATED_NEVER;
    return is_matrix(r, op, weight) ? UPDATED_WHOLE : UPDATED_ELEMENTS;
}

/* Whether a weight is of whole 16 bytes, as a GPU's kernels want those after it to begin. */
static bool is_whole(const struct rank *r, int64_t instance, int32_t weight)
{
    enum { UNIT = 8 }; /* elements of 16 bits */
    const struct laid *laid = r->local_op[instance].laid;
    struct layout layout = layout_of(laid->op, &laid->op->weight[weight].operand,
                                     &laid->choice->split, r->plan->step_samples, FLOW_FORWARD);
    return layout_local(&layout) % UNIT == 0;
}

/* Adds those of a bucket's weights that are updated so, and are whole or are not. */
static void add_some(struct rank *r, struct store *store, enum update update, bool whole)
{
    const struct bucket *bucket = &r->graph->bucket[store->bucket];
    for (int64_t i = bucket->first; i <= bucket->last; i++) {
        const struct op *op = r->local_op[i].laid->op;
        if (r->graph->uses->bucket_of[i] != store->bucket || !plan_holds_weights(r->plan, i))
            continue;
        for (int32_t w = 0; w < op->weights; w++)
            if (update_of(r, op, w) == update && is_whole(r, i, w) == whole)
                add_weight(r, store, i, w);
    }
}

static void add_weights(struct rank *r, struct store *store, enum update update)
{
    add_some(r, store, update, true);
    add_some(r, store, update, false);
}

/* stores.c, I3 */
static void fill_store(struct rank *r, struct store *store)
{
    find_members(r, store);
    store->first_weight = r->weights;
    add_weights(r, store, UPDATED_ELEMENTS);
    store->second_part = store->part;
    add_weights(r, store, UPDATED_WHOLE);
    store->trained_weights = store->weights_count;
    store->trained = store->count;
    store->trained_part = store->kept = store->part;
    add_weights(r, store, UPDATED_NEVER);
}

static void find_matrices(struct rank *r)
{
    for (int32_t i = 0; i < r->weights; i++) {
        struct held_weight *held = &r->weight[i];
        const struct op *op = r->local_op[held->instance].laid->op;
        const struct operand *operand = &op->weight[held->weight].operand;
        if (update_of(r, op, held->weight) != UPDATED_WHOLE)
            continue;
        held->rows = operand->size[operand->axes - 2];
        held->columns = operand->size[operand->axes - 1];
    }
}

static weft_status count_weights(const struct rank *r, size_t *count)
{
    for (int64_t i = 0; i < r->instances; i++) {
        const struct op *op = r->local_op[i].laid->op;
        if (op->weights > MAX_KIND_WEIGHTS)
            return bad_argument(NULL, "an operator has %d weights, expected at most %d",
                                op->weights, MAX_KIND_WEIGHTS);
        *count += (size_t)op->weights;
    }
    return WEFT_OK;
}

weft_status find_weights(struct rank *r)
{
    size_t count = 0, places = (size_t)r->instances * MAX_KIND_WEIGHTS;
    weft_status status;
    TRY(count_weights(r, &count));
    r->weight = ARENA_ARRAY(r->arena, struct held_weight, count);
    r->weight_of = ARENA_ARRAY(r->arena, int32_t, places);
    memset(r->weight_of, -1, places * sizeof *r->weight_of);
    r->store = ARENA_ARRAY(r->arena, struct store, (size_t)r->graph->buckets);
    r->store_of = ARENA_ARRAY(r->arena, int32_t, (size_t)r->graph->buckets);
    for (int32_t b = 0; b < r->graph->buckets; b++) {
        r->store_of[b] = -1;
        if (!has_instance(r, r->graph->bucket[b].first))
            continue;
        struct store *store = &r->store[r->stores];
        store->bucket = b;
        r->store_of[b] = r->stores++;
        fill_store(r, store);
    }
    find_matrices(r);
    for (int64_t i = 0; i < r->instances; i++) { /* I1 */
        int64_t owner = plan_weight_owner(r->plan, i);
        if (owner != i && !plan_holds_weights(r->plan, i))
            r->weight_of[i * MAX_KIND_WEIGHTS] = r->weight_of[owner * MAX_KIND_WEIGHTS];
    }
done:
    return status;
}

/* ---- what they begin with (1) ---------------------------------------------------------------- */

static double deviation_of(const struct op *op, const struct weight *weight)
{
    int64_t outputs = weight->operand.size[0], all = whole_elements(&weight->operand);
    double inputs = (double)all / (double)(outputs ? outputs : 1);
    switch (op->kind) {
    case OP_EMBEDDING:
    case OP_EMBEDDING_BAG:
    case OP_SOFTMAX: /* a bias of scores by relative position */
        return 0.02;
    case OP_CONV:
        return sqrt(2 / inputs);
    default:
        return sqrt(1 / inputs);
    }
}

static bool is_norm(enum op_kind kind)
{
    return kind == OP_LAYER_NORM || kind == OP_RMS_NORM || kind == OP_BATCH_NORM ||
           kind == OP_GATED_NORM;
}

/* Whether it is the second product of an adapter, B of y + B A x (model/build_ops.c), which begins with zeros, so that
 * nothing is added yet (LoRA, Hu et al., 2021, section 4.1). */
static bool ends_adapter(const struct model *model, const struct op *op)
{
    size_t len = strlen(op->name);
    if (op->frozen || len < 3 || strcmp(op->name + len - 2, "_b") != 0)
        return false;
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *other = &model->op[i];
        if (other->frozen && other->module == op->module && strlen(other->name) == len - 2 &&
            strncmp(other->name, op->name, len - 2) == 0)
            return true;
    }
    return false;
}

static double uniform_of(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

/* Box and Muller. */
static float normal_of(uint64_t seed, int64_t element)
{
    double pi = 3.14159265358979323846;
    uint64_t a = hash_bytes(&element, sizeof element, seed), b = hash_bytes(&a, sizeof a, seed + 1);
    return (float)(sqrt(-2 * log(uniform_of(a))) * cos(2 * pi * uniform_of(b)));
}

/* Of a scan, as Mamba-2 begins: decays of 1 to 16, steps of 0.001 to 0.1 (evenly by their logarithms), and the
 * input itself in the output. A delta rule, as Qwen3-Next begins, has the same decays and steps. */
static float scan_value(int32_t weight, uint64_t seed, int64_t element)
{
    double u = uniform_of(hash_bytes(&element, sizeof element, seed));
    double step = 0.001 * pow(100, u);
    const double values[] = {log(1 + 15 * u), 1, log(expm1(step))};
    return (float)values[weight];
}

static float first_value(const struct rank *r, const struct held_weight *held, uint64_t seed,
                         double deviation, int64_t element)
{
    const struct op *op = r->local_op[held->instance].laid->op;
    if (element >= held->elements)
        return 0; /* padding */
    if (strcmp(op->weight[held->weight].name, "bias") == 0)
        return 0;
    if (is_norm(op->kind))
        return 1;
    if (op->kind == OP_SCAN)
        return scan_value(held->weight, seed, element);
    if (op->kind == OP_DELTA)
        return scan_value(held->weight ? 2 : 0, seed, element);
    return (float)deviation * normal_of(seed, element);
}

/* Whether (1) is all that a weight begins with. */
static bool is_drawn(const struct op *op, const struct weight *weight)
{
    return strcmp(weight->name, "bias") != 0 && !is_norm(op->kind) && op->kind != OP_SCAN &&
           op->kind != OP_DELTA;
}

static void draw_there(struct rank *r, const struct held_weight *held, uint64_t seed,
                       double deviation, int64_t first, int64_t count, float *to)
{
    struct normal_draw draw = {
        .seed = seed, .deviation = deviation, .elements = held->elements, .first = first};
    struct layout_stride stride[MAX_LAYOUT_DIGITS];
    _Static_assert((int)DRAW_DIGITS >= (int)MAX_LAYOUT_DIGITS, "a digit without a place");
    draw.digits = layout_strides(&held->layout, r->device, stride);
    for (int32_t n = 0; n < draw.digits; n++) {
        draw.digit[n].hold = stride[n].hold;
        draw.digit[n].degree = stride[n].degree;
        draw.digit[n].value = stride[n].value;
    }
    rank_device(r)->draw_normal(r->work, &draw, count, to);
}

static void draw_here(struct rank *r, const struct held_weight *held, uint64_t seed,
                      double deviation, int64_t first, int64_t count, float *to)
{
    struct host_view view =
        host_view(rank_device(r), r->work, to, count * (int64_t)sizeof *to, false);
    float *value = view.at;
    if (!value)
        memory_ran_out((size_t)count * sizeof *to);
    for (int64_t k = 0; k < count; k++)
        value[k] = first_value(r, held, seed, deviation,
                               layout_element(&held->layout, r->device, first + k));
    host_view_end(rank_device(r), r->work, &view, true);
}

/* Some at a time: a table of embeddings takes as much as the optimizer's state of it does. */
void fill_weights(struct rank *r)
{
    enum { AT_ONCE = 1 << 24 };
    for (int32_t i = 0; i < r->weights; i++) {
        const struct held_weight *held = &r->weight[i];
        const struct store *store = &r->store[held->store];
        int64_t owner =
            held->weight == 0 ? plan_weight_owner(r->plan, held->instance) : held->instance;
        const struct op *op = r->local_op[owner].laid->op;
        uint64_t seed = hash_bytes(held->name, strlen(held->name), r->options->seed);
        double deviation =
            ends_adapter(r->plan->model, op) ? 0 : deviation_of(op, &op->weight[held->weight]);
        int64_t first = store->shard == 3 ? store->member * held->share : 0;
        int64_t count = store->shard == 3 ? held->share : held->count;
        if (count > held->count - first)
            count = held->count > first ? held->count - first : 0;
        const struct op *own = r->local_op[held->instance].laid->op;
        bool there = rank_device(r)->draw_normal && is_drawn(own, &own->weight[held->weight]);
        for (int64_t at = 0; at < count; at += AT_ONCE) {
            int64_t some = count - at < AT_ONCE ? count - at : AT_ONCE;
            float *begin = floats_counted(r, MEMORY_WORKSPACE, some);
            (there ? draw_there : draw_here)(r, held, seed, deviation, first + at, some, begin);
            set_weight(r, held, first + at, some, begin);
            floats_free(r, MEMORY_WORKSPACE, begin, some);
        }
    }
}
