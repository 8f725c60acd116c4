/* offload_modules.c - offload by module: whose kept tensors wait in host memory, without recomputation.
 *
 * What an operator of such a module reads in its backward pass (its inputs, its output, its statistics) goes to the
 * host after the forward slot of its stage and comes back one slot before the backward one (compile/offload.c).
 *
 *   I1  Words are those of Megatron-Core's --offload-modules. A word stands for the operators whose inputs that module
 *       saves; in a model without such operators it stands for none.
 *   I2  A tensor that an operator outside of these modules reads in its backward pass, too, stays on the device
 *       (compile/lifetimes.h, I11): the inputs of attn_proj without core_attn, which Megatron-Core refuses.
 */
#include <string.h>

#include "plan/plan.h"
#include "plan/room.h"

static bool is_named(const struct op *op, const char *name)
{
    return strcmp(op->name, name) == 0;
}

static bool is_attention_norm(const struct model *model, const struct op *op)
{
    return op_is_layer_norm(op) && op_is_inside(model, op, "attn");
}

static bool is_mlp_norm(const struct model *model, const struct op *op)
{
    return op_is_layer_norm(op) && !op_is_inside(model, op, "attn");
}

/* What makes queries, keys and values: all that comes before attention's core, but for the norm that opens it. */
static bool is_qkv(const struct model *model, const struct op *op)
{
    if (!op_is_inside(model, op, "attn") || op_is_layer_norm(op) || op_is_core_attention(model, op))
        return false;
    for (const struct op *next = op + 1; next < model->op + model->ops; next++)
        if (op_is_core_attention(model, next))
            return op_is_inside(model, next, "attn") && next->module == op->module;
    return false;
}

static bool is_projection(const struct model *model, const struct op *op)
{
    return op->kind == OP_LINEAR && is_named(op, "proj") && op_is_inside(model, op, "attn");
}

static bool is_first_expert_product(const struct model *model, const struct op *op)
{
    (void)model;
    return op->kind == OP_EXPERT_LINEAR && !is_named(op, "down");
}

static const struct {
    const char *name;
    bool (*has)(const struct model *model, const struct op *op);
} OFFLOADS[] = {
    {"attn_norm", is_attention_norm},
    {"qkv_linear", is_qkv},
    {"core_attn", op_is_core_attention},
    {"attn_proj", is_projection},
    {"mlp_norm", is_mlp_norm},
    {"expert_fc1", is_first_expert_product},
    {"moe_act", op_is_expert_activation},
};

const char OFFLOAD_WORDS[] =
    "none, or some of attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, moe_act";

bool offloads_module(unsigned modules, const struct model *model, const struct op *op)
{
    for (size_t i = 0; i < COUNT_OF(OFFLOADS); i++)
        if (modules >> i & 1 && op_in_layer(model, op) && OFFLOADS[i].has(model, op))
            return true;
    return false;
}

unsigned model_offload_modules(const struct model *model)
{
    unsigned modules = 0;
    for (int32_t i = 0; i < model->ops; i++)
        for (size_t m = 0; m < COUNT_OF(OFFLOADS); m++)
            if (offloads_module(1U << m, model, &model->op[i]))
                modules |= 1U << m;
    return modules;
}

unsigned plan_offload_modules(const struct plan *plan)
{
    unsigned some = 0, others = 0;
    bool any = false;
    for (int32_t i = 0; i < plan->choices; i++)
        any |= plan->choice[i].offload == OFFLOAD_KEPT;
    for (int64_t i = 0; any && i < plan->instances; i++)
        for (size_t m = 0; m < COUNT_OF(OFFLOADS); m++)
            if (offloads_module(1U << m, plan->model, &plan->model->op[plan->instance[i].op]))
                *(plan_choice(plan, i)->offload == OFFLOAD_KEPT ? &some : &others) |= 1U << m;
    return some & ~others;
}

unsigned offload_from_name(const char *name)
{
    int at = NAME_INDEX(name, OFFLOADS);
    return at < 0 ? 0 : 1U << at;
}

const char *offload_text(struct arena *keep, unsigned modules)
{
    const char *text = modules ? "" : "none";
    for (size_t i = 0; i < COUNT_OF(OFFLOADS); i++)
        if (modules >> i & 1)
            text = arena_printf(keep, "%s%s%s", text, *text ? "," : "", OFFLOADS[i].name);
    return text;
}

bool offload_parse(struct arena *scratch, const char *text, unsigned *modules)
{
    char *rest = arena_copy_text(scratch, text), *word;
    *modules = 0;
    if (strcmp(text, "none") == 0)
        return true;
    while ((word = strsep(&rest, ",")) != NULL) {
        unsigned module = offload_from_name(word);
        if (!module)
            return false;
        *modules |= module;
    }
    return true;
}
