/* profile_schema.c - the tables of a profile database (docs/reference/profile.md), and their names. */
#include <string.h>

#include "cost/profile_room.h"

const char PROFILE_SCHEMA[] =
    "CREATE TABLE source(\n"
    "  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, origin TEXT NOT NULL,\n"
    "  licence TEXT NOT NULL);\n"
    "CREATE TABLE kernel(\n"
    "  device TEXT NOT NULL, kernel TEXT NOT NULL, phase TEXT NOT NULL, dtype TEXT NOT NULL,\n"
    "  s0 INTEGER NOT NULL, s1 INTEGER NOT NULL, s2 INTEGER NOT NULL, s3 INTEGER NOT NULL,\n"
    "  s4 INTEGER NOT NULL, s5 INTEGER NOT NULL, s6 INTEGER NOT NULL, s7 INTEGER NOT NULL,\n"
    "  ns REAL NOT NULL CHECK(ns > 0), samples INTEGER NOT NULL CHECK(samples > 0),\n"
    "  source INTEGER NOT NULL REFERENCES source(id), error REAL,\n"
    "  PRIMARY KEY(device, kernel, phase, dtype, s0, s1, s2, s3, s4, s5, s6, s7, source)\n"
    ") WITHOUT ROWID;\n"
    "CREATE TABLE operator(\n"
    "  device TEXT NOT NULL, dtype TEXT NOT NULL, model TEXT NOT NULL, operator TEXT NOT NULL,\n"
    "  microbatch INTEGER NOT NULL, tp INTEGER NOT NULL, algo INTEGER NOT NULL,\n"
    "  forward_ns REAL, backward_ns REAL,\n"
    "  forward_collective TEXT NOT NULL, backward_collective TEXT NOT NULL,\n"
    "  input_bytes INTEGER NOT NULL, output_bytes INTEGER NOT NULL, weight_bytes INTEGER NOT "
    "NULL,\n"
    "  activation_bytes INTEGER NOT NULL, forward_reserved_bytes INTEGER NOT NULL,\n"
    "  backward_reserved_bytes INTEGER NOT NULL, source INTEGER NOT NULL REFERENCES source(id),\n"
    "  PRIMARY KEY(device, dtype, model, operator, microbatch, tp, algo, source)\n"
    ") WITHOUT ROWID;\n"
    "CREATE TABLE collective(\n"
    "  device TEXT NOT NULL, machine TEXT NOT NULL, collective TEXT NOT NULL,\n"
    "  devices INTEGER NOT NULL, nodes INTEGER NOT NULL, bytes INTEGER NOT NULL,\n"
    "  ns REAL NOT NULL CHECK(ns > 0), samples INTEGER NOT NULL CHECK(samples > 0),\n"
    "  source INTEGER NOT NULL REFERENCES source(id), error REAL,\n"
    "  PRIMARY KEY(device, machine, collective, devices, nodes, bytes, source)\n"
    ") WITHOUT ROWID;\n"
    "CREATE TABLE collective_rate(\n"
    "  device TEXT NOT NULL, machine TEXT NOT NULL, collective TEXT NOT NULL,\n"
    "  devices INTEGER NOT NULL, nodes INTEGER NOT NULL, stages INTEGER NOT NULL,\n"
    "  consecutive INTEGER NOT NULL, bus_bytes_per_s REAL NOT NULL CHECK(bus_bytes_per_s > 0),\n"
    "  source INTEGER NOT NULL REFERENCES source(id),\n"
    "  PRIMARY KEY(device, machine, collective, devices, nodes, stages, consecutive, source)\n"
    ") WITHOUT ROWID;\n"
    "CREATE TABLE collective_share(\n"
    "  table_name TEXT NOT NULL, column_name TEXT NOT NULL, devices INTEGER, nodes INTEGER,\n"
    "  bytes INTEGER NOT NULL, share REAL NOT NULL CHECK(share > 0),\n"
    "  source INTEGER NOT NULL REFERENCES source(id),\n"
    "  PRIMARY KEY(table_name, column_name, bytes, source)\n"
    ") WITHOUT ROWID;\n"
    "CREATE TABLE layer(\n"
    "  device TEXT NOT NULL, dtype TEXT NOT NULL, model TEXT NOT NULL, layer INTEGER NOT NULL,\n"
    "  kind TEXT NOT NULL, seq INTEGER NOT NULL, hidden INTEGER NOT NULL,\n"
    "  weight_bytes INTEGER NOT NULL, forward_ns REAL NOT NULL CHECK(forward_ns > 0),\n"
    "  tp_all_reduces INTEGER NOT NULL, source INTEGER NOT NULL REFERENCES source(id),\n"
    "  PRIMARY KEY(device, dtype, model, layer, source)\n"
    ") WITHOUT ROWID;\n"
    "CREATE TABLE layer_activation(\n"
    "  device TEXT NOT NULL, dtype TEXT NOT NULL, model TEXT NOT NULL, layer INTEGER NOT NULL,\n"
    "  tp INTEGER NOT NULL, bytes INTEGER NOT NULL,\n"
    "  source INTEGER NOT NULL REFERENCES source(id),\n"
    "  PRIMARY KEY(device, dtype, model, layer, tp, source)\n"
    ") WITHOUT ROWID;\n"
    "CREATE TABLE model_ends(\n"
    "  device TEXT NOT NULL, dtype TEXT NOT NULL, model TEXT NOT NULL, devices INTEGER NOT NULL,\n"
    "  part TEXT NOT NULL, state_bytes INTEGER NOT NULL, activation_bytes INTEGER NOT NULL,\n"
    "  source INTEGER NOT NULL REFERENCES source(id),\n"
    "  PRIMARY KEY(device, dtype, model, devices, part, source)\n"
    ") WITHOUT ROWID;\n"
    "CREATE TABLE constant(\n"
    "  device TEXT NOT NULL, machine TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,\n"
    "  unit TEXT NOT NULL, source INTEGER NOT NULL REFERENCES source(id),\n"
    "  PRIMARY KEY(device, machine, name, source)\n"
    ") WITHOUT ROWID;\n";

const char *const PROFILE_UPGRADES[PROFILE_VERSION] = {
    [1] = "ALTER TABLE kernel ADD COLUMN error REAL;\n"
          "ALTER TABLE collective ADD COLUMN error REAL;\n",
    [2] = "CREATE TABLE circumstances(\n"
          "  source INTEGER PRIMARY KEY REFERENCES source(id), device TEXT NOT NULL,\n"
          "  clock_hz REAL, driver TEXT NOT NULL, library TEXT NOT NULL, date TEXT NOT NULL);\n"
          "CREATE TABLE algorithm(\n"
          "  device TEXT NOT NULL, library TEXT NOT NULL, product TEXT NOT NULL,\n"
          "  algorithm TEXT NOT NULL, place INTEGER NOT NULL CHECK(place >= 0),\n"
          "  ns REAL NOT NULL CHECK(ns > 0), first_ns REAL NOT NULL CHECK(first_ns > 0),\n"
          "  source INTEGER NOT NULL REFERENCES source(id),\n"
          "  PRIMARY KEY(device, library, product, source)\n"
          ") WITHOUT ROWID;\n",
};

static const struct {
    const char *name;
    size_t columns;
} TABLES[] = {
    [TABLE_SOURCE] = {"source", 4},
    [TABLE_KERNEL] = {"kernel", 16},
    [TABLE_OPERATOR] = {"operator", 18},
    [TABLE_COLLECTIVE] = {"collective", 10},
    [TABLE_COLLECTIVE_RATE] = {"collective_rate", 9},
    [TABLE_COLLECTIVE_SHARE] = {"collective_share", 7},
    [TABLE_LAYER] = {"layer", 11},
    [TABLE_LAYER_ACTIVATION] = {"layer_activation", 7},
    [TABLE_MODEL_ENDS] = {"model_ends", 8},
    [TABLE_CONSTANT] = {"constant", 6},
    [TABLE_CIRCUMSTANCES] = {"circumstances", 6},
    [TABLE_ALGORITHM] = {"algorithm", 8},
};
_Static_assert(COUNT_OF(TABLES) == TABLE_COUNT, "a table without a row");

const char *table_name(enum profile_table table)
{
    return TABLES[table].name;
}

size_t table_columns(enum profile_table table)
{
    return TABLES[table].columns;
}

const char *profile_phase_name(int phase)
{
    return phase == PHASE_WHOLE_BACKWARD ? "backward" : phase_name((enum phase)phase);
}

bool profile_phase_from_name(const char *name, int *out)
{
    for (int phase = 0; phase < PROFILE_PHASES; phase++) {
        if (strcmp(name, profile_phase_name(phase)) == 0) {
            *out = phase;
            return true;
        }
    }
    return false;
}
