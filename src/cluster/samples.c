/* samples.c - reads measured collectives: the output of nccl-tests, and CSV.
 *
 *   I1  A row is a sample or an error with its line; only rows that say themselves that they hold
 *       no measurement are skipped (size 0, or a time of 1e6 ms and more, "out of memory" in
 *       Aceso's and Sailor's tables), and they are counted.
 *   I2  nccl-tests' columns are found by its header line, so the old format (error) and the new one
 *       (root, #wrong) are the same to the reader. The time is the out-of-place one.
 *   I3  For all_gather, the tables with size_mb give the piece of one device (Aceso's and Sailor's
 *       profilers); it is converted to the whole buffer here (fit.h, I1).
 */
#include <ctype.h>
#include <string.h>

#include "cluster/cluster.h"

enum { MAX_FIELDS = 64, MAX_FILE_BYTES = 64 << 20 };
static const double OUT_OF_MEMORY_S = 1e3; /* 1e6 ms */
static const double LEAST_S = 1e-9;        /* no collective ends within 1 ns */
static const double MAX_BYTES = 0x1p50;    /* larger than any buffer */

struct reader {
    struct arena *keep;
    const char *name;
    const struct sample_filter *filter;
    struct samples *out;
    char *next; /* the text that has not been read yet */
    int line;
};

/* The next line without its line end, or NULL. */
static char *next_line(struct reader *reader)
{
    char *line = reader->next;
    if (!line)
        return NULL;
    char *end = strchr(line, '\n');
    reader->next = end ? end + 1 : NULL;
    if (end)
        *end = '\0';
    size_t len = strlen(line);
    if (len > 0 && line[len - 1] == '\r')
        line[len - 1] = '\0';
    if (!end && *line == '\0')
        return NULL;
    reader->line++;
    return line;
}

static weft_status add_sample(struct reader *reader, struct sample sample)
{
    const struct sample_filter *filter = reader->filter;
    if (sample.bytes == 0 || sample.seconds >= OUT_OF_MEMORY_S) {
        reader->out->skipped++;
        return WEFT_OK;
    }
    if (!(sample.seconds >= LEAST_S))
        return bad_input(reader->name, reader->line,
                         "a measured time is positive; leave out the row",
                         "expected a time above 0, found %g us", sample.seconds * 1e6);
    if (!(sample.bytes > 0 && sample.bytes <= MAX_BYTES))
        return bad_input(reader->name, reader->line, NULL, "expected a size in bytes, found %g",
                         sample.bytes);
    if ((filter->collective && sample.collective != *filter->collective) ||
        (filter->devices && sample.devices != filter->devices))
        return WEFT_OK;
    sample.file = reader->name;
    sample.line = reader->line;
    array_push(reader->keep, reader->out, sample);
    return WEFT_OK;
}

static weft_status read_real(const struct reader *reader, const char *text, const char *what,
                             double *out)
{
    if (parse_real(text, out))
        return WEFT_OK;
    return bad_input(reader->name, reader->line, NULL, "expected %s, found '%s'", what, text);
}

static weft_status read_count(const struct reader *reader, const char *text, const char *what,
                              int64_t least, int64_t *out)
{
    if (parse_int(text, out) && *out >= least && *out <= INT32_MAX)
        return WEFT_OK;
    return bad_input(reader->name, reader->line, NULL, "expected %s, at least %lld, found '%s'",
                     what, (long long)least, text);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

enum role {
    ROLE_COLLECTIVE,
    ROLE_DEVICES,
    ROLE_NODES,
    ROLE_SIZE,
    ROLE_TIME,
    ROLE_MACHINE,
    ROLE_COUNT
};

/* Column names; `scale` converts sizes to bytes and times to seconds. */
static const struct {
    const char *name;
    enum role role;
    double scale;
} COLUMNS[] = {
    {"collective", ROLE_COLLECTIVE, 0},
    {"devices", ROLE_DEVICES, 0},
    {"gpus", ROLE_DEVICES, 0},
    {"nodes", ROLE_NODES, 0},
    {"bytes", ROLE_SIZE, 1},
    {"size_mb", ROLE_SIZE, 0x1p20},
    {"time_ns", ROLE_TIME, 1e-9},
    {"time_out_of_place_ns", ROLE_TIME, 1e-9},
    {"time_us", ROLE_TIME, 1e-6},
    {"time_ms", ROLE_TIME, 1e-3},
    {"ms", ROLE_TIME, 1e-3},
    {"time_s", ROLE_TIME, 1},
    {"gpu", ROLE_MACHINE, 0},
    {"device", ROLE_MACHINE, 0},
};

struct sample_table {
    size_t columns;
    int field[ROLE_COUNT]; /* -1: no such column */
    double size_scale, time_scale;
    const char *machine_column;
    const char *machine; /* of the rows read so far */
    int wanted;          /* the filter's column; -1: no filter */
};

/* A line is a CSV header if it has both a size and a time column. */
static bool csv_header(const struct reader *reader, char *line, struct sample_table *csv)
{
    char *field[MAX_FIELDS];
    *csv = (struct sample_table){.columns = csv_split(line, field, MAX_FIELDS), .wanted = -1};
    for (int role = 0; role < ROLE_COUNT; role++)
        csv->field[role] = -1;
    for (size_t i = 0; i < csv->columns; i++) {
        if (reader->filter->column && strcmp(field[i], reader->filter->column) == 0)
            csv->wanted = (int)i;
        for (size_t c = 0; c < COUNT_OF(COLUMNS); c++) {
            if (strcmp(field[i], COLUMNS[c].name) != 0 || csv->field[COLUMNS[c].role] >= 0)
                continue;
            csv->field[COLUMNS[c].role] = (int)i;
            if (COLUMNS[c].role == ROLE_SIZE)
                csv->size_scale = COLUMNS[c].scale;
            if (COLUMNS[c].role == ROLE_TIME)
                csv->time_scale = COLUMNS[c].scale;
            if (COLUMNS[c].role == ROLE_MACHINE)
                csv->machine_column = COLUMNS[c].name;
        }
    }
    return csv->field[ROLE_SIZE] >= 0 && csv->field[ROLE_TIME] >= 0;
}

static weft_status read_collective(const struct reader *reader, const char *text,
                                   enum collective *out)
{
    if (collective_from_name(text, out))
        return WEFT_OK;
    weft_status status = bad_input(reader->name, reader->line,
                                   "all_reduce, all_gather, reduce_scatter, all_to_all, "
                                   "broadcast and send are known",
                                   "expected a collective, found '%s'", text);
    hint_near(collective_near(text));
    return status;
}

/* A fit to rows of two machines would describe neither. */
static weft_status check_machine(const struct reader *reader, struct sample_table *csv,
                                 const char *machine)
{
    if (csv->machine && strcmp(csv->machine, machine) != 0) {
        weft_status status =
            bad_input(reader->name, reader->line, NULL, "measurements of '%s' and '%s' in one fit",
                      csv->machine, machine);
        error_hint("choose one with --where %s=%s", csv->machine_column, machine);
        return status;
    }
    if (!csv->machine)
        csv->machine = arena_copy_text(reader->keep, machine);
    return WEFT_OK;
}

static weft_status csv_row(struct reader *reader, struct sample_table *csv, char **field)
{
    const int *at = csv->field;
    struct sample sample = {.devices = reader->filter->devices, .nodes = 1};
    weft_status status;
    if (reader->filter->collective)
        sample.collective = *reader->filter->collective;
    if (at[ROLE_COLLECTIVE] >= 0)
        TRY(read_collective(reader, field[at[ROLE_COLLECTIVE]], &sample.collective));
    if (at[ROLE_DEVICES] >= 0)
        TRY(read_count(reader, field[at[ROLE_DEVICES]], "a number of devices", 2, &sample.devices));
    if (at[ROLE_NODES] >= 0)
        TRY(read_count(reader, field[at[ROLE_NODES]], "a number of nodes", 1, &sample.nodes));
    TRY(read_real(reader, field[at[ROLE_SIZE]], "a size", &sample.bytes));
    TRY(read_real(reader, field[at[ROLE_TIME]], "a time", &sample.seconds));
    sample.bytes *= csv->size_scale;
    sample.seconds *= csv->time_scale;
    if (csv->size_scale > 1 && sample.collective == COLLECTIVE_ALL_GATHER)
        sample.bytes *= (double)sample.devices; /* I3 */
    size_t before = reader->out->len;
    TRY(add_sample(reader, sample));
    if (at[ROLE_MACHINE] >= 0 && reader->out->len > before)
        TRY(check_machine(reader, csv, field[at[ROLE_MACHINE]]));
done:
    return status;
}

static weft_status csv_check(const struct reader *reader, const struct sample_table *csv)
{
    if (reader->filter->column && csv->wanted < 0)
        return bad_input(reader->name, reader->line, NULL, "has no column '%s'",
                         reader->filter->column);
    if (csv->field[ROLE_COLLECTIVE] < 0 && !reader->filter->collective)
        return bad_input(reader->name, reader->line,
                         "say what was measured: --collective all_reduce",
                         "has no column 'collective'");
    if (csv->field[ROLE_DEVICES] < 0 && !reader->filter->devices)
        return bad_input(reader->name, reader->line, "say how many took part: --devices 8",
                         "has no column 'devices'");
    return WEFT_OK;
}

static weft_status read_csv(struct reader *reader, struct sample_table *csv)
{
    weft_status status;
    TRY(csv_check(reader, csv));
    for (char *line; (line = next_line(reader));) {
        char *field[MAX_FIELDS];
        if (*line == '\0' || *line == '#')
            continue;
        size_t fields = csv_split(line, field, MAX_FIELDS);
        if (fields != csv->columns) {
            status = bad_input(reader->name, reader->line, NULL, "expected %zu columns, found %zu",
                               csv->columns, fields);
            goto done;
        }
        if (csv->wanted >= 0 && strcmp(field[csv->wanted], reader->filter->value) != 0)
            continue;
        TRY(csv_row(reader, csv, field));
    }
done:
    return status;
}

/* ---- nccl-tests ------------------------------------------------------------------------------ */

static const struct {
    const char *program;
    enum collective collective;
} PROGRAMS[] = {
    {"all_reduce_perf", COLLECTIVE_ALL_REDUCE},         {"all_gather_perf", COLLECTIVE_ALL_GATHER},
    {"reduce_scatter_perf", COLLECTIVE_REDUCE_SCATTER}, {"alltoall_perf", COLLECTIVE_ALL_TO_ALL},
    {"broadcast_perf", COLLECTIVE_BROADCAST},           {"sendrecv_perf", COLLECTIVE_SEND},
};

enum { MAX_HOSTS = 4096 };

struct nccl_tests {
    bool named; /* whether the collective is known */
    enum collective collective;
    int64_t ranks, local; /* from the "Rank" lines; nThread * nGpus */
    struct map *hosts;
    int64_t nodes;
    size_t columns; /* of the current table; 0: no header yet */
    size_t time_column;
};

static bool program_named(const char *text, enum collective *out)
{
    for (size_t i = 0; i < COUNT_OF(PROGRAMS); i++) {
        if (strstr(text, PROGRAMS[i].program)) {
            *out = PROGRAMS[i].collective;
            return true;
        }
    }
    return false;
}

static size_t split_words(char *line, char **word, size_t max)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *w = strtok_r(line, " \t", &rest); w && count < max; w = strtok_r(NULL, " \t", &rest))
        word[count++] = w;
    return count;
}

/* "# size count type redop root time algbw busbw #wrong time ...": finds the first time column. */
static bool table_header(struct nccl_tests *test, char **word, size_t words)
{
    size_t first = words > 0 && strcmp(word[0], "#") == 0;
    if (words < first + 4 || strcmp(word[first], "size") != 0 ||
        strcmp(word[first + 1], "count") != 0)
        return false;
    for (size_t i = first; i < words; i++) {
        if (strcmp(word[i], "time") == 0 || strcmp(word[i], "cputime") == 0) {
            test->time_column = i - first;
            test->columns = words - first;
            return true;
        }
    }
    return false;
}

/* "#  Rank  3 Group 0 Pid 60 on host device  3 [0x0f] A100" */
static void rank_line(struct reader *reader, struct nccl_tests *test, char **word, size_t words)
{
    int64_t seen;
    test->ranks++;
    for (size_t i = 0; i + 1 < words; i++) {
        if (strcmp(word[i], "on") != 0)
            continue;
        if (!map_get(test->hosts, word[i + 1], &seen) && test->nodes < MAX_HOSTS)
            map_put(test->hosts, arena_copy_text(reader->keep, word[i + 1]), test->nodes++);
        return;
    }
}

/* "# nThread 1 nGpus 8 ...", with or without colons: a new run starts. */
static void run_line(struct reader *reader, struct nccl_tests *test, char **word, size_t words)
{
    int64_t threads = 1, gpus = 1;
    for (size_t i = 0; i + 1 < words; i++) {
        if (strncmp(word[i], "nThread", 7) == 0)
            parse_int(word[i + 1], &threads);
        if (strncmp(word[i], "nGpus", 5) == 0)
            parse_int(word[i + 1], &gpus);
    }
    test->local = threads > 0 && threads < 1024 && gpus > 0 && gpus < 1024 ? threads * gpus : 0;
    test->ranks = test->nodes = 0;
    test->columns = 0;
    test->hosts = map_new(reader->keep);
}

static void comment_line(struct reader *reader, struct nccl_tests *test, char *line)
{
    char *word[MAX_FIELDS];
    size_t words = split_words(line, word, MAX_FIELDS);
    if (words > 2 && strncmp(word[1], "nThread", 7) == 0)
        run_line(reader, test, word, words);
    else if (words > 2 && strcmp(word[1], "Rank") == 0)
        rank_line(reader, test, word, words);
    else
        table_header(test, word, words);
}

static weft_status run_facts(const struct reader *reader, const struct nccl_tests *test,
                             struct sample *sample)
{
    const struct sample_filter *filter = reader->filter;
    if (test->columns == 0)
        return bad_input(
            reader->name, reader->line,
            "give the whole output of nccl-tests, or a CSV "
            "with columns collective,devices,bytes,time_us",
            "expected the header line '# size count type ... time' before the numbers");
    if (!test->named && !filter->collective)
        return bad_input(reader->name, reader->line,
                         "say what was measured: --collective all_reduce",
                         "does not name the test that printed it");
    sample->collective = test->named ? test->collective : *filter->collective;
    sample->devices = test->ranks ? test->ranks : test->local ? test->local : filter->devices;
    sample->nodes = test->nodes ? test->nodes : 1;
    if (sample->devices < 2)
        return bad_input(reader->name, reader->line, "say how many took part: --devices 8",
                         "expected at least 2 devices in the header ('#  Rank  0 ...')");
    return WEFT_OK;
}

static weft_status table_row(struct reader *reader, const struct nccl_tests *test, char *line)
{
    char *word[MAX_FIELDS];
    size_t words = split_words(line, word, MAX_FIELDS);
    struct sample sample = {0};
    int64_t bytes;
    weft_status status;
    TRY(run_facts(reader, test, &sample));
    if (words <= test->time_column) {
        status = bad_input(reader->name, reader->line, "the line seems cut off",
                           "expected %zu columns, found %zu", test->columns, words);
        goto done;
    }
    if (!parse_int(word[0], &bytes)) {
        status = bad_input(reader->name, reader->line, NULL, "expected a size in bytes, found '%s'",
                           word[0]);
        goto done;
    }
    sample.bytes = (double)bytes;
    TRY(read_real(reader, word[test->time_column], "a time in us", &sample.seconds));
    sample.seconds *= 1e-6;
    TRY(add_sample(reader, sample));
done:
    return status;
}

/* Launchers put "[1,0]<stdout>:" before each line. */
static char *untagged(char *line)
{
    char *tag = *line == '[' ? strstr(line, ">:") : NULL;
    line = tag ? tag + 2 : line;
    return line + strspn(line, " \t");
}

static weft_status nccl_tests_line(struct reader *reader, struct nccl_tests *test, char *line)
{
    line = untagged(line);
    test->named |= program_named(line, &test->collective);
    if (*line == '#')
        comment_line(reader, test, line);
    else if (isdigit((unsigned char)*line))
        return table_row(reader, test, line);
    return WEFT_OK; /* NCCL's log and the shell's echo are ignored */
}

/* ---- a file ---------------------------------------------------------------------------------- */

static weft_status read_text(struct reader *reader)
{
    weft_status status = WEFT_OK;
    size_t before = reader->out->len + reader->out->skipped;
    struct nccl_tests test = {.hosts = map_new(reader->keep)};
    test.named = program_named(reader->name, &test.collective);
    bool table = false;
    for (char *line; (line = next_line(reader));) {
        struct sample_table csv;
        if (strchr(line, ',') && *line != '#' && *line != '[') {
            char *copy = arena_copy_text(reader->keep, line);
            if (csv_header(reader, copy, &csv))
                return read_csv(reader, &csv);
        }
        TRY(nccl_tests_line(reader, &test, line));
        table |= test.columns > 0;
    }
    if (!table && reader->out->len + reader->out->skipped == before)
        status =
            bad_input(reader->name, 0, "columns collective,devices,bytes,time_us make a CSV",
                      "is neither the output of nccl-tests nor CSV with a size and a time column");
done:
    return status;
}

weft_status samples_parse(struct arena *keep, const char *name, const char *text, size_t len,
                          const struct sample_filter *filter, struct samples *out)
{
    if (memchr(text, '\0', len))
        return bad_input(name, 0, NULL, "is not a text file");
    struct reader reader = {.keep = keep,
                            .name = arena_copy_text(keep, name),
                            .filter = filter,
                            .out = out,
                            .next = arena_copy_bytes(keep, text, len)};
    return read_text(&reader);
}

weft_status samples_read(struct arena *keep, const char *path, const struct sample_filter *filter,
                         struct samples *out)
{
    char *text;
    size_t len;
    weft_status status = file_read(keep, path, MAX_FILE_BYTES, &text, &len);
    return status == WEFT_OK ? samples_parse(keep, path, text, len, filter, out) : status;
}
