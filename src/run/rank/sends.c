/* sends.c - sends between stages.
 *
 * A send is one transfer. What the receiver's first steps would slice away is not sent (reshard.c, I3).
 *
 *   I1  What is sent is copied first: a send is over for its rank when it has started. The copy is in host memory where its
 *       receiver may want it much later (graph_waits_in_host), unless transfers are work of the device's streams.
 */
#include "run/rank/sends.h"

#include "run/rank/joins.h"
#include "run/rank/operand_name.h"

/* What a task sends, and between whom. */
struct task_crossing {
    const struct joint *joint;
    const struct reshard *reshard; /* of what one send brings */
    struct crossing_samples samples;
    enum flow flow;
    int64_t use;
    int32_t sender, receiver;
    int64_t from, to, place; /* devices of both stages; the receiver's among them */
};

static struct task_crossing crossing_of(const struct rank *r, const struct task *task)
{
    const struct graph *graph = r->graph;
    const struct exchange *e = &graph->exchange[task->exchange];
    const struct pattern *pattern = &graph->pattern[e->pattern];
    struct group pair = pattern_group(pattern, e->group);
    struct task_crossing c = {.use = graph->uses->use_first[task->reader] + task->about};
    c.joint = graph->uses->use[c.use].joint;
    c.flow = task->stream == STREAM_PREVIOUS ? FLOW_GRADIENT : FLOW_FORWARD;
    c.reshard = c.flow == FLOW_FORWARD ? c.joint->forward[1] : c.joint->backward[0];
    c.reshard = c.reshard->each ? c.reshard->each : c.reshard;
    c.samples = joint_samples(r->plan, c.joint, c.flow == FLOW_GRADIENT);
    c.sender = (int32_t)group_device(&pair, 0);
    c.receiver = (int32_t)group_device(&pair, 1);
    c.from = pattern->from_devices;
    c.to = pattern->devices;
    c.place = c.receiver - pattern->first;
    return c;
}

static bool slices(const struct reshard *reshard, int32_t step)
{
    return step < reshard->steps && reshard->step[step].kind == STEP_SLICE;
}

/* I1 */
static bool waits_in_host(const struct rank *r, const struct task_crossing *c)
{
    const struct use *use = &r->graph->uses->use[c->use];
    int64_t sends = c->flow == FLOW_FORWARD ? use->source : use->reader;
    return !runs_in_order(r) && graph_waits_in_host(r->graph, r->graph->uses->part_of[sends]);
}

static void stage_send(struct rank *r, struct errand *w, const struct task_crossing *c,
                       struct value *value)
{
    int64_t bytes = value->count * dtype_bytes(w->transfer.dtype);
    if (waits_in_host(r, c)) {
        send_from_host(r, w, value);
        return;
    }
    stage_out(r, w, value->count);
    rank_device(r)->copy(r->work, COPY_ON_DEVICE, w->out, value->data, bytes);
}

void send_begin(struct rank *r, struct errand *w)
{
    const struct task *task = &r->graph->task[r->program.job[w->job].task];
    struct task_crossing c = crossing_of(r, task);
    bool forward = c.flow == FLOW_FORWARD;
    int32_t key = key_of(r, forward ? KEY_OUTBOX : KEY_INBOX, c.use);
    pthread_mutex_lock(&r->lock);
    struct value **box = value_at(r, first_joined(r, task->micro_batch), key), *value = *box;
    if (r->program.job[w->job].empties)
        *box = NULL;
    else
        value_share(value);
    pthread_mutex_unlock(&r->lock);
    if (!value) {
        rank_fail(r, "what is to be sent of %s is not there",
                  operand_name(r, task->reader, task->about).s);
        return;
    }
    if (forward)
        value = fit_forward(r, c.joint, value);
    else if (!c.joint->part)
        value = fit_gradient(r, c.joint, value);
    value = cut_joined(r, value, &c.samples, task->micro_batch);
    w->transfer.dtype = travels_as(r, stored_as(r, c.joint->from->op->output.element));
    value = value_as(r, value, w->transfer.dtype);
    struct layout layout = layout_received(&value->layout, c.from, c.to);
    for (int32_t i = c.reshard->send + 1; slices(c.reshard, i); i++) {
        struct move move;
        if (!move_of(&layout, &c.reshard->step[i], &move)) {
            rank_fail(r, "what is sent of %s is not how it lies",
                      operand_name(r, task->reader, task->about).s);
            break;
        }
        struct value *sliced = room_for(r, value, &move);
        struct runs runs = rank_runs(r, w->transfer.dtype, value->data, sliced->data, &move);
        move_slice(&move, c.place, &runs);
        value_release(r, value);
        value = sliced;
        layout = move.after;
    }
    stage_send(r, w, &c, value);
    w->transfer.count = value->count;
    value_release(r, value);
    w->transfer.kind = TRANSFER_SEND;
    w->transfer.group = r->program.job[w->job].group;
    w->transfer.peer = c.receiver;
    w->transfer.tag = r->program.job[w->job].task;
}

void send_end(struct rank *r, struct errand *w)
{
    give_back(r, w);
}

/* How it lies when it comes: I3 of reshard.c. False: it cannot. */
static bool received_layout(const struct rank *r, const struct task_crossing *c, struct layout *out)
{
    const struct joint *j = c->joint;
    const struct op *op = j->to->op;
    bool forward = c->flow == FLOW_FORWARD;
    struct layout whole = j->from->output;
    int64_t elements = forward ? j->to->input[j->operand].elements : j->from->output_grad.elements;
    *out = j->to->input_grad[j->operand];
    if (forward)
        *out = layout_part(r->plan->model, op, &op->input[j->operand], &whole);
    *out = layout_of_samples(out, c->samples.from, c->samples.each);
    elements = elements / c->samples.to * c->samples.each;
    for (int32_t i = 0; i <= c->reshard->send || slices(c->reshard, i); i++) {
        struct move move;
        if (!j->part && layout_is_copies(out))
            out->elements = elements;
        if (i == c->reshard->send) {
            *out = layout_received(out, c->from, c->to);
            continue;
        }
        if (!move_of(out, &c->reshard->step[i], &move))
            return false;
        *out = move.after;
    }
    return true;
}

void receive_begin(struct rank *r, struct errand *w)
{
    const struct task *task = &r->graph->task[r->program.job[w->job].task];
    struct task_crossing c = crossing_of(r, task);
    struct layout layout;
    if (!received_layout(r, &c, &layout)) {
        rank_fail(r, "what comes of %s is not how it lies",
                  operand_name(r, task->reader, task->about).s);
        return;
    }
    w->stored = stored_as(r, c.joint->from->op->output.element);
    w->transfer.dtype = travels_as(r, w->stored);
    w->result = value_new(r, MEMORY_ACTIVATIONS, w->transfer.dtype, &layout, layout_local(&layout));
    w->key = key_of(r, c.flow == FLOW_FORWARD ? KEY_RECEIVED : KEY_BACK, c.use);
    w->transfer.kind = TRANSFER_RECEIVE;
    w->transfer.group = r->program.job[w->job].group;
    w->transfer.peer = c.sender;
    w->transfer.tag = r->program.job[w->job].task;
    w->transfer.to = w->result->data;
    w->transfer.count = w->result->count;
}

void receive_end(struct rank *r, struct errand *w)
{
    const struct task *task = &r->graph->task[r->program.job[w->job].task];
    struct task_crossing c = crossing_of(r, task);
    put_joined(r, &c.samples, task->micro_batch, w->key, value_as(r, w->result, w->stored));
    w->result = NULL;
}
