#!/bin/sh
# deps.sh [PACKAGE...]: installs what is missing of the packages that building and testing need.
# Silent when nothing is missing. Without root and without sudo it lists the packages and the command, and fails.
set -eu
packages=${*:-"gcc make libjansson-dev libzip-dev libpcre2-dev libutf8proc-dev libcmocka-dev libopenblas0-pthread"}

# Fast path: one check a build, so that `make` on an installed machine costs nothing.
command -v dpkg-query >/dev/null 2>&1 || exit 0 # not Debian: the compiler will name what is missing
missing=
for p in $packages; do
    dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing="$missing $p"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then as_root=; elif command -v sudo >/dev/null 2>&1; then as_root=sudo; else
    echo "tally: these packages are missing:$missing" >&2
    echo "tally: install them as root: apt-get update && apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi
echo "tally: installing with apt:$missing" >&2
$as_root apt-get update -q >&2
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -q --no-install-recommends $missing >&2
