/* inputs.c - the model's own inputs, read from the source of batches (inputs.h). */
#include "run/rank/borders.h"
#include "run/rank/inputs.h"

#include <stdlib.h>
#include <string.h>

/* The model's inputs are numbered in the order of its tensors. */
static int32_t input_number(const struct model *model, int32_t tensor)
{
    int32_t number = 0, storage = tensor_storage(model, tensor);
    for (int32_t i = 0; i < storage; i++) {
        const struct tensor *t = &model->tensor[i];
        number += t->producer < 0 && t->carry_module < 0 && t->view_of < 0;
    }
    return number;
}

/* So are its losses, in the order of its operators. */
int32_t loss_number(const struct model *model, const struct op *loss)
{
    int32_t number = 0;
    for (const struct op *op = model->op; op < loss; op++)
        number += op->kind == OP_LOSS;
    return number;
}

int64_t elements_per_sample(const struct operand *operand)
{
    int64_t elements = 1;
    for (int axis = 0; axis < operand->axes; axis++)
        elements *= operand->size[axis];
    return elements;
}

/* How many elements of a layout follow each other both here and in a sample. */
static int64_t run_in_sample(const struct layout *layout, int64_t place, int64_t each)
{
    struct layout_stride stride[MAX_LAYOUT_DIGITS];
    int32_t digits = layout_strides(layout, place, stride);
    int64_t run = common_divisor(layout_local(layout), each);
    for (int32_t i = 0; i < digits; i++)
        if (stride[i].degree > 1)
            run = common_divisor(run, stride[i].hold);
    return run > 0 ? run : 1;
}

void gather_source(const struct rank *r, const struct source_read *read)
{
    const struct batch_source *source = &r->source;
    int64_t each = elements_per_sample(read->operand), now = -1, bytes = read->bytes;
    int64_t first = r->first_sample + read->micro_batch * r->plan->step_samples;
    int64_t run = run_in_sample(read->layout, read->place, each);
    char *whole = malloc((size_t)(each * bytes));
    if (!whole)
        memory_ran_out((size_t)(each * bytes));
    for (int64_t i = 0; i < layout_local(read->layout); i += run) {
        int64_t element = layout_element(read->layout, read->place, i);
        if (element / each != now) {
            now = element / each;
            source->read(source->context, first + now, read->input, whole);
        }
        memcpy((char *)read->out + i * bytes, whole + element % each * bytes,
               (size_t)(run * bytes));
    }
    free(whole);
}

void read_source(struct rank *r, const struct source_read *wanted)
{
    int64_t all = layout_local(wanted->layout) * wanted->bytes;
    struct host_view here = host_view(rank_device(r), r->work, wanted->out, all, false);
    struct source_read read = *wanted;
    read.out = here.at;
    if (!here.at)
        memory_ran_out((size_t)all);
    gather_source(r, &read);
    host_view_end(rank_device(r), r->work, &here, true);
    replay_note_read(r, &read);
}

struct value *read_input(struct rank *r, int32_t micro_batch, const struct local_op *local_op,
                         int32_t operand)
{
    const struct operand *input = &local_op->laid->op->input[operand];
    const struct border_moves *border = local_op->border;
    const struct layout *layout = border ? &border->source : &local_op->laid->input[operand];
    int64_t bytes =
        input->element == ELEMENT_INDEX ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(float);
    struct value *value = value_new(r, MEMORY_ACTIVATIONS, DTYPE_FP32, layout,
                                    layout_local(layout) * bytes / (int64_t)sizeof(float));
    read_source(r, &(struct source_read){micro_batch, input_number(r->plan->model, input->tensor),
                                         input, layout, local_op->place, bytes, value->data});
    if (border)
        value = image_cut(r, border, value);
    return value_as(r, value, stored_as(r, input->element));
}
