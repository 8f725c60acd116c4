/* import.h - models from files: one reader per format, each from memory, so that a fuzzer can call
 * it.
 *
 *   open.c         decides what a name means and reads the file
 *   import_yaml.c  Weft's own model files (docs/reference/model-file.md)
 *   import_hf.c    Hugging Face's config.json
 *   import_onnx.c  ONNX graphs (onnx.h)
 *
 * `file` names the input in messages and in the model's `source`. `overrides` may be NULL.
 */
#ifndef WEFT_MODEL_IMPORT_H
#define WEFT_MODEL_IMPORT_H

#include "model/model.h"

/* A parsed document that is a Weft model file, or a Hugging Face config. */
weft_status import_yaml(struct arena *scratch, const char *file, const struct doc *doc,
                        const struct doc *overrides, struct model **out);
weft_status import_hf(struct arena *scratch, const char *file, const struct doc *root,
                      const struct doc *overrides, struct model **out);
/* Operators that are written out in full (import_yaml_ops.c): a model file without a family. */
weft_status import_operators(struct arena *scratch, const char *name, const char *source,
                             const struct doc *root, struct model **out);
/* Overrides give sizes to the graph's symbolic dims: "sequence: 512". */
weft_status import_onnx(const char *file, const void *bytes, size_t len,
                        const struct doc *overrides, struct model **out);

/* Merges options: those of `over` win. Either may be NULL. */
struct doc *options_merge(struct arena *scratch, const struct doc *under, const struct doc *over);
/* Parses "seq: 4096, attention: plain" into a mapping; NULL or blank text gives NULL. */
weft_status options_parse(struct arena *scratch, const char *text, struct doc **out);
/* The family of that name, or an error at `where` with a suggestion. */
weft_status family_find(const char *name, const struct doc *where, const struct family **out);
/* The preset of that name, or NULL. */
const struct preset *preset_find(const char *name);
/* The preset that a model's name means, whichever way it is spelled; NULL: it is none's, or a file's. */
const struct preset *preset_of(struct arena *scratch, const char *name);
const char *preset_nearest(const char *name); /* for a hint; may be NULL */
/* Builds a preset, with `options` over its own. */
weft_status preset_build(struct arena *scratch, const struct preset *preset, const char *name,
                         const char *source, const struct doc *options, struct model **out);

#endif
