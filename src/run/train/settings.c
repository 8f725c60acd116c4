/* settings.c - settings as text, and which of two runs differ (settings.h). */
#include "run/train/train.h"

#include <string.h>

const char *const CHANGE_NAMES[CHANGE_COUNT] = {[CHANGE_DATA] = "data",
                                                [CHANGE_BATCH] = "batch",
                                                [CHANGE_OPTIMIZER] = "optimizer",
                                                [CHANGE_RATE] = "rate"};
const char *const OPTIMIZER_NAMES[OPTIMIZER_COUNT] = {[OPTIMIZER_SGD] = "sgd",
                                                      [OPTIMIZER_ADAM] = "adam",
                                                      [OPTIMIZER_ADAMW] = "adamw",
                                                      [OPTIMIZER_MUON] = "muon"};

/* ---- all of them ----------------------------------------------------------------------------- */

struct made_with {
    struct arena *keep;
    const struct training_options *o;
    struct corpus *corpus;
};

static const char *count_text(const struct made_with *m, int64_t count)
{
    return arena_printf(m->keep, "%lld", (long long)count);
}

static const char *real_text(const struct made_with *m, double value)
{
    return arena_printf(m->keep, "%.7g", value); /* also of floats: 0.01, not 0.00999999978 */
}

static const char *tokens(const struct made_with *m)
{
    return count_text(m, corpus_length(m->corpus));
}

static const char *fingerprint(const struct made_with *m)
{
    return arena_printf(m->keep, "%016llx", (unsigned long long)corpus_fingerprint(m->corpus));
}

static const char *window(const struct made_with *m)
{
    return count_text(m, m->corpus->order.window);
}

static const char *validation(const struct made_with *m)
{
    return count_text(m, m->corpus->order.validation);
}

static const char *global_batch(const struct made_with *m)
{
    return count_text(m, m->o->plan->global_batch);
}

static const char *optimizer(const struct made_with *m)
{
    return OPTIMIZER_NAMES[m->o->optimizer.kind];
}

static const char *weight_decay(const struct made_with *m)
{
    return real_text(m, (double)m->o->optimizer.decay);
}

static const char *clip(const struct made_with *m)
{
    return real_text(m, (double)m->o->clip);
}

static const char *dropout(const struct made_with *m)
{
    return real_text(m, (double)m->o->dropout);
}

static const char *peak_rate(const struct made_with *m)
{
    return real_text(m, m->o->rate.peak);
}

static const char *least_rate(const struct made_with *m)
{
    return real_text(m, m->o->rate.least);
}

static const char *warmup(const struct made_with *m)
{
    return count_text(m, m->o->rate.warmup);
}

/* The number of steps decides on the rate where it falls (I2). */
static const char *decay(const struct made_with *m)
{
    const struct rate_schedule *rate = &m->o->rate;
    const char *shape = rate_shape_name(rate->shape);
    return rate->shape == RATE_CONSTANT
               ? shape
               : arena_printf(m->keep, "%s over %lld steps", shape, (long long)rate->steps);
}

static const struct row {
    const char *name; /* in checkpoint.json and in messages */
    enum change kind;
    const char *(*text)(const struct made_with *made_with);
} SETTINGS[] = {
    {"tokens of data", CHANGE_DATA, tokens},
    {"checksum of data", CHANGE_DATA, fingerprint},
    {"tokens of a sample", CHANGE_DATA, window},
    {"samples for validation", CHANGE_DATA, validation},
    {"global batch", CHANGE_BATCH, global_batch},
    {"optimizer", CHANGE_OPTIMIZER, optimizer},
    {"weight decay", CHANGE_OPTIMIZER, weight_decay},
    {"clip", CHANGE_OPTIMIZER, clip},
    {"dropout", CHANGE_OPTIMIZER, dropout},
    {"rate", CHANGE_RATE, peak_rate},
    {"least rate", CHANGE_RATE, least_rate},
    {"warm-up", CHANGE_RATE, warmup},
    {"decay", CHANGE_RATE, decay},
};

void settings_of(struct arena *keep, const struct training_options *options, struct corpus *corpus,
                 struct training_state *out)
{
    struct made_with made_with = {keep, options, corpus};
    struct setting *setting = ARENA_ARRAY(keep, struct setting, COUNT_OF(SETTINGS));
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++)
        setting[i] = (struct setting){SETTINGS[i].name, SETTINGS[i].text(&made_with)};
    out->setting = setting;
    out->settings = COUNT_OF(SETTINGS);
}

/* ---- held against those of before ------------------------------------------------------------ */

static const char *value_of(const struct training_state *state, const char *name)
{
    for (int64_t i = 0; i < state->settings; i++)
        if (strcmp(state->setting[i].name, name) == 0)
            return state->setting[i].value;
    return "not known";
}

/* Of the kinds `among`, a bit for each that a setting changed of; their words. */
static unsigned changes(struct arena *keep, const struct training_state *before,
                        const struct training_state *now, unsigned among, const char **words)
{
    unsigned kinds = 0;
    *words = "";
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++) {
        const char *was = value_of(before, SETTINGS[i].name);
        const char *is = value_of(now, SETTINGS[i].name);
        if (strcmp(was, is) == 0 || !(among & 1U << SETTINGS[i].kind))
            continue;
        *words = arena_printf(keep, "%s%s%s %s, not %s", *words, **words ? "; " : "",
                              SETTINGS[i].name, was, is);
        kinds |= 1U << SETTINGS[i].kind;
    }
    return kinds;
}

static const char *names_of(struct arena *keep, unsigned kinds)
{
    const char *names = "";
    for (int i = 0; i < CHANGE_COUNT; i++)
        if (kinds & 1U << i)
            names = arena_printf(keep, "%s%s%s", names, *names ? "," : "", CHANGE_NAMES[i]);
    return names;
}

weft_status settings_check(struct arena *keep, const char *folder,
                           const struct training_state *before, const struct training_state *now,
                           unsigned allowed, const char **changed)
{
    unsigned refused = changes(keep, before, now, ~allowed, changed);
    if (!refused) {
        changes(keep, before, now, allowed, changed);
        return WEFT_OK;
    }
    const char *hint = arena_printf(keep, "give what it was made with, or --allow-change %s",
                                    names_of(keep, refused));
    return bad_argument(hint, "%s is of a run with %s", folder, *changed);
}
