/* sources.c - the table of what plans are read from, and whether its framework runs what was read. */
#include <string.h>

#include "exchange/room.h"

static const struct source SOURCES[] = {
    {"megatron",
     "launch arguments of Megatron-LM",
     "megatron",
     megatron_import,
     {"--num-layers", "--micro-batch-size"}},
    {"galvatron",
     "Galvatron's JSON: a strategy per layer",
     "galvatron",
     galvatron_import,
     {"\"pp_deg\""}},
    {"aceso",
     "Aceso's JSON: degrees for every operator",
     NULL,
     aceso_import,
     {"\"num_ops_in_each_stage\""}},
    {"deepspeed",
     "DeepSpeed's JSON configuration",
     "deepspeed",
     deepspeed_import,
     {"\"zero_optimization\"", "\"train_batch_size\"", "\"train_micro_batch_size_per_gpu\""}},
    {"bridge",
     "a dumped configuration of Megatron-Bridge or NeMo, in YAML",
     "megatron",
     bridge_import,
     {"tensor_model_parallel_size:"}},
    {"torchtitan",
     "torchtitan's TOML, its command line, or a function of Python",
     "torchtitan",
     torchtitan_import,
     {"[parallelism]", "torchtitan.train", "from torchtitan"}},
};

const struct source *source_find(const char *name)
{
    struct arena *scratch = arena_new();
    const char *release = name ? strchr(name, '@') : NULL;
    const char *alone = release ? arena_printf(scratch, "%.*s", (int)(release - name), name) : name;
    int at = alone ? NAME_INDEX(alone, SOURCES) : 0;
    if (at < 0)
        unknown_name("source", alone, SOURCES, sizeof SOURCES[0], COUNT_OF(SOURCES));
    arena_free(scratch);
    return at < 0 ? NULL : &SOURCES[at];
}

const char *source_at(size_t i, const char **summary)
{
    if (i >= COUNT_OF(SOURCES))
        return NULL;
    *summary = SOURCES[i].summary;
    return SOURCES[i].name;
}

static bool has_sign(const struct source *source, const char *text)
{
    for (size_t i = 0; i < COUNT_OF(source->signs) && source->signs[i]; i++)
        if (strstr(text, source->signs[i]))
            return true;
    return false;
}

const struct source *source_of_text(const char *text)
{
    for (size_t i = 0; i < COUNT_OF(SOURCES); i++)
        if (has_sign(&SOURCES[i], text))
            return &SOURCES[i];
    return NULL;
}

weft_status open_practised(struct arena *scratch, struct import_input *input,
                           struct opened_plan *out)
{
    struct degrees type = {.has_dtype = true}; /* the file says it, or the model */
    weft_status status;
    TRY(model_open(input->model, input->options, &out->model));
    TRY(cluster_open(input->cluster, &out->cluster));
    TRY(follow_practice(scratch, input->model, &input->options, &type, out));
done:
    return status;
}

/* ---- what was read --------------------------------------------------------------------------- */

/* What keeps this release from running the plan; NULL: nothing does. */
static const char *refused(struct arena *keep, const struct target *target, const struct plan *plan)
{
    struct texts differences = {0};
    const char *why = NULL;
    if (target_has_model(target, plan->model) ||
        target_differences(keep, target, plan, &differences, NULL))
        why = arena_copy_text(keep, weft_last_error()->message);
    error_clear();
    return why ? why : differences.len ? differences.data[0] : NULL;
}

static void note_release(struct arena *keep, const struct target *target, const char *why,
                         struct texts *notes)
{
    if (why)
        add_text(keep, notes, arena_printf(keep, "%s does not run this: %s", target->title, why));
}

/* The framework of a source that has one, in the release of the name; NULL: it has no such release. */
static const struct target *target_of(const struct source *source, const char *release)
{
    struct arena *scratch = arena_new();
    const struct target *target =
        target_find(arena_printf(scratch, "%s%s", source->framework, release ? release : ""));
    arena_free(scratch);
    return target;
}

const struct target *source_target(source_reader *read)
{
    for (size_t i = 0; i < COUNT_OF(SOURCES); i++)
        if (SOURCES[i].read == read)
            return target_of(&SOURCES[i], NULL);
    return NULL;
}

weft_status source_software(const char *name, struct software *out)
{
    const struct source *source = source_find(name);
    const char *release = name ? strchr(name, '@') : NULL;
    *out = (struct software){0};
    if (!source || !source->framework)
        return source ? WEFT_OK : WEFT_BAD_INPUT;
    const struct target *target = target_of(source, release);
    if (!target)
        return WEFT_BAD_INPUT;
    return target->software ? software_from_text(target->software, out) : WEFT_OK;
}

weft_status source_note(struct arena *keep, const char *name, const struct plan *plan,
                        struct texts *notes)
{
    const struct source *source = source_find(name);
    const char *release = name ? strchr(name, '@') : NULL, *why = NULL;
    if (!source || !source->framework)
        return source && !release ? WEFT_OK : WEFT_BAD_INPUT;
    const struct target *target = target_of(source, release);
    if (!target)
        return WEFT_BAD_INPUT;
    why = refused(keep, target, plan);
    for (size_t i = 0; i < target_count() && why && !release; i++)
        if (strcmp(target_at(i)->framework, source->framework) == 0 &&
            !refused(keep, target_at(i), plan))
            why = NULL;
    note_release(keep, target, why, notes);
    return WEFT_OK;
}
