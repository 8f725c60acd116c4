/* practice.c - reads and applies the rules about what a dataset's framework does (sources.h). */
#include <string.h>

#include "lab/published_read.h"

enum rule_text {
    RULE_NAME,
    RULE_MODEL,
    RULE_PATTERN,
    RULE_OPTIONS,
    RULE_PIECES,
    RULE_SEGMENTS,
    RULE_MICRO_BATCH,
    RULE_LAYOUT,
    RULE_SCHEDULE,
    RULE_ASSUMES,
    RULE_REFUSE,
    RULE_TEXTS
};

struct rule {
    const struct doc *when; /* NULL if it always applies */
    struct rules first, then;
    const char *text[RULE_TEXTS]; /* to be filled with a row's values; NULL if not given */
    bool sizes, sp, offload, whole_sends, open_micro_batch, open_pieces;
    bool memory_reserved, memory_of_last_stage, memory_of_logged_norm;
    bool has_cp_kind;
    enum cp_kind cp_kind;
    int64_t vocab;                      /* for rows that have none */
    int64_t etp, replicate, defer_head; /* 0 if not given */
    int64_t zero;                       /* -1 if not given */
    /* dtype, policy, overlap, bucket and recomputation, if has_... is set */
    struct degrees exchanges;
    unsigned also_overlap;
    const char *facts; /* about the software, after those that it has; NULL if not given */
};

/* ---- reading --------------------------------------------------------------------------------- */

/* The keys of a mapping that are not members of a rule. */
struct rule_words {
    struct rule rule;
    const struct doc *first, *then, *dtype, *policy, *software, *facts, *overlap, *also_overlap,
        *bucket, *recompute, *optimizer, *cp_kind;
};

static weft_status wrong_word(const struct doc *node, const char *expected)
{
    return doc_error(node, NULL, "'%s' is '%.60s', expected %s", node->key,
                     node->text ? node->text : doc_kind_name(node->kind), expected);
}

static bool read_overlap(struct arena *keep, const char *text, unsigned *bits)
{
    char *rest = arena_copy_text(keep, text), *word;
    *bits = 0;
    while ((word = strsep(&rest, ",")) != NULL)
        if (!overlap_from_name(word, bits))
            return false;
    return true;
}

/* Changes single facts: "host=graphs,experts=fused". */
static bool set_facts(struct arena *keep, const char *facts, struct software *software)
{
    char *rest = arena_copy_text(keep, facts), *word;
    while ((word = strsep(&rest, ",")) != NULL) {
        const char *key = strsep(&word, "=");
        if (!word || software_set(software, key, word) != WEFT_OK)
            return false;
    }
    return true;
}

static weft_status read_software(struct arena *keep, const struct rule_words *words,
                                 struct rule *out)
{
    const struct doc *profile = words->software, *facts = words->facts;
    struct software changed = {0};
    if (profile &&
        !(profile->text && software_from_text(profile->text, &out->exchanges.software) == WEFT_OK))
        return wrong_word(profile, "a profile of software such as megatron-core-0.16");
    if (facts && !(facts->text && set_facts(keep, facts->text, &changed)))
        return wrong_word(facts, "facts about software such as host=graphs");
    out->facts = facts ? facts->text : NULL;
    return WEFT_OK;
}

static weft_status read_exchanges(struct arena *keep, const struct rule_words *words,
                                  struct rule *out)
{
    struct degrees *d = &out->exchanges;
    d->has_dtype = words->dtype != NULL;
    d->has_policy = words->policy != NULL;
    d->has_overlap = words->overlap != NULL;
    d->has_bucket = words->bucket != NULL;
    if (d->has_dtype && !(words->dtype->text && dtype_from_name(words->dtype->text, &d->dtype)))
        return wrong_word(words->dtype, "a dtype such as bf16");
    if (d->has_policy &&
        !(words->policy->text && policy_from_name(words->policy->text, &d->policy)))
        return wrong_word(words->policy, "a policy such as mixed");
    d->has_recompute = words->recompute != NULL;
    if (d->has_recompute &&
        !(words->recompute->text && recompute_parse(keep, words->recompute->text, d)))
        return wrong_word(words->recompute, RECOMPUTE_WORDS);
    if (words->optimizer &&
        !(words->optimizer->text && optimizer_from_name(words->optimizer->text, &d->optimizer)))
        return wrong_word(words->optimizer, "an optimizer such as muon");
    out->has_cp_kind = words->cp_kind != NULL;
    if (out->has_cp_kind &&
        !(words->cp_kind->text && cp_kind_from_name(words->cp_kind->text, &out->cp_kind)))
        return wrong_word(words->cp_kind, "a kind of context parallelism such as a2a");
    if (d->has_bucket &&
        !(words->bucket->text && bucket_from_text(words->bucket->text, &d->bucket_bytes)))
        return wrong_word(words->bucket, "a size such as 25MiB, or whole");
    const struct doc *lists[] = {words->overlap, words->also_overlap};
    unsigned *bits[] = {&d->overlap, &out->also_overlap};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        if (lists[i] && !(lists[i]->text && read_overlap(keep, lists[i]->text, bits[i])))
            return wrong_word(lists[i], OVERLAP_WORDS);
    return WEFT_OK;
}

#define AT(member)     offsetof(struct rule_words, member)
#define TEXT(key, row) {key, FIELD_TEXT, AT(rule.text[row])}
#define FLAG(key)      {#key, FIELD_BOOL, AT(rule.key)}
#define NODE(key)      {#key, FIELD_DOC, AT(key)}

static const struct field FIELDS[] = {
    {"when", FIELD_DOC, AT(rule.when)},
    NODE(first),
    NODE(then),
    TEXT("name", RULE_NAME),
    TEXT("model", RULE_MODEL),
    TEXT("pattern", RULE_PATTERN),
    TEXT("options", RULE_OPTIONS),
    TEXT("pieces", RULE_PIECES),
    TEXT("segments", RULE_SEGMENTS),
    TEXT("micro_batch", RULE_MICRO_BATCH),
    TEXT("layout", RULE_LAYOUT),
    TEXT("schedule", RULE_SCHEDULE),
    TEXT("assumes", RULE_ASSUMES),
    TEXT("refuse", RULE_REFUSE),
    FLAG(sizes),
    FLAG(sp),
    FLAG(offload),
    FLAG(whole_sends),
    FLAG(open_micro_batch),
    FLAG(open_pieces),
    FLAG(memory_reserved),
    FLAG(memory_of_last_stage),
    FLAG(memory_of_logged_norm),
    {"vocab", FIELD_COUNT, AT(rule.vocab)},
    {"zero", FIELD_INT, AT(rule.zero), .max = 3},
    {"etp", FIELD_COUNT, AT(rule.etp)},
    {"replicate", FIELD_COUNT, AT(rule.replicate)},
    {"defer_head", FIELD_COUNT, AT(rule.defer_head)},
    NODE(recompute),
    {"recompute_layers", FIELD_COUNT, AT(rule.exchanges.recompute_layers)},
    NODE(optimizer),
    NODE(dtype),
    NODE(policy),
    NODE(software),
    NODE(facts),
    NODE(overlap),
    NODE(also_overlap),
    NODE(bucket),
    NODE(cp_kind),
};

static weft_status check_texts(const struct form *form, const struct doc *node)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(FIELDS); i++) {
        const struct doc *text = FIELDS[i].type == FIELD_TEXT ? doc_get(node, FIELDS[i].key) : NULL;
        if (text && text->text)
            TRY(text_check(form, text));
    }
done:
    return status;
}

/* The depth of recursion is bounded by that of the document. */
static weft_status read_rule(struct arena *keep, const struct form *form, const struct doc *node,
                             struct rule *out)
{
    struct rule_words words = {.rule = {.zero = -1}};
    weft_status status;
    TRY(doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &words));
    *out = words.rule;
    if (out->when)
        TRY(when_check(form, out->when));
    TRY(check_texts(form, node));
    TRY(read_exchanges(keep, &words, out));
    TRY(read_software(keep, &words, out));
    if (words.first)
        TRY(rules_read(keep, form, words.first, &out->first));
    if (words.then)
        TRY(rules_read(keep, form, words.then, &out->then));
done:
    return status;
}

weft_status rules_read(struct arena *keep, const struct form *form, const struct doc *list,
                       struct rules *out)
{
    weft_status status = WEFT_OK;
    if (list->kind != DOC_LIST)
        return doc_error(list, NULL, "'%s' is %s, expected a list of rules",
                         list->key ? list->key : "the value", doc_kind_name(list->kind));
    for (const struct doc *node = list->first; node; node = node->next) {
        struct rule rule;
        TRY(read_rule(keep, form, node, &rule));
        array_push(keep, out, rule);
    }
done:
    return status;
}

/* ---- applying -------------------------------------------------------------------------------- */

static void add_option(struct arena *keep, struct published *row, const char *option)
{
    row->options = row->options ? arena_printf(keep, "%s, %s", row->options, option) : option;
}

static void add_size(struct arena *keep, struct published *row, const char *key, int64_t value)
{
    if (value)
        add_option(keep, row, arena_printf(keep, "%s: %lld", key, (long long)value));
}

/* No model has a larger vocabulary; such a number is left unchanged, and the model refuses it. */
enum { MOST_VOCAB = 1 << 30 };

static int64_t padded_vocab(int64_t vocab, int64_t multiple)
{
    return vocab > MOST_VOCAB ? vocab : ceil_div(vocab, multiple) * multiple;
}

static void take_sizes(struct arena *keep, const struct run_row *run, int64_t vocab,
                       struct published *row)
{
    int64_t multiple = row->dataset->sources->vocabulary_multiple;
    vocab = run->vocab ? run->vocab : vocab;
    add_size(keep, row, "layers", run->layers);
    add_size(keep, row, "hidden", run->hidden);
    add_size(keep, row, "heads", run->heads);
    add_size(keep, row, "ffn", run->ffn);
    add_size(keep, row, "seq", run->seq);
    add_size(keep, row, "vocab", padded_vocab(vocab, multiple));
    if (!run->layers || !run->hidden || !run->heads || !run->seq)
        refuse(keep, row, "layers or sizes not published: %s", run->model ? run->model : row->name);
}

/* "|" separates the pieces of stages. */
static void take_pattern(struct arena *keep, const struct run_row *run, const char *pattern,
                         struct published *row)
{
    char *letters = arena_copy_text(keep, pattern), *to = letters;
    int64_t pieces = 1;
    for (const char *at = pattern; *at; at++)
        if (*at == '|')
            pieces++;
        else
            *to++ = *at;
    *to = '\0';
    if (pieces > 1 && run->pp)
        row->degrees.pieces = pieces / run->pp;
    add_option(keep, row, arena_printf(keep, "pattern: %s", letters));
}

static void take_model(struct arena *keep, const struct rule *rule, const struct run_row *run,
                       const char *const *text, struct published *row)
{
    if (text[RULE_NAME])
        row->name = text[RULE_NAME];
    if (text[RULE_MODEL])
        row->model = text[RULE_MODEL];
    if (text[RULE_PATTERN])
        take_pattern(keep, run, text[RULE_PATTERN], row);
    if (rule->sizes)
        take_sizes(keep, run, rule->vocab, row);
    if (text[RULE_OPTIONS])
        add_option(keep, row, text[RULE_OPTIONS]);
}

static void take_software(struct arena *keep, const struct rule *rule, struct degrees *d)
{
    if (!software_is_default(&rule->exchanges.software))
        d->software = rule->exchanges.software;
    if (rule->facts)
        set_facts(keep, rule->facts, &d->software);
}

static void take_exchanges(const struct rule *rule, struct degrees *d)
{
    const struct degrees *from = &rule->exchanges;
    if (from->has_dtype)
        set_dtype(d, from->dtype);
    if (from->has_policy) {
        d->has_policy = true;
        d->policy = from->policy;
    }
    if (from->has_recompute) {
        d->recompute = from->recompute;
        d->modules = from->modules;
        d->recompute_layers = from->recompute_layers;
    }
    if (from->optimizer)
        d->optimizer = from->optimizer;
    if (from->has_overlap) {
        d->has_overlap = true;
        d->overlap = from->overlap;
    }
    if (from->has_bucket) {
        d->has_bucket = true;
        d->bucket_bytes = from->bucket_bytes;
    }
    d->overlap |= rule->also_overlap;
}

static void take_number(const char *text, int64_t *out)
{
    if (text && !parse_int(text, out))
        *out = 0;
}

static void take_degrees(struct arena *keep, const struct rule *rule, const char *const *text,
                         struct degrees *d)
{
    take_number(text[RULE_PIECES], &d->pieces);
    take_number(text[RULE_SEGMENTS], &d->segments);
    take_number(text[RULE_MICRO_BATCH], &d->micro_batch);
    if (text[RULE_LAYOUT])
        d->layout = text[RULE_LAYOUT];
    if (text[RULE_SCHEDULE])
        d->schedule = text[RULE_SCHEDULE];
    d->sequence |= rule->sp;
    d->offload |= rule->offload;
    d->whole_sends |= rule->whole_sends;
    if (rule->zero >= 0)
        d->shard = (int)rule->zero;
    if (rule->etp)
        d->etp = rule->etp;
    if (rule->replicate)
        d->replicate = rule->replicate;
    if (rule->defer_head)
        d->defer_head = rule->defer_head;
    take_exchanges(rule, d);
    if (rule->has_cp_kind)
        cp_kind_set(rule->cp_kind, d);
    take_software(keep, rule, d);
}

static bool apply(struct arena *keep, const struct rule *rule, const struct run_row *run,
                  struct published *row)
{
    const char *text[RULE_TEXTS] = {0};
    if (!run_row_is(keep, run, rule->when))
        return false;
    for (int i = 0; i < RULE_TEXTS; i++)
        if (rule->text[i])
            text[i] = run_row_fill(keep, run, rule->text[i]);
    take_model(keep, rule, run, text, row);
    take_degrees(keep, rule, text, &row->degrees);
    row->open |=
        (rule->open_micro_batch ? OPEN_MICRO_BATCH : 0U) | (rule->open_pieces ? OPEN_PIECES : 0U);
    row->memory_reserved |= rule->memory_reserved;
    if (rule->memory_of_last_stage)
        row->memory_place = MEMORY_OF_LAST_STAGE;
    if (rule->memory_of_logged_norm)
        row->memory_place = MEMORY_OF_LOGGED_NORM;
    if (text[RULE_ASSUMES])
        assume(keep, row, text[RULE_ASSUMES]);
    if (text[RULE_REFUSE])
        refuse(keep, row, "%s", text[RULE_REFUSE]);
    for (size_t i = 0; i < rule->first.len; i++)
        if (apply(keep, &rule->first.data[i], run, row))
            break;
    rules_apply(keep, &rule->then, run, row);
    return true;
}

void rules_apply(struct arena *keep, const struct rules *rules, const struct run_row *run,
                 struct published *row)
{
    for (size_t i = 0; i < rules->len; i++)
        apply(keep, &rules->data[i], run, row);
}
