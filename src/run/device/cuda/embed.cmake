# Writes a C file that has compiled kernels as data: embed.cmake -D DATA=... -D NAME=... -D OUT=...
# The assembler reads them. As an array of C they took the compiler longer than some kernels took nvcc.
file(WRITE ${OUT} "#include \"run/device/cuda/cuda.h\"\n\nextern struct cuda_code CUDA_CODE_${NAME};\n"
  "extern const unsigned char CUDA_DATA_${NAME}[];\n"
  "__asm__(\".pushsection .rodata\\n.balign 16\\n.globl CUDA_DATA_${NAME}\\n.hidden CUDA_DATA_${NAME}\\n\"\n"
  "        \"CUDA_DATA_${NAME}:\\n.incbin \\\"${DATA}\\\"\\n.byte 0\\n.popsection\\n\");\n"
  "struct cuda_code CUDA_CODE_${NAME} = {.data = CUDA_DATA_${NAME}};\n")
