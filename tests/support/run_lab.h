/* run_lab.h - runs of small plans on ranks that are threads, with data made of hashes. */
#ifndef WEFT_TESTS_RUN_LAB_H
#define WEFT_TESTS_RUN_LAB_H

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lab_backend.h"
#include "run/run.h"

/* ---- data ------------------------------------------------------------------------------------ */

static int64_t elements_of(const struct tensor *tensor)
{
    int64_t elements = 1;
    for (int axis = 0; axis < tensor->axes; axis++)
        elements *= tensor->size[axis];
    return elements;
}

static const struct tensor *nth_input(const struct model *model, int32_t number)
{
    for (int32_t i = 0; i < model->tensors; i++) {
        const struct tensor *t = &model->tensor[i];
        if (t->producer < 0 && t->carry_module < 0 && t->view_of < 0 && number-- == 0)
            return t;
    }
    return NULL;
}

/* Ids and labels below the smallest table of the model; one score is that of one of two labels. */
static int64_t classes_of(const struct model *model)
{
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        int dim = op_find_dim(op->kind, DIM_VOCAB);
        int64_t classes = dim < 0 ? INT64_MAX : op->size[dim] == 1 ? 2 : op->size[dim];
        least = classes < least ? classes : least;
    }
    return least;
}

static uint64_t hash_of(int64_t sample, int64_t input, int64_t i)
{
    int64_t key[] = {sample, input, i};
    return hash_bytes(key, sizeof key, 7);
}

static void read_hashes(void *context, int64_t sample, int32_t input, void *out)
{
    const struct model *model = context;
    int64_t classes = classes_of(model);
    const struct tensor *tensor = nth_input(model, input);
    int32_t loss = SOURCE_LABELS - input;
    for (int32_t i = 0; i < model->ops && loss >= 0; i++)
        if (model->op[i].kind == OP_LOSS && loss-- == 0)
            tensor = &model->tensor[model->op[i].output.tensor];
    for (int64_t i = 0; i < elements_of(tensor); i++) {
        uint64_t hash = hash_of(sample, input, i);
        if (input < 0 || tensor->element == ELEMENT_INDEX)
            ((int64_t *)out)[i] = (int64_t)(hash % (uint64_t)classes);
        else
            ((float *)out)[i] = (float)(hash % 2001) / 1000 - 1;
    }
}

/* ---- a run ----------------------------------------------------------------------------------- */

enum { MOST_STEPS = 32, MOST_WEIGHTS = 512 };
struct trained_weight {
    const char *name;
    int64_t elements, seen;
    float *value;
};
struct trained {
    struct arena *arena;
    pthread_mutex_t lock;
    double loss[MOST_STEPS], evaluated[MOST_STEPS];
    struct trained_weight weight[MOST_WEIGHTS];
    int weights;
    int64_t peak, host_peak, events;
    struct loss_scale loss_scale;
    double memory_error; /* of any rank's peak, to the predicted one */
    weft_status status;
    char why[256];
};

struct laboratory {
    const struct plan *plan;
    struct run_options options; /* but for plan and transport */
    const struct slowdown *slowdown;
    int64_t steps;
    bool evaluates;      /* before each step: its samples, and others before them */
    int64_t gives_up_us; /* a rank gives up when so much of the run is over; 0: none */
    struct hub *hub;
    struct trained *out;
};
struct lab_rank {
    struct laboratory *lab;
    int32_t rank;
    pthread_t thread;
};

static struct trained_weight *find_trained(struct trained *t, const char *name, int64_t elements)
{
    for (int i = 0; i < t->weights; i++)
        if (strcmp(t->weight[i].name, name) == 0)
            return &t->weight[i];
    struct trained_weight *w = &t->weight[t->weights++];
    *w = (struct trained_weight){arena_copy_text(t->arena, name), elements, 0, NULL};
    w->value = ARENA_ARRAY(t->arena, float, (size_t)elements);
    for (int64_t i = 0; i < elements; i++)
        w->value[i] = NAN;
    return w;
}

static void collect_weight(void *context, struct run_weight *weight)
{
    struct trained *t = context;
    pthread_mutex_lock(&t->lock);
    struct trained_weight *w = find_trained(t, weight->name, weight->elements);
    for (int64_t i = 0; i < weight->count; i++) {
        int64_t element = layout_element(weight->layout, weight->device, weight->first + i);
        if (element < weight->elements) {
            w->value[element] = weight->value[i];
            w->seen++;
        }
    }
    pthread_mutex_unlock(&t->lock);
}

/* The samples of the steps from the last to the first, and each time those that come next. */
static weft_status evaluate(const struct laboratory *lab, struct rank *rank, int64_t step,
                            double *loss)
{
    int64_t each = lab->plan->global_batch;
    weft_status status = WEFT_OK;
    if (lab->evaluates) {
        TRY(run_evaluate(rank, &lab->options.source, (lab->steps - 1 - step) * each, loss));
        TRY(run_evaluate(rank, &lab->options.source, step * each, loss));
    }
done:
    return status;
}

static weft_status train(struct lab_rank *self, struct transport *transport)
{
    struct laboratory *lab = self->lab;
    struct trained *out = lab->out;
    struct run_options options = lab->options;
    struct rank *rank = NULL;
    const struct run_event *events;
    double loss;
    weft_status status;
    options.plan = lab->plan;
    options.transport = transport;
    TRY(run_open(&options, &rank));
    for (int64_t i = 0; i < lab->steps; i++) {
        double evaluated = 0;
        TRY(evaluate(lab, rank, i, &evaluated));
        TRY(run_step(rank, &loss));
        if (self->rank == 0) {
            out->loss[i] = loss;
            out->evaluated[i] = evaluated;
        }
    }
    TRY(run_weights(rank, collect_weight, out));
    pthread_mutex_lock(&out->lock);
    struct run_memory memory = run_memory(rank);
    out->peak = memory.peak > out->peak ? memory.peak : out->peak;
    out->host_peak = memory.host_peak > out->host_peak ? memory.host_peak : out->host_peak;
    /* A library's workspace on a GPU is larger than all of a small model. */
    int64_t besides = lab_backend() == &CPU_KERNELS ? 0 : memory.at_peak[MEMORY_WORKSPACE];
    double error = fabs((double)(memory.peak - besides) / (double)memory.predicted - 1);
    out->memory_error = error > out->memory_error ? error : out->memory_error;
    out->loss_scale = run_loss_scale(rank);
    out->events += (int64_t)run_events(rank, &events);
    pthread_mutex_unlock(&out->lock);
done:
    run_close(rank);
    return status;
}

static void *lab_thread(void *context)
{
    struct lab_rank *self = context;
    struct transport *transport = transport_threads(self->lab->hub, self->rank);
    weft_status status = train(self, transport);
    if (status != WEFT_OK) {
        struct trained *out = self->lab->out;
        pthread_mutex_lock(&out->lock);
        if (out->status == WEFT_OK) {
            out->status = status;
            strncpy(out->why, weft_last_error()->message, sizeof out->why - 1);
        }
        pthread_mutex_unlock(&out->lock);
        transport->kind->abort(transport, out->why);
    }
    transport->kind->close(transport);
    return NULL;
}

/* As rank 0, while that one runs. */
static void give_up_later(struct laboratory *lab)
{
    struct transport *transport = transport_threads(lab->hub, 0);
    nanosleep(&(struct timespec){.tv_nsec = 1000 * lab->gives_up_us}, NULL);
    transport->kind->abort(transport, "a rank gave up");
    transport->kind->close(transport);
}

static inline struct trained *run_lab(struct laboratory *lab)
{
    int32_t ranks = (int32_t)cluster_devices(lab->plan->cluster);
    struct arena *arena = arena_new();
    struct lab_rank *rank = ARENA_ARRAY(arena, struct lab_rank, (size_t)ranks);
    lab->out = ARENA_NEW(arena, struct trained);
    lab->out->arena = arena;
    pthread_mutex_init(&lab->out->lock, NULL);
    lab->hub = hub_new(ranks, lab->slowdown);
    for (int32_t i = 0; i < ranks; i++) {
        rank[i] = (struct lab_rank){.lab = lab, .rank = i};
        pthread_create(&rank[i].thread, NULL, lab_thread, &rank[i]);
    }
    if (lab->gives_up_us)
        give_up_later(lab);
    for (int32_t i = 0; i < ranks; i++)
        pthread_join(rank[i].thread, NULL);
    hub_free(lab->hub);
    return lab->out;
}

static inline void trained_free(struct trained *trained)
{
    pthread_mutex_destroy(&trained->lock);
    arena_free(trained->arena);
}

/* A norm over rows as small as llama's first embeddings makes rounding grow with every step: with
 * clang's order of sums two plans were 1.3e-5 apart after 20 steps at 0.002. So do hybrids, through more
 * layers and squares: at 0.002 their loss does not fall, and what differs is ten times as much every five
 * steps. The delta rule divides small queries and keys by their lengths, to the same effect. */
static float lab_rate(const struct model *model)
{
    if (strcmp(model->family, "hybrid") == 0 || model_op_of_kind(model, OP_DELTA))
        return 0.0001F;
    return strcmp(model->family, "llama") == 0 ? 0.001F : 0.002F;
}

static struct run_options lab_options(const struct model *model)
{
    return (struct run_options){
        .kernels = lab_backend(),
        .source = {read_hashes, (void *)(uintptr_t)model},
        .seed = 3,
        .optimizer = {.kind = OPTIMIZER_SGD, .rate = lab_rate(model), .momentum = 0.9F},
        .slice_bytes = 1 << 12};
}

#endif
