/* validate_contest.c - what `weft validate` found about two planners, as tables and JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/validate.h"

static double gain(const double rate[RIVAL_COUNT], enum rival over)
{
    return rate[RIVAL_SEARCH] / rate[over];
}

/* ---- text ------------------------------------------------------------------------------------ */

static void rate_cells(struct table *table, const struct contest *contest, enum rival rival)
{
    table_cell(table, "%.2f", contest->measured[rival]);
    table_cell(table, contest->predicted[rival] > 0 ? "%.2f" : "-", contest->predicted[rival]);
    table_cell(table, contest->predicted[rival] > 0 ? "%+.1f %%" : "-",
               100 * (contest->predicted[rival] / contest->measured[rival] - 1));
}

static void gain_cell(struct table *table, double value)
{
    table_cell(table, value > 0 && value < INFINITY ? "%.2f" : "-", value);
}

static void print_contests(const struct validation *v)
{
    static const char *const HEADERS[] = {"model", "on",    "Megatron-LM", "Weft",
                                          "error", "Aceso", "Weft",        "error",
                                          "gain",  "Weft",  "over grid"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < v->contests.len; i++) {
        const struct contest *contest = &v->contests.data[i];
        if (i && strcmp(contest->family, contest[-1].family) != 0)
            table_rule(table);
        table_cell(table, "%s", contest->model);
        table_cell(table, "%lld", (long long)contest->devices);
        rate_cells(table, contest, RIVAL_RUN);
        rate_cells(table, contest, RIVAL_SEARCH);
        gain_cell(table, gain(contest->measured, RIVAL_RUN));
        gain_cell(table, gain(contest->predicted, RIVAL_RUN));
        gain_cell(table, gain(contest->predicted, RIVAL_GRID));
    }
    table_print(table, stdout);
}

static void tally_row(const struct validation *v, struct table *table, const char *family)
{
    struct contest_tally tally = contests_tally(v->arena, &v->contests, family);
    table_cell(table, "%s", family ? family : "all");
    for (int rival = RIVAL_RUN; rival <= RIVAL_SEARCH; rival++) {
        table_cell(table, "%.1f", tally.rate[rival].mean * 100);
        table_cell(table, "%.1f", tally.rate[rival].worst * 100);
    }
    gain_cell(table, tally.measured);
    gain_cell(table, tally.over[RIVAL_RUN]);
    gain_cell(table, tally.over[RIVAL_GRID]);
}

static void print_tallies(const struct validation *v)
{
    static const char *const HEADERS[] = {
        "family", "Megatron-LM off by", "worst", "Aceso off by", "worst", "gain",
        "Weft",   "over grid"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < v->contests.len; i++)
        if (i == 0 || strcmp(v->contests.data[i].family, v->contests.data[i - 1].family) != 0)
            tally_row(v, table, v->contests.data[i].family);
    table_rule(table);
    tally_row(v, table, NULL);
    putchar('\n');
    table_print(table, stdout);
}

static void print_claims(const struct validation *v)
{
    static const char *const HEADERS[] = {"model", "section 5.4 tells", "holds", "here"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_LEFT, ALIGN_LEFT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    struct contest_claims claims = {0};
    contests_claims(v->arena, &v->contests, &claims);
    for (size_t i = 0; i < claims.len; i++) {
        table_cell(table, "%s", claims.data[i].contest->model);
        table_cell(table, "%s", claims.data[i].says);
        table_cell(table, "%s", claims.data[i].holds ? "yes" : "no");
        table_cell(table, "%s", claims.data[i].found);
    }
    if (claims.len) {
        putchar('\n');
        table_print(table, stdout);
    }
}

static bool has_author_plans(const struct validation *v)
{
    for (size_t i = 0; i < v->contests.len; i++)
        if (v->contests.data[i].author_plan)
            return true;
    return false;
}

static void print_author_plans(const struct validation *v)
{
    static const char *const HEADERS[] = {"model", "on",      "their program's plan", "they say",
                                          "Weft",  "fastest", "Weft's plan",          "less"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_LEFT,  ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    if (!has_author_plans(v))
        return;
    for (size_t i = 0; i < v->contests.len; i++) {
        const struct contest *contest = &v->contests.data[i];
        if (!contest->author_plan)
            continue;
        table_cell(table, "%s", contest->model);
        table_cell(table, "%lld", (long long)contest->devices);
        table_cell(table, "%zu stages, %lld samples per step, %lld MB",
                   contest->author_plan->stages.len, (long long)contest->author_plan->step,
                   (long long)(contest->authors_bytes >> 20));
        table_cell(table, "%.2f", contest->author_plan->predicted_s);
        table_cell(table, "%.2f", contest->authors_s);
        table_cell(table, "%.2f", contest->authors_least_s);
        table_cell(table, "%.2f", contest->found_s);
        table_cell(table, "%.1f %%", 100 * (1 - contest->found_s / contest->authors_least_s));
    }
    putchar('\n');
    table_print(table, stdout);
    printf(
        "Seconds of an iteration with the plan that the authors' public search program takes: by "
        "their model,\nby Weft's simulator; of the fastest of its plans when simulated; and of "
        "Weft's.\n");
}

static void print_plans(const struct validation *v)
{
    static const char *const HEADERS[] = {"model", "system", "plan"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_LEFT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < v->contests.len; i++)
        for (int rival = 0; rival < RIVAL_COUNT; rival++) {
            table_cell(table, "%s", rival ? "" : v->contests.data[i].model);
            table_cell(table, "%s", rival_name((enum rival)rival));
            table_cell(table, "%s", v->contests.data[i].plan[rival]);
        }
    putchar('\n');
    table_print(table, stdout);
}

void contests_print(const struct validation *v, const struct search_table *which)
{
    printf("%s: %s (%s)\n", which->name, which->summary, which->source);
    print_contests(v);
    print_tallies(v);
    printf("TFLOP/s of a device, as the tables count FLOPs; errors in %%. gain: of Aceso over "
           "Megatron-LM, as\nmeasured, as predicted, and over what Weft takes from Megatron-LM's "
           "grid; below of several devices.\n");
    print_claims(v);
    print_author_plans(v);
    if (v->list_rows)
        print_plans(v);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *rival_json(const struct contest *contest, enum rival rival)
{
    json_t *json = json_pack("{s:o}", "plan", json_text(contest->plan[rival]));
    if (contest->measured[rival] > 0)
        json_object_set_new(json, "measured_tflops", json_real(contest->measured[rival]));
    if (contest->predicted[rival] > 0)
        json_object_set_new(json, "predicted_tflops", json_real(contest->predicted[rival]));
    return json;
}

static json_t *stages_json(const struct contest *contest)
{
    json_t *list = json_array();
    for (int32_t s = 0; s < contest->stages; s++) {
        const struct stage_traits *stage = &contest->stage[s];
        json_array_append_new(
            list, json_pack("{s:I, s:I, s:I, s:b}", "devices", (json_int_t)stage->devices,
                            "operators", (json_int_t)stage->operators, "recomputed",
                            (json_int_t)stage->recomputed, "mixed_degrees", (int)stage->mixed));
    }
    return list;
}

/* Null if none is known. */
static json_t *authors_json(const struct validation *v, const struct contest *contest)
{
    if (!contest->author_plan)
        return json_null();
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:I}", "plan",
                     json_text(author_plan_text(v->arena, contest->author_plan)), "authors_s",
                     contest->author_plan->predicted_s, "predicted_s", contest->authors_s,
                     "fastest_s", contest->authors_least_s, "found_s", contest->found_s,
                     "peak_bytes", (json_int_t)contest->authors_bytes);
}

static json_t *tally_json(const struct validation *v, const char *family)
{
    struct contest_tally tally = contests_tally(v->arena, &v->contests, family);
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "family", family ? family : "all",
                     "megatron_error", tally.rate[RIVAL_RUN].mean, "aceso_error",
                     tally.rate[RIVAL_SEARCH].mean, "measured_gain", tally.measured, "found_gain",
                     tally.over[RIVAL_RUN], "gain_over_grid", tally.over[RIVAL_GRID]);
}

static json_t *claims_json(const struct validation *v)
{
    struct contest_claims claims = {0};
    json_t *list = json_array();
    contests_claims(v->arena, &v->contests, &claims);
    for (size_t i = 0; i < claims.len; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:b}", "model", claims.data[i].contest->model, "says",
                            claims.data[i].says, "found", json_text(claims.data[i].found), "holds",
                            (int)claims.data[i].holds));
    return list;
}

json_t *contests_json(const struct validation *v, const struct search_table *which)
{
    json_t *contests = json_array(), *families = json_array();
    for (size_t i = 0; i < v->contests.len; i++) {
        const struct contest *contest = &v->contests.data[i];
        json_array_append_new(
            contests,
            json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "family", contest->family,
                      "model", contest->model, "devices", (json_int_t)contest->devices, "megatron",
                      rival_json(contest, RIVAL_RUN), "aceso", rival_json(contest, RIVAL_SEARCH),
                      "grid", rival_json(contest, RIVAL_GRID), "stages", stages_json(contest),
                      "artifact", authors_json(v, contest)));
        if (i == 0 || strcmp(contest->family, contest[-1].family) != 0)
            json_array_append_new(families, tally_json(v, contest->family));
    }
    json_array_append_new(families, tally_json(v, NULL));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "name", which->name, "summary",
                     which->summary, "source", which->source, "models", contests, "families",
                     families, "claims", claims_json(v));
}
