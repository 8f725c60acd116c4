/* test_import_keys.c - every key of every Hugging Face file counts as it did: each is changed and left out, one at a
 * time, and the model that is read then, or the error, is held to a file.
 *
 *   data/import/hf_keys.txt   per file a line "# NAME" with the hash of its answer, and below it, per key that makes a
 *                             difference, the hashes of two: with another value, and without the key
 *
 * Another value is twice the number, the opposite of true, a list without its last member, "other" for a word, 1 for
 * null. After an intended change `WEFT_RECORD=1 build/tests/test_import_keys` writes the file anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>

#include "held_lines.h"
#include "model/import.h"
#include "model/model.h"

static const char FOLDER[] = WEFT_SOURCE_DIR "/tests/data/hf";
static const char FILE_NAME[] = WEFT_SOURCE_DIR "/tests/data/import/hf_keys.txt";

/* ---- what is read ------------------------------------------------------------------------------ */

/* To the seven digits that processors share. */
static void hash_number(uint64_t *hash, double number)
{
    float rounded = (float)number;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    *hash = (*hash ^ bits) * 1099511628211U;
    *hash ^= *hash >> 29;
}

static void hash_operator(uint64_t *hash, const struct op *op)
{
    const struct routing *r = &op->routing;
    const double about[] = {op->kind,
                            op->module,
                            op->inputs,
                            op->weights,
                            op->keep,
                            (double)op->kept_elements,
                            (double)op->kept_fp32,
                            op->input_grad,
                            op->frozen,
                            op->place,
                            op->causal,
                            (double)op->window,
                            op->chunked,
                            (double)op->document,
                            op->sinks,
                            op->flash,
                            (double)op->value_depth,
                            (double)op->head_depth,
                            (double)op->head_share,
                            (double)op->head_turned,
                            op->rope_base,
                            op->rope_scaling,
                            op->kernel[0],
                            op->kernel[1],
                            op->stride[0],
                            op->stride[1],
                            op->groups,
                            op->top_k,
                            op->copies,
                            op->gate,
                            op->squared,
                            op->padded,
                            op->by_stream,
                            (double)op->scan_heads,
                            (double)op->scan_state,
                            (double)op->scan_chunk,
                            (double)op->shared_depth,
                            (double)op->shared_value,
                            op->capacity,
                            r->scores,
                            r->balance,
                            r->balance_weight,
                            r->balance_bias,
                            (double)r->groups,
                            (double)r->group_top_k,
                            r->scale,
                            r->skew};
    hash_text(hash, op->name);
    for (int i = 0; i < OP_MAX_DIMS; i++)
        hash_number(hash, (double)op->size[i]);
    for (int32_t i = 0; i < op->inputs; i++)
        hash_number(hash, op->input[i].tensor);
    for (int32_t i = 0; i < op->weights; i++)
        hash_number(hash, op->weight[i].tied_op);
    for (size_t i = 0; i < COUNT_OF(about); i++)
        hash_number(hash, about[i]);
    if (op->rope_scaling > 0 && op->stretch.kind != ROPE_LLAMA3) {
        hash_number(hash, op->stretch.kind);
        hash_number(hash, (double)op->stretch.learned);
        hash_number(hash, op->stretch.mscale);
    }
}

static void hash_model(uint64_t *hash, const struct model *model)
{
    hash_text(hash, model->family);
    hash_number(hash, (double)model->layers);
    hash_number(hash, (double)model->seq);
    hash_number(hash, (double)model->image_tokens);
    hash_number(hash, model->dtype);
    hash_number(hash, model_totals(model, DTYPE_BF16).parameters);
    hash_number(hash, model_totals(model, DTYPE_BF16).flops[PHASE_FORWARD]);
    for (int32_t i = 0; i < model->ops; i++)
        hash_operator(hash, &model->op[i]);
    for (size_t i = 0; i < model->warnings.len; i++)
        hash_text(hash, model->warnings.data[i]);
}

/* The model that a configuration describes, or the error, in four digits of 16. */
static unsigned answer_to(const json_t *config)
{
    struct arena *scratch = arena_new();
    char *text = json_dumps(config, 0);
    struct doc *root, *options;
    struct model *model = NULL;
    uint64_t hash = HASH_BEGIN;
    assert_int_equal(doc_parse(scratch, "a/config.json", text, strlen(text), DOC_JSON, &root), 0);
    assert_int_equal(options_parse(scratch, NULL, &options), WEFT_OK);
    if (import_hf(scratch, "a/config.json", root, options, &model) == WEFT_OK)
        hash_model(&hash, model);
    else
        hash_text(&hash, weft_last_error()->message);
    model_free(model);
    free(text);
    arena_free(scratch);
    return (unsigned)(hash >> 48);
}

/* ---- what is changed --------------------------------------------------------------------------- */

static json_t *other_value(const json_t *value)
{
    if (json_is_integer(value))
        return json_integer(json_integer_value(value) ? 2 * json_integer_value(value) : 1);
    if (json_is_real(value))
        return json_real(json_real_value(value) != 0 ? 2 * json_real_value(value) : 1);
    if (json_is_string(value))
        return json_string("other");
    if (json_is_array(value)) {
        json_t *list = json_copy((json_t *)(uintptr_t)value);
        json_array_remove(list, json_array_size(list) - 1);
        return list;
    }
    return json_is_boolean(value) ? json_boolean(!json_is_true(value)) : json_integer(1);
}

struct keys {
    json_t *config; /* the whole file */
    unsigned unchanged;
    const char *lines;
};

/* Every member of an object, and of the objects in it; of a list of labels the first. */
static void change_each(struct keys *keys, json_t *object, const char *path)
{
    enum { MANY = 100 };
    size_t i, count = json_object_size(object);
    const char **name = ARENA_ARRAY(arena, const char *, count);
    const char *key;
    json_t *value;
    i = 0;
    json_object_foreach(object, key, value) name[i++] = arena_copy_text(arena, key);
    for (i = 0; i < (count < MANY ? count : 1); i++) {
        const char *below = arena_printf(arena, "%s%s", path, name[i]);
        value = json_incref(json_object_get(object, name[i]));
        if (json_is_object(value))
            change_each(keys, value, arena_printf(arena, "%s.", below));
        json_object_set_new(object, name[i], other_value(value));
        unsigned other = answer_to(keys->config);
        json_object_del(object, name[i]);
        unsigned without = answer_to(keys->config);
        if (other != keys->unchanged || without != keys->unchanged)
            keys->lines =
                arena_printf(arena, "%s%s %04x %04x\n", keys->lines, below, other, without);
        json_object_set_new(object, name[i], value);
    }
}

/* A file's lines; NULL: it has no configuration. */
static const char *lines_of(const char *name)
{
    const char *path = arena_printf(arena, "%s/%s/config.json", FOLDER, name);
    struct keys keys = {.config = json_load_file(path, 0, NULL)};
    if (!keys.config)
        return NULL;
    keys.unchanged = answer_to(keys.config);
    keys.lines = arena_printf(arena, "# %s %04x\n", name, keys.unchanged);
    change_each(&keys, keys.config, "");
    json_decref(keys.config);
    return keys.lines;
}

static void keys_count_as_they_did(void **state)
{
    (void)state;
    assert_int_equal(hold_lines(FOLDER, FILE_NAME, lines_of), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_count_as_they_did),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
