/* page.c - writes a prediction and its search as one file.
 *
 * The HTML page is page.html with one JSON object in the place of PLACE. The page draws itself from this
 * object; it needs no network and no other script.
 *
 *   I1  The same prediction and search give the same bytes: a page contains no measured wall-clock time.
 */
#include "report/page.h"

#include <stdlib.h>
#include <string.h>

#include "report/page_room.h"
#include "report/report.h"

static const char PLACE[] = "{\"page\": \"data\"}";

/* ---- formats --------------------------------------------------------------------------------- */

static const struct {
    const char *name, *ending;
} FORMATS[] = {
    [PAGE_HTML] = {"html", ".html"}, [PAGE_MARKDOWN] = {"md", ".md"},
    [PAGE_TEXT] = {"text", ".txt"},  [PAGE_JSON] = {"json", ".json"},
    [PAGE_SVG] = {"svg", ".svg"},
};
_Static_assert(COUNT_OF(FORMATS) == PAGE_FORMAT_COUNT, "a format without a name");

bool page_format_find(const char *name, enum page_format *out)
{
    size_t len = strlen(name);
    for (int i = 0; i < PAGE_FORMAT_COUNT; i++) {
        size_t end = strlen(FORMATS[i].ending);
        *out = (enum page_format)i;
        if (strcmp(name, FORMATS[i].name) == 0 ||
            (len > end && strcmp(name + len - end, FORMATS[i].ending) == 0))
            return true;
    }
    return false;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Removes the fields that I1 forbids. */
static void forget_wall_clock(json_t *json)
{
    static const char *const FIELDS[] = {"compile_s", "simulate_s", "wall_s", "search_s"};
    for (size_t i = 0; i < COUNT_OF(FIELDS); i++)
        json_object_del(json, FIELDS[i]);
}

static int by_number(const void *a, const void *b)
{
    const struct trial *const *x = a, *const *y = b;
    return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

/* For each plan that was the best when it was found: how many plans had been simulated, and its time per sample.
 * A plan that was found twice leaves a gap in the numbers. */
static json_t *convergence_json(struct arena *scratch, const struct planned *planned)
{
    size_t count = planned->trials.len;
    const struct trial **trials = ARENA_ARRAY(scratch, const struct trial *, count);
    double best = 0;
    json_t *steps = json_array();
    for (size_t i = 0; i < count; i++)
        trials[i] = &planned->trials.data[i];
    if (count)
        qsort(trials, count, sizeof(struct trial *), by_number);
    for (size_t i = 0; i < count; i++) {
        const struct trial *trial = trials[i];
        double ns = (double)trial->iteration_ns / (double)trial->global_batch;
        if (!trial->fits || (best > 0 && ns >= best))
            continue;
        best = ns;
        json_array_append_new(steps,
                              json_pack("{s:I, s:f, s:o}", "tried", (json_int_t)trial->number,
                                        "sample_ns", ns, "plan", json_text(trial->text)));
    }
    return steps;
}

static json_t *page_json(struct arena *scratch, const struct page *page)
{
    const struct prediction *p = page->prediction;
    json_t *json = page->planned
                       ? planned_json(scratch, page->planned, p, page->plan_text, page->top)
                       : prediction_json(p);
    forget_wall_clock(json);
    if (!page->planned)
        json_object_set_new(json, "plan", json_loads(page->plan_text, 0, NULL));
    if (page->planned)
        json_object_set_new(json, "convergence", convergence_json(scratch, page->planned));
    json_object_set_new(json, "verdict", json_text(memory_verdict(scratch, p)));
    json_object_set_new(json, "sources",
                        json_pack("{s:o, s:o, s:o}", "model", json_text(p->plan->model->source),
                                  "cluster", json_text(p->plan->cluster->source), "device",
                                  json_text(p->plan->cluster->node.device.source)));
    json_object_set_new(json, "device", json_text(p->plan->cluster->node.device.name));
    json_object_set_new(json, "version", json_string(weft_version()));
    return json;
}

/* ---- HTML ------------------------------------------------------------------------------------ */

/* Escapes what an HTML parser would take for the end of the script element. */
static void put_script_text(const char *text, FILE *file)
{
    for (const char *at = text; *at; at++)
        if (*at == '<')
            fputs("\\u003c", file);
        else
            fputc(*at, file);
}

static void put_html(struct arena *scratch, const struct page *page, FILE *file)
{
    const struct prediction *p = page->prediction;
    const char *place = strstr(PAGE_TEMPLATE, PLACE);
    json_t *json = page_json(scratch, page);
    json_object_set_new(json, "timeline", timeline_json(scratch, p, PAGE_BARS));
    json_object_set_new(json, "moments", moments_json(p));
    json_object_set_new(json, "links", links_json(scratch, p));
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fwrite(PAGE_TEMPLATE, 1, (size_t)(place - PAGE_TEMPLATE), file);
    put_script_text(text ? text : "{}", file);
    fputs(place + strlen(PLACE), file);
    free(text);
    json_decref(json);
}

/* ---- text and Markdown ----------------------------------------------------------------------- */

static void put_text(struct arena *scratch, const struct page *page, FILE *file)
{
    if (page->planned)
        planned_print(scratch, page->planned, page->prediction, page->top, file);
    else
        prediction_print(scratch, page->prediction, file);
    fputc('\n', file);
    timeline_print(scratch, page->prediction, REPORT_COLUMNS, file);
}

static void put_markdown(struct arena *scratch, const struct page *page, FILE *file)
{
    const struct plan *plan = page->prediction->plan;
    fprintf(file, "# %s on %s\n\n", plan->model->name, plan->cluster->name);
    fprintf(file, "**%s an iteration**; %s.\n\n```text\n",
            show_seconds((double)page->prediction->iteration_ns).s,
            memory_verdict(scratch, page->prediction));
    put_text(scratch, page, file);
    fprintf(file, "```\n\n## The plan\n\n```json\n%s\n```\n", page->plan_text);
}

static void put_json(struct arena *scratch, const struct page *page, FILE *file)
{
    json_t *json = page_json(scratch, page);
    json_dumpf(json, file, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    fputc('\n', file);
    json_decref(json);
}

/* ---- writing --------------------------------------------------------------------------------- */

struct page_job {
    struct arena *scratch;
    const struct page *page;
};

static void put_page(void *context, FILE *file)
{
    static void (*const PUT[])(struct arena *scratch, const struct page *page, FILE *file) = {
        [PAGE_HTML] = put_html, [PAGE_MARKDOWN] = put_markdown, [PAGE_TEXT] = put_text,
        [PAGE_JSON] = put_json, [PAGE_SVG] = put_svg,
    };
    _Static_assert(COUNT_OF(PUT) == PAGE_FORMAT_COUNT, "a format that nobody writes");
    const struct page_job *job = context;
    PUT[job->page->format](job->scratch, job->page, file);
}

weft_status page_write(const struct page *page, const char *path)
{
    struct page_job job = {arena_new(), page};
    weft_status status = file_write(path, put_page, &job);
    arena_free(job.scratch);
    return status;
}
