/* cast_inputs.c - inputs of products and of attention that are kept and sent as they were cast (lifetimes.h, I10). */
#include "compile/lives.h"

#include <math.h>

/* Whether an operator keeps its first input as it was cast. */
static bool keeps_cast(const struct life_trace *t, int64_t instance)
{
    const struct plan *plan = t->b->plan;
    const struct op *op = laid_of(t->b, instance)->op;
    int inputs = software_word(&plan->software, FACT_INPUTS);
    bool product = dtype_is_cast(op_dtype(plan->model, plan->instance[instance].op, plan->dtype));
    bool activation = dtype_is_cast(plan->dtype) && op_is_activation(op->kind);
    return (op->keep & KEEP_INPUT_0) &&
           ((product && inputs != INPUTS_WHOLE) || (activation && inputs == INPUTS_ALL));
}

/* The cast that a product shortly before it has made of the same input, of queries or gates; NOTHING: there is none. */
static int32_t cast_beside(const struct life_trace *t, int64_t instance)
{
    enum { MOST_BESIDE = 3 };
    const struct build *b = t->b;
    int32_t input = input_life(t, &b->use[b->use_first[instance]]);
    for (int64_t other = instance - 1; other >= t->first && other >= instance - MOST_BESIDE;
         other--)
        if (keeps_cast(t, other) && input_life(t, &b->use[b->use_first[other]]) == input)
            return t->cast[life_place(t, other)];
    return NOTHING;
}

/* Bytes that an input is held in until the backward pass: what was gathered is so only by parts (I3). */
static double held_bytes(const struct life_trace *t, const struct use *use)
{
    struct joint_steps steps =
        use->joint ? joint_forward_steps(use->joint) : (struct joint_steps){0};
    const struct reshard_step *step = joint_first_step(&steps);
    int32_t from = life_origin(t, use);
    bool gathered = step && step->kind == COLLECTIVE_ALL_GATHER && from != NOTHING;
    return gathered ? (double)t->lives.data[from].bytes : life_input_bytes(t, use);
}

bool attention_keeps_cast(const struct build *b, int64_t instance)
{
    return attends_in_fp8(&b->plan->software, laid_of(b, instance)->op, b->plan->dtype);
}

/* Bytes of what attention in fp8 keeps, one for each number: queries, keys, values and its output. */
static double attention_bytes(const struct life_trace *t, int64_t instance)
{
    const struct build *b = t->b;
    const struct laid *laid = laid_of(b, instance);
    double whole = operand_bytes(laid->op, &laid->op->output, laid->local, b->plan->dtype);
    for (int64_t u = b->use_first[instance]; u < b->use_first[instance + 1]; u++)
        whole += held_bytes(t, &b->use[u]);
    return whole / dtype_bytes(b->plan->dtype);
}

/* I10. */
void take_cast(struct life_trace *t, int64_t instance)
{
    const struct build *b = t->b;
    enum dtype dtype = b->plan->dtype;
    int32_t *cast = &t->cast[life_place(t, instance)];
    if (attention_keeps_cast(b, instance))
        *cast = take_life(t, HELD_COPY, instance, attention_bytes(t, instance));
    if (!keeps_cast(t, instance))
        return;
    *cast = cast_beside(t, instance);
    if (*cast == NOTHING)
        *cast = take_life(t, HELD_COPY, instance,
                          held_bytes(t, &b->use[b->use_first[instance]]) * dtype_cast_bytes(dtype) /
                              dtype_bytes(dtype));
}

/* Whether what a step gathers was cast for a product before: its input, or the gradient of its output. */
static bool gathers_cast(const struct build *b, const struct use *use,
                         const struct reshard_step *step, enum flow flow)
{
    const struct plan *plan = b->plan;
    int64_t product = flow == FLOW_GRADIENT ? use->source : use->reader;
    return software_word(&plan->software, FACT_INPUTS) != INPUTS_WHOLE &&
           step->kind == COLLECTIVE_ALL_GATHER && product >= 0 &&
           dtype_is_cast(op_dtype(plan->model, plan->instance[product].op, plan->dtype));
}

/* Whether attention in fp8 reads what is sent, or wrote it: Transformer Engine casts before it sends to other devices of
 * cp (attention/dot_product_attention/context_parallel.py). */
static bool sends_attention_cast(const struct build *b, const struct use *use,
                                 const struct reshard_step *step)
{
    bool read = attention_keeps_cast(b, use->reader);
    bool written = use->source >= 0 && attention_keeps_cast(b, use->source) &&
                   step->kind == COLLECTIVE_ALL_TO_ALL;
    return read || written;
}

int64_t step_bytes_sent(const struct build *b, const struct use *use,
                        const struct reshard_step *step, enum flow flow)
{
    enum dtype dtype = b->plan->dtype;
    const struct op *op = laid_of(b, use->reader)->op;
    if (sends_attention_cast(b, use, step))
        return step->elements;
    if (gathers_cast(b, use, step, flow))
        return (int64_t)((double)step->elements * dtype_cast_bytes(dtype));
    return step->elements * element_bytes(op->input[use->operand].element, dtype);
}

/* I9. */
void take_steps(struct life_trace *t, const struct laid *laid, bool forward)
{
    const struct op *op = laid->op;
    if (!(op->keep & KEEP_STEPS))
        return;
    double elements = operand_elements(op, &op->input[0], laid->local);
    double gradient = operand_bytes(op, &op->input[0], laid->local, t->b->plan->dtype);
    take_life(t, forward ? HELD_COPY : HELD_GRADIENT, t->item->instance, 4 * elements);
    if (forward)
        return;
    take_life(t, HELD_GRADIENT, t->item->instance, fmax(0, 4 * elements - gradient));
    if (software_word(&t->b->plan->software, FACT_LOGITS) == LOGITS_FREED)
        return;
    read_life(t, input_life(t, &t->b->use[t->b->use_first[t->item->instance]])); /* I16 */
    int vocab = op_find_dim(op->kind, DIM_VOCAB);
    if (laid->local[vocab] < op->size[vocab]) /* DTensor's loss_parallel adds two copies up */
        take_life(t, HELD_GRADIENT, t->item->instance, 4 * elements);
}
