/* profile.h - what the files of `weft profile` share. Private to the room. */
#ifndef WEFT_CLI_PROFILE_H
#define WEFT_CLI_PROFILE_H

#include "cli/cli.h"

enum { MAX_PROFILE_ARGUMENTS = 256 };
struct profile_options {
    const char *arguments[MAX_PROFILE_ARGUMENTS]; /* the first is the action */
    size_t count;
    const char *db, *device, *kernel, *shape, *phase, *dtype;
    const char *collective;
    int64_t devices, nodes, bytes;
    enum import_format format;
    bool json;
};

/* Shows what is in a database (profile_show.c); returns the exit code. */
int profile_show(const struct profile_options *options, struct arena *arena);
/* argv[0] is "weft profile measure". */
int cmd_profile_measure(int argc, char **argv);

/* A shape as the database stores it ("batch=1 m=4096 ..."), or as a JSON object. */
const char *work_shape_text(struct arena *arena, const struct work *work);
json_t *work_shape_json(const struct work *work);

#endif
