#!/bin/sh
# layers.sh: each layer includes only what lies below it (docs: CONTRIBUTING.md, "Layers").
#   kernels <- { weights, tokenizer } <- engine <- tools;   the engine never includes the tokenizer;
#   engine/cost.* includes the configuration, the plan and the names of the terms only.
cd "$(dirname "$0")/.." || exit 1
bad=0
forbid() { # forbid FILES... -- FOLDERS: no include of these folders in these files
    files=; while [ "$1" != -- ]; do files="$files $1"; shift; done; shift
    for folder in "$@"; do
        # shellcheck disable=SC2086
        hits=$(grep -Hn "#include \"$folder/" $files /dev/null 2>/dev/null)
        [ -n "$hits" ] && { echo "$hits"; echo "layers: the files above may not include $folder/"; bad=1; }
    done
}
forbid kernels/*.[ch] -- weights tokenizer engine tools tests
forbid weights/*.[ch] -- tokenizer engine tools tests
forbid tokenizer/*.[ch] -- weights engine tools tests
forbid engine/*.[ch] -- tokenizer tools tests
forbid tools/*.[ch] -- tests
if ls engine/cost*.c >/dev/null 2>&1; then
    hits=$(grep -Hn '#include "' engine/cost*.[ch] | grep -vE '"(weights/config|engine/plan|engine/cost(_[a-z]+)?|kernels/(terms|dtype|status|sizes))\.h"')
    [ -n "$hits" ] && { echo "$hits"; echo "layers: the prediction sees the configuration and the plan only"; bad=1; }
fi
hits=$(grep -nE '\b(printf|puts|exit|abort)\(|std(out|err)\b' kernels/*.c weights/*.c tokenizer/*.c engine/*.c 2>/dev/null | grep -v 'layers: allowed')
[ -n "$hits" ] && { echo "$hits"; echo "layers: only tools print or exit"; bad=1; }
exit $bad
