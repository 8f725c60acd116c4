/* todays.c - how presets that were published for older devices are trained on today's.
 *
 * A preset has the type and the attention of the runs that it comes from: fp32 and eager attention on a TITAN,
 * fp16 on a V100. On a device with matrix units for bf16 nobody trains so today. Unless the user says otherwise,
 *
 *   dtype      is bf16 in place of fp32 and fp16, but for families that stay wide
 *   attention  is flash in place of eager and fused, in families that flash kernels compute
 *
 * A model file says itself how it is trained.
 */
#include <string.h>

#include "model/import.h"

/* The family of a preset; NULL if the name is none's. */
static const struct family *family_of_preset(const struct preset *preset)
{
    const struct family *family = NULL;
    if (preset && family_find(preset->family, NULL, &family))
        error_clear();
    return family;
}

static bool is_older(const char *attention)
{
    return strcmp(attention, "eager") == 0 || strcmp(attention, "fused") == 0;
}

/* Whether these options name an attention, and which. */
static const char *attention_in(struct arena *scratch, const char *options)
{
    struct doc *parsed = NULL;
    if (options_parse(scratch, options, &parsed))
        error_clear(); /* whoever opens the model says what is wrong */
    const struct doc *value = parsed ? doc_get(parsed, "attention") : NULL;
    return value && value->text ? value->text : NULL;
}

const char *model_todays_options(struct arena *keep, const char *name, const char *overrides)
{
    struct arena *scratch = arena_new();
    const struct preset *preset = preset_of(scratch, name);
    const struct family *family = family_of_preset(preset);
    bool flash = family && family->practice & FLASH_ATTENTION;
    const char *own = flash ? attention_in(scratch, preset->options) : NULL;
    if (own && is_older(own) && !attention_in(scratch, overrides))
        overrides = overrides && *overrides ? arena_printf(keep, "%s, attention: flash", overrides)
                                            : "attention: flash";
    arena_free(scratch);
    return overrides;
}

enum dtype model_todays_dtype(const struct model *model, const char *name)
{
    struct arena *scratch = arena_new();
    const struct family *family = family_of_preset(preset_of(scratch, name));
    arena_free(scratch);
    bool older = model->dtype == DTYPE_FP32 || model->dtype == DTYPE_FP16;
    return family && older && !(family->practice & STAYS_WIDE) ? DTYPE_BF16 : model->dtype;
}
