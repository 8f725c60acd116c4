/* train.c - the loop of a run over its steps, with its log, its checkpoints and its end (train.h). */
#include "run/train/train.h"

#include "run/backends/backends.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run/train/saving.h"

/* One rank's run. */
struct training {
    const struct training_options *o;
    struct rank_agreement agreement;
    struct arena *keep;
    struct corpus corpus;
    struct checkpoint *checkpoint; /* resumed from */
    struct rank *rank;
    struct run_log log;
    uint64_t seed, run;
    int64_t samples_taken;
    struct training_state settings; /* those alone */
    int lock;                       /* of the checkpoints' folder, on rank 0; -1: none */
    double started_s;
    struct training_result *out;
    bool agreed;    /* the error is known to all */
    bool same_plan; /* as that of the checkpoint */
};

static bool is_first(const struct training *t)
{
    return t->agreement.transport->rank == 0;
}

/* I2 */
static weft_status agree(struct training *t, weft_status mine)
{
    weft_status status = agreement_reach(&t->agreement, mine);
    t->agreed = status != WEFT_OK;
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void note(const struct training *t, const char *line)
{
    if (is_first(t) && t->o->note)
        t->o->note(t->o->context, line);
}

/* I4, first half: before anybody looks at what is in the folder. */
static weft_status lock_folder(struct training *t)
{
    return is_first(t) && t->o->checkpoint.folder ? checkpoint_lock(&t->o->checkpoint, &t->lock)
                                                  : WEFT_OK;
}

/* A folder that the run would save in, or that is there, may be empty still; another one that is not
 * there is misspelt. */
static bool may_begin(const struct training_options *o)
{
    struct stat info;
    return (o->checkpoint.folder && strcmp(o->resume, o->checkpoint.folder) == 0) ||
           stat(o->resume, &info) == 0;
}

static weft_status open_checkpoint(struct training *t)
{
    bool exists;
    weft_status status = WEFT_OK;
    if (!t->o->resume)
        return WEFT_OK;
    TRY(checkpoint_exists(t->o->resume, &exists));
    if (exists || !may_begin(t->o))
        return checkpoint_open(t->o->resume, &t->checkpoint);
    note(t, arena_printf(t->keep, "%s: holds no checkpoint, the run starts from the beginning",
                         t->o->resume));
done:
    return status;
}

static weft_status take_seed(struct training *t)
{
    const struct training_state *state =
        t->checkpoint ? checkpoint_state(t->checkpoint) : &(struct training_state){0};
    int64_t seed = t->o->seed;
    if (seed < 0)
        seed = t->checkpoint ? state->seed : DEFAULT_SEED;
    if (t->checkpoint && seed != state->seed)
        return bad_argument("leave --seed out", "%s is of a run with seed %lld, not %lld",
                            checkpoint_folder(t->checkpoint), (long long)state->seed,
                            (long long)seed);
    t->seed = (uint64_t)seed;
    t->samples_taken = state->samples;
    t->out->first_step = t->out->step = state->step;
    t->out->finished = state->step >= t->o->steps;
    return WEFT_OK;
}

static weft_status check_settings(struct training *t)
{
    struct arena *scratch = arena_new();
    const char *changed;
    weft_status status = WEFT_OK;
    settings_of(t->keep, t->o, &t->corpus, &t->settings);
    if (!t->checkpoint)
        goto done;
    const struct training_state *before = checkpoint_state(t->checkpoint);
    const char *folder = checkpoint_folder(t->checkpoint);
    TRY(settings_check(scratch, folder, before, &t->settings, t->o->allowed, &changed));
    t->same_plan = strcmp(before->plan, plan_write(scratch, t->o->plan)) == 0;
    note(t, arena_printf(scratch, "goes on from %s%s%s%s", folder,
                         t->same_plan ? "" : ", under another plan", *changed ? "; it was of " : "",
                         changed));
done:
    arena_free(scratch);
    return status;
}

/* Weights and what the optimizer keeps of each. */
static int64_t checkpoint_bytes(const struct training_options *o)
{
    int states = o->optimizer.kind == OPTIMIZER_SGD ? 2 : 3;
    return (int64_t)(model_totals(o->plan->model, o->plan->dtype).parameters *
                     (double)sizeof(float) * states);
}

/* I4, second half, on rank 0. */
static weft_status claim_places(struct training *t)
{
    const struct training_options *o = t->o;
    weft_status status = WEFT_OK;
    if (o->checkpoint.folder)
        TRY(checkpoint_claim(&o->checkpoint, t->checkpoint, checkpoint_bytes(o), &t->run));
    if (o->log)
        TRY(log_open(t->keep, o->log, t->out->step, &t->log));
done:
    return status;
}

static weft_status open_files(struct training *t)
{
    struct corpus_options data = t->o->data;
    weft_status status;
    TRY(rate_check(&t->o->rate));
    TRY(open_checkpoint(t));
    TRY(take_seed(t));
    if (t->out->finished)
        goto done;
    data.seed = t->seed;
    TRY(corpus_open(t->o->plan->model, &data, &t->corpus));
    t->corpus.before = t->samples_taken - t->out->step * t->o->plan->global_batch;
    TRY(check_settings(t));
    if (is_first(t))
        TRY(claim_places(t));
done:
    return status;
}

/* A folder that is only read may change between two looks at it. */
static weft_status same_start(struct training *t)
{
    int32_t ranks = t->agreement.transport->ranks;
    struct arena *scratch = arena_new();
    int64_t *step = ARENA_ARRAY(scratch, int64_t, (size_t)ranks);
    weft_status status = agreement_gather(&t->agreement, &t->out->step, sizeof *step, step);
    for (int32_t i = 1; status == WEFT_OK && i < ranks; i++)
        if (step[i] != step[0])
            status = failure("%s: ranks found steps %lld and %lld: a run is still saving there",
                             t->o->resume, (long long)step[0], (long long)step[i]);
    t->agreed = status != WEFT_OK;
    arena_free(scratch);
    return status;
}

static struct loss_scale scale_of_state(const struct training_state *state)
{
    return (struct loss_scale){(double)state->loss_scale, state->good_steps, state->skipped_steps};
}

static weft_status open_rank(void *context)
{
    struct training *t = context;
    const struct training_options *o = t->o;
    struct run_options run = {.plan = o->plan,
                              .transport = t->agreement.transport,
                              .source = corpus_training(&t->corpus),
                              .optimizer = o->optimizer,
                              .seed = t->seed,
                              .dropout = o->dropout,
                              .clip = o->clip,
                              .first_step = t->out->step,
                              .loss_scale = {.scale = o->loss_scale},
                              .replays = o->replays,
                              .trace = o->trace};
    weft_status status;
    const char *device = o->device ? o->device : "cpu", *line;
    if (t->checkpoint && checkpoint_state(t->checkpoint)->loss_scale > 0)
        run.loss_scale = scale_of_state(checkpoint_state(t->checkpoint));
    TRY(backend_open(device, run.transport->rank, &run.kernels));
    TRY(choices_take(run.kernels, o->profile, o->plan->cluster->node.device.name, t->keep, &line));
    if (line)
        note(t, line);
    if (run.transport->kind->apart)
        run.carrier = backend_carrier(device);
    TRY(run_open(&run, &t->rank));
    if (run_note(t->rank) && run.transport->ranks > 1)
        note(t, run_note(t->rank));
    if (run_cannot_replay(t->rank))
        note(t, arena_printf(t->keep, "work is not replayed: %s", run_cannot_replay(t->rank)));
    if (t->checkpoint)
        TRY(load_state(t->rank, run.transport->rank, t->same_plan, t->checkpoint));
    else if (o->from)
        TRY(load_public(t->rank, o->plan->model, o->from));
done:
    return status;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* What every rank tells after a step. */
struct pulse {
    int64_t memory_bytes;
    bool stops, fails;
};

static weft_status take_pulse(struct training *t, struct log_row *row)
{
    int32_t ranks = t->agreement.transport->ranks;
    struct pulse mine = {.memory_bytes = run_peak_bytes(t->rank),
                         .stops = t->o->stop && *t->o->stop,
                         .fails = corpus_status(&t->corpus) != WEFT_OK};
    struct pulse *all = calloc((size_t)ranks, sizeof *all);
    bool fails = false;
    if (!all)
        return failure("out of memory");
    weft_status status = agreement_gather(&t->agreement, &mine, sizeof mine, all);
    for (int32_t i = 0; status == WEFT_OK && i < ranks; i++) {
        if (all[i].memory_bytes > row->memory_bytes)
            row->memory_bytes = all[i].memory_bytes;
        t->out->stopped |= all[i].stops;
        fails |= all[i].fails;
    }
    free(all);
    return fails ? agree(t, corpus_status(&t->corpus)) : status;
}

/* I3: what it rests on is the same on all ranks. Nothing failed: the same question has the same end again. */
static weft_status check_numbers(struct training *t, const struct log_row *row)
{
    bool scaled = run_loss_scale(t->rank).scale > 1; /* and will be less: the step was left out */
    bool bad_norm = t->o->clip > 0 && !isfinite(row->grad_norm) && !scaled;
    if (isfinite(row->loss) && !bad_norm)
        return WEFT_OK;
    t->agreed = true;
    no_answer(NULL, "the %s of step %lld is not a number",
              isfinite(row->loss) ? "gradient" : "loss", (long long)row->step);
    error_hint("%s%s", t->out->saved ? "resume from the last checkpoint with " : "",
               "a lower --rate, a longer --warmup or a lower --clip");
    return WEFT_NO_ANSWER;
}

static weft_status step(struct training *t, struct log_row *row)
{
    double from_s = wall_seconds(), tokens = (double)t->o->plan->global_batch;
    weft_status status;
    row->step = t->out->step + 1;
    row->rate = rate_at(&t->o->rate, t->out->step);
    run_set_rate(t->rank, (float)row->rate);
    TRY(run_step(t->rank, &row->loss));
    tokens *= (double)t->corpus.order.window;
    row->tokens_per_s = tokens / (wall_seconds() - from_s);
    row->grad_norm = run_gradient_norm(t->rank);
    TRY(take_pulse(t, row));
    TRY(check_numbers(t, row));
    t->out->step++;
    t->out->loss = row->loss;
    t->samples_taken += t->o->plan->global_batch;
done:
    return status;
}

/* ---- every so often -------------------------------------------------------------------------- */

static bool is_over(const struct training *t)
{
    return t->out->step == t->o->steps || t->out->stopped;
}

static bool is_due(const struct training *t, int64_t every)
{
    return is_over(t) || (every > 0 && t->out->step % every == 0);
}

static weft_status validate(struct training *t, struct log_row *row)
{
    struct batch_source source = corpus_validation(&t->corpus);
    int64_t global = t->o->plan->global_batch, batches = t->corpus.order.validation / global;
    double sum = 0, loss;
    weft_status status = WEFT_OK;
    if (t->corpus.order.validation == 0 || !is_due(t, t->o->validate_every))
        return WEFT_OK;
    batches = batches > MOST_VALIDATION_BATCHES ? MOST_VALIDATION_BATCHES : batches;
    batches = batches < 1 ? 1 : batches;
    for (int64_t i = 0; i < batches; i++) {
        TRY(run_evaluate(t->rank, &source, i * global, &loss));
        sum += loss;
    }
    row->validated = t->out->validated = true;
    row->validation_loss = t->out->validation_loss = sum / (double)batches;
done:
    return status;
}

static weft_status save(struct training *t, struct training_news *news)
{
    const struct plan *plan = t->o->plan;
    weft_status status;
    if (!t->o->checkpoint.folder || !is_due(t, t->o->save_every))
        return WEFT_OK;
    struct arena *scratch = arena_new();
    struct loss_scale scale = run_loss_scale(t->rank);
    struct training_state state = {.step = t->out->step,
                                   .loss_scale = (int64_t)scale.scale,
                                   .good_steps = scale.good,
                                   .skipped_steps = scale.skipped,
                                   .seed = (int64_t)t->seed,
                                   .samples = t->samples_taken,
                                   .model = plan->model->name,
                                   .plan = plan_write(scratch, plan),
                                   .run = t->run,
                                   .setting = t->settings.setting,
                                   .settings = t->settings.settings};
    TRY(save_state(t->rank, &t->agreement, &t->o->checkpoint, &state, t->keep, &t->out->saved));
    news->saved = t->out->saved;
done:
    t->agreed = status != WEFT_OK;
    arena_free(scratch);
    return status;
}

static void tell(struct training *t, struct training_news *news)
{
    int64_t done = t->out->step - t->out->first_step, left = t->o->steps - t->out->step;
    news->steps = t->o->steps;
    news->left_s = (wall_seconds() - t->started_s) / (double)done * (double)left;
    if (is_first(t) && t->o->tell)
        t->o->tell(t->o->context, news);
}

/* A step's line comes before its checkpoint: a log never ends before what one resumes from. */
static weft_status write_log(struct training *t, const struct log_row *row)
{
    if (!t->o->log)
        return WEFT_OK;
    return agree(t, is_first(t) ? log_write(&t->log, row) : WEFT_OK);
}

static weft_status loop(struct training *t)
{
    weft_status status = WEFT_OK;
    t->started_s = wall_seconds();
    while (!is_over(t)) {
        struct training_news news = {0};
        double from_s = wall_seconds();
        TRY(step(t, &news.row));
        news.step_s = wall_seconds() - from_s;
        TRY(validate(t, &news.row));
        TRY(write_log(t, &news.row));
        TRY(save(t, &news));
        tell(t, &news);
    }
done:
    return status;
}

/* ---- the end --------------------------------------------------------------------------------- */

static weft_status finish(struct training *t)
{
    int32_t ranks = t->agreement.transport->ranks;
    struct run_memory memory = run_memory(t->rank);
    weft_status status;
    t->out->memory = ARENA_ARRAY(t->keep, struct run_memory, (size_t)ranks);
    TRY(agreement_gather(&t->agreement, &memory, sizeof memory, t->out->memory));
    if (t->o->trace)
        TRY(record_write(t->rank, &t->agreement, t->o->trace));
    if (t->o->to)
        TRY(agree(t, is_first(t) ? save_public(t->o->plan->model, &t->o->checkpoint, t->out->saved,
                                               t->o->to)
                                 : WEFT_OK));
done:
    t->agreed = status != WEFT_OK;
    return status;
}

weft_status train_rank(const struct training_options *options, struct transport *transport,
                       struct arena *keep, struct training_result *out)
{
    struct training t = {.o = options, .keep = keep, .out = out, .log.file = -1, .lock = -1};
    weft_status status;
    *out = (struct training_result){0};
    TRY(agreement_new(transport, &t.agreement));
    TRY(agree(&t, lock_folder(&t)));
    TRY(agree(&t, open_files(&t)));
    TRY(same_start(&t));
    if (out->finished)
        goto done;
    TRY(agree(
        &t, request_part(options->request ? options->request : request_current(), open_rank, &t)));
    TRY(loop(&t));
    TRY(finish(&t));
done:
    if (status && options->fails)
        options->fails(options->context, status);
    if (status && !t.agreed)
        transport->kind->abort(transport, weft_last_error()->message);
    checkpoint_unlock(t.lock);
    log_close(&t.log);
    run_close(t.rank);
    checkpoint_close(t.checkpoint);
    corpus_close(&t.corpus);
    return status;
}

/* ---- ranks that are threads ------------------------------------------------------------------ */

struct trained_ranks {
    const struct training_options *options;
    struct hub *hub;
    int32_t ranks;
    struct arena *keep;             /* of the first */
    struct training_result *result; /* of the first */
};

static weft_status train_in_thread(void *context, int32_t number, int32_t threads)
{
    struct trained_ranks *all = context;
    if (threads < all->ranks)
        return failure("cannot start a thread for every rank");
    struct transport *transport = transport_threads(all->hub, number);
    struct arena *own = number ? arena_new() : NULL;
    struct training_result result = {0};
    weft_status status = train_rank(all->options, transport, own ? own : all->keep, &result);
    if (number == 0)
        *all->result = result;
    transport->kind->close(transport);
    arena_free(own);
    return status;
}

weft_status train_threads(const struct training_options *options, struct arena *keep,
                          struct training_result *out)
{
    int32_t ranks = (int32_t)cluster_devices(options->plan->cluster);
    struct hub *hub = hub_new(ranks, &options->slowdown);
    struct training_options shared = *options;
    shared.request = request_current();
    struct trained_ranks all = {&shared, hub, ranks, keep, out};
    weft_status status = pool_run_ranks(ranks, train_in_thread, &all);
    hub_free(hub);
    return status;
}
