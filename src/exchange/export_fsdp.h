/* export_fsdp.h - the lines of the script after its numbers, NULL-terminated. Inside this room only. */
#ifndef WEFT_EXCHANGE_EXPORT_FSDP_H
#define WEFT_EXCHANGE_EXPORT_FSDP_H

extern const char *const FSDP_SCRIPT[];

#endif
