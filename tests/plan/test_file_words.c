/* test_file_words.c - every model, plan, cluster and topology of data/, with one word at a time left out or changed: what is
 * refused, in which words, and what is read otherwise is held to tests/data/words.
 *
 *   word    letters, digits, and _ . -
 *   values  nothing, x, 0, and of a number the next one
 *
 * A line of the file is a line of the text: per word the hashes of four answers. 0000 is what the text says as it is. The words of
 * refusals are part of an answer; of what is taken, a plan's file, a model's operators, a cluster's devices and links and what a
 * collective takes on it. Other tests say what is right.
 *
 * After an intended change `WEFT_RECORD=1 build/tests/test_file_words` writes the file anew. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "held_lines.h"
#include "one_folder.h"
#include "plan/plan.h"

enum { VALUES = 4, LONGEST = 1 << 16 };
static const char *const FOLDERS[] = {"models", "plans", "clusters", "topologies"};

static void hash_number(uint64_t *hash, double number)
{
    hash_text(hash, arena_printf(arena, "%.9g ", number));
}

static void hash_error(uint64_t *hash)
{
    hash_text(hash, weft_last_error()->message);
    if (weft_last_error()->hint)
        hash_text(hash, weft_last_error()->hint);
    error_clear();
}

static void hash_model(uint64_t *hash, const char *path)
{
    struct model *model;
    if (model_open(path, NULL, &model) != WEFT_OK) {
        hash_error(hash);
        return;
    }
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        hash_number(hash, (double)op->kind * 64 + op->inputs * 8 + op->weights);
        for (int d = 0; d < OP_MAX_DIMS; d++)
            hash_number(hash, (double)op->size[d]);
    }
    for (int32_t i = 0; i < model->tensors; i++)
        for (int axis = 0; axis < model->tensor[i].axes; axis++)
            hash_number(hash, (double)model->tensor[i].size[axis]);
    hash_number(hash, (double)model->layers);
    hash_number(hash, (double)model->seq);
    model_free(model);
}

static void hash_cluster(uint64_t *hash, const char *path)
{
    struct cluster *cluster;
    struct collective_cost cost = {0};
    if (cluster_open(path, &cluster) != WEFT_OK) {
        hash_error(hash);
        return;
    }
    struct group all = group_range(0, cluster_devices(cluster), 1);
    hash_number(hash, (double)cluster_devices(cluster));
    hash_number(hash, (double)cluster->node.device.memory_bytes);
    for (int bits = 10; bits <= 26 && cluster_devices(cluster) > 1; bits += 16)
        if (collective_time(cluster, COLLECTIVE_ALL_REDUCE, &all, INT64_C(1) << bits, &cost))
            hash_error(hash);
        else
            hash_number(hash, (double)cost.ns);
    for (int32_t i = 0; i < cluster->node.links; i++)
        hash_number(hash, cluster->node.link[i].bytes_per_s + cluster->node.link[i].a * 64 +
                              cluster->node.link[i].b);
    cluster_free(cluster);
}

static void hash_plan(uint64_t *hash, const char *path)
{
    struct opened_plan opened;
    if (plan_load(path, &opened) != WEFT_OK) {
        hash_error(hash);
        return;
    }
    hash_text(hash, plan_write(arena, opened.plan));
    if (plan_check(opened.plan) != WEFT_OK)
        hash_error(hash);
    plan_close(&opened);
}

static unsigned answer_to(const char *name, const char *text)
{
    static void (*const READ[])(uint64_t *, const char *) = {hash_model, hash_plan, hash_cluster,
                                                             hash_cluster};
    uint64_t hash = HASH_BEGIN;
    const char *file = arena_printf(arena, "file%s", strrchr(name, '.'));
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < COUNT_OF(FOLDERS); i++)
        if (strncmp(name, FOLDERS[i], strlen(FOLDERS[i])) == 0)
            READ[i](&hash, file);
    return (unsigned)(hash >> 48);
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

static const char *value_of(const char *word, int len, int value)
{
    static const char *const SAME[] = {"", "x", "0"};
    char *end;
    double number = strtod(word, &end);
    if (value < (int)COUNT_OF(SAME))
        return SAME[value];
    return end == word + len ? arena_printf(arena, "%.9g", number + 1)
                             : arena_printf(arena, "%.*s1", len, word);
}

/* The hashes of a word's four answers. */
static const char *word_hashes(const char *name, const char *text, const char *word, int len,
                               unsigned usual)
{
    const char *hashes = "";
    for (int v = 0; v < VALUES; v++) {
        const char *other = arena_printf(arena, "%.*s%s%s", (int)(word - text), text,
                                         value_of(word, len, v), word + len);
        unsigned answer = answer_to(name, other);
        hashes =
            arena_printf(arena, "%s%s%04x", hashes, v ? "," : " ", answer == usual ? 0 : answer);
    }
    return hashes;
}

static const char *block_of(const char *name)
{
    char *text;
    size_t len;
    const char *path = arena_printf(arena, "%s/data/%s", WEFT_SOURCE_DIR, name);
    if (!strstr(name, ".yaml") && !strstr(name, ".xml"))
        return NULL;
    assert_int_equal(file_read(arena, path, LONGEST, &text, &len), WEFT_OK);
    unsigned usual = answer_to(name, text);
    const char *block = arena_printf(arena, "# %s %04x\n", name, usual);
    int number = 1;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1, number++) {
        const char *end = line + strcspn(line, "#\n"), *hashes = "";
        for (const char *word = line; word < end; word++) {
            int own = 0;
            while (word + own < end && in_word(word[own]))
                own++;
            if (own)
                hashes =
                    arena_printf(arena, "%s%s", hashes, word_hashes(name, text, word, own, usual));
            word += own;
        }
        if (*hashes)
            block = arena_printf(arena, "%s%d%s\n", block, number, hashes);
    }
    return block;
}

static const char *folder_now;

static const char *block_in_folder(const char *name)
{
    return block_of(arena_printf(arena, "%s/%s", folder_now, name));
}

/* Where a path such as ../models/small-moe.yaml leads to the same file as from data/plans. */
static void go_beside_data(void)
{
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < COUNT_OF(FOLDERS); i++)
        assert_int_equal(
            symlink(arena_printf(arena, "%s/data/%s", WEFT_SOURCE_DIR, FOLDERS[i]), FOLDERS[i]), 0);
    assert_int_equal(mkdir("own", 0700), 0);
    assert_int_equal(chdir("own"), 0);
}

static void words_are_read_as_they_were(void **state)
{
    (void)state;
    int changed = 0;
    go_beside_data();
    for (size_t i = 0; i < COUNT_OF(FOLDERS); i++) {
        folder_now = FOLDERS[i];
        changed += hold_lines(
            arena_printf(arena, "%s/data/%s", WEFT_SOURCE_DIR, folder_now),
            arena_printf(arena, "%s/tests/data/words/%s.txt", WEFT_SOURCE_DIR, folder_now),
            block_in_folder);
    }
    assert_int_equal(changed, 0);
}

static int prepare(void **state)
{
    return make_arena(state) || make_folder(state);
}

static int clear_away(void **state)
{
    return remove_folder(state) || drop_arena(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_read_as_they_were)};
    return cmocka_run_group_tests(tests, prepare, clear_away);
}
