/* sources.c - which instance made what another one reads.
 *
 * A tensor that a module's copies pass on (its carry) is, in copy k of the module,
 *
 *   carry_out of copy k - 1,  or carry_init for k = 0                                          (1)
 *
 * and the producer's copy follows from the reader's: modules around both have the reader's index
 * (one less in the module of (1)); of modules around the producer only, or inside the module of
 * (1), the reader sees the last copy.
 */
#include "plan/plan.h"

enum { MAX_NESTING = 16 };
/* The modules around an operator, innermost first, and which copy of each an instance is in. */
struct context {
    int32_t depth;
    int32_t module[MAX_NESTING];
    int64_t index[MAX_NESTING];
};

static struct context context_of(const struct model *model, int32_t op, int64_t copy)
{
    struct context c = {0};
    for (int32_t m = model->op[op].module; m >= 0 && c.depth < MAX_NESTING;
         m = model->module[m].parent) {
        c.module[c.depth] = m;
        c.index[c.depth++] = copy % model->module[m].repeat;
        copy /= model->module[m].repeat;
    }
    return c;
}

static int32_t depth_of(const struct context *c, int32_t module)
{
    for (int32_t i = 0; i < c->depth; i++)
        if (c->module[i] == module)
            return i;
    return -1;
}

/* The copy of operator `op` that a reader in this context sees; of modules of the context at places
 * below `inside` it sees the last copy. */
static int64_t copy_seen(const struct model *model, const struct context *reader, int32_t inside,
                         int32_t op)
{
    int64_t copy = 0, weight = 1;
    for (int32_t m = model->op[op].module; m >= 0; m = model->module[m].parent) {
        int32_t place = depth_of(reader, m);
        int64_t repeat = model->module[m].repeat;
        copy += weight * (place >= inside && place >= 0 ? reader->index[place] : repeat - 1);
        weight *= repeat;
    }
    return copy;
}

int64_t instance_source(const struct instance_index *index, const struct instance *reader,
                        int32_t tensor)
{
    const struct model *model = index->plan->model;
    struct context c = context_of(model, reader->op, reader->copy);
    int32_t inside = 0;
    tensor = tensor_storage(model, tensor);
    while (model->tensor[tensor].carry_module >= 0) {
        int32_t m = model->tensor[tensor].carry_module, place = depth_of(&c, m);
        bool first = place < 0 || place < inside || c.index[place] == 0;
        tensor =
            tensor_storage(model, first ? model->module[m].carry_init : model->module[m].carry_out);
        if (!first) {
            c.index[place]--;
            inside = place;
        }
    }
    int32_t op = model->tensor[tensor].producer;
    return op < 0 ? -1 : index->at[index->first[op] + copy_seen(model, &c, inside, op)];
}

struct instance_index plan_index(struct arena *keep, const struct plan *plan)
{
    struct instance_index index = {.plan = plan};
    index.first = ARENA_ARRAY(keep, int64_t, (size_t)plan->model->ops + 1);
    for (int32_t i = 0; i < plan->model->ops; i++)
        index.first[i + 1] = index.first[i] + op_copies(plan->model, &plan->model->op[i]);
    index.at = ARENA_ARRAY(keep, int64_t, (size_t)plan->instances);
    for (int64_t i = 0; i < plan->instances; i++)
        index.at[index.first[plan->instance[i].op] + plan->instance[i].copy] = i;
    return index;
}
