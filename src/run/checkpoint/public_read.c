/* public_read.c - reading weights out of a folder of transformers (public_weights.h). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run/checkpoint/checkpoint.h"

struct public_weights {
    struct arena *arena;
    const struct model *model;
    const char *folder;
    ARRAY(struct tensor_file) files;
};

/* ---- what is computed otherwise (I2) --------------------------------------------------------- */

static weft_status check_epsilon(const struct model *model, const struct doc *config,
                                 const char *key)
{
    const struct doc *node = doc_get(config, key);
    double value = 0, ours = model_norm_epsilon(model);
    if (!node)
        return WEFT_OK;
    weft_status status = doc_scalar(node, FIELD_REAL, &value);
    if (status == WEFT_OK && fabs(value - ours) > 1e-6 * ours)
        return doc_error(node,
                         arena_printf(model->arena, "give the model norm_epsilon: %.12g", value),
                         "'%s' is %.12g, and norms of %s add %.12g", key, value, model->name, ours);
    return status;
}

/* Llama 3.1 and later stretch positions; "default" does not. */
static weft_status check_positions(const struct model *model, const struct doc *config,
                                   const char *key)
{
    const struct op *rotary = model_op_of_kind(model, OP_ROTARY);
    const struct doc *scaling = doc_get(config, key), *type = doc_get(scaling, "rope_type");
    if (!type)
        type = doc_get(scaling, "type");
    if (!scaling || scaling->kind != DOC_MAP || !type || !type->text ||
        strcmp(type->text, "default") == 0)
        return WEFT_OK;
    double factor = 0;
    const struct doc *given = doc_get(scaling, "factor");
    if (strcmp(type->text, "llama3") == 0 && given && rotary &&
        doc_scalar(given, FIELD_REAL, &factor) == WEFT_OK && factor == rotary->rope_scaling)
        return WEFT_OK;
    return doc_error(
        type, "rope_scaling of the model is the factor of type llama3; others cannot be read",
        "'%s' is %s, and the model stretches positions by %.12g", key, type->text,
        rotary ? rotary->rope_scaling : 0);
}

static weft_status check_config(const struct public_weights *w)
{
    struct doc *config;
    weft_status status;
    TRY(doc_load(w->arena, arena_printf(w->arena, "%s/config.json", w->folder), &config));
    TRY(check_epsilon(w->model, config, "layer_norm_epsilon"));
    TRY(check_epsilon(w->model, config, "rms_norm_eps"));
    TRY(check_positions(w->model, config, "rope_scaling"));
    TRY(check_positions(w->model, config, "rope_parameters"));
done:
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

static weft_status open_file(struct public_weights *w, const char *name)
{
    struct tensor_file file;
    weft_status status =
        tensor_file_open(w->arena, arena_printf(w->arena, "%s/%s", w->folder, name), &file);
    if (status == WEFT_OK)
        array_push(w->arena, &w->files, file);
    return status;
}

static bool is_open(const struct public_weights *w, const char *name)
{
    for (size_t i = 0; i < w->files.len; i++) {
        const char *path = w->files.data[i].path, *last = strrchr(path, '/');
        if (last && strcmp(last + 1, name) == 0)
            return true;
    }
    return false;
}

/* Every file that the index of a model in several files names. */
static weft_status open_listed(struct public_weights *w, const char *index)
{
    struct doc *root;
    weft_status status;
    TRY(doc_load(w->arena, index, &root));
    const struct doc *map = doc_get(root, "weight_map");
    if (!map || map->kind != DOC_MAP)
        TRY(doc_error(root, NULL, "has no mapping 'weight_map' of tensors to files"));
    for (const struct doc *entry = map->first; entry; entry = entry->next) {
        if (entry->kind != DOC_TEXT || strchr(entry->text, '/'))
            TRY(doc_error(entry, NULL, "'%s' is in no file of this folder", entry->key));
        if (!is_open(w, entry->text))
            TRY(open_file(w, entry->text));
    }
done:
    return status;
}

static weft_status open_files(struct public_weights *w)
{
    struct stat info;
    const char *index = arena_printf(w->arena, "%s/model.safetensors.index.json", w->folder);
    if (stat(index, &info) == 0)
        return open_listed(w, index);
    if (errno != ENOENT)
        return file_failure(index, "read");
    return open_file(w, "model.safetensors");
}

weft_status public_weights_open(const struct model *model, const char *folder,
                                struct public_weights **out)
{
    struct arena *arena = arena_new();
    struct public_weights *w = ARENA_NEW(arena, struct public_weights);
    weft_status status;
    *w = (struct public_weights){
        .arena = arena, .model = model, .folder = arena_copy_text(arena, folder)};
    TRY(check_config(w));
    TRY(open_files(w));
done:
    if (status != WEFT_OK)
        public_weights_close(w);
    else
        *out = w;
    return status;
}

void public_weights_close(struct public_weights *weights)
{
    if (!weights)
        return;
    for (size_t i = 0; i < weights->files.len; i++)
        tensor_file_close(&weights->files.data[i]);
    arena_free(weights->arena);
}

/* ---- a weight -------------------------------------------------------------------------------- */

static const struct stored_tensor *find_named(const struct public_weights *w, const char *name)
{
    const struct stored_tensor *found = NULL;
    for (size_t i = 0; i < w->files.len && !found; i++)
        found = tensor_file_find(&w->files.data[i], name);
    return found;
}

/* The first files of GPT-2 were of a model without its head, whose names have no "transformer." before them. */
static const struct stored_tensor *find_tensor(const struct public_weights *w, const char *name)
{
    static const char BODY[] = "transformer.";
    const struct stored_tensor *found = find_named(w, name);
    bool body = strncmp(name, BODY, strlen(BODY)) == 0;
    return found || !body ? found : find_named(w, name + strlen(BODY));
}

static bool is_turned(const struct public_place *place)
{
    return place->form == FORM_TURNED || place->form == FORM_QKV_TURNED;
}

/* A tensor has the rows and columns that the table says, the other way round where it is turned. */
static weft_status find_part(const struct public_weights *w, const struct public_place *place,
                             int part, const struct stored_tensor **out)
{
    int64_t rows = place->parts == 1 ? place->rows : public_part_rows(place, part);
    const struct stored_tensor *t = find_tensor(w, place->name[part]);
    float none;
    if (!t)
        return bad_input(w->folder, 0, "name a folder of the model that the plan is of",
                         "holds no tensor '%s'", place->name[part]);
    int64_t first = is_turned(place) ? place->columns : rows;
    if (t->elements != rows * place->columns || t->axes < 1 || t->shape[0] != first)
        return bad_input(w->folder, 0, "name a folder of the model that the plan is of",
                         "'%s' has another shape than the model's %lld x %lld", place->name[part],
                         (long long)rows, (long long)place->columns);
    if (!stored_to_float(t->dtype, "", 0, &none))
        return bad_input(w->folder, 0, NULL, "'%s' is of dtype %s, expected F32, F16 or BF16",
                         place->name[part], stored_name(t->dtype));
    *out = t;
    return WEFT_OK;
}

/* `count` numbers of a row, from `column` on. */
static void read_row(const struct stored_tensor *t, const struct public_place *place,
                     struct public_row at, int64_t column, int64_t count, float *out)
{
    int64_t each = stored_bytes(t->dtype), rows = t->elements / place->columns;
    if (!is_turned(place)) {
        stored_to_float(t->dtype, t->data + (at.row * place->columns + column) * each, count, out);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        stored_to_float(t->dtype, t->data + ((column + i) * rows + at.row) * each, 1, out + i);
}

/* Numbers of Weft's weight from `place` on. */
static void read_run(const struct stored_tensor *const *part, const struct public_place *where,
                     int64_t place, int64_t count, float *out)
{
    while (count > 0) {
        int64_t row = place / where->columns, column = place % where->columns;
        int64_t left = where->columns - column, now = count < left ? count : left;
        struct public_row at = public_row_of(where, row);
        read_row(part[at.part], where, at, column, now, out);
        place += now;
        out += now;
        count -= now;
    }
}

weft_status public_weights_read(struct public_weights *weights, const char *name,
                                const struct shard *shard, float *out)
{
    struct arena *scratch = arena_new();
    struct public_place where;
    const struct stored_tensor *part[PUBLIC_PARTS] = {0};
    weft_status status;
    int64_t columns = 1;
    for (int64_t i = 1; i < shard->axes; i++)
        columns *= shard->shape[i];
    TRY(public_place_of(scratch, weights->model, name, shard->shape[0], columns, &where));
    for (int i = 0; i < where.parts; i++)
        TRY(find_part(weights, &where, i, &part[i]));
    memset(out, 0, (size_t)shard->count * sizeof *out);
    for (int64_t at = 0; at < shard->count;) {
        struct shard_run run = shard_run_at(shard, at);
        if (run.place >= 0)
            read_run(part, &where, run.place, run.count, out + at);
        at += run.count;
    }
done:
    arena_free(scratch);
    return status;
}
