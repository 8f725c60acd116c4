/* modules.c - recomputation by module: which operators of a layer one of Megatron's words stands for.
 *
 *   I1  Words are those of Megatron's --recompute-modules. A word stands for operators by their kind and by the
 *       modules that they are in; in a model without such operators it stands for none.
 *   I2  Some modules are checkpointed without their output (Megatron's CheckpointWithoutOutput), which is discarded.
 */
#include <string.h>

#include "plan/plan.h"
#include "plan/room.h"

bool op_is_inside(const struct model *model, const struct op *op, const char *module)
{
    for (int32_t at = op->module; at >= 0; at = model->module[at].parent)
        if (strcmp(model->module[at].name, module) == 0)
            return true;
    return false;
}

static bool has_sibling(const struct model *model, const struct op *op, const char *name)
{
    const struct module *module = &model->module[op->module];
    for (int32_t i = 0; i < module->ops; i++)
        if (strcmp(model->op[module->first_op + i].name, name) == 0)
            return true;
    return false;
}

static bool is_activation(const struct op *op)
{
    return op->kind == OP_GATED || op->kind == OP_GELU || op->kind == OP_RELU ||
           op->kind == OP_SILU;
}

/* What turns queries, keys and values into the input of the projection. */
bool op_is_core_attention(const struct model *model, const struct op *op)
{
    bool core = op->kind == OP_ATTENTION || op->kind == OP_SCORE || op->kind == OP_SOFTMAX ||
                op->kind == OP_CONTEXT || op->kind == OP_DROPOUT;
    return core && op_is_inside(model, op, "attn");
}

bool op_is_layer_norm(const struct op *op)
{
    return (op->kind == OP_LAYER_NORM || op->kind == OP_RMS_NORM) && strcmp(op->name, "norm") == 0;
}

static bool has_experts_inside(const struct model *model, int32_t module)
{
    for (int32_t i = 0; i < model->modules; i++)
        if (model->module[i].parent == module && strcmp(model->module[i].name, "experts") == 0)
            return true;
    return false;
}

/* A norm before one product is part of it (TELayerNormColumnParallelLinear), and its output stays; it stands by itself
 * before experts and before the compressed tensors of latent attention (megatron/core/models/gpt/gpt_layer_specs.py). */
static bool is_lone_norm(const struct model *model, const struct op *op)
{
    return op_is_layer_norm(op) &&
           (has_experts_inside(model, op->module) || has_sibling(model, op, "kv_a") ||
            has_sibling(model, op, "keys_c"));
}

/* Of latent attention, what follows the two compressed tensors, up to attention. */
static bool is_up_projection(const struct model *model, const struct op *op)
{
    static const char *const NAMES[] = {"q_norm",   "q_b",      "q_rotary", "kv_norm", "k_b",
                                        "k_rotary", "k_expand", "k",        "v_b"};
    bool named = false;
    for (size_t i = 0; i < COUNT_OF(NAMES); i++)
        named |= strcmp(op->name, NAMES[i]) == 0;
    return named && (has_sibling(model, op, "kv_a") || has_sibling(model, op, "keys_c"));
}

static bool is_dense(const struct model *model, const struct op *op)
{
    bool product = op->kind == OP_LINEAR || is_activation(op);
    return product && strcmp(model->module[op->module].name, "mlp") == 0;
}

static bool is_shared_expert(const struct model *model, const struct op *op)
{
    return op_is_inside(model, op, "shared");
}

static bool is_mixture(const struct model *model, const struct op *op)
{
    return op_is_inside(model, op, "experts") || is_shared_expert(model, op);
}

bool op_is_expert_activation(const struct model *model, const struct op *op)
{
    return is_activation(op) && op_is_inside(model, op, "experts");
}

/* Streams of a residual, weighed and summed before a layer's norm. */
static bool is_stream_mix(const struct model *model, const struct op *op)
{
    (void)model;
    return strcmp(op->name, "mix_in") == 0;
}

static const struct {
    const char *name;
    bool (*has)(const struct model *model, const struct op *op);
    bool discards;       /* I2 */
    const char *part_of; /* another one; NULL: of none */
} MODULES[] = {
    {"core_attn", op_is_core_attention, false},
    {"layernorm", is_lone_norm, true},
    {"mla_up_proj", is_up_projection, true},
    {"mlp", is_dense, false},
    {"moe", is_mixture, false},
    {"moe_act", op_is_expert_activation, true, "moe"},
    {"shared_experts", is_shared_expert, false, "moe"},
    {"mhc", is_stream_mix, true},
};

const char RECOMPUTE_WORDS[] = "none, selective, full, or some of core_attn, layernorm, "
                               "mla_up_proj, mlp, moe, moe_act, shared_experts, mhc";

void modules_choose(unsigned modules, const struct model *model, const struct op *op,
                    struct choice *choice)
{
    for (size_t i = 0; i < COUNT_OF(MODULES); i++)
        if (modules >> i & 1 && op_in_layer(model, op) && MODULES[i].has(model, op)) {
            choice->recompute = true;
            choice->discard = MODULES[i].discards;
        }
}

unsigned modules_without_parts(unsigned modules)
{
    unsigned out = modules;
    for (size_t i = 0; i < COUNT_OF(MODULES); i++)
        if (MODULES[i].part_of && modules & module_from_name(MODULES[i].part_of))
            out &= ~(1U << i);
    return out;
}

unsigned plan_modules(const struct plan *plan)
{
    unsigned some = 0, kept = 0;
    bool any = false;
    for (int32_t i = 0; i < plan->choices; i++)
        any |= plan->choice[i].recompute;
    for (int64_t i = 0; any && i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        for (size_t m = 0; m < COUNT_OF(MODULES); m++) {
            struct choice its = {.recompute = false};
            modules_choose(1U << m, plan->model, op, &its);
            if (its.recompute)
                *(choice_recomputes_alike(&its, plan_choice(plan, i)) ? &some : &kept) |= 1U << m;
        }
    }
    return modules_without_parts(some & ~kept);
}

bool plan_recomputes_modules(const struct plan *plan, unsigned modules)
{
    bool alike = true;
    for (int64_t i = 0; alike && i < plan->instances; i++) {
        struct choice its = {.recompute = false};
        modules_choose(modules, plan->model, &plan->model->op[plan->instance[i].op], &its);
        alike = choice_recomputes_alike(&its, plan_choice(plan, i));
    }
    return alike;
}

const char *recompute_text(struct arena *keep, const struct degrees *d)
{
    const char *text = "";
    if (d->recompute != RECOMPUTE_SELECTIVE || !d->modules)
        return recompute_name(d->recompute);
    for (size_t i = 0; i < COUNT_OF(MODULES); i++)
        if (d->modules >> i & 1)
            text = arena_printf(keep, "%s%s%s", text, *text ? "," : "", MODULES[i].name);
    return text;
}

unsigned module_from_name(const char *name)
{
    int at = NAME_INDEX(name, MODULES);
    return at < 0 ? 0 : 1U << at;
}

bool recompute_parse(struct arena *scratch, const char *text, struct degrees *d)
{
    char *rest = arena_copy_text(scratch, text), *word;
    d->modules = 0;
    for (int i = 0; i < RECOMPUTE_COUNT; i++)
        if (strcmp(text, recompute_name((enum recompute)i)) == 0) {
            d->recompute = (enum recompute)i;
            return true;
        }
    d->recompute = RECOMPUTE_SELECTIVE;
    while ((word = strsep(&rest, ",")) != NULL) {
        unsigned module = module_from_name(word);
        if (!module)
            return false;
        d->modules |= module;
    }
    d->modules = modules_without_parts(d->modules);
    return true;
}
