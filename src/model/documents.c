/* documents.c - documents that are packed into a sequence and do not see each other.
 *
 * Attention's work is a sum of squares of lengths. Documents of mean m and standard deviation c m have
 *
 *   sum of l^2 / sum of l = m (1 + c^2)                                                         (1)
 *
 * keys per position, as documents of that one length would (half of them under a causal mask).
 */
#include "model/blocks.h"
#include "model/families.h"

weft_status documents_check(int64_t document, double spread, int attention, const struct doc *where)
{
    bool fused = attention != ATTENTION_EAGER && attention != ATTENTION_FUSED &&
                 attention != ATTENTION_LOCAL;
    if (spread > 0 && !document)
        return doc_error(option_at(where, "document_spread"), "give 'document', their mean length",
                         "'document_spread' is that of documents, but no 'document' is given");
    if (document && !fused)
        return doc_error(option_at(where, "document"), "leave 'attention' out",
                         "'document' needs an attention that skips what other documents hold");
    return WEFT_OK;
}

void documents_set(struct builder *b, int64_t document, double spread, int64_t seq, bool causal)
{
    double alike = (double)document * (1 + spread * spread); /* (1) */
    for (size_t i = 0; document && alike < (double)seq && i < b->ops.len; i++)
        if (b->ops.data[i].kind == OP_ATTENTION && b->ops.data[i].place != PLACE_TOWER &&
            b->ops.data[i].causal == causal)
            b->ops.data[i].document = (int64_t)alike;
}
