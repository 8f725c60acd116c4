/* inputs.c - the model's own inputs, read from the source of batches (inputs.h). */
#include "run/rank/borders.h"
#include "run/rank/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "run/rank/read_ahead.h"

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

struct gathering gathering_of(const struct rank *r, const struct source_read *read)
{
    return (struct gathering){*read, r->source,
                              r->first_sample + read->micro_batch * r->plan->step_samples,
                              joined_order(r)};
}

/* Whole samples are read where they go. */
static void gather_samples(const struct gathering *g, int64_t each)
{
    const struct source_read *read = &g->read;
    for (int64_t i = 0; i < layout_local(read->layout); i += each)
        g->source.read(
            g->source.context,
            g->first +
                joined_sample(&g->order, layout_element(read->layout, read->place, i) / each),
            read->input, (char *)read->out + i * read->bytes);
}

static void gather_parts(const struct gathering *g, int64_t each, int64_t run)
{
    const struct source_read *read = &g->read;
    int64_t now = -1, bytes = read->bytes;
    char *whole = malloc((size_t)(each * bytes));
    if (!whole)
        memory_ran_out((size_t)(each * bytes));
    for (int64_t i = 0; i < layout_local(read->layout); i += run) {
        int64_t element = layout_element(read->layout, read->place, i);
        if (element / each != now) {
            now = element / each;
            g->source.read(g->source.context, g->first + joined_sample(&g->order, now), read->input,
                           whole);
        }
        memcpy((char *)read->out + i * bytes, whole + element % each * bytes,
               (size_t)(run * bytes));
    }
    free(whole);
}

void gather(const struct gathering *g)
{
    int64_t each = elements_per_sample(g->read.operand);
    int64_t run = run_in_sample(g->read.layout, g->read.place, each);
    if (run == each)
        gather_samples(g, each);
    else
        gather_parts(g, each, run);
}

void gather_source(struct rank *r, const struct source_read *read)
{
    struct gathering g = gathering_of(r, read);
    const void *ready = read_ahead(r, read);
    if (!ready) {
        gather(&g);
        return;
    }
    memcpy(read->out, ready, (size_t)(layout_local(read->layout) * read->bytes));
    read_ahead_next(r, read, NULL);
}

/* Few numbers, through memory of the moment. */
static void read_few(struct rank *r, const struct source_read *read, void *out)
{
    int64_t bytes = layout_local(read->layout) * read->bytes;
    struct host_view here = host_view(rank_device(r), r->work, out, bytes, false);
    struct gathering g = gathering_of(r, read);
    g.read.out = here.at;
    if (!here.at)
        memory_ran_out((size_t)bytes);
    gather(&g);
    host_view_end(rank_device(r), r->work, &here, true);
}

/* What is recorded is copied from where the record says. */
static void read_many(struct rank *r, const struct source_read *read, const void *ready, void *out)
{
    const struct compute_device *device = rank_device(r);
    int64_t bytes = layout_local(read->layout) * read->bytes;
    if (r->replay.recording) {
        device->upload(r->work, out, ready, bytes);
        read_ahead_next(r, read, NULL);
        return;
    }
    device->copy(r->work, COPY_FROM_HOST, out, ready, bytes);
    read_ahead_next(r, read, device_record(device, r->work));
}

void read_source(struct rank *r, const struct source_read *wanted)
{
    struct source_read read = *wanted;
    const void *ready = read_ahead(r, wanted);
    read.out = NULL; /* of the host's */
    if (ready)
        read_many(r, &read, ready, wanted->out);
    else
        read_few(r, &read, wanted->out);
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
