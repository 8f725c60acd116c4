/* xml.c - parses XML into a tree of elements, with expat. */
#include "cluster/xml.h"

#include <expat.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_ELEMENTS = 65536, MAX_ATTRIBUTES = 64 };

struct xml_source {
    XML_Parser parser;
    struct arena *keep;
    const char *file;
    struct xml_element *root, *open; /* open: the element that is being read */
    int depth, elements;
    weft_status status;
};

bool element_is(const struct xml_element *element, const char *name)
{
    return strcmp(element->name, name) == 0;
}

const char *element_attribute(const struct xml_element *element, const char *name)
{
    for (const char **a = element->attributes; *a; a += 2)
        if (strcmp(a[0], name) == 0)
            return a[1];
    return NULL;
}

const struct xml_element *element_child(const struct xml_element *element, const char *name)
{
    for (const struct xml_element *child = element->first; child; child = child->next)
        if (element_is(child, name))
            return child;
    return NULL;
}

static void refuse(struct xml_source *source, const char *what)
{
    source->status =
        bad_input(source->file, (int)XML_GetCurrentLineNumber(source->parser), NULL, "%s", what);
    XML_StopParser(source->parser, XML_FALSE);
}

static const char **copy_attributes(struct arena *keep, const char **from)
{
    size_t count = 0;
    while (from[count])
        count++;
    const char **to = ARENA_ARRAY(keep, const char *, count + 1);
    for (size_t i = 0; i < count; i++)
        to[i] = arena_copy_text(keep, from[i]);
    return to;
}

static void append(struct xml_source *source, struct xml_element *element)
{
    struct xml_element *parent = source->open;
    if (!parent)
        source->root = element;
    else if (parent->last)
        parent->last->next = element;
    else
        parent->first = element;
    if (parent)
        parent->last = element;
}

static void on_start(void *user, const char *name, const char **attributes)
{
    struct xml_source *source = user;
    if (source->status)
        return;
    if (++source->depth > MAX_DEPTH) {
        refuse(source, "is nested deeper than the 64 levels that Weft reads");
        return;
    }
    if (++source->elements > MAX_ELEMENTS) {
        refuse(source, "has more than the 65536 elements that Weft reads");
        return;
    }
    if (XML_GetSpecifiedAttributeCount(source->parser) > 2 * MAX_ATTRIBUTES) {
        refuse(source, "has an element of more than 64 attributes");
        return;
    }
    struct xml_element *element = ARENA_NEW(source->keep, struct xml_element);
    *element = (struct xml_element){.name = arena_copy_text(source->keep, name),
                                    .file = source->file,
                                    .line = (int)XML_GetCurrentLineNumber(source->parser),
                                    .attributes = copy_attributes(source->keep, attributes),
                                    .parent = source->open};
    append(source, element);
    source->open = element;
}

static void on_end(void *user, const char *name)
{
    struct xml_source *source = user;
    (void)name;
    if (source->status)
        return;
    source->depth--;
    source->open = source->open->parent;
}

static void on_doctype(void *user, const char *name, const char *system, const char *public,
                       int internal)
{
    (void)name, (void)system, (void)public, (void)internal;
    refuse(user, "declares a document type, expected a plain topology");
}

weft_status xml_parse(struct arena *keep, const char *file, const char *text, size_t len,
                      struct xml_element **out)
{
    struct xml_source source = {
        .parser = XML_ParserCreate(NULL), .keep = keep, .file = arena_copy_text(keep, file)};
    if (!source.parser)
        return failure("expat could not start");
    XML_SetUserData(source.parser, &source);
    XML_SetElementHandler(source.parser, on_start, on_end);
    XML_SetStartDoctypeDeclHandler(source.parser, on_doctype);
    enum XML_Status parsed = XML_Parse(source.parser, text, (int)len, XML_TRUE);
    if (parsed != XML_STATUS_OK && source.status == WEFT_OK)
        source.status =
            bad_input(source.file, (int)XML_GetCurrentLineNumber(source.parser), NULL,
                      "is not valid XML: %s", XML_ErrorString(XML_GetErrorCode(source.parser)));
    XML_ParserFree(source.parser);
    *out = source.root;
    return source.status;
}
