/* published_rows.h - the rows of a dataset of published runs, by name, in the test's arena. */
#ifndef WEFT_TESTS_PUBLISHED_ROWS_H
#define WEFT_TESTS_PUBLISHED_ROWS_H

#include <string.h>

#include "known_sources.h"
#include "lab/lab.h"

static inline struct published_rows rows_of(const char *name)
{
    struct published_rows rows = {0};
    const struct dataset *dataset = dataset_find(known_sources(), name);
    assert_non_null(dataset);
    if (published_read(arena, dataset, &rows))
        fail_msg("%s: %s", name, weft_last_error()->message);
    return rows;
}

static inline struct published *row_named(struct published_rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->len; i++)
        if (strcmp(rows->data[i].name, name) == 0)
            return &rows->data[i];
    fail_msg("no row '%s'", name);
    return NULL;
}

/* The only row of a text of the common columns. */
static inline struct published row_of_sources(const struct sources *sources, const char *dataset,
                                              const char *row)
{
    static const char HEAD[] =
        "dataset,case,model,params_b,layers,hidden,ffn,heads,kv_heads,seq_len,vocab,experts,topk,"
        "gpu,"
        "gpus,gpus_per_node,intra_link,inter_link,tp,cp,ep,pp,vpp,dp,mbs,gbs,num_microbatches,"
        "schedule,recompute,seq_parallel,zero,precision,overlap,iter_time_s,tokens_per_s_per_gpu,"
        "tflops_per_gpu,flops_convention,mfu_pct,mem_alloc_gib,mem_reserved_gib,framework,source,"
        "notes\n";
    struct published_rows rows = {0};
    char *text = arena_printf(arena, "%s%s\n", HEAD, row);
    if (published_parse(arena, dataset_find(sources, dataset), "t.csv", text, strlen(text), &rows))
        fail_msg("%s", weft_last_error()->message);
    assert_int_equal(rows.len, 1);
    return rows.data[0];
}

#endif
