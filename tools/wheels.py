"""Builds the release wheels for Linux into dist/, and says of each what it weighs or why it was not built.

Called by `make wheels`. zig links against an old glibc or musl, so that one machine makes wheels for all; it comes from
the registry, in a virtual environment of its own. What cannot be had from there is Rust's library for a target: a
target without it is left out, with the command that adds it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
VENV = ROOT / ".venv-wheels"
ZIG = "ziglang==0.15.2"
TARGETS = {
    "x86_64-unknown-linux-gnu": "manylinux2014",
    "aarch64-unknown-linux-gnu": "manylinux2014",
    "x86_64-unknown-linux-musl": "musllinux_1_2",
    "aarch64-unknown-linux-musl": "musllinux_1_2",
}
HEAVIEST = 2_500_000


def main() -> int:
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    built, said, good = 0, [], True
    for target, tag in TARGETS.items():
        if not Path(sysroot, "lib", "rustlib", target, "lib").is_dir():
            said.append(f"not built  {target}: this Rust has no library for it; rustup target add {target}")
            continue
        wheel = build(target, tag)
        if isinstance(wheel, str):
            said.append(f"not built  {target}: {wheel}")
            good = False
            continue
        built += 1
        size = wheel.stat().st_size
        verdict = "" if size <= HEAVIEST else f"; heavier than the {HEAVIEST / 1e6:g} MB it may weigh"
        good = good and size <= HEAVIEST and complete(wheel)
        said.append(f"built      {wheel.name}: {size / 1e6:.2f} MB{verdict}")
    print("\n".join(said))
    print(f"{built} of {len(TARGETS)} wheels are in {DIST.relative_to(ROOT)}/")
    return 0 if good and built else 1


def build(target: str, tag: str) -> Path | str:
    """The wheel, or what kept it from being built."""
    binaries = VENV / "bin"
    if not (binaries / "maturin").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        pip: list[str | Path] = [binaries / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, "-c", ROOT / "requirements-dev.txt", "maturin", ZIG], check=False).returncode != 0:
            return "maturin and ziglang could not be installed"
    for old in DIST.glob(f"*{tag.split('_', maxsplit=1)[0]}*_{target.split('-', maxsplit=1)[0]}.whl"):
        old.unlink()
    before = set(DIST.glob("*.whl"))
    command: list[str | Path] = [binaries / "maturin", "build", "--release", "--locked", "--zig", "--target", target]
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(VENV)}
    environment.pop("PYO3_PYTHON", None)
    done = subprocess.run(
        [*command, "--compatibility", tag, "--out", DIST],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout)
        errors = [line for line in done.stdout.splitlines() if "error" in line.lower()]
        return errors[0].strip() if errors else "maturin failed, see above"
    return next(path for path in DIST.glob("*.whl") if path not in before)


def complete(wheel: Path) -> bool:
    """Whether what the import needs is in it, and what type checkers and lawyers need."""
    names = zipfile.ZipFile(wheel).namelist()
    wanted = ["steadycall/__init__.py", "steadycall/_native.abi3.so", "steadycall/_native.pyi", "steadycall/py.typed"]
    missing = [name for name in wanted if name not in names]
    missing += [name for name in ("LICENSE-MIT", "LICENSE-APACHE") if not any(n.endswith(name) for n in names)]
    for name in missing:
        print(f"{wheel.name} lacks {name}", file=sys.stderr)
    return not missing


if __name__ == "__main__":
    sys.exit(main())
