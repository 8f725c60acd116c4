/* file_tree.c - the strategy tree of a plan file (Proteus, section IV), applied to a plan.
 *
 *     tree:                                  choices:
 *       layers: {recompute: full}              - {split: batch:2 out:8, at: [layers.0-39.attn.qkv]}
 *       layers.*.mlp.up: {split: out:8}
 *
 *   I1  A line applies to every instance below the node that it names. If several lines set the
 *       same thing for an instance, the deepest wins, and among equally deep ones the last.
 *   I2  A split on a module applies to each operator below as far as possible: an operator that
 *       lacks a dim or cannot be split by it is copied instead. A split on an operator itself is
 *       taken literally, and plan_check refuses what is not possible.
 *   I3  The stage's devices that a split leaves over hold copies, outermost.
 *   I4  A line of `choices` sets everything: what it does not mention is off.
 *   I5  A line with `devices` puts its operators on these devices of their stage (subset.h); their split is one of these
 *       alone, and without a split each has all of it.
 */
#include "plan/file.h"

#include <stdio.h>
#include <string.h>

#include "plan/room.h"

enum tree_setting {
    SET_SPLIT,
    SET_BACKWARD,
    SET_RECOMPUTE,
    SET_SHARD,
    SET_OFFLOAD,
    SET_MEMORY,
    SET_DEVICES,
    SETTINGS
};

struct line {
    const struct doc *at;
    struct name_pattern pattern;
    bool has[SETTINGS], has_back;
    struct split split, back;
    enum recompute recompute;
    bool saved, discard; /* with recompute: what becomes of the output */
    int64_t shard;
    enum offload offload;
    bool parts;
    struct device_run run; /* no devices: all of the stage's */
    bool matched, won;     /* whether it names some instance; whether it sets the split of one */
    unsigned used;         /* parts of the split that some operator below could use, as bits */
};

struct tree {
    struct plan_file *file;
    ARRAY(struct line) lines;
    const struct choice *selective; /* per operator: what selective recomputation chooses */
};

/* ---- reading lines --------------------------------------------------------------------------- */

struct settings {
    const char *split, *backward;
    const struct doc *recompute, *offload, *memory, *devices, *at;
    int64_t shard;
};

static const struct field FIELDS[] = {
    {"split", FIELD_TEXT, offsetof(struct settings, split),
     .expected = "dims with degrees: batch:2 out:8"},
    {"backward", FIELD_TEXT, offsetof(struct settings, backward),
     .expected = "dims with degrees, or same"},
    {"recompute", FIELD_DOC, offsetof(struct settings, recompute)},
    {"shard", FIELD_INT, offsetof(struct settings, shard), .expected = "0, 1, 2 or 3"},
    {"offload", FIELD_DOC, offsetof(struct settings, offload)},
    {"memory", FIELD_DOC, offsetof(struct settings, memory)},
    {"devices", FIELD_DOC, offsetof(struct settings, devices)},
    {"at", FIELD_DOC, offsetof(struct settings, at)},
};
enum { TREE_FIELDS = COUNT_OF(FIELDS) - 1, CHOICE_FIELDS = COUNT_OF(FIELDS) };

static weft_status read_recompute(const struct doc *node, struct line *line)
{
    bool word = node->kind == DOC_TEXT;
    line->saved = word && strcmp(node->text, "saved") == 0;
    line->discard = word && strcmp(node->text, "discard") == 0;
    if (line->saved || line->discard) {
        line->recompute = RECOMPUTE_FULL;
        return WEFT_OK;
    }
    if (node->kind == DOC_BOOL) {
        line->recompute = strcmp(node->text, "true") == 0 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
        return WEFT_OK;
    }
    for (int i = 0; i < RECOMPUTE_COUNT; i++) {
        line->recompute = (enum recompute)i;
        if (word && strcmp(node->text, recompute_name(line->recompute)) == 0)
            return WEFT_OK;
    }
    return doc_error(node, NULL,
                     "'recompute' is '%.40s', expected none, selective, full, saved, discard, true "
                     "or false",
                     node->text);
}

static weft_status read_offload(const struct doc *node, struct line *line)
{
    bool kept = node->kind == DOC_TEXT && strcmp(node->text, "kept") == 0;
    if (!kept && node->kind != DOC_BOOL)
        return doc_error(node, NULL, "'offload' is '%.40s', expected true, false or kept",
                         node->text ? node->text : doc_kind_name(node->kind));
    line->offload = kept                              ? OFFLOAD_KEPT
                    : strcmp(node->text, "true") == 0 ? OFFLOAD_CHECKPOINTS
                                                      : OFFLOAD_NOTHING;
    return WEFT_OK;
}

static weft_status read_memory(const struct doc *node, struct line *line)
{
    line->parts = node->kind == DOC_TEXT && strcmp(node->text, "parts") == 0;
    if (line->parts || (node->kind == DOC_TEXT && strcmp(node->text, "whole") == 0))
        return WEFT_OK;
    return doc_error(node, "docs/reference/plan-file.md says what is kept in parts",
                     "'memory' is '%.40s', expected parts or whole",
                     node->text ? node->text : doc_kind_name(node->kind));
}

/* "2-3", "2", or "all" */
static weft_status read_run(struct arena *scratch, const struct doc *node, struct line *line)
{
    const char *dash = node->text ? strchr(node->text, '-') : NULL;
    int64_t first = -1, last = -1;
    bool scalar = node->kind == DOC_TEXT || node->kind == DOC_NUMBER;
    if (scalar && strcmp(node->text, "all") == 0)
        return WEFT_OK;
    if (scalar && dash && parse_int(dash + 1, &last))
        parse_int(arena_copy_bytes(scratch, node->text, (size_t)(dash - node->text)), &first);
    else if (scalar && !dash && parse_int(node->text, &first))
        last = first;
    if (first < 0 || last < first || last >= INT32_MAX)
        return doc_error(node, "devices of the stage, counted from its first: 2-3",
                         "'devices' is '%.40s', expected a run such as 2-3, or all",
                         node->text ? node->text : doc_kind_name(node->kind));
    line->run = (struct device_run){first, last - first + 1};
    return WEFT_OK;
}

static weft_status read_settings(struct arena *scratch, const struct doc *node, size_t fields,
                                 struct line *line, struct settings *s)
{
    weft_status status;
    TRY(doc_read(node, FIELDS, fields, DOC_REFUSE_UNKNOWN, s));
    line->at = node;
    for (int i = 0; i < SETTINGS; i++)
        line->has[i] = doc_get(node, FIELDS[i].key) != NULL;
    if (s->split)
        TRY(split_parse(doc_get(node, "split"), s->split, &line->split));
    line->has_back = s->backward && strcmp(s->backward, "same") != 0;
    if (line->has_back)
        TRY(split_parse(doc_get(node, "backward"), s->backward, &line->back));
    if (s->recompute)
        TRY(read_recompute(s->recompute, line));
    if (s->shard < 0 || s->shard > 3)
        return doc_error(doc_get(node, "shard"), NULL, "'shard' is %lld, expected 0, 1, 2 or 3",
                         (long long)s->shard);
    line->shard = s->shard;
    if (s->offload)
        TRY(read_offload(s->offload, line));
    if (s->memory)
        TRY(read_memory(s->memory, line));
    if (s->devices)
        TRY(read_run(scratch, s->devices, line));
done:
    return status;
}

static weft_status add_line(struct tree *tree, const struct doc *where, const char *text,
                            struct line line)
{
    weft_status status = pattern_parse(tree->file->scratch, where, text, &line.pattern);
    if (!status)
        array_push(tree->file->scratch, &tree->lines, line);
    return status;
}

static weft_status read_tree(struct tree *tree, const struct doc *map)
{
    weft_status status = WEFT_OK;
    if (map->kind != DOC_MAP)
        return doc_error(map, "such as layers: {recompute: full}",
                         "'tree' is %s, expected a mapping of modules to settings",
                         doc_kind_name(map->kind));
    for (const struct doc *node = map->first; node; node = node->next) {
        struct line line = {0};
        struct settings settings = {0};
        if (node->kind != DOC_MAP)
            return doc_error(node, "such as {split: batch:2 out:8, recompute: full}",
                             "'%.60s' is %s, expected a mapping of settings", node->key,
                             doc_kind_name(node->kind));
        TRY(read_settings(tree->file->scratch, node, TREE_FIELDS, &line, &settings));
        TRY(add_line(tree, node, node->key, line));
    }
done:
    return status;
}

static weft_status read_choice(struct tree *tree, const struct doc *node)
{
    weft_status status;
    struct line line = {0};
    struct settings settings = {0};
    TRY(read_settings(tree->file->scratch, node, CHOICE_FIELDS, &line, &settings));
    if (!settings.split || !settings.at || settings.at->kind != DOC_LIST)
        return doc_error(node, NULL,
                         "a choice needs a 'split' and a list 'at' of the nodes that have it");
    memset(line.has, true, sizeof line.has); /* I4 */
    for (const struct doc *at = settings.at->first; at; at = at->next) {
        const char *text;
        TRY(doc_scalar(at, FIELD_TEXT, &text));
        TRY(add_line(tree, at, text, line));
    }
done:
    return status;
}

static weft_status read_choices(struct tree *tree, const struct doc *list)
{
    if (list->kind != DOC_LIST)
        return doc_error(list, NULL, "'choices' is %s, expected a list", doc_kind_name(list->kind));
    for (const struct doc *node = list->first; node; node = node->next) {
        weft_status status = read_choice(tree, node);
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* ---- splits ---------------------------------------------------------------------------------- */

static bool can_split(const struct op *op, int dim)
{
    int place = dim == SPLIT_COPY ? -1 : op_find_dim(op->kind, (enum dim)dim);
    if (place < 0)
        return dim == SPLIT_COPY;
    enum dim_role role = OP_KINDS[op->kind].dims[place].role;
    return role != ROLE_WHOLE && (op->size[place] > 1 || role == ROLE_BATCH);
}

/* I2 for a line on a module: the same degrees, along the dims that the operator has. */
static struct split inherit(const struct split *given, const struct op *op, unsigned *used)
{
    struct split split = split_none();
    for (int32_t i = 0; i < given->parts; i++) {
        int dim = given->part[i].dim;
        bool can = can_split(op, dim);
        *used |= can ? 1u << i : 0;
        split_add(&split, can ? dim : SPLIT_COPY, given->part[i].degree);
    }
    return split;
}

static weft_status too_wide(const struct plan_file *file, const struct line *line, int64_t instance,
                            const struct split *split, int64_t devices)
{
    struct arena *scratch = file->scratch;
    int32_t stage = plan_stage_of_part(file->plan, plan_part_of(file->plan, instance));
    weft_status status =
        doc_error(line->at, NULL, "%s: %s is for %s, which do not divide the %lld of stage %d",
                  plan_path(scratch, file->plan, instance), split_text(scratch, split),
                  counted(split_devices(split), "device").s, (long long)devices, stage);
    for (int32_t i = 0; i < split->parts; i++) {
        int64_t rest = split_devices(split) / split->part[i].degree;
        if (devices % rest == 0) {
            struct split_part part = split->part[i];
            struct split one = split_none();
            split_add(&one, part.dim, part.degree);
            error_hint(
                "in place of %s, degrees that fit: %s", split_text(scratch, &one),
                nearest_legal(scratch, part.degree, devices / rest, divides, devices / rest));
            break;
        }
    }
    return status;
}

static weft_status too_long(const struct plan_file *file, const struct line *line,
                            const struct split *split, const char *beside, int64_t degree)
{
    return doc_error(line->at, NULL,
                     "the split '%s' with %s:%lld is too long, expected at most %d dims",
                     split_text(file->scratch, split), beside, (long long)degree, MAX_SPLIT_PARTS);
}

/* I3 */
static weft_status fill_stage(const struct plan_file *file, const struct line *line,
                              int64_t instance, const struct split *given, int64_t devices,
                              struct split *out)
{
    int64_t covered = split_devices(given);
    if (devices % covered != 0)
        return too_wide(file, line, instance, given, devices);
    *out = split_none();
    bool fits = split_add(out, SPLIT_COPY, devices / covered);
    for (int32_t i = 0; i < given->parts; i++)
        fits = fits && split_add(out, given->part[i].dim, given->part[i].degree);
    return fits ? WEFT_OK : too_long(file, line, given, "copy", devices / covered);
}

/* ---- applying -------------------------------------------------------------------------------- */

/* The lines that win for one instance, one per setting (I1); NULL: none. */
struct winners {
    struct line *line[SETTINGS];
    int depth[SETTINGS];
};

static struct winners find_winners(struct tree *tree, int64_t instance)
{
    struct winners w = {0};
    for (size_t i = 0; i < tree->lines.len; i++) {
        struct line *line = &tree->lines.data[i];
        int depth = paths_match(&tree->file->paths, instance, &line->pattern);
        line->matched |= depth > 0;
        for (int s = 0; depth && s < SETTINGS; s++) {
            if (line->has[s] && depth >= w.depth[s]) {
                w.line[s] = line;
                w.depth[s] = depth;
            }
        }
    }
    return w;
}

static bool is_on_operator(const struct plan_file *file, const struct line *line, int depth,
                           int64_t instance)
{
    return strcmp(line->pattern.word[0].text, "#") == 0 ||
           depth == file->paths.path[instance].names;
}

/* The split of an instance over so many devices. */
static weft_status set_split(struct tree *tree, int64_t instance, const struct winners *w,
                             int64_t devices, struct split *out)
{
    struct plan_file *file = tree->file;
    struct line *line = w->line[SET_SPLIT];
    const struct op *op = &file->plan->model->op[file->plan->instance[instance].op];
    bool on_operator = is_on_operator(file, line, w->depth[SET_SPLIT], instance);
    struct split given = on_operator ? line->split : inherit(&line->split, op, &line->used);
    file->split_at[instance] = line->at;
    line->won = true;
    line->used |= on_operator ? ~0u : 0;
    return fill_stage(file, line, instance, &given, devices, out);
}

/* I5 */
static weft_status check_run(struct tree *tree, int64_t instance, const struct line *line,
                             int64_t devices)
{
    const struct plan_file *file = tree->file;
    int32_t stage = plan_stage_of_part(file->plan, plan_part_of(file->plan, instance));
    if (run_is_one_of(line->run, devices))
        return WEFT_OK;
    return doc_error(line->at, "a run of 2 begins at 0, 2, 4, ...; of 4 at 0, 4, 8, ...",
                     "%s: devices %s are none of the equal runs that the %lld of stage %d are cut "
                     "into",
                     plan_path(file->scratch, file->plan, instance),
                     run_text(file->scratch, line->run), (long long)devices, stage);
}

static weft_status put_on(struct tree *tree, int64_t instance, const struct line *line,
                          int64_t devices, struct split *split)
{
    struct plan_file *file = tree->file;
    struct split inside = *split;
    if (!file->split_at[instance])
        file->split_at[instance] = line->at;
    return split_put_on(&inside, line->run, devices, split)
               ? WEFT_OK
               : too_long(file, line, &inside, "runs", devices / line->run.devices);
}

/* The split on all devices of its stage, or on those that a line names. */
static weft_status lay_out(struct tree *tree, int64_t instance, const struct winners *w,
                           struct split *out)
{
    const struct plan *plan = tree->file->plan;
    const struct line *on = w->line[SET_DEVICES];
    int64_t devices = plan->stage[plan_stage_of_part(plan, plan_part_of(plan, instance))].devices;
    bool subset = on && on->run.devices;
    int64_t own = subset ? on->run.devices : devices;
    weft_status status = WEFT_OK;
    if (subset) {
        TRY(check_run(tree, instance, on, devices));
        *out = split_none();
        split_add(out, SPLIT_COPY, own);
    }
    if (w->line[SET_SPLIT])
        TRY(set_split(tree, instance, w, own, out));
    if (subset)
        TRY(put_on(tree, instance, on, devices, out));
done:
    return status;
}

/* The split of its backward pass; from a line on a module only if it can have that (I2). */
static weft_status set_back(struct tree *tree, int64_t instance, const struct winners *w,
                            struct choice *choice)
{
    struct plan_file *file = tree->file;
    const struct line *line = w->line[SET_BACKWARD];
    const struct op *op = &file->plan->model->op[file->plan->instance[instance].op];
    bool on_operator = is_on_operator(file, line, w->depth[SET_BACKWARD], instance);
    choice->own_back = false;
    if (!line->has_back || (!on_operator && !op_turns(file->plan->model, op)))
        return WEFT_OK;
    struct split back, given = on_operator ? line->back : inherit(&line->back, op, &(unsigned){0});
    weft_status status =
        fill_stage(file, line, instance, &given, split_devices(&choice->split), &back);
    if (status)
        return status;
    choice_set_back(choice, &back);
    file->back_at[instance] = line->at;
    if (!on_operator && choice->own_back && back_refusal(file->plan->model, op, choice))
        choice->own_back = false;
    return WEFT_OK;
}

static weft_status apply(struct tree *tree, int64_t instance)
{
    struct plan *plan = tree->file->plan;
    struct choice choice = *plan_choice(plan, instance);
    struct winners w = find_winners(tree, instance);
    const struct line *recompute = w.line[SET_RECOMPUTE];
    weft_status status = lay_out(tree, instance, &w, &choice.split);
    if (!status && w.line[SET_BACKWARD])
        status = set_back(tree, instance, &w, &choice);
    if (status)
        return status;
    if (recompute && recompute->recompute == RECOMPUTE_SELECTIVE)
        choice.recompute = tree->selective[plan->instance[instance].op].recompute;
    else if (recompute)
        choice.recompute = recompute->recompute == RECOMPUTE_FULL;
    if (recompute) {
        choice.saved = recompute->saved;
        choice.discard = recompute->discard;
    }
    if (w.line[SET_SHARD])
        choice.shard = (uint8_t)w.line[SET_SHARD]->shard;
    if (w.line[SET_OFFLOAD])
        choice.offload = (uint8_t)w.line[SET_OFFLOAD]->offload;
    if (w.line[SET_MEMORY])
        choice.parts = w.line[SET_MEMORY]->parts;
    return plan_choose(plan, instance, &choice);
}

/* Refuses lines that have no effect: they are probably mistakes. */
static weft_status check_lines(const struct tree *tree)
{
    const struct plan_file *file = tree->file;
    for (size_t i = 0; i < tree->lines.len; i++) {
        const struct line *line = &tree->lines.data[i];
        if (!line->matched)
            return pattern_unknown(line->at, file->plan, &file->paths, &line->pattern);
        weft_status status =
            pattern_check_ranges(line->at, file->plan, &file->paths, &line->pattern);
        if (status)
            return status;
        for (int32_t k = 0; line->won && k < line->split.parts; k++)
            if (!(line->used >> k & 1))
                return doc_error(line->at, "`weft inspect MODEL --ops` lists the dims",
                                 "no operator below '%.60s' can be split by '%s'",
                                 line->pattern.text, dim_name((enum dim)line->split.part[k].dim));
    }
    return WEFT_OK;
}

static weft_status find_selective(struct tree *tree)
{
    struct degrees one = {.dp = 1, .tp = 1, .pp = 1, .cp = 1, .ep = 1, .pieces = 1, .segments = 1};
    struct choice *choice;
    one.micro_batch = one.global_batch = 1;
    one.recompute = RECOMPUTE_SELECTIVE;
    weft_status status = lower_degrees(tree->file->plan->model, &one, tree->file->scratch, &choice);
    tree->selective = status ? NULL : choice;
    return status;
}

weft_status file_apply_tree(struct plan_file *file)
{
    struct tree tree = {.file = file};
    weft_status status = WEFT_OK;
    if (file->root.tree)
        TRY(read_tree(&tree, file->root.tree));
    if (file->root.choices)
        TRY(read_choices(&tree, file->root.choices));
    TRY(find_selective(&tree));
    for (int64_t i = 0; tree.lines.len && i < file->plan->instances; i++)
        TRY(apply(&tree, i));
    TRY(check_lines(&tree));
done:
    return status;
}
