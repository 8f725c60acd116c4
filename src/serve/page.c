/* page.c - the explorer's page as a file of its own. */
#include <string.h>

#include "serve/room.h"

struct page_file {
    const char *origin;
};

/* The page asks the origin that stands in its first script. */
static void put_page(void *context, FILE *file)
{
    static const char PLACE[] = "const SERVER = \"\";";
    const struct page_file *page = context;
    const char *place = strstr(EXPLORER_PAGE, PLACE);
    if (!place) {
        fputs(EXPLORER_PAGE, file);
        return;
    }
    fwrite(EXPLORER_PAGE, 1, (size_t)(place - EXPLORER_PAGE), file);
    fprintf(file, "const SERVER = \"%s\";", page->origin);
    fputs(place + strlen(PLACE), file);
}

weft_status explorer_write(const char *path, const char *origin)
{
    struct page_file page = {origin};
    if (strncmp(origin, "http", 4) != 0 || strpbrk(origin, "\"\\<>\n\r "))
        return bad_argument("such as http://10.0.0.5:8157", "'%.100s' is no server", origin);
    return file_write(path, put_page, &page);
}
