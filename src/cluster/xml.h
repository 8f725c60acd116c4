/* xml.h - an XML document as a tree whose every element knows its line. Inside this room only.
 *
 *   I1  Depth, elements and attributes are bounded, document types (and with them entities) are
 *       refused: no input can exhaust stack or memory.
 */
#ifndef WEFT_CLUSTER_XML_H
#define WEFT_CLUSTER_XML_H

#include "cluster/topology.h"

struct xml_element {
    const char *name;
    const char *file;
    int line;
    const char **attributes; /* name, value, name, value, ..., NULL */
    struct xml_element *first, *last, *next, *parent;
};

weft_status xml_parse(struct arena *keep, const char *file, const char *text, size_t len,
                      struct xml_element **out);
bool element_is(const struct xml_element *element, const char *name);
/* NULL if the element has no such attribute. */
const char *element_attribute(const struct xml_element *element, const char *name);
const struct xml_element *element_child(const struct xml_element *element, const char *name);

#endif
