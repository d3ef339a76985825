# Says in one line what this machine lacks; says nothing when it lacks nothing.
#   sh tools/need.sh PYTHON [lints]
python=$1

if ! command -v cargo >/dev/null 2>&1; then
    echo "cargo is missing: install Rust 1.88 or later, with rustup or as your system's package rust or cargo"
elif ! command -v cc >/dev/null 2>&1; then
    echo "cc is missing: install a C compiler, such as your system's package gcc or clang"
elif ! minor=$(cargo --version | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p') || [ "${minor:-0}" -lt 88 ]; then
    echo "$(cargo --version) is too old: install Rust 1.88 or later (rustup update)"
elif [ -z "$python" ]; then
    echo "Python 3.11 or later is missing: install it, or name it as in: make PYTHON=python3.12"
elif ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    echo "$python has no venv: install your system's package python3-venv"
elif [ "$2" = lints ] && ! cargo fmt --version >/dev/null 2>&1; then
    echo "cargo fmt is missing: rustup component add rustfmt, or your system's package rustfmt"
elif [ "$2" = lints ] && ! cargo clippy --version >/dev/null 2>&1; then
    echo "cargo clippy is missing: rustup component add clippy, or your system's package rust-clippy"
fi
