/* models.c - `weft models`: lists the models that Weft knows by name. */
#include <stdio.h>
#include <string.h>

#include "cli/options.h"

struct models_command {
    const char *family; /* NULL for all */
    bool names, json;
};

#define AT(field) offsetof(struct models_command, field)
static const struct cli_option OPTIONS[] = {
    {"family", "FAMILY", "only models of this family", OPTION_TEXT, AT(family), .letter = 'f'},
    {"names", NULL, "bare names, one per line", OPTION_FLAG, AT(names)},
    JSON_OPTION(AT(json)),
    {0},
};

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_ARG)
        argp_error(state, "no argument expected: `weft inspect %s` shows one model", arg);
    return key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "",
    "Lists the models that Weft knows by name, with their layers and parameters.\v"
    "A model can also be a YAML file, a Hugging Face config.json or an ONNX file.\n\n"
    "Example:\n"
    "  weft models --family resnet",
    .names = take_names,
};

/* The presets of one family, or of all families, which are opened one after the other. */
struct listing {
    const struct preset *presets;
    size_t count;
    const char *family;
};

static bool listed(const struct listing *listing, size_t i)
{
    return !listing->family || strcmp(listing->presets[i].family, listing->family) == 0;
}

static weft_status check_family(const struct listing *listing)
{
    enum { MOST = 64 };
    const struct family *const *families;
    const char *names[MOST];
    size_t count = model_families(&families);
    for (size_t i = 0; i < count && i < MOST; i++) {
        names[i] = families[i]->name;
        if (!listing->family || strcmp(names[i], listing->family) == 0)
            return WEFT_OK;
    }
    weft_status status = bad_argument("`weft models` shows every family",
                                      "no family is called '%s'", listing->family);
    hint_near(nearest_word(listing->family, names, count < MOST ? count : MOST));
    return status;
}

static int print_names(const struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        if (listed(listing, i))
            puts(listing->presets[i].name);
    return WEFT_OK;
}

static int print_json(const struct listing *listing)
{
    json_t *models;
    weft_status status = models_json(listing->family, &models);
    return status ? cli_fail(status) : cli_print_json(models);
}

static weft_status add_row(struct table *table, const struct preset *preset, bool first)
{
    struct model *model;
    weft_status status = model_open(preset->name, NULL, &model);
    if (status)
        return status;
    if (first)
        table_rule(table);
    table_cell(table, "%s", first ? preset->family : "");
    table_cell(table, "%s", preset->name);
    table_cell(table, "%lld", (long long)model->layers);
    table_cell(table, "%s", show_count(model_totals(model, model->dtype).parameters).s);
    table_cell(table, "%s", preset->source);
    model_free(model);
    return WEFT_OK;
}

static int print_table(const struct listing *listing)
{
    static const char *const HEADERS[] = {"family", "model", "layers", "parameters", "source"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_LEFT};
    struct arena *arena = arena_new();
    struct table *table = table_new(arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    const char *family = "";
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < listing->count; i++) {
        const struct preset *preset = &listing->presets[i];
        if (!listed(listing, i))
            continue;
        TRY(add_row(table, preset, strcmp(family, preset->family) != 0));
        family = preset->family;
    }
    table_print(table, stdout);
done:
    arena_free(arena);
    return status ? cli_fail(status) : WEFT_OK;
}

int cmd_models(int argc, char **argv)
{
    struct models_command options = {0};
    cli_read(&SYNTAX, argc, argv, &options);
    struct listing listing = {.family = options.family};
    listing.count = model_presets(&listing.presets);
    weft_status status = check_family(&listing);
    if (status)
        return cli_fail(status);
    if (options.names)
        return print_names(&listing);
    return options.json ? print_json(&listing) : print_table(&listing);
}
