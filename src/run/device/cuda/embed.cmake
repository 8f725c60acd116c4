# Writes compiled kernels as data of C: embed.cmake -D DATA=... -D NAME=... -D OUT=...
file(READ ${DATA} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" lines "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${lines}")
file(WRITE ${OUT} "#include \"run/device/cuda/cuda.h\"\n\nextern struct cuda_code CUDA_CODE_${NAME};\n"
  "static const unsigned char DATA[] __attribute__((aligned(16))) = {\n${bytes}0};\n"
  "struct cuda_code CUDA_CODE_${NAME} = {.data = DATA};\n")
