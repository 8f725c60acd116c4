/* test_cluster_errors.c - what a user is told about a broken description of a cluster.
 *
 * Each input has the exact words it must be answered with: where, what was found and expected, and
 * what to do. None may crash, leak or be taken for valid.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/topology.h"
#include "refusals.h"

static const char *const FILES[] = {
    [CLUSTER_YAML] = "t.yaml", [CLUSTER_JSON] = "t.json", [CLUSTER_XML] = "t.xml"};

static const struct {
    const char *name, *message, *hint;
} NAMES[] = {
    {"dgx-v100:0", "dgx-v100 has 0 nodes, expected 1 to 1000000",
     "name and count are written like dgx-a100:16"},
    {"dgx-v100:-1", "dgx-v100 has -1 nodes, expected 1 to 1000000",
     "name and count are written like dgx-a100:16"},
    {"dgx-v100:1000001", "dgx-v100 has 1000001 nodes, expected 1 to 1000000",
     "name and count are written like dgx-a100:16"},
    {"dgx-v100:four", "'four' is not a number of nodes for dgx-v100",
     "name and count are written like dgx-a100:16"},
    {"dgx-v100:", "'' is not a number of nodes for dgx-v100",
     "name and count are written like dgx-a100:16"},
    {"dgx-v100:2x", "'2x' is not a number of nodes for dgx-v100",
     "name and count are written like dgx-a100:16"},
    {"dgx-v100:2x0", "'2x0' is not a number of nodes for dgx-v100",
     "name and count are written like dgx-a100:16"},
    {"dgx-v100:2x9", "dgx-v100 has 8 devices in a node, not 9", NULL},
    {"dgx-v100:4:4", "no cluster is called 'dgx-v100:4'", "did you mean 'dgx-v100'?"},
    {"dgx-v100:99999999999999999999",
     "'99999999999999999999' is not a number of nodes for dgx-v100",
     "name and count are written like dgx-a100:16"},
    {"dgx_v100", "no cluster is called 'dgx_v100'", "did you mean 'dgx-v100'?"},
    {"dgx-v100x", "no cluster is called 'dgx-v100x'", "did you mean 'dgx-v100'?"},
    {"", "no cluster is called ''",
     "`weft clusters` lists the names; a file ends in .yaml, .json or .xml"},
    {":4", "no cluster is called ''",
     "`weft clusters` lists the names; a file ends in .yaml, .json or .xml"},
    {"titan-xp:2", "titan-xp is a single machine: its source names no network",
     "describe its network in a cluster file (docs/reference/cluster-file.md)"},
    {"absent.yaml", "absent.yaml: cannot be opened: No such file or directory", NULL},
    {"absent.xml:4", "absent.xml: cannot be opened: No such file or directory", NULL},
};

static void expect_error(weft_status status, const char *message, const char *hint)
{
    assert_int_equal(status, WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, message);
    if (hint)
        assert_string_equal(weft_last_error()->hint, hint);
    else
        assert_null(weft_last_error()->hint);
}

static weft_status read_cluster(const struct refusal *refusal)
{
    struct cluster *cluster = NULL;
    weft_status status = cluster_from_text(format_of(refusal->name), refusal->name, refusal->text,
                                           refusal->len, 0, &cluster);
    if (status == WEFT_OK)
        cluster_free(cluster);
    return status;
}

static void test_broken_files(void **state)
{
    (void)state;
    expect_refusals("cluster_yaml.txt", read_cluster);
    expect_refusals("cluster_xml.txt", read_cluster);
}

static void test_broken_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        struct cluster *cluster = NULL;
        expect_error(cluster_open(NAMES[i].name, &cluster), NAMES[i].message, NAMES[i].hint);
    }
}

/* Text that repeats a piece: deeper, longer or wider than any real file. */
static weft_status read_repeated(enum cluster_format format, const char *head, const char *piece,
                                 size_t times)
{
    size_t len = strlen(head), piece_len = strlen(piece);
    char *text = malloc(len + times * piece_len + 1);
    assert_non_null(text);
    strcpy(text, head);
    for (size_t i = 0; i < times; i++, len += piece_len)
        memcpy(text + len, piece, piece_len);
    struct cluster *cluster = NULL;
    weft_status status = cluster_from_text(format, FILES[format], text, len, 0, &cluster);
    free(text);
    return status;
}

static void test_nesting_and_size_are_bounded(void **state)
{
    (void)state;
    const size_t million = 1000000;
    expect_error(read_repeated(CLUSTER_YAML, "node: ", "[", 10 * million),
                 "t.yaml:1: is nested deeper than the 64 levels that Weft reads",
                 "docs/reference/cluster-file.md describes the format");
    expect_error(read_repeated(CLUSTER_XML, "", "<pci>", 2 * million),
                 "t.xml:1: is nested deeper than the 64 levels that Weft reads",
                 "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one");
    expect_error(read_repeated(CLUSTER_XML, "<system>", "<cpu/>", million),
                 "t.xml:1: has more than the 65536 elements that Weft reads",
                 "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one");
    expect_error(read_repeated(CLUSTER_XML, "<system>", "<cpu numaid=\"0\"></cpu>\n", 3000),
                 "t.xml:3001: is not valid XML: no element found",
                 "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one");
}

/* A file that ends anywhere: never a crash, and never a cluster of another shape. */
static void test_truncated_files(void **state)
{
    (void)state;
    static const char *const PATHS[] = {WEFT_SOURCE_DIR "/data/topologies/dgx1_v100_1ib.xml",
                                        WEFT_SOURCE_DIR "/data/clusters/lab.yaml"};
    for (size_t p = 0; p < COUNT_OF(PATHS); p++) {
        struct arena *arena = arena_new();
        char *text;
        size_t len;
        assert_int_equal(file_read(arena, PATHS[p], 1 << 20, &text, &len), WEFT_OK);
        for (size_t cut = 0; cut + 1 < len; cut += 1 + cut / 16) {
            struct cluster *cluster = NULL;
            enum cluster_format format = format_of(PATHS[p]);
            if (cluster_from_text(format, FILES[format], text, cut, 0, &cluster) == WEFT_OK)
                cluster_free(cluster);
            else
                assert_non_null(strstr(weft_last_error()->message, FILES[format]));
        }
        arena_free(arena);
    }
}

static void test_too_many_of_everything(void **state)
{
    (void)state;
    expect_error(read_repeated(CLUSTER_YAML,
                               "device: cpu\nnode:\n  devices: 1\n  vertices:\n    socket:\n",
                               "      - s\n", 5),
                 "t.yaml:7: two vertices are called 's'",
                 "docs/reference/cluster-file.md describes the format");
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    fputs("device: cpu\nnode:\n  devices: 1\n  vertices:\n    socket:\n", out);
    for (int i = 0; i < MAX_NODE_VERTICES; i++)
        fprintf(out, "      - s%d\n", i);
    fclose(out);
    struct cluster *cluster = NULL;
    expect_error(cluster_from_text(CLUSTER_YAML, "t.yaml", text, len, 0, &cluster),
                 "t.yaml:2053: the node has more than 2048 vertices",
                 "docs/reference/cluster-file.md describes the format");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_files),
        cmocka_unit_test(test_broken_names),
        cmocka_unit_test(test_nesting_and_size_are_bounded),
        cmocka_unit_test(test_truncated_files),
        cmocka_unit_test(test_too_many_of_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
