# Writes a text file as a NUL-terminated array of C: embed.cmake -D PAGE=... -D OUT=...
file(READ ${PAGE} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include \"report/page_room.h\"\n\nconst char PAGE_TEMPLATE[] = {\n${bytes}0};\n")
