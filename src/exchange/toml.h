/* toml.h - torchtitan's configurations as one tree of sections and keys. Inside this room only. */
#ifndef WEFT_EXCHANGE_TOML_H
#define WEFT_EXCHANGE_TOML_H

#include "exchange/room.h"

/* [section] and key = value. */
weft_status toml_read(struct arena *keep, const struct import_input *input, struct doc **out);
/* Words of a command line: --section.key value. Others are passed over, but for --module and --config. */
weft_status options_read(struct arena *keep, const struct import_input *input, struct doc **out);
/* Lines of Python: config.section.key = value. Others are passed over. */
weft_status assignments_read(struct arena *keep, const struct import_input *input,
                             struct doc **out);

#endif
