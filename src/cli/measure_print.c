/* measure_print.c - what `weft profile measure` answers, as tables and as JSON. */
#include <stdio.h>

#include "cli/measure.h"
#include "cli/profile.h"

static const char *error_text(struct arena *arena, double error, bool known)
{
    return known ? "was there" : arena_printf(arena, "%.1f %%", error * 100);
}

static void print_asks(const struct measure_job *job)
{
    static const char *const HEADERS[] = {"shape", "kernel", "phase", "time", "error", "samples"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_LEFT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(job->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < job->measured.len; i++) {
        const struct measured_ask *one = &job->measured.data[i];
        if (one->samples == 0)
            continue;
        table_cell(table, "%s", work_shape_text(job->arena, &one->ask->work));
        table_cell(table, "%s", kernel_name(one->ask->work.kernel));
        table_cell(table, "%s", phase_name(one->ask->work.phase));
        table_cell(table, "%s", show_duration(one->ns).s);
        table_cell(table, "%s", error_text(job->arena, one->error, one->known));
        table_cell(table, "%lld", (long long)one->samples);
    }
    table_print(table, stdout);
}

static void print_left_out(const struct measure_job *job)
{
    for (size_t i = 0; i < job->measured.len; i++) {
        const struct measured_ask *one = &job->measured.data[i];
        if (one->why)
            printf("left out: %s %s %s: %s\n", kernel_name(one->ask->work.kernel),
                   phase_name(one->ask->work.phase), work_shape_text(job->arena, &one->ask->work),
                   one->why);
    }
}

static void print_transfers(const struct measure_job *job)
{
    static const char *const HEADERS[] = {"collective", "ranks",   "size",     "time",
                                          "error",      "samples", "disturbed"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(job->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < job->transfers.len; i++) {
        const struct measured_transfer *one = &job->transfers.data[i];
        table_cell(table, "%s", collective_name(one->collective));
        table_cell(table, "%lld", (long long)one->ranks);
        table_cell(table, "%s", show_bytes((double)one->bytes).s);
        table_cell(table, "%s", show_duration(one->ns).s);
        table_cell(table, "%s", error_text(job->arena, one->error, one->known));
        table_cell(table, "%lld", (long long)one->samples);
        table_cell(table, "%lld%s", (long long)one->disturbed,
                   one->known || one->trusted ? "" : " !");
    }
    table_print(table, stdout);
}

static void print_overlaps(const struct measure_job *job)
{
    static const char *const HEADERS[] = {"kernel", "beside all-reduces", "all-reduces beside it",
                                          "error", "rounds"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT};
    struct table *table = table_new(job->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < job->overlaps.len; i++) {
        const struct measured_overlap *one = &job->overlaps.data[i];
        table_cell(table, "%s", kernel_name(one->kernel));
        table_cell(table, "x %.2f", one->factor.work);
        table_cell(table, "x %.2f", one->factor.transfer);
        table_cell(table, "%s", error_text(job->arena, one->error, one->known));
        table_cell(table, "%lld%s", (long long)one->rounds, one->known || one->trusted ? "" : " !");
    }
    table_print(table, stdout);
}

static void print_alone(const struct measure_job *job)
{
    double speedup = measured_alone_speedup(&job->measured);
    if (speedup > 0)
        printf("alone, the kernels of a step are %.2f times as quick as beside %s: "
               "alone_speedup: %.2f in a cluster file\n",
               speedup, counted(job->measure.beside, "other rank").s, speedup);
    else if (job->options->alone && job->measure.beside == 0)
        printf("the plan puts no other rank beside them: kernels were measured alone\n");
}

/* How much time the products take that were measured here, by the algorithms that were chosen over the libraries' first. */
static void print_choices(const struct measure_job *job)
{
    const struct measured *m = &job->measured;
    int64_t others = 0;
    double ns = 0, first_ns = 0;
    for (size_t i = 0; i < m->choices; i++) {
        others += m->choice[i].place > 0;
        ns += m->choice[i].ns;
        first_ns += m->choice[i].first_ns;
    }
    if (m->choices > 0)
        printf("%s timed by several algorithms of %s: of %lld another one than its first is the "
               "quickest; once each they take %s in place of %s\n",
               counted((int64_t)m->choices, "product").s, job->measure.kernels->choices->library(),
               (long long)others, show_duration(ns).s, show_duration(first_ns).s);
}

static json_t *choice_json(const struct product_choice *one)
{
    return json_pack("{s:s, s:I, s:f, s:f}", "product", one->product, "place",
                     (json_int_t)one->place, "ns", one->ns, "first_ns", one->first_ns);
}

int measure_text(const struct measure_job *job)
{
    const struct measured *m = &job->measured;
    if (job->transfers.len > 0)
        print_transfers(job);
    if (job->transfers.len > 0 && job->measure.kernels->device->product)
        printf("for a cluster file:\n%s", collectives_text(job->arena, &job->transfers));
    if (m->len > 0) {
        print_asks(job);
        print_left_out(job);
        printf("%s measured, %lld were there, %lld left out; %lld not to %.1f %%\n",
               counted(m->measured, "kernel").s, (long long)m->known, (long long)m->left_out,
               (long long)m->imprecise, job->measure.precision * 100);
        print_choices(job);
        print_alone(job);
    }
    if (job->overlaps.len > 0)
        print_overlaps(job);
    if (m->stopped || job->transfers.stopped || job->overlaps.stopped)
        printf("stopped before the end: the same command goes on\n");
    else if (job->options->output)
        printf("%s describes %s of this machine\n", job->options->output,
               counted(job->machine->node.devices, "rank").s);
    return WEFT_OK;
}

static json_t *ask_json(const struct measured_ask *one)
{
    int64_t uses = 0;
    for (size_t i = 0; i < one->ask->askers.len; i++)
        uses += one->ask->askers.data[i].uses;
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:o, s:f, s:f, s:I, s:I, s:b}", "kernel",
                  kernel_name(one->ask->work.kernel), "phase", phase_name(one->ask->work.phase),
                  "dtype", dtype_name(one->ask->work.dtype), "shape",
                  work_shape_json(&one->ask->work), "ns", one->ns, "error", one->error, "samples",
                  (json_int_t)one->samples, "uses", (json_int_t)uses, "known", one->known);
    if (one->alone_ns > 0)
        json_object_set_new(json, "alone_ns", json_real(one->alone_ns));
    if (one->why)
        json_object_set_new(json, "left_out", json_string(one->why));
    return json;
}

static json_t *overlap_json(const struct measured_overlap *one)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:I, s:b, s:b}", "kernel", kernel_name(one->kernel),
                     "work_slowdown", one->factor.work, "transfer_slowdown", one->factor.transfer,
                     "error", one->error, "rounds", (json_int_t)one->rounds, "trusted",
                     one->trusted || one->known, "known", one->known);
}

int measure_json(const struct measure_job *job)
{
    json_t *asks = json_array(), *transfers = json_array(), *overlaps = json_array();
    json_t *choices = json_array();
    for (size_t i = 0; i < job->measured.len; i++)
        json_array_append_new(asks, ask_json(&job->measured.data[i]));
    for (size_t i = 0; i < job->transfers.len; i++) {
        const struct measured_transfer *one = &job->transfers.data[i];
        json_array_append_new(
            transfers,
            json_pack("{s:s, s:I, s:I, s:f, s:f, s:I, s:I, s:b, s:b}", "collective",
                      collective_name(one->collective), "ranks", (json_int_t)one->ranks, "bytes",
                      (json_int_t)one->bytes, "ns", one->ns, "error", one->error, "samples",
                      (json_int_t)one->samples, "disturbed", (json_int_t)one->disturbed, "trusted",
                      one->trusted || one->known, "known", one->known));
    }
    for (size_t i = 0; i < job->overlaps.len; i++)
        json_array_append_new(overlaps, overlap_json(&job->overlaps.data[i]));
    for (size_t i = 0; i < job->measured.choices; i++)
        json_array_append_new(choices, choice_json(&job->measured.choice[i]));
    json_t *answer = json_pack(
        "{s:s?, s:s, s:s, s:f, s:o, s:o, s:o, s:o, s:b}", "db", job->options->db, "device",
        job->measure.device, "source", job->measure.source, "precision", job->measure.precision,
        "measured", asks, "algorithms", choices, "transfers", transfers, "interference", overlaps,
        "stopped", job->measured.stopped || job->transfers.stopped || job->overlaps.stopped);
    double speedup = measured_alone_speedup(&job->measured);
    if (speedup > 0)
        json_object_set_new(answer, "alone_speedup", json_real(speedup));
    return cli_print_json(answer);
}
