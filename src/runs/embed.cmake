# Writes a file as a text of C, NUL at its end: embed.cmake -D TEXT=... -D OUT=...
# Each byte is a character constant: its value fits in `char` whether or not that has a sign.
file(READ ${TEXT} hex HEX)
string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
file(WRITE ${OUT} "extern const char RESIDUALS_TEXT[];\nconst char RESIDUALS_TEXT[] = {\n${bytes}0};\n")
