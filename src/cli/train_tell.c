/* train_tell.c - what `weft train` prints: progress, and the result. */
#include <math.h>
#include <string.h>

#include "cli/train.h"

/* ---- progress -------------------------------------------------------------------------------- */

static const double TELL_EVERY_S = 1; /* on a terminal */

/* Model FLOPs utilisation, and what was measured over what was predicted. */
static void tell_against_prediction(const struct teller *t, const struct training_news *news)
{
    if (t->peak_flops > 0 && news->step_s > 0)
        fprintf(t->out, "MFU %.1f %%  ", 100 * t->flops / news->step_s / t->peak_flops);
    if (t->step_s > 0 && t->bytes > 0)
        fprintf(t->out, "%.2f of predicted time, %.2f of memory  ", news->step_s / t->step_s,
                (double)news->row.memory_bytes / t->bytes);
}

void tell_step(void *context, const struct training_news *news)
{
    struct teller *teller = context;
    const struct log_row *row = &news->row;
    bool worth = row->step == news->steps || row->validated || news->saved;
    if (!teller->out)
        return;
    if (teller->terminal && !worth && wall_seconds() - teller->told_s < TELL_EVERY_S)
        return;
    teller->told_s = wall_seconds();
    fprintf(teller->out, "step %lld/%lld  loss %.4f  rate %.3g  %s tokens/s  %s  ",
            (long long)row->step, (long long)news->steps, row->loss, row->rate,
            show_count(row->tokens_per_s).s, show_bytes((double)row->memory_bytes).s);
    tell_against_prediction(teller, news);
    fprintf(teller->out, "ETA %.0f s", news->left_s);
    if (row->validated)
        fprintf(teller->out, "  validation %.4f", row->validation_loss);
    if (news->saved)
        fprintf(teller->out, "  saved");
    fputc('\n', teller->out);
    fflush(teller->out);
}

void tell_note(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "weft: %s\n", line);
}

/* ---- at the end ------------------------------------------------------------------------------ */

void train_print(struct arena *scratch, const struct train_arguments *arguments,
                 const struct training_result *result)
{
    const char *resume = "";
    if (result->finished) {
        printf("%s: the run is finished, it has done %lld of %lld steps; --steps takes more\n",
               arguments->training.resume, (long long)result->step,
               (long long)arguments->training.steps);
        return;
    }
    if (result->stopped && result->saved)
        resume =
            arena_printf(scratch, "; --resume=%s goes on", arguments->training.checkpoint.folder);
    printf("%s step %lld: loss %.4f", result->stopped ? "stopped after" : "done, at",
           (long long)result->step, result->loss);
    if (result->validated)
        printf(", validation %.4f", result->validation_loss);
    if (result->saved)
        printf("; saved to %s", result->saved);
    printf("%s\n", resume);
}

static json_t *memory_json(const struct run_memory *memory)
{
    json_t *json = json_object();
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        json_object_set_new(json, memory_class_name((enum memory_class)c),
                            json_integer(memory->at_peak[c]));
    json_object_set_new(json, "peak", json_integer(memory->peak));
    json_object_set_new(json, "predicted", json_integer(memory->predicted));
    json_object_set_new(json, "host_peak", json_integer(memory->host_peak));
    return json;
}

json_t *train_json(const struct train_arguments *arguments, const struct training_result *result)
{
    const struct plan *plan = arguments->training.plan;
    json_t *json = json_object(), *ranks = json_array();
    for (int64_t i = 0; result->memory && i < cluster_devices(plan->cluster); i++)
        json_array_append_new(ranks, memory_json(&result->memory[i]));
    json_object_set_new(json, "model", json_text(plan->model->name));
    json_object_set_new(json, "first_step", json_integer(result->first_step));
    json_object_set_new(json, "step", json_integer(result->step));
    json_object_set_new(json, "finished", json_boolean(result->finished));
    json_object_set_new(json, "loss", result->finished ? json_null() : json_real(result->loss));
    json_object_set_new(json, "validation_loss",
                        result->validated ? json_real(result->validation_loss) : json_null());
    json_object_set_new(json, "stopped", json_boolean(result->stopped));
    json_object_set_new(json, "saved", result->saved ? json_text(result->saved) : json_null());
    json_object_set_new(json, "ranks", ranks);
    return json;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_row(struct table *table, int64_t rank, int32_t stage,
                       const struct run_memory *memory)
{
    table_cell(table, "%lld", (long long)rank);
    table_cell(table, "%d", stage);
    for (int c = 0; c < MEMORY_CLASS_COUNT; c++)
        table_cell(table, "%s", show_bytes((double)memory->at_peak[c]).s);
    table_cell(table, "%s", show_bytes((double)memory->peak).s);
    table_cell(table, "%s", show_bytes((double)memory->predicted).s);
    table_cell(table, "%.2f", (double)memory->peak / (double)memory->predicted);
}

void memory_print(struct arena *scratch, const struct plan *plan,
                  const struct training_result *result, FILE *out)
{
    static const char *const HEADERS[] = {"rank",      "stage",       "weights",   "gradients",
                                          "optimizer", "activations", "workspace", "peak",
                                          "predicted", "ratio"};
    enum align aligns[COUNT_OF(HEADERS)];
    for (size_t i = 0; i < COUNT_OF(aligns); i++)
        aligns[i] = ALIGN_RIGHT;
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, aligns);
    for (int32_t s = 0; s < plan->stages; s++)
        for (int64_t d = 0; d < plan->stage[s].devices; d++)
            memory_row(table, plan->stage[s].first_device + d, s,
                       &result->memory[plan->stage[s].first_device + d]);
    fprintf(out, "\nmemory of every rank when it held most:\n\n");
    table_print(table, out);
}
