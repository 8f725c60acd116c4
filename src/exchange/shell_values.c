/* shell_values.c - what the variables of a script stand for, in and after its branches.
 *
 * What a branch sets is written down with what stood there before. At its end the variables are put back, so that the
 * next branch begins as the first one did. Where the block is closed, a variable stands for
 *
 *   what all values begin with, word by word, then the rest of each value, in doubt                  (1)
 *
 * where the value before the block is one of them unless every branch sets the variable and one is taken in any case.
 */
#include "exchange/shell.h"

#include <ctype.h>
#include <stdlib.h>

struct variable {
    const char *name;
    struct shell_text text;
    bool set;
    int line;
};
struct past_value {
    size_t variable, order;
    struct variable is;
};
struct shell_block {
    enum block_kind kind;
    size_t first; /* of its branch in the list of changes */
    size_t branches;
    const char *asked; /* NULL: what is asked is not known */
    bool begun, has_all, taken, skipped, outer_skipped;
    ARRAY(struct past_value) ends; /* of its branches: what they leave */
};
struct shell_values {
    struct arena *scratch;
    struct map *places; /* of names in `variables` */
    ARRAY(struct variable) variables;
    ARRAY(struct past_value) before; /* what stood there before it was set, in every open block */
    ARRAY(struct shell_block) blocks;
    size_t expanded;
};

/* ---- texts ----------------------------------------------------------------------------------- */

const char *shell_plain(struct arena *scratch, const struct shell_text *text)
{
    char *plain = ARENA_ARRAY(scratch, char, text->len + 1);
    for (size_t i = 0; i < text->len; i++)
        plain[i] = text->data[i].c;
    return plain;
}

const struct doubt *shell_doubt(const struct shell_text *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i].doubt)
            return text->data[i].doubt;
    return NULL;
}

const struct doubt *doubt_new(struct arena *scratch, enum doubt_kind kind, const char *name,
                              int line)
{
    struct doubt *doubt = ARENA_NEW(scratch, struct doubt);
    *doubt = (struct doubt){kind, name, line};
    return doubt;
}

/* ---- variables ------------------------------------------------------------------------------- */

struct shell_values *values_new(struct arena *scratch)
{
    struct shell_values *values = ARENA_NEW(scratch, struct shell_values);
    values->scratch = scratch;
    values->places = map_new(scratch);
    return values;
}

static size_t place_of(struct shell_values *values, const char *name)
{
    int64_t place;
    if (map_get(values->places, name, &place))
        return (size_t)place;
    struct variable variable = {.name = arena_copy_text(values->scratch, name)};
    map_put(values->places, variable.name, (int64_t)values->variables.len);
    array_push(values->scratch, &values->variables, variable);
    return values->variables.len - 1;
}

const struct shell_text *values_get(const struct shell_values *values, const char *name)
{
    int64_t place;
    if (!map_get(values->places, name, &place) || !values->variables.data[place].set)
        return NULL;
    return &values->variables.data[place].text;
}

static void put(struct shell_values *values, size_t place, const struct shell_text *text, int line)
{
    struct variable *variable = &values->variables.data[place];
    struct past_value change = {place, values->before.len, *variable};
    if (values->blocks.len)
        array_push(values->scratch, &values->before, change);
    variable->text = *text;
    variable->set = true;
    variable->line = line;
}

void values_set(struct shell_values *values, const char *name, const struct shell_text *text,
                int line)
{
    if (!values_skipped(values))
        put(values, place_of(values, name), text, line);
}

void values_set_perhaps(struct shell_values *values, const char *name,
                        const struct shell_text *text, int line)
{
    branches_open(values, BLOCK_IF);
    branches_next(values);
    values_set(values, name, text, line);
    branches_close(values, BLOCK_IF);
}

bool values_expand(struct shell_values *values, size_t letters)
{
    values->expanded += letters < MOST_EXPANDED ? letters : MOST_EXPANDED + 1;
    return values->expanded <= MOST_EXPANDED;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static struct shell_block *innermost(const struct shell_values *values)
{
    return values->blocks.len ? &values->blocks.data[values->blocks.len - 1] : NULL;
}

bool values_skipped(const struct shell_values *values)
{
    const struct shell_block *block = innermost(values);
    return block && (block->skipped || block->outer_skipped);
}

bool branches_is(const struct shell_values *values, enum block_kind kind)
{
    const struct shell_block *block = innermost(values);
    return block && block->kind == kind;
}

void branches_open(struct shell_values *values, enum block_kind kind)
{
    struct shell_block block = {
        .kind = kind, .first = values->before.len, .outer_skipped = values_skipped(values)};
    array_push(values->scratch, &values->blocks, block);
}

static int by_variable(const void *a, const void *b)
{
    const struct past_value *x = a, *y = b;
    if (x->variable != y->variable)
        return x->variable < y->variable ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Writes down what a branch leaves, once for each variable that it set, and puts back what stood there before. */
static void end_branch(struct shell_values *values, struct shell_block *block)
{
    size_t count = values->before.len - block->first;
    struct past_value *changes = count ? &values->before.data[block->first] : NULL;
    if (!block->begun)
        return;
    if (count)
        qsort(changes, count, sizeof *changes, by_variable);
    for (size_t i = 0; i < count; i++) {
        struct variable *variable = &values->variables.data[changes[i].variable];
        struct past_value left = {changes[i].variable, block->ends.len, *variable};
        if (i && changes[i - 1].variable == changes[i].variable)
            continue;
        array_push(values->scratch, &block->ends, left);
        *variable = changes[i].is;
    }
    values->before.len = block->first;
    block->branches++;
    block->begun = false;
}

void branches_next(struct shell_values *values)
{
    struct shell_block *block = innermost(values);
    if (!block)
        return;
    end_branch(values, block);
    block->begun = true;
    block->skipped = false;
}

void branches_has_all(struct shell_values *values)
{
    if (innermost(values))
        innermost(values)->has_all = true;
}

void branches_know(struct shell_values *values, bool taken)
{
    struct shell_block *block = innermost(values);
    if (!block)
        return;
    block->skipped = block->taken || !taken;
    block->taken |= taken;
}

bool branches_taken(const struct shell_values *values)
{
    return innermost(values) && innermost(values)->taken;
}

void branches_ask(struct shell_values *values, const char *word)
{
    if (innermost(values))
        innermost(values)->asked = word;
}

const char *branches_asked(const struct shell_values *values)
{
    return innermost(values) ? innermost(values)->asked : NULL;
}

/* ---- where branches meet --------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return isspace((unsigned char)c) != 0;
}

/* How many letters all values begin with: whole words, by (1). */
static size_t common_letters(const struct shell_text *const *texts, size_t count)
{
    size_t common = texts[0]->len;
    for (size_t k = 1; k < count; k++) {
        size_t same = 0;
        while (same < common && same < texts[k]->len &&
               texts[k]->data[same].c == texts[0]->data[same].c)
            same++;
        common = same;
    }
    for (size_t k = 0; k < count; k++) {
        const struct shell_text *text = texts[k];
        while (common && common < text->len && !is_blank(text->data[common].c) &&
               !is_blank(text->data[common - 1].c))
            common--;
    }
    return common;
}

static struct shell_text merged(struct shell_values *values, const struct shell_text *const *texts,
                                size_t count, const struct doubt *doubt)
{
    struct shell_text out = {0};
    size_t common = common_letters(texts, count);
    for (size_t i = 0; i < common; i++) {
        struct shell_letter letter = texts[0]->data[i];
        for (size_t k = 1; k < count && !letter.doubt; k++)
            letter.doubt = texts[k]->data[i].doubt;
        array_push(values->scratch, &out, letter);
    }
    for (size_t k = 0; k < count; k++) {
        const struct shell_text *text = texts[k];
        if (text->len == common || !values_expand(values, text->len - common))
            continue;
        for (size_t i = common; i < text->len; i++) {
            struct shell_letter letter = text->data[i];
            letter.doubt = letter.doubt ? letter.doubt : doubt;
            array_push(values->scratch, &out, letter);
        }
        struct shell_letter blank = {doubt, text->data[common].line, ' ', true};
        array_push(values->scratch, &out, blank);
    }
    return out;
}

/* One variable, of which `count` branches leave these values. */
static void meet(struct shell_values *values, const struct shell_block *block,
                 const struct past_value *changes, size_t count)
{
    size_t place = changes->variable;
    const struct variable *before = &values->variables.data[place];
    const struct shell_text **texts =
        ARENA_ARRAY(values->scratch, const struct shell_text *, count + 1);
    bool always = block->has_all && count == block->branches;
    for (size_t i = 0; i < count; i++)
        texts[i] = &changes[i].is.text;
    if (!always) { /* in front, as what it was comes first */
        texts[count] = texts[0];
        texts[0] = &before->text;
    }
    enum doubt_kind kind = block->kind == BLOCK_LOOP ? DOUBT_LOOP : DOUBT_CONDITION;
    const struct doubt *doubt = doubt_new(values->scratch, kind, before->name, changes->is.line);
    struct shell_text text = merged(values, texts, count + !always, doubt);
    put(values, place, &text, changes->is.line);
}

void branches_close(struct shell_values *values, enum block_kind kind)
{
    if (!branches_is(values, kind))
        return;
    end_branch(values, innermost(values));
    struct shell_block block = *innermost(values);
    values->blocks.len--;
    if (block.ends.len)
        qsort(block.ends.data, block.ends.len, sizeof *block.ends.data, by_variable);
    for (size_t i = 0, next; i < block.ends.len; i = next) {
        for (next = i;
             next < block.ends.len && block.ends.data[next].variable == block.ends.data[i].variable;
             next++)
            ;
        meet(values, &block, &block.ends.data[i], next - i);
    }
}
