/* page_svg.c - a timeline as a self-contained picture, with stages as rows and time to the right.
 *
 * With an iteration of T ns drawn over TIME_WIDTH, the moment t is at
 *
 *   x = LEFT + TIME_WIDTH t / T                                                                (1)
 *
 * Lengths are whole numbers of tenths of a pixel, so that every processor writes the same bytes.
 *
 *   I1  The colours are read from the HTML page: the light ones, and the dark ones for readers who
 *       prefer them.
 *   I2  Bars of one slot that are less than NEAR apart are joined into one, in which each purpose has
 *       its share of the time; the same holds for bars of communication of one purpose. A picture has
 *       no more bars than its width can show.
 *   I3  A bar narrower than LEAST_WIDTH is drawn that wide, so that nothing that takes time disappears.
 *   I4  Texts from outside have no effect beyond being shown: markup is escaped, and control
 *       characters and broken UTF-8 become question marks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/page_room.h"
#include "report/report.h"

/* Tenths of a pixel. */
enum {
    WIDTH = 9600,
    MARGIN = 200,
    LEFT = 780,
    RIGHT = 240,
    TIME_WIDTH = WIDTH - LEFT - RIGHT, /* (1) */
    TOP = 820,
    THIN = 45,    /* a lane of communication */
    ROW_GAP = 70, /* between stages */
    NEAR = 6,
    LEAST_WIDTH = 4,
    SLIVER_FROM = 30,
    LABEL_HEIGHT = 180,
    SLOT_LETTER = 66, /* width of a letter in bold 10 px type, about */
    LETTER = 70,      /* width of a letter in 12 px type of a wide font */
    LEGEND = 430,     /* height of the legend below the axis */
    HEADS = 1240      /* where the legend's words begin */
};
enum { MOST_TICKS = 10, BARS_PER_LINE = 8 };

/* Bars that are drawn as one (I2). */
struct bar_run {
    const struct timeline_bar *first;
    int64_t end_ns, time_ns[PURPOSE_COUNT], all_ns;
};

struct svg {
    struct arena *scratch;
    const struct prediction *prediction;
    const struct timeline *timeline;
    FILE *out;
    int lane[PURPOSE_COUNT]; /* of communication, below its stage; -1 if there is none */
    int lanes;
    bool used[PURPOSE_COUNT];
    int height;      /* height of a bar of computation */
    int32_t *row;    /* per stage; -1 if it is left out */
    int32_t rows;    /* including one for the stages that are left out */
    int32_t ellipse; /* the number of that row; -1 if no stage is left out */
    ARRAY(struct bar_run) runs;
};

/* ---- numbers and texts ----------------------------------------------------------------------- */

static const char *px(const struct svg *svg, int tenths)
{
    return tenths % 10 ? arena_printf(svg->scratch, "%d.%d", tenths / 10, tenths % 10)
                       : arena_printf(svg->scratch, "%d", tenths / 10);
}

/* Equation (1). */
static int x_of(const struct svg *svg, int64_t ns)
{
    return LEFT + (int)lround((double)ns / (double)svg->prediction->result.end * TIME_WIDTH);
}

/* By I4. */
static void put_escaped(const struct svg *svg, const char *text)
{
    static const struct {
        char character;
        const char *written;
    } MARKUP[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
    json_t *shown = json_text(text);
    for (const char *at = json_string_value(shown); at && *at; at++) {
        const char *written = (unsigned char)*at < ' ' || *at == 0x7f ? "?" : NULL;
        for (size_t i = 0; i < COUNT_OF(MARKUP); i++)
            written = *at == MARKUP[i].character ? MARKUP[i].written : written;
        if (written)
            fputs(written, svg->out);
        else
            fputc(*at, svg->out);
    }
    json_decref(shown);
}

static void put_text_at(const struct svg *svg, const char *class, int x, int y, const char *text)
{
    fprintf(svg->out, "<text class=\"%s\" x=\"%s\" y=\"%s\">", class, px(svg, x), px(svg, y));
    put_escaped(svg, text);
    fputs("</text>\n", svg->out);
}

/* ---- colours --------------------------------------------------------------------------------- */

/* Writes the value, such as "#3b7dd8", of a variable of the page, such as --forward, that is set after `from` (I1). */
static void put_colour(const struct svg *svg, const char *from, const char *name)
{
    const char *variable = arena_printf(svg->scratch, "--%s: ", name);
    const char *colour = strstr(from, variable);
    if (colour)
        fprintf(svg->out, "%.7s", colour + strlen(variable));
}

static void put_rule(const struct svg *svg, const char *from, const char *selector,
                     const char *property, const char *name)
{
    fprintf(svg->out, "%s { %s: ", selector, property);
    put_colour(svg, from, name);
    fputs("; }\n", svg->out);
}

static void put_colours(const struct svg *svg, const char *from)
{
    put_rule(svg, from, ".card", "fill", "card");
    put_rule(svg, from, ".title", "fill", "ink");
    put_rule(svg, from, ".soft, .stage, .tick, .end, .word", "fill", "soft");
    put_rule(svg, from, ".grid", "stroke", "line");
    put_rule(svg, from, ".idle", "fill", "bubble");
    for (int i = 0; i < PURPOSE_COUNT; i++)
        if (svg->used[i]) {
            const char *name = purpose_name((enum purpose)i);
            put_rule(svg, from, arena_printf(svg->scratch, ".%s", name), "fill", name);
        }
}

static void put_style(const struct svg *svg)
{
    static const char DARK[] = "@media (prefers-color-scheme: dark)";
    fputs(
        "<style>\ntext { font: 11px system-ui, sans-serif; }\n"
        ".title { font-size: 16px; font-weight: 600; }\n.soft, .word, .stage { font-size: 12px; }\n"
        ".tick, .slot { text-anchor: middle; }\n.end { text-anchor: end; }\n"
        ".slot { fill: #fff; font-size: 10px; font-weight: 600; }\n",
        svg->out);
    put_colours(svg, PAGE_TEMPLATE);
    fprintf(svg->out, "%s {\n", DARK);
    put_colours(svg, strstr(PAGE_TEMPLATE, DARK));
    fputs("}\n</style>\n", svg->out);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void find_lanes(struct svg *svg)
{
    for (int i = 0; i < PURPOSE_COUNT; i++)
        svg->lane[i] = -1;
    for (size_t i = 0; i < svg->timeline->bars.len; i++) {
        const struct timeline_bar *bar = &svg->timeline->bars.data[i];
        svg->used[bar->purpose] = true;
        if (bar->stream != STREAM_COMPUTE)
            svg->lane[bar->purpose] = 0;
    }
    for (int i = 0; i < PURPOSE_COUNT; i++)
        if (svg->lane[i] == 0)
            svg->lane[i] = svg->lanes++;
}

static void find_rows(struct svg *svg)
{
    int32_t stages = svg->prediction->plan->stages;
    svg->row = ARENA_ARRAY(svg->scratch, int32_t, (size_t)stages);
    svg->ellipse = -1;
    for (int32_t s = 0; s < stages; s++)
        svg->row[s] = -1;
    for (size_t i = 0; i < svg->timeline->bars.len; i++)
        svg->row[svg->timeline->bars.data[i].stage] = 0;
    for (int32_t s = 0; s < stages; s++) {
        if (svg->row[s] == 0)
            svg->row[s] = svg->rows++;
        else if (svg->ellipse < 0)
            svg->ellipse = svg->rows++;
    }
    svg->height = svg->rows <= 8 ? 260 : svg->rows <= 16 ? LABEL_HEIGHT : 120;
}

static int row_height(const struct svg *svg)
{
    return svg->height + svg->lanes * THIN;
}

static int y_of_row(const struct svg *svg, int32_t row)
{
    return TOP + row * (row_height(svg) + ROW_GAP);
}

static int y_of_axis(const struct svg *svg)
{
    return y_of_row(svg, svg->rows);
}

/* ---- bars ------------------------------------------------------------------------------------ */

/* Sorts by stage, then computation before communication, then by lane, then by time. */
static int by_place(const void *a, const void *b)
{
    const struct timeline_bar *x = a, *y = b;
    int x_lane = x->stream == STREAM_COMPUTE ? -1 : x->purpose;
    int y_lane = y->stream == STREAM_COMPUTE ? -1 : y->purpose;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    if (x_lane != y_lane)
        return x_lane < y_lane ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* By I2. */
static bool is_near(const struct svg *svg, const struct bar_run *run,
                    const struct timeline_bar *bar)
{
    const struct timeline_bar *first = run->first;
    bool computes = bar->stream == STREAM_COMPUTE;
    if (first->stage != bar->stage || (first->stream == STREAM_COMPUTE) != computes ||
        x_of(svg, bar->start_ns) - x_of(svg, run->end_ns) >= NEAR)
        return false;
    return computes ? first->label == bar->label : first->purpose == bar->purpose;
}

static void find_runs(struct svg *svg)
{
    for (size_t i = 0; i < svg->timeline->bars.len; i++) {
        const struct timeline_bar *bar = &svg->timeline->bars.data[i];
        struct bar_run *last = svg->runs.len ? &svg->runs.data[svg->runs.len - 1] : NULL;
        if (!last || !is_near(svg, last, bar)) {
            array_push(svg->scratch, &svg->runs, ((struct bar_run){.first = bar}));
            last = &svg->runs.data[svg->runs.len - 1];
        }
        last->end_ns = bar->end_ns > last->end_ns ? bar->end_ns : last->end_ns;
        last->time_ns[bar->purpose] += bar->end_ns - bar->start_ns;
        last->all_ns += bar->end_ns - bar->start_ns;
    }
}

/* The position at which a run has done `done_ns` of its work. */
static int x_after(const struct svg *svg, const struct bar_run *run, int64_t done_ns)
{
    double took = (double)(run->end_ns - run->first->start_ns);
    return x_of(svg,
                run->first->start_ns + (int64_t)((double)done_ns / (double)run->all_ns * took));
}

static int64_t done_before(const struct bar_run *run, enum purpose purpose)
{
    int64_t done = 0;
    for (int i = 0; BAR_ORDER[i] != purpose; i++)
        done += run->time_ns[BAR_ORDER[i]];
    return done;
}

/* Draws a bar (I3), with a thin gap between neighbours that are wide enough. */
static void put_bar(const struct svg *svg, const struct bar_run *run, enum purpose purpose)
{
    bool computes = run->first->stream == STREAM_COMPUTE;
    int64_t before = done_before(run, purpose), done = before + run->time_ns[purpose];
    int x = x_after(svg, run, before), width = x_after(svg, run, done) - x;
    int y = y_of_row(svg, svg->row[run->first->stage]);
    if (!computes)
        y += svg->height + svg->lane[purpose] * THIN;
    if (width > SLIVER_FROM && done == run->all_ns)
        width -= NEAR;
    if (width < LEAST_WIDTH)
        width = LEAST_WIDTH;
    fprintf(svg->out, "M%s %sh%sv%sh-%sz", px(svg, x), px(svg, y), px(svg, width),
            px(svg, computes ? svg->height : THIN - 5), px(svg, width));
}

/* Draws all bars of a purpose as one path. */
static void put_bars(const struct svg *svg, enum purpose purpose)
{
    size_t count = 0;
    fprintf(svg->out, "<path class=\"%s\" d=\"", purpose_name(purpose));
    for (size_t i = 0; i < svg->runs.len; i++) {
        if (!svg->runs.data[i].time_ns[purpose])
            continue;
        if (count++ % BARS_PER_LINE == 0)
            fputc('\n', svg->out);
        put_bar(svg, &svg->runs.data[i], purpose);
    }
    fputs("\"/>\n", svg->out);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* The letters of the longest label that begins as this one, so that B0 is not shown where B31 would find no room. */
static int letters_of_kind(const struct svg *svg, const char *text)
{
    size_t letters = 0;
    for (size_t i = 0; i < svg->timeline->labels.len; i++) {
        const char *other = svg->timeline->labels.data[i];
        if (other[0] == text[0])
            letters = strlen(other) > letters ? strlen(other) : letters;
    }
    return (int)letters;
}

static void put_labels(const struct svg *svg)
{
    for (size_t i = 0; i < svg->runs.len && svg->height >= LABEL_HEIGHT; i++) {
        const struct bar_run *run = &svg->runs.data[i];
        const char *text = svg->timeline->labels.data[run->first->label];
        int x = x_of(svg, run->first->start_ns), end = x_of(svg, run->end_ns);
        int wanted = SLOT_LETTER * letters_of_kind(svg, text) + 20;
        if (run->first->stream == STREAM_COMPUTE && end - x > wanted)
            put_text_at(svg, "slot", (x + end - NEAR) / 2,
                        y_of_row(svg, svg->row[run->first->stage]) + svg->height / 2 + 40, text);
    }
}

static void put_stages(const struct svg *svg)
{
    int32_t stages = svg->prediction->plan->stages, middle = svg->height / 2 + 40;
    for (int32_t s = 0; s < stages; s++)
        if (svg->row[s] >= 0)
            put_text_at(svg, "stage", MARGIN, y_of_row(svg, svg->row[s]) + middle,
                        arena_printf(svg->scratch, "stage %d", s));
    if (svg->ellipse >= 0)
        put_text_at(svg, "stage", LEFT, y_of_row(svg, svg->ellipse) + middle,
                    arena_printf(svg->scratch, "… %s in the middle …",
                                 counted(stages - svg->rows + 1, "stage").s));
}

/* ---- the axis, the title and the legend ------------------------------------------------------ */

/* The smallest step of 1, 2 or 5 times a power of ten with at most MOST_TICKS ticks in the iteration. */
static int64_t tick_ns(int64_t iteration_ns)
{
    static const int64_t STEPS[] = {1, 2, 5};
    for (int64_t power = 1;; power *= 10)
        for (size_t i = 0; i < COUNT_OF(STEPS); i++)
            if (STEPS[i] * power >= iteration_ns / MOST_TICKS)
                return STEPS[i] * power;
}

static void put_grid_line(const struct svg *svg, int x)
{
    fprintf(svg->out, "<path class=\"grid\" d=\"M%s %sV%s\"/>\n", px(svg, x), px(svg, TOP - 60),
            px(svg, y_of_axis(svg)));
}

/* Draws the ticks and the end of the iteration, which replaces a tick that is too close to it. */
static void put_axis(const struct svg *svg)
{
    int64_t end = svg->prediction->result.end, step = tick_ns(end);
    int y = y_of_axis(svg) + 140;
    for (int64_t ns = 0; ns < end; ns += step) {
        put_grid_line(svg, x_of(svg, ns));
        if (x_of(svg, end) - x_of(svg, ns) > 600)
            put_text_at(svg, "tick", x_of(svg, ns), y, ns ? show_duration((double)ns).s : "0");
    }
    put_grid_line(svg, x_of(svg, end));
    put_text_at(svg, "end", x_of(svg, end) + 60, y, show_seconds((double)end).s);
}

static void put_title(const struct svg *svg)
{
    const struct plan *plan = svg->prediction->plan;
    const char *title =
        arena_printf(svg->scratch, "%s on %s of %s: %s an iteration", plan->model->name,
                     counted(cluster_devices(plan->cluster), "device").s, plan->cluster->name,
                     show_seconds((double)svg->prediction->iteration_ns).s);
    fputs("<title>", svg->out);
    put_escaped(svg, title);
    fputs("</title>\n", svg->out);
    put_text_at(svg, "title", MARGIN, 340, title);
    put_text_at(svg, "soft", MARGIN, 560,
                arena_printf(svg->scratch, "%s; %s",
                             plan_batches(svg->scratch, svg->prediction->graph->plan),
                             plan_order(svg->scratch, plan)));
}

struct pen {
    int x, y;
};

static void put_word(const struct svg *svg, struct pen *pen, const char *class, const char *word)
{
    fprintf(svg->out,
            "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"11\" height=\"11\" rx=\"2\"/>\n", class,
            px(svg, pen->x), px(svg, pen->y - 100));
    put_text_at(svg, "word", pen->x + 160, pen->y, word);
    pen->x += 160 + LETTER * (int)strlen(word) + 80;
}

/* Writes a line of the legend, for those purposes from `first` to before `end` that the picture has. */
static struct pen put_words(const struct svg *svg, int y, const char *head, int first, int end)
{
    struct pen pen = {HEADS, y};
    put_text_at(svg, "word", MARGIN, y, head);
    for (int i = first; i < end; i++)
        if (svg->used[i])
            put_word(svg, &pen, purpose_name((enum purpose)i), purpose_words((enum purpose)i));
    return pen;
}

static void put_legend(const struct svg *svg)
{
    int y = y_of_axis(svg) + LEGEND;
    struct pen pen = put_words(svg, y, "computation", 0, PURPOSE_TENSOR);
    put_word(svg, &pen, "idle", "idle");
    put_words(svg, y + LEGEND / 2, "communication", PURPOSE_TENSOR, PURPOSE_COUNT);
}

/* ---- the picture ----------------------------------------------------------------------------- */

static void put_frame(const struct svg *svg)
{
    int height = y_of_axis(svg) + 2 * LEGEND;
    fprintf(
        svg->out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %s %s\" width=\"%s\" "
        "height=\"%s\">\n",
        px(svg, WIDTH), px(svg, height), px(svg, WIDTH), px(svg, height));
    put_style(svg);
    fprintf(svg->out,
            "<rect class=\"card grid\" x=\"0.5\" y=\"0.5\" width=\"%s\" height=\"%s\" rx=\"8\"/>\n",
            px(svg, WIDTH - 10), px(svg, height - 10));
}

static void put_idle(const struct svg *svg)
{
    for (int32_t row = 0; row < svg->rows; row++)
        if (row != svg->ellipse)
            fprintf(svg->out,
                    "<rect class=\"idle\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n",
                    px(svg, LEFT), px(svg, y_of_row(svg, row)), px(svg, TIME_WIDTH),
                    px(svg, svg->height));
}

void put_svg(struct arena *scratch, const struct page *page, FILE *file)
{
    struct timeline *timeline = timeline_of(scratch, page->prediction, PAGE_BARS);
    struct svg svg = {
        .scratch = scratch, .prediction = page->prediction, .timeline = timeline, .out = file};
    if (timeline->bars.len)
        qsort(timeline->bars.data, timeline->bars.len, sizeof *timeline->bars.data, by_place);
    find_lanes(&svg);
    find_rows(&svg);
    find_runs(&svg);
    put_frame(&svg);
    put_title(&svg);
    put_idle(&svg);
    put_axis(&svg);
    for (int i = 0; i < PURPOSE_COUNT; i++)
        if (svg.used[i])
            put_bars(&svg, (enum purpose)i);
    put_labels(&svg);
    put_stages(&svg);
    put_legend(&svg);
    fputs("</svg>\n", file);
}
