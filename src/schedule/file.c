/* file.c - the order of work per stage as a file: Weft's own, and torchtitan's schedule CSV.
 *
 *     placement: loop                       # or zigzag; loop if it is left out
 *     joins: [1, 2]                         # per stage, the micro-batches that it takes at once; 1 if it is left out
 *     order:                                # one line per stage
 *       - F0 F1 F2 B0 B1 B2
 *       - F0 B0 F1 B1 F2 B2
 *
 * In the CSV a row is a rank, and a cell a part's number, what it does, and a micro-batch: 0F0,
 * 1B3, 2I1, 2W1 (torch.distributed.pipelining.schedules, _load_csv). Empty cells are bubbles; cells
 * of communication (1UNSHARD, 3SEND_F1) are read over: which slot waits for which follows from the
 * order. Two cells in one, (0F1;3B0)OVERLAP_F_B, are one after the other here.
 *
 *   I1  What is read has passed schedule_of_lists; errors name the file, and the line and the cell
 *       where they are in one.
 *   I2  What is written is read again as the same lists.
 *   I3  Numbers are bounded by the number of cells before anything is as large as they say: every
 *       part and micro-batch takes two cells at least.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/lists.h"

enum { MOST_NUMBER = 1 << 24 };
const char *const SCHEDULE_PLACEMENTS[] = {"loop", "zigzag", NULL};
static const char LETTERS[] = {[SLOT_FORWARD] = 'F',
                               [SLOT_BACKWARD] = 'B',
                               [SLOT_BACKWARD_INPUT] = 'I',
                               [SLOT_BACKWARD_WEIGHT] = 'W'};
static const char FORMAT[] = "docs/reference/schedule-file.md describes the format";

bool schedule_is_file(const char *name)
{
    return name && strpbrk(name, "./") != NULL;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* One cell that was read: of which stage, on which line. In a CSV `piece` is a part until all rows are known. */
struct cell {
    int32_t stage;
    int line;
    struct slot slot;
    const char *text;
};
struct list_reading {
    struct arena *scratch, *keep;
    const char *name;
    int32_t stages;
    const int32_t *joins; /* by stage; NULL: one micro-batch at a time */
    ARRAY(struct cell) cells;
};

/* Reads a number and moves on; -1: there is none, or it is too large. */
static int32_t take_number(const char **at)
{
    if (!isdigit((unsigned char)**at))
        return -1;
    char *end;
    long value = strtol(*at, &end, 10);
    *at = end;
    return value <= MOST_NUMBER ? (int32_t)value : -1;
}

static bool take_kind(const char **at, enum slot_kind *out)
{
    const char *letter = **at ? memchr(LETTERS, **at, sizeof LETTERS) : NULL;
    if (!letter)
        return false;
    *out = (enum slot_kind)(letter - LETTERS);
    (*at)++;
    return true;
}

static weft_status bad_cell(const struct list_reading *r, int line, const char *text)
{
    return bad_input(r->name, line, FORMAT, "'%.40s' is no slot, expected one such as %s", text,
                     "F0, B0, I0 or W0, in a CSV 0F0");
}

static void add_cell(struct list_reading *r, int32_t stage, int line, struct slot slot,
                     const char *text)
{
    struct cell cell = {stage, line, slot, text};
    array_push(r->scratch, &r->cells, cell);
}

/* "F3", "F3b", "F3.27" */
static weft_status take_label(struct list_reading *r, int32_t stage, int line, const char *text)
{
    const char *at = text;
    struct slot slot = {0};
    bool fine = take_kind(&at, &slot.kind) && (slot.micro_batch = take_number(&at)) >= 0;
    if (fine && *at == '.') {
        at++;
        fine = (slot.piece = take_number(&at)) >= 0;
    } else if (fine && islower((unsigned char)*at)) {
        slot.piece = *at++ - 'a';
    }
    if (!fine || *at)
        return bad_cell(r, line, text);
    add_cell(r, stage, line, slot, text);
    return WEFT_OK;
}

/* ---- from cells to lists --------------------------------------------------------------------- */

static struct pipeline shape_of(const struct list_reading *r)
{
    struct pipeline shape = {r->stages, 1, 1};
    for (size_t i = 0; i < r->cells.len; i++) {
        struct slot slot = r->cells.data[i].slot;
        shape.pieces = slot.piece >= shape.pieces ? slot.piece + 1 : shape.pieces;
        int32_t end = slot.micro_batch + (r->joins ? r->joins[r->cells.data[i].stage] : 1);
        shape.micro_batches = end > shape.micro_batches ? end : shape.micro_batches;
    }
    shape.joins = r->joins;
    return shape;
}

/* I3. */
static weft_status check_count(const struct list_reading *r, const struct pipeline *p)
{
    double least = 0;
    for (int32_t s = 0; s < p->stages; s++)
        least += 2.0 * p->pieces * p->micro_batches / pipeline_joins(p, s);
    if (r->cells.len > 0 && least <= (double)r->cells.len)
        return WEFT_OK;
    return bad_input(r->name, 0, FORMAT, "%s, expected %.0f or more for %s with %s and %s",
                     counted((int64_t)r->cells.len, "slot").s, least, counted(p->stages, "stage").s,
                     counted(p->pieces, "piece").s, counted(p->micro_batches, "micro-batch").s);
}

static weft_status make_schedule(struct list_reading *r, bool zigzag, const char *title,
                                 struct schedule **out)
{
    struct slot_lists *lists = ARENA_NEW(r->keep, struct slot_lists);
    lists->pipeline = shape_of(r);
    weft_status status = check_count(r, &lists->pipeline);
    if (status)
        return status;
    lists->stage = ARENA_ARRAY(r->keep, struct slots, (size_t)r->stages);
    struct list_states states = list_states_new(r->scratch, &lists->pipeline);
    for (size_t i = 0; i < r->cells.len; i++) {
        const struct cell *cell = &r->cells.data[i];
        const char *wrong = list_states_take(&states, cell->stage, cell->slot);
        if (wrong)
            return bad_input(r->name, cell->line, NULL, "'%.40s' of stage %d: %s", cell->text,
                             cell->stage, wrong);
        array_push(r->keep, &lists->stage[cell->stage], cell->slot);
    }
    return schedule_of_lists(r->keep, title, r->name, lists, zigzag, out);
}

/* ---- Weft's own ------------------------------------------------------------------------------ */

static weft_status take_line(struct list_reading *r, const struct doc *line, int32_t stage)
{
    if (line->kind != DOC_TEXT)
        return doc_error(line, FORMAT, "stage %d of 'order' is %s, expected slots such as F0 B0",
                         stage, doc_kind_name(line->kind));
    char *text = arena_copy_text(r->scratch, line->text), *rest = NULL;
    weft_status status = WEFT_OK;
    for (char *word = strtok_r(text, " \t\n", &rest); word && !status;
         word = strtok_r(NULL, " \t\n", &rest))
        status = take_label(r, stage, line->line, word);
    return status;
}

static weft_status read_placement(const struct doc *doc, bool *zigzag)
{
    const struct doc *placement = doc_get(doc, "placement");
    *zigzag =
        placement && placement->text && strcmp(placement->text, SCHEDULE_PLACEMENTS[true]) == 0;
    if (!placement || *zigzag ||
        (placement->text && strcmp(placement->text, SCHEDULE_PLACEMENTS[false]) == 0))
        return WEFT_OK;
    return doc_error(placement, NULL, "'placement' is '%.40s', expected loop or zigzag",
                     placement->text ? placement->text : doc_kind_name(placement->kind));
}

static weft_status read_joins(struct list_reading *r, const struct doc *joins)
{
    int32_t *count = ARENA_ARRAY(r->keep, int32_t, (size_t)r->stages), at = 0;
    int64_t number;
    weft_status status;
    if (joins->kind != DOC_LIST || (int64_t)joins->count != r->stages)
        return doc_error(joins, FORMAT, "'joins' is %s, expected one number for each of %s",
                         joins->kind == DOC_LIST ? counted((int64_t)joins->count, "number").s
                                                 : doc_kind_name(joins->kind),
                         counted(r->stages, "stage").s);
    for (const struct doc *node = joins->first; node; node = node->next) {
        TRY(doc_scalar(node, FIELD_COUNT, &number));
        if (number > MOST_NUMBER)
            return doc_error(node, NULL, "%lld micro-batches at once, expected at most %d",
                             (long long)number, MOST_NUMBER);
        count[at++] = (int32_t)number;
    }
    r->joins = count;
done:
    return status;
}

weft_status schedule_from_doc(struct arena *keep, const char *name, const struct doc *doc,
                              struct schedule **out)
{
    const struct doc *order = doc_get(doc, "order");
    struct list_reading r = {.scratch = arena_new(), .keep = keep, .name = doc->file};
    bool zigzag = false;
    weft_status status;
    if (!order || order->kind != DOC_LIST || !order->count)
        TRY(doc_error(order ? order : doc, FORMAT, "'order' is %s, expected one line per stage",
                      order ? order->count || order->kind != DOC_LIST ? doc_kind_name(order->kind)
                                                                      : "empty"
                            : "missing"));
    TRY(read_placement(doc, &zigzag));
    for (const struct doc *line = order->first; line; line = line->next)
        TRY(take_line(&r, line, r.stages++));
    if (doc_get(doc, "joins"))
        TRY(read_joins(&r, doc_get(doc, "joins")));
    TRY(make_schedule(&r, zigzag, name, out));
done:
    arena_free(r.scratch);
    return status;
}

static weft_status check_keys(const struct doc *doc)
{
    static const char *const KEYS[] = {"order", "placement", "joins"};
    size_t known = 0;
    if (doc->kind != DOC_MAP)
        return doc_error(doc, FORMAT, "the file is %s, expected a mapping with 'order'",
                         doc_kind_name(doc->kind));
    for (const struct doc *child = doc->first; child; child = child->next) {
        for (known = 0; known < COUNT_OF(KEYS) && strcmp(child->key, KEYS[known]) != 0;)
            known++;
        if (known == COUNT_OF(KEYS)) {
            weft_status status = doc_error(child, FORMAT, "unknown key '%.40s'", child->key);
            hint_near(nearest_word(child->key, KEYS, COUNT_OF(KEYS)));
            return status;
        }
    }
    return WEFT_OK;
}

static weft_status read_own(struct arena *keep, const char *name, const char *text, size_t len,
                            struct schedule **out)
{
    struct arena *scratch = arena_new();
    struct doc *doc;
    weft_status status;
    TRY(doc_parse(scratch, name, text, len, DOC_YAML, &doc));
    TRY(check_keys(doc));
    TRY(schedule_from_doc(keep, name, doc, out));
done:
    arena_free(scratch);
    return status;
}

/* ---- torchtitan's CSV ------------------------------------------------------------------------ */

static bool is_communication(const char *text)
{
    static const char *const WORDS[] = {
        "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD", "SEND_F",
        "RECV_F",  "SEND_B",  "RECV_B",      "WAIT_SEND_F",      "WAIT_SEND_B"};
    for (size_t i = 0; i < COUNT_OF(WORDS); i++)
        if (strncmp(text, WORDS[i], strlen(WORDS[i])) == 0)
            return text[strlen(WORDS[i])] == '\0' || isdigit((unsigned char)text[strlen(WORDS[i])]);
    return false;
}

/* "2F0", with the part in place of the piece. */
static weft_status take_action(struct list_reading *r, int32_t stage, int line, char *text)
{
    const char *at = text;
    struct slot slot = {0};
    bool fine = (slot.piece = take_number(&at)) >= 0;
    if (fine && is_communication(at))
        return WEFT_OK;
    fine = fine && take_kind(&at, &slot.kind) && (slot.micro_batch = take_number(&at)) >= 0;
    if (!fine || *at)
        return bad_cell(r, line, text);
    add_cell(r, stage, line, slot, text);
    return WEFT_OK;
}

/* A cell without its spaces and quotes. */
static char *strip(char *text)
{
    while (*text && strchr(" \t\r\"", *text))
        text++;
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r\"", text[len - 1]))
        text[--len] = '\0';
    return text;
}

static weft_status take_cell(struct list_reading *r, int32_t stage, int line, char *text)
{
    char *end = strstr(text, ")OVERLAP_F_B"), *rest = NULL;
    weft_status status = WEFT_OK;
    if (*text == '\0')
        return WEFT_OK;
    if (*text != '(' || !end || strcmp(end, ")OVERLAP_F_B") != 0)
        return take_action(r, stage, line, text);
    *end = '\0';
    for (char *word = strtok_r(text + 1, ";", &rest); word && !status;
         word = strtok_r(NULL, ";", &rest))
        status = take_action(r, stage, line, word);
    return status;
}

static weft_status take_row(struct list_reading *r, int line, char *text)
{
    weft_status status = WEFT_OK;
    for (char *cell = text, *next; cell && !status; cell = next) {
        next = strchr(cell, ',');
        if (next)
            *next++ = '\0';
        status = take_cell(r, r->stages, line, strip(cell));
    }
    r->stages++;
    return status;
}

/* Whether the first cell of a second piece lies as in a zigzag. */
static bool looks_zigzag(const struct list_reading *r)
{
    for (size_t i = 0; i < r->cells.len; i++) {
        int32_t part = r->cells.data[i].slot.piece;
        if (part >= r->stages && part < 2 * r->stages)
            return r->cells.data[i].stage != part % r->stages;
    }
    return false;
}

/* Parts become pieces of the stages that they must lie on. */
static weft_status place_parts(struct list_reading *r, bool zigzag)
{
    for (size_t i = 0; i < r->cells.len; i++) {
        struct cell *cell = &r->cells.data[i];
        int32_t part = cell->slot.piece, stage = stage_with_part(zigzag, r->stages, part);
        if (stage != cell->stage)
            return bad_input(r->name, cell->line, NULL,
                             "'%.40s' is in row %d, expected part %d in row %d of a %s", cell->text,
                             cell->stage, part, stage, SCHEDULE_PLACEMENTS[zigzag]);
        cell->slot.piece = part / r->stages;
    }
    return WEFT_OK;
}

static weft_status read_csv(struct arena *keep, const char *name, const char *text, size_t len,
                            struct schedule **out)
{
    struct list_reading r = {.scratch = arena_new(), .keep = keep, .name = name};
    char *at = arena_copy_bytes(r.scratch, text, len);
    weft_status status;
    for (int line = 1; at; line++) {
        char *next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        if (*strip(at))
            TRY(take_row(&r, line, at));
        at = next;
    }
    bool zigzag = looks_zigzag(&r);
    TRY(place_parts(&r, zigzag));
    TRY(make_schedule(&r, zigzag, name, out));
done:
    arena_free(r.scratch);
    return status;
}

weft_status schedule_read(struct arena *keep, const char *name, const char *text, size_t len,
                          struct schedule **out)
{
    size_t blank = 0;
    while (blank < len && isspace((unsigned char)text[blank]))
        blank++;
    bool csv = blank < len && (isdigit((unsigned char)text[blank]) || strchr(",(\"", text[blank]));
    return (csv ? read_csv : read_own)(keep, name, text, len, out);
}

weft_status schedule_load(struct arena *keep, const char *path, struct schedule **out)
{
    struct arena *scratch = arena_new();
    char *text;
    size_t len;
    weft_status status = file_read(scratch, path, DOC_MAX_BYTES, &text, &len);
    if (!status)
        status = schedule_read(keep, path, text, len, out);
    arena_free(scratch);
    return status;
}

/* ---- writing (I2) ---------------------------------------------------------------------------- */

const char *slots_text(struct arena *keep, const struct slots *slots,
                       const struct pipeline *pipeline)
{
    char *text = ARENA_ARRAY(keep, char, slots->len * sizeof(struct text32) + 1), *at = text;
    for (size_t i = 0; i < slots->len; i++)
        at += sprintf(at, "%s%s", i ? " " : "", slot_label(slots->data[i], pipeline).s);
    return text;
}

static const char *csv_row(struct arena *keep, const struct slots *slots, int32_t stage,
                           bool zigzag, const struct pipeline *pipeline)
{
    char *text = ARENA_ARRAY(keep, char, slots->len * sizeof(struct text32) + 1), *at = text;
    for (size_t i = 0; i < slots->len; i++) {
        struct slot slot = slots->data[i];
        at += sprintf(at, "%s%d%c%d", i ? "," : "",
                      part_of_piece(zigzag, pipeline->stages, stage, slot.piece),
                      LETTERS[slot.kind], slot.micro_batch);
    }
    return text;
}

/* What comes before the lists of Weft's own form. */
static const char *own_head(struct arena *keep, const struct schedule *schedule,
                            const struct pipeline *pipeline)
{
    const char *text = arena_printf(keep, "placement: %s\n", SCHEDULE_PLACEMENTS[schedule->zigzag]);
    for (int32_t s = 0; pipeline->joins && s < pipeline->stages; s++)
        text = arena_printf(keep, "%s%s%d%s", text, s ? ", " : "joins: [", pipeline->joins[s],
                            s + 1 < pipeline->stages ? "" : "]\n");
    return arena_printf(keep, "%sorder:\n", text);
}

const char *schedule_write(struct arena *keep, const struct schedule *schedule,
                           const struct pipeline *pipeline, enum schedule_format format)
{
    struct arena *scratch = arena_new();
    const char *text = format == SCHEDULE_CSV ? "" : own_head(scratch, schedule, pipeline);
    for (int32_t s = 0; s < pipeline->stages; s++) {
        struct slots slots = {0};
        schedule_order(schedule, pipeline, s, scratch, &slots);
        text =
            format == SCHEDULE_CSV
                ? arena_printf(scratch, "%s%s\n", text,
                               csv_row(scratch, &slots, s, schedule->zigzag, pipeline))
                : arena_printf(scratch, "%s  - %s\n", text, slots_text(scratch, &slots, pipeline));
    }
    text = arena_copy_text(keep, text);
    arena_free(scratch);
    return text;
}
