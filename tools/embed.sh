#!/bin/sh
# embed.sh ARRAY FILE...: prints C source with each file's text as a string: { name without folder and ending, text }.
# -I. is on the compiler's path, so the struct comes from kernels/embedded.h.
array=$1; shift
printf '#include "kernels/embedded.h"\nextern const embedded_file %s[];\nconst embedded_file %s[] = {\n' "$array" "$array"
for f in "$@"; do
    name=$(basename "$f" .json)
    # Pieces of one line each: a string literal has a limit, an array of characters has none.
    printf '    {"%s", (const char[]){' "$name"
    od -An -v -tu1 "$f" | sed -e 's/  */ /g' -e 's/^ //' -e 's/ /,/g' -e 's/$/,/'
    printf '0}},\n'
done
printf '    {0, 0},\n};\n'
