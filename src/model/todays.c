/* todays.c - how presets that were published for older devices are trained on today's.
 *
 * A preset has the type and the attention of the runs that it comes from: fp32 and eager attention on a TITAN,
 * fp16 on a V100. On a device with matrix units for bf16 nobody trains so today. Unless the user says otherwise,
 *
 *   dtype      is bf16 in place of fp32 and fp16, but for tables of embeddings (dlrm)
 *   attention  is flash in place of eager and fused, in families whose attention has no bias of positions
 */
#include <string.h>

#include "model/import.h"

static bool is_one_of(const char *family, const char *const *families)
{
    while (*families && strcmp(family, *families) != 0)
        families++;
    return *families != NULL;
}

const char *model_todays_options(struct arena *keep, const char *name, const char *overrides)
{
    static const char *const FLASH[] = {"gpt", "bert", "vit", NULL};
    const struct preset *preset = preset_find(name);
    struct arena *scratch = arena_new();
    struct doc *given = NULL;
    bool old = preset && (strstr(preset->options, "attention: eager") ||
                          strstr(preset->options, "attention: fused"));
    if (options_parse(scratch, overrides, &given)) {
        error_clear(); /* whoever opens the model says what is wrong */
        old = false;
    }
    if (old && is_one_of(preset->family, FLASH) && !(given && doc_get(given, "attention")))
        overrides = overrides && *overrides ? arena_printf(keep, "%s, attention: flash", overrides)
                                            : "attention: flash";
    arena_free(scratch);
    return overrides;
}

enum dtype model_todays_dtype(const struct model *model)
{
    static const char *const WIDE[] = {"dlrm", NULL};
    bool old = model->dtype == DTYPE_FP32 || model->dtype == DTYPE_FP16;
    return old && !is_one_of(model->family, WIDE) ? DTYPE_BF16 : model->dtype;
}
