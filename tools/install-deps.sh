#!/usr/bin/env bash
# Installs the Debian packages that Weft needs and this machine lacks; quick when nothing is missing.
#
#   tools/install-deps.sh build         what it takes to compile and run
#   tools/install-deps.sh build test    and what `make test` and `make fuzz` take
#   tools/install-deps.sh build deb     and what `make deb` takes
#   tools/install-deps.sh build wheel   and what `make wheel-check` takes
#   tools/install-deps.sh cross         what `make cross` and `make bare` take besides
set -euo pipefail

BUILD_PACKAGES=(
    gcc libc6-dev make cmake ninja-build pkg-config
    libjansson-dev libyaml-dev libsqlite3-dev libxxhash-dev libhwloc-dev libexpat1-dev
    libprotobuf-c-dev protobuf-c-compiler libonnx-dev libmicrohttpd-dev libcmocka-dev
    libopenblas-openmp-dev libopenmpi-dev openmpi-bin
)
TEST_PACKAGES=(
    clang-19 lld-19 libclang-rt-19-dev llvm-19 clang-format-19 clang-tidy-19 cppcheck shellcheck
    libonnx-testdata python3 mandoc chromium
)
DEB_PACKAGES=(build-essential debhelper dh-python dpkg-dev fakeroot lintian python3 mmdebstrap arch-test qemu-user-static)
WHEEL_PACKAGES=(python3 python3-venv)
case $(uname -m) in
x86_64) CROSS_PACKAGES=(gcc-aarch64-linux-gnu mmdebstrap arch-test qemu-user-static) ;;
*) CROSS_PACKAGES=(gcc-x86-64-linux-gnu mmdebstrap arch-test qemu-user-static) ;;
esac

packages=()
for set in "$@"; do
    case $set in
    build) packages+=("${BUILD_PACKAGES[@]}") ;;
    test) packages+=("${TEST_PACKAGES[@]}") ;;
    deb) packages+=("${DEB_PACKAGES[@]}") ;;
    wheel) packages+=("${WHEEL_PACKAGES[@]}") ;;
    cross) packages+=("${CROSS_PACKAGES[@]}") ;;
    *) echo "install-deps: no set of packages is called '$set' (build, test, deb, wheel, cross)" >&2 && exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "install-deps: this is not Debian; going on with what is here. Weft needs what these" \
        "packages of Debian 12 hold: ${packages[*]}" >&2
    exit 0
fi

installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
    grep -qx "$package installed" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=(env)
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        cat >&2 <<TEXT
install-deps: these packages are missing, and there is neither root nor sudo to install them:
    ${missing[*]}
Ask someone who may: apt-get install --no-install-recommends ${missing[*]}
TEXT
        exit 1
    fi
    as_root=(sudo env)
fi

echo "installing ${missing[*]}"
apt() { "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -qq "$@"; }
# A stale or unreachable list may still do for the packages at hand; the installation will tell.
apt update || echo "install-deps: the package lists could not be refreshed" >&2
apt install -y --no-install-recommends "${missing[@]}" >/dev/null
