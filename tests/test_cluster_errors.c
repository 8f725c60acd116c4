/* test_cluster_errors.c - what a user is told about a broken description of a cluster.
 *
 * Each row is an input and the exact words it must be answered with: where, what was found and
 * expected, and what to do. No row may crash, leak or be taken for valid.
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

static const char *const FILES[] = {
    [CLUSTER_YAML] = "t.yaml", [CLUSTER_JSON] = "t.json", [CLUSTER_XML] = "t.xml"};

static const struct {
    enum cluster_format format;
    const char *text, *message, *hint;
} BROKEN[] = {
    {CLUSTER_YAML, "", "t.yaml:1: is empty, expected a mapping",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML, "- dgx-a100\n",
     "t.yaml:1: the file holds a list, expected a mapping such as 'base: dgx-a100'",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML, "dgx-a100\n",
     "t.yaml:1: the file holds text, expected a mapping such as 'base: dgx-a100'",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML, "base: [dgx-a100\n",
     "t.yaml:2: is not valid YAML: did not find expected ',' or ']'",
     "check the indentation and the quotes around here"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "base: dgx-h100\n",
     "t.yaml:2: 'base' stands twice, first in line 1", "keep one of the two"},
    {CLUSTER_YAML,
     "base: &a dgx-a100\n"
     "name: *a\n",
     "t.yaml:2: uses a YAML alias (*a), which Weft does not read", "write the value out"},
    {CLUSTER_YAML, "base: \"dgx-a100\n",
     "t.yaml:2: is not valid YAML: found unexpected end of stream",
     "check the indentation and the quotes around here"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "\tnodes: 2\n",
     "t.yaml:2: is not valid YAML: found a tab character that violates indentation",
     "check the indentation and the quotes around here"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "---\n"
     "base: dgx-h100\n",
     "t.yaml:2: starts a second YAML document, expected one", "split the file"},
    {CLUSTER_YAML, "name: empty\n", "t.yaml:1: has neither 'base' nor 'node'",
     "start from a preset with 'base: dgx-a100', or write out 'node'"},
    {CLUSTER_YAML, "bse: dgx-a100\n", "t.yaml:1: 'bse' is not a known key here",
     "did you mean 'base'?"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "node_count: 4\n",
     "t.yaml:2: 'node_count' is not a known key here",
     "known keys: name, source, base, nodes, device, node, nic, fabric, collectives"},
    {CLUSTER_YAML, "base: dgx-a1000\n", "t.yaml:1: no cluster is called 'dgx-a1000'",
     "did you mean 'dgx-a100'?"},
    {CLUSTER_YAML, "base: nothing-like-it\n", "t.yaml:1: no cluster is called 'nothing-like-it'",
     "`weft clusters` lists the names; a file ends in .yaml, .json or .xml"},
    {CLUSTER_YAML, "base: other.yaml\n", "t.yaml:1: no cluster is called 'other.yaml'",
     "`weft clusters` lists the names; a file ends in .yaml, .json or .xml"},
    {CLUSTER_YAML, "base: absent.xml\n",
     "t.yaml:1: absent.xml: cannot be opened: No such file or directory",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: titan-xp\n"
     "nodes: 2\n",
     "t.yaml:1: titan-xp is a single machine: its source names no network",
     "describe its network in a cluster file (docs/cluster-file.md)"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 0\n",
     "t.yaml:2: 'nodes' is '0', expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: -4\n",
     "t.yaml:2: 'nodes' is '-4', expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 1000001\n",
     "t.yaml:2: 'nodes' is 1000001, expected a number from 1 to 1000000",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 99999999999999999999\n",
     "t.yaml:2: 'nodes' is '99999999999999999999', expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 2.5\n",
     "t.yaml:2: 'nodes' is '2.5', expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: many\n",
     "t.yaml:2: 'nodes' is 'many', expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: [4]\n",
     "t.yaml:2: 'nodes' is a list, expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML, "base: {name: dgx-a100}\n", "t.yaml:1: 'base' is a mapping, expected text",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "node:\n"
     "  devices: 2\n",
     "t.yaml:2: 'node' describes what 'base' already has", "leave one of the two out"},
    {CLUSTER_YAML,
     "node:\n"
     "  devices: 1\n",
     "t.yaml:1: 'device' is missing", "name one, as in 'device: A100-SXM4-80GB'"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: A100-SXM4-80G\n",
     "t.yaml:2: no device is called 'A100-SXM4-80G'", "did you mean 'A100-SXM4-80GB'?"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: abacus\n",
     "t.yaml:2: no device is called 'abacus'", "write it out as a mapping (docs/cluster-file.md)"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: [A100-SXM4-80GB]\n",
     "t.yaml:2: 'device' is a list, expected text", "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device:\n"
     "  memory: 80\n"
     "  memroy: 80GB\n",
     "t.yaml:4: 'memroy' is not a known key here", "did you mean 'memory'?"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {memory: -80GB}\n",
     "t.yaml:2: 'memory' is '-80GB', expected a size such as 80GiB",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {memory: 80 apples}\n",
     "t.yaml:2: 'memory' is '80 apples', expected a size such as 80GiB",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {memory: 1e300GB}\n",
     "t.yaml:2: 'memory' is '1e300GB', expected a size such as 80GiB",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {memory: 0GB}\n",
     "t.yaml:2: 'memory' is 0GB, expected a size from 1 B to 1024 TiB",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {memory_bandwidth: 2TB}\n",
     "t.yaml:2: 'memory_bandwidth' is '2TB', expected a rate such as 25GB/s or 100Gb/s",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {price_per_hour: -1}\n",
     "t.yaml:2: 'price_per_hour' is -1, expected a number from 0 to 1000000",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {price_per_hour: free}\n",
     "t.yaml:2: 'price_per_hour' is 'free', expected a number",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {units: 0}\n",
     "t.yaml:2: 'units' is '0', expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {launch: 5}\n",
     "t.yaml:2: 'launch' is '5', expected a duration such as 5us",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {tflops: 312}\n",
     "t.yaml:2: 'tflops' is '312', expected a mapping of keys to values",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {tflops: {fp61: 312}}\n",
     "t.yaml:2: 'fp61' is not a known key here", "did you mean 'fp16'?"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {tflops: {fp16: -1}}\n",
     "t.yaml:2: 'fp16' is -1, expected a number from 0 to 1000000",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {tflops: {fp16: .nan}}\n",
     "t.yaml:2: 'fp16' is '.nan', expected a number", "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "device: {base: A100}\n",
     "t.yaml:2: no device is called 'A100'", "write it out as a mapping (docs/cluster-file.md)"},
    {CLUSTER_YAML,
     "device: {name: mine, memory: 8GB}\n"
     "node: {devices: 1}\n",
     "t.yaml:1: 'tflops' is missing from the device", "or start from a known device with 'base'"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node: 4\n",
     "t.yaml:2: 'node' is '4', expected a mapping of keys to values",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node: {}\n",
     "t.yaml:2: 'devices' is missing, expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node: {devices: 0}\n",
     "t.yaml:2: 'devices' is '0', expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node: {devices: 257}\n",
     "t.yaml:2: 'devices' is 257, expected a number from 1 to 256",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node: {devices: 2}\n",
     "t.yaml:2: 'dev1' has no way to 'dev0'", "add a link to it"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node:\n"
     "  devices: 1\n"
     "  vertices: {sockets: [a]}\n",
     "t.yaml:4: 'sockets' is not a known key here", "did you mean 'socket'?"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node:\n"
     "  devices: 1\n"
     "  vertices: {socket: [a, a]}\n",
     "t.yaml:4: two vertices are called 'a'", "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node:\n"
     "  devices: 1\n"
     "  vertices: {socket: dev0}\n",
     "t.yaml:4: two vertices are called 'dev0'", "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node:\n"
     "  devices: 1\n"
     "  vertices: {socket: [\"a b\"]}\n",
     "t.yaml:4: 'a b' is no name for a vertex",
     "letters, digits and a few signs; no space, no '..'"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node:\n"
     "  devices: 1\n"
     "  vertices: {socket: [\"\"]}\n",
     "t.yaml:4: '' is no name for a vertex", "letters, digits and a few signs; no space, no '..'"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node:\n"
     "  devices: 1\n"
     "  vertices: {socket: [[a]]}\n",
     "t.yaml:4: 'the value' is a list, expected text", "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node:\n"
     "  devices: 1\n"
     "  vertices: {socket: [a]}\n",
     "t.yaml:2: 'a' has no way to 'dev0'", "add a link to it"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node:\n"
     "  devices: 1\n"
     "  links: {}\n",
     "t.yaml:4: 'links' is a mapping, expected a list of links",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: cpu\n"
     "node:\n"
     "  devices: 1\n"
     "  vertices: {device: [x]}\n",
     "t.yaml:4: 'device' is not a known key here", "known keys: nvswitch, pci-switch, socket, nic"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev2], kind: nvlink, bandwidth: 25GB/s}\n",
     "t.yaml:6: no vertex is called 'dev2'",
     "devices are dev0 to dev1; the rest is listed under 'vertices'"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, elsewhere], kind: nvlink, bandwidth: 25GB/s}\n",
     "t.yaml:6: no vertex is called 'elsewhere'",
     "devices are dev0 to dev1; the rest is listed under 'vertices'"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0], kind: nvlink, bandwidth: 25GB/s}\n",
     "t.yaml:6: 'between' is a list, expected two ends, as in [dev0, dev1]",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: dev0, kind: nvlink, bandwidth: 25GB/s}\n",
     "t.yaml:6: 'between' is text, expected two ends, as in [dev0, dev1]",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {kind: nvlink, bandwidth: 25GB/s}\n",
     "t.yaml:6: 'between' is missing, expected two ends, as in [dev0, dev1]",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev0], kind: nvlink, bandwidth: 25GB/s}\n",
     "t.yaml:6: 'dev0' is linked to itself", "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: 25GB/s}\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: 25GB/s}\n",
     "t.yaml:7: 'dev0' and 'dev1' are linked twice", "several wires are one link with a 'count'"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlnk, bandwidth: 25GB/s}\n",
     "t.yaml:6: 'kind' is 'nvlnk', expected one of nvlink, pci, socket", "did you mean 'nvlink'?"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink}\n",
     "t.yaml:6: 'bandwidth' is missing, expected a rate such as 25GB/s or 100Gb/s",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: 25}\n",
     "t.yaml:6: 'bandwidth' is '25', expected a rate such as 25GB/s or 100Gb/s",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: 0GB/s}\n",
     "t.yaml:6: 'bandwidth' is 0GB/s, expected a rate from 1 B/s to 1000 TB/s",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: -25GB/s}\n",
     "t.yaml:6: 'bandwidth' is '-25GB/s', expected a rate such as 25GB/s or 100Gb/s",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: 25GB/s, count: -1}\n",
     "t.yaml:6: 'count' is '-1', expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: 25GB/s, count: 5000}\n",
     "t.yaml:6: 'count' is 5000, expected a number from 1 to 1024",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: 25GB/s, latency: 3}\n",
     "t.yaml:6: 'latency' is '3', expected a duration such as 5us",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: 25GB/s, latency: -3us}\n",
     "t.yaml:6: 'latency' is '-3us', expected a duration such as 5us",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, dev1], kind: nvlink, bandwidth: 25GB/s, colour: red}\n",
     "t.yaml:6: 'colour' is not a known key here",
     "known keys: between, kind, count, bandwidth, latency"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - dev0-dev1\n",
     "t.yaml:6: 'the value' is 'dev0-dev1', expected a mapping of keys to values",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, p0], kind: nvlink, bandwidth: 25GB/s}\n",
     "t.yaml:6: a link of kind nvlink cannot end at 'p0', which is a pci-switch",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, s0], kind: pci, bandwidth: 25GB/s}\n",
     "t.yaml:6: a link of kind pci cannot end at 's0', which is a nvswitch",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [p0, cpu0], kind: socket, bandwidth: 25GB/s}\n",
     "t.yaml:6: a link of kind socket cannot end at 'p0', which is a pci-switch",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0..dev9, cpu0], kind: pci, bandwidth: 16GB/s}\n",
     "t.yaml:6: no vertex is called 'dev2'",
     "devices are dev0 to dev1; the rest is listed under 'vertices'"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0..cpu1, cpu0], kind: pci, bandwidth: 16GB/s}\n",
     "t.yaml:6: 'dev0..cpu1' is no range, expected one like dev0..dev7",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev1..dev0, cpu0], kind: pci, bandwidth: 16GB/s}\n",
     "t.yaml:6: 'dev1..dev0' is no range, expected one like dev0..dev7",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0..dev999999999, cpu0], kind: pci, bandwidth: 16GB/s}\n",
     "t.yaml:6: 'dev0..dev999999999' is no range, expected one like dev0..dev7",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [.., cpu0], kind: pci, bandwidth: 16GB/s}\n",
     "t.yaml:6: '..' is no range, expected one like dev0..dev7",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0, p0], kind: pci, bandwidth: 16GB/s}\n"
     "    - {between: [p0, cpu0], kind: pci, bandwidth: 16GB/s}\n"
     "    - {between: [cpu0, dev0], kind: pci, bandwidth: 16GB/s}\n",
     "t.yaml:8: 'cpu0' and 'dev0' close a loop of PCI links, expected a tree",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0, cpu1], pci-switch: [p0], nvswitch: s0}\n"
     "  links:\n"
     "    - {between: [dev0..dev1, cpu0], kind: pci, bandwidth: 16GB/s}\n",
     "t.yaml:2: 's0' has no way to 'dev0'", "add a link to it"},
    {CLUSTER_YAML,
     "device: RTX-3090\n"
     "node:\n"
     "  devices: 2\n"
     "  vertices: {socket: [cpu0], nic: [n0]}\n"
     "  links:\n"
     "    - {between: [dev0..dev1, cpu0], kind: pci, bandwidth: 16GB/s}\n",
     "t.yaml:2: 'n0' has no way to 'dev0'", "add a link to it"},
    {CLUSTER_YAML,
     "base: titan-xp\n"
     "nic: {bandwidth: 100Gb/s}\n",
     "t.yaml:2: the node has no NIC", "list NICs under 'node: vertices: nic'"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nic: {}\n",
     "t.yaml:2: 'bandwidth' is missing, expected a rate such as 25GB/s or 100Gb/s",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nic: 100Gb/s\n",
     "t.yaml:2: 'nic' is '100Gb/s', expected a mapping of keys to values",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nic: {bandwidth: 100}\n",
     "t.yaml:2: 'bandwidth' is '100', expected a rate such as 25GB/s or 100Gb/s",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nic: {speed: 100Gb/s}\n",
     "t.yaml:2: 'speed' is not a known key here", "known keys: bandwidth"},
    {CLUSTER_YAML,
     "base: titan-xp\n"
     "nodes: 2\n"
     "fabric: {kind: switch}\n",
     "t.yaml:3: has 2 nodes and no NIC to join them",
     "ask for one node, or describe a machine with a NIC"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 2\n"
     "fabric: {kind: none}\n",
     "t.yaml:3: has 2 nodes and nothing that joins them",
     "describe NICs and a fabric, or ask for one node"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "fabric: {kind: torus}\n",
     "t.yaml:2: 'kind' is 'torus', expected one of none, switch, rail, fat-tree, dragonfly",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "fabric: {tiers: []}\n",
     "t.yaml:2: 'kind' is missing, expected one of none, switch, rail, fat-tree, dragonfly",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "fabric: {kind: rail}\n",
     "t.yaml:2: 'tiers' is missing, expected a list of tiers",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "fabric: {kind: rail, tiers: []}\n",
     "t.yaml:2: the fabric has 0 tiers, expected 1 to 4",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "fabric: {kind: rail, tiers: leaf}\n",
     "t.yaml:2: 'tiers' is text, expected a list", "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: a, nodes: 1, oversubscription: 1}\n"
     "    - {name: b, nodes: 2, oversubscription: 1}\n"
     "    - {name: c, nodes: 4, oversubscription: 1}\n"
     "    - {name: d, nodes: 8, oversubscription: 1}\n"
     "    - {name: e}\n",
     "t.yaml:5: the fabric has 5 tiers, expected 1 to 4",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, nodes: 8, oversubscription: 1}\n"
     "    - {name: leaf}\n",
     "t.yaml:7: two tiers are called 'leaf'", "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, nodes: 8, oversubscription: 1}\n"
     "    - {name: spine, nodes: 4, oversubscription: 1}\n"
     "    - {name: core}\n",
     "t.yaml:7: 'spine' holds 4 nodes, expected a multiple of the 8 of 'leaf'",
     "tiers go from the nodes upwards, each a few units of the one before"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, nodes: 8, oversubscription: 1}\n"
     "    - {name: spine, nodes: 20, oversubscription: 1}\n"
     "    - {name: core}\n",
     "t.yaml:7: 'spine' holds 20 nodes, expected a multiple of the 8 of 'leaf'",
     "tiers go from the nodes upwards, each a few units of the one before"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, oversubscription: 1}\n"
     "    - {name: spine}\n",
     "t.yaml:6: 'nodes' is missing, expected how many nodes a unit of 'leaf' holds",
     "only the last tier takes all nodes"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, nodes: 8}\n"
     "    - {name: spine}\n",
     "t.yaml:6: 'leaf' needs either 'oversubscription' or 'uplink'", "1 is a non-blocking tier"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, nodes: 8, oversubscription: 2, uplink: 10GB/s}\n"
     "    - {name: spine}\n",
     "t.yaml:6: 'leaf' needs either 'oversubscription' or 'uplink'", "1 is a non-blocking tier"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, nodes: 8, oversubscription: 0}\n"
     "    - {name: spine}\n",
     "t.yaml:6: 'oversubscription' is 0, expected a number from 0.01 to 1000",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, nodes: 8, oversubscription: -1}\n"
     "    - {name: spine}\n",
     "t.yaml:6: 'oversubscription' is -1, expected a number from 0.01 to 1000",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, nodes: 8, oversubscription: 1}\n",
     "t.yaml:6: 'leaf' is the last tier, above it is nothing to link up to",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {name: leaf, nodes: 8}\n",
     "t.yaml:5: the fabric holds 8 nodes and the cluster has 32",
     "leave 'nodes' out of the last tier to hold any number"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - {nodes: 8}\n",
     "t.yaml:6: 'name' is missing, expected text", "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "nodes: 32\n"
     "fabric:\n"
     "  kind: fat-tree\n"
     "  tiers:\n"
     "    - leaf\n",
     "t.yaml:6: 'the value' is 'leaf', expected a mapping of keys to values",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "collectives: {inside: {allreduce: {latency: 5us}}}\n",
     "t.yaml:2: 'allreduce' is not a known key here", "did you mean 'all_reduce'?"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "collectives: {inside: {all_reduce: 5us}}\n",
     "t.yaml:2: 'all_reduce' is '5us', expected a mapping of keys to values",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "collectives: {inside: {all_reduce: {efficiency: 1.2}}}\n",
     "t.yaml:2: 'efficiency' is 1.2, expected a number from 1e-06 to 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "collectives: {inside: {all_reduce: {bandwith: 2GB/s}}}\n",
     "t.yaml:2: 'bandwith' is not a known key here", "did you mean 'bandwidth'?"},
    {CLUSTER_YAML,
     "base: dgx-a100\n"
     "collectives: {across: {}}\n",
     "t.yaml:2: 'across' is not a known key here", "known keys: inside, between"},
    {CLUSTER_JSON, "{\"base\": \"dgx-a100\", \"nodes\": 0}",
     "t.json:1: 'nodes' is '0', expected a whole number of at least 1",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_JSON,
     "{\"base\": \"dgx-a100\",\n"
     " \"nodes\": 2",
     "t.json:2: is not valid JSON: '}' expected near end of file",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_JSON, "{\"base\": \"dgx-a100\", \"base\": \"x\"}",
     "t.json:1: is not valid JSON: duplicate object key near '\"base\"'",
     "docs/cluster-file.md describes the format"},
    {CLUSTER_XML, "", "t.xml:1: is not valid XML: no element found",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML, "hello\n", "t.xml:1: is not valid XML: syntax error",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system>\n"
     "<cpu>\n",
     "t.xml:3: is not valid XML: no element found",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system>\n"
     "<cpu></system>\n",
     "t.xml:2: is not valid XML: mismatched tag",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system/>\n"
     "<system/>\n",
     "t.xml:2: is not valid XML: junk after document element",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML, "<topology/>\n", "t.xml:1: the root is <topology>, expected <system>",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML, "<system/>\n", "t.xml:1: the system has no device, expected <gpu> in a <pci>",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=0/>\n"
     "</system>\n",
     "t.xml:2: is not valid XML: not well-formed (invalid token)",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<!DOCTYPE s [<!ENTITY a \"aaaa\">]>\n"
     "<system/>\n",
     "t.xml:1: declares a document type, expected a plain topology",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<!DOCTYPE s SYSTEM \"file:///etc/passwd\">\n"
     "<system/>\n",
     "t.xml:1: declares a document type, expected a plain topology",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML, "<system>&other;</system>\n", "t.xml:1: is not valid XML: undefined entity",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system>\n"
     "ci busid=\"1\"><gpu dev=\"0\" sm=\"70\"/>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: is not valid XML: mismatched tag",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci><gpu dev=\"0\" sm=\"70\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: <pci> lacks its 'busid'",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"\"><gpu dev=\"0\" sm=\"70\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: <pci> lacks its 'busid'",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"1\"><gpu sm=\"70\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: <gpu> lacks its 'dev'",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"1\"><gpu dev=\"0\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: <gpu> lacks its 'sm'", "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"1\"><gpu dev=\"-1\" sm=\"70\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: <gpu> has dev=\"-1\", expected a whole number from 0 to 4095",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"1\"><gpu dev=\"one\" sm=\"70\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: <gpu> has dev=\"one\", expected a whole number from 0 to 4095",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"1\"><gpu dev=\"99999999999999999999\" sm=\"70\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: <gpu> has dev=\"99999999999999999999\", expected a whole number from 0 to 4095",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"1\"><gpu dev=\"0\" sm=\"33\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: no known device has sm 33",
     "name it in a cluster file: 'base: this.xml' and 'device: ...'"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"1\"><gpu dev=\"0\" sm=\"0\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:3: <gpu> has sm=\"0\", expected a whole number from 10 to 999",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\"></gpu></pci>\n"
     "<pci busid=\"1\"><gpu dev=\"0\" sm=\"70\"></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: two devices have dev=\"0\", first in line 3",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\"></gpu></pci>\n"
     "<pci busid=\"1\"><gpu dev=\"1\" sm=\"80\"></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: a device of sm 80 beside one of sm 70, expected equal devices",
     "describe a cluster of one kind of node"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\"></gpu></pci>\n"
     "<pci busid=\"0\"><pci busid=\"7\"/></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: two PCI devices have busid=\"0\"",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\"></gpu></pci>\n"
     "</cpu>\n"
     "<pci busid=\"9\"><gpu dev=\"1\" sm=\"70\"/></pci>\n"
     "</system>\n",
     "t.xml:1: 'dev1' has no way to 'dev0'", "a device stands in a <pci> below a <cpu>"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\">\n"
     "<nvlink target=\"9\" count=\"1\"/></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: an NVLink to 9, which is no device of this file",
     "dump the topology with every device visible"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\">\n"
     "<nvlink count=\"1\"/></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: <nvlink> lacks its 'target'",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\">\n"
     "<nvlink target=\"0\" count=\"1\"/></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: an NVLink from 0 to itself",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\">\n"
     "<nvlink target=\"1\" count=\"2\"/></gpu></pci>\n"
     "<pci busid=\"1\"><gpu dev=\"1\" sm=\"70\">\n"
     "<nvlink target=\"0\" count=\"1\"/></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: 2 NVLinks to 1, which has 1 back",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\">\n"
     "<nvlink target=\"1\" count=\"2\"/></gpu></pci>\n"
     "<pci busid=\"1\"><gpu dev=\"1\" sm=\"70\"></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: 2 NVLinks to 1, which has 0 back",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\">\n"
     "<nvlink target=\"1\" count=\"0\"/></gpu></pci><pci busid=\"1\"><gpu dev=\"1\" "
     "sm=\"70\"></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: <nvlink> has count=\"0\", expected a whole number from 1 to 1024",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\">\n"
     "<nvlink target=\"1\"/></gpu></pci><pci busid=\"1\"><gpu dev=\"1\" sm=\"70\"></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: <nvlink> lacks its 'count'",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\">\n"
     "<nvlink target=\"1\" count=\"1\"/>\n"
     "<nvlink target=\"1\" count=\"1\"/></gpu></pci><pci busid=\"1\"><gpu dev=\"1\" "
     "sm=\"70\"><nvlink target=\"0\" count=\"1\"/></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:5: a second <nvlink> to 1 in the same device",
     "several links are one <nvlink> with a count"},
    {CLUSTER_XML,
     "<system version=\"1\">\n"
     "<cpu numaid=\"0\">\n"
     "<pci busid=\"0\"><gpu dev=\"0\" sm=\"70\">\n"
     "<nvlink target=\"1\" count=\"1000000\" tclass=\"0x068000\"/></gpu></pci>\n"
     "</cpu>\n"
     "</system>\n",
     "t.xml:4: <nvlink> has count=\"1000000\", expected a whole number from 1 to 1024",
     "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one"},
};

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
     "describe its network in a cluster file (docs/cluster-file.md)"},
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

static void test_broken_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(BROKEN); i++) {
        struct cluster *cluster = NULL;
        enum cluster_format format = BROKEN[i].format;
        const char *text = BROKEN[i].text;
        expect_error(cluster_from_text(format, FILES[format], text, strlen(text), 0, &cluster),
                     BROKEN[i].message, BROKEN[i].hint);
    }
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
                 "docs/cluster-file.md describes the format");
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
    expect_error(
        read_repeated(CLUSTER_YAML, "device: cpu\nnode:\n  devices: 1\n  vertices:\n    socket:\n",
                      "      - s\n", 5),
        "t.yaml:7: two vertices are called 's'", "docs/cluster-file.md describes the format");
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
                 "docs/cluster-file.md describes the format");
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
