# Writes a text file as a NUL-terminated array of C: embed.cmake -D TEXT=... -D OUT=... -D HEADER=... -D NAME=...
# Each byte is a character constant: its value fits in `char` whether or not that has a sign.
file(READ ${TEXT} hex HEX)
string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
string(REPEAT "'\\\\x..'," 12 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include \"${HEADER}\"\n\nconst char ${NAME}[] = {\n${bytes}0};\n")
