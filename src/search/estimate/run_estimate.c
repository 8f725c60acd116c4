/* run_estimate.c - one run of instances on a stage by itself (candidate.h). */
#include "search/estimate/estimator.h"

static weft_status table_of(struct estimator *e, const struct run_question *q, int32_t row,
                            const struct row_table **out)
{
    struct table_key key = {.first_device = q->stage.first_device,
                            .devices = q->stage.devices,
                            .step_samples = q->step_samples,
                            .row = row,
                            .order = (uint16_t)q->schedule->passes,
                            .many = table_micro_batches(&e->settings, q->micro_batches)};
    weft_status status;
    TRY(estimator_tables(e));
    TRY(table_find(e->tables, &key, out));
done:
    return status;
}

weft_status estimate_run(struct estimator *estimator, const struct run_question *question,
                         struct run_estimate *out)
{
    const struct row_table *table;
    struct part_sums sums = {0};
    weft_status status;
    TRY(table_of(estimator, question, question->run.row, &table));
    add_run(&sums, table, question->run.first, question->run.last);
    struct part_work work = close_part(estimator->tables, &sums, table, question->micro_batches);
    const int64_t *of = sums.sums.of;
    double parameters = (double)of[SUM_PARAMETERS];
    *out = (struct run_estimate){.forward_ns = work.forward,
                                 .backward_ns = work.backward + work.weight,
                                 .forward_waits_ns = of[SUM_FORWARD] - of[SUM_STRETCHED],
                                 .backward_waits_ns = of[SUM_BACKWARD] - of[SUM_STRETCHED + 1],
                                 .first_more_ns = work.first_more,
                                 .last_more_ns = work.last_more,
                                 .sync_ns = of[SUM_SYNC],
                                 .sync_each_ns = of[SUM_SYNC_EACH],
                                 .gather_ns = of[SUM_GATHER_AFTER],
                                 .optimizer_ns = (int64_t)(table->optimizer_each_ns * parameters),
                                 .kept_bytes = of[SUM_KEPT],
                                 .peak_bytes = sums.backward_rise,
                                 .state_bytes = of[SUM_STATE]};
done:
    return status;
}

weft_status estimate_reshard(struct estimator *estimator, const struct run_question *question,
                             int32_t next_row, int64_t *ns)
{
    struct seam seam = {.before_device = question->stage.first_device,
                        .after_device = question->stage.first_device};
    struct borders *borders;
    const struct border *border;
    weft_status status = WEFT_OK;
    *ns = 0;
    if (next_row == question->run.row)
        return WEFT_OK;
    TRY(table_of(estimator, question, question->run.row, &seam.before));
    TRY(table_of(estimator, question, next_row, &seam.after));
    TRY(seam_find(estimator->tables, &seam, &borders));
    TRY(border_find(estimator->tables, borders, question->run.last, &border));
    *ns = border->before.forward + border->before.backward + border->before.weight;
done:
    return status;
}

static struct side_estimate side_of(const struct side *side)
{
    return (struct side_estimate){.ns = side->forward + side->backward + side->weight,
                                  .kept_bytes = side->memory.kept,
                                  .peak_bytes = side->memory.backward_rise};
}

weft_status estimate_border(struct estimator *estimator, const struct run_question *question,
                            const struct stage *next, int32_t next_row, struct border_estimate *out)
{
    struct run_question after = *question;
    struct seam seam = {.before_device = question->stage.first_device,
                        .after_device = next->first_device};
    struct borders *borders;
    const struct border *border;
    weft_status status;
    after.stage = *next;
    TRY(table_of(estimator, question, question->run.row, &seam.before));
    TRY(table_of(estimator, &after, next_row, &seam.after));
    TRY(seam_find(estimator->tables, &seam, &borders));
    TRY(border_find(estimator->tables, borders, question->run.last, &border));
    *out = (struct border_estimate){.before = side_of(&border->before),
                                    .after = side_of(&border->after),
                                    .send_ns = border->send,
                                    .back_ns = border->back};
done:
    return status;
}

weft_status estimate_overhead(struct estimator *estimator, const struct run_question *question,
                              struct stage_overhead *out)
{
    const struct row_table *table;
    weft_status status;
    TRY(table_of(estimator, question, question->run.row, &table));
    *out = (struct stage_overhead){table->stand_in_bytes, table->optimizer_least_ns};
done:
    return status;
}
