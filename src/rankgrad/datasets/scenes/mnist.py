"""Copy or download the MNIST files, check their contents, and read them."""

import gzip
import hashlib
import shutil
import socket
import zlib
from pathlib import Path

import numpy as np

from rankgrad.io.atomic import replaced_file

__all__ = ["FILES", "check", "copy", "download", "read"]

# MD5 of the uncompressed contents; gzip wrappers differ between sources.
FILES = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def check(folder: str | Path) -> None:
    """Check the four files in `folder` by their contents.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is truncated, damaged, or has the name of another one.
    """
    for name in FILES:
        _contents(_place(Path(folder), name))


def _place(folder: Path, name: str) -> Path:
    plain, packed = folder / name, folder / f"{name}.gz"
    return packed if packed.is_file() and not plain.is_file() else plain


def _contents(path: Path) -> bytes:
    """Return the uncompressed and checked contents of one of the four files, plain or gzip."""
    name = path.name.removesuffix(".gz")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; MNIST is the four files {', '.join(FILES)}")
    try:
        raw = path.read_bytes()
        contents = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: damaged or truncated gzip file ({error}); download it again") from error
    digest = hashlib.md5(contents, usedforsecurity=False).hexdigest()
    if digest != FILES[name]:
        other = next((file for file, value in FILES.items() if value == digest), None)
        what = f"it holds the contents of {other}" if other else f"{len(contents)} bytes, MD5 {digest}"
        raise ValueError(f"{path}: not MNIST's {name}: {what}, expected MD5 {FILES[name]}; download it again")
    return contents


def copy(root: str | Path, folder: str | Path) -> None:
    """Copy the four files from somewhere below `root`, plain or gzip, into `folder`, uncompressed and checked.

    Raises:
        FileNotFoundError: a file is nowhere below `root`.
        ValueError: a file's contents do not match its name; it is not copied.
    """
    root, folder = Path(root), Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder; set RANKGRAD_MNIST_ROOT to the folder with the MNIST files")
    for name in FILES:
        places = [path for path in (*root.rglob(name), *root.rglob(f"{name}.gz")) if path.is_file()]
        if not places:
            raise FileNotFoundError(f"{root}: neither {name} nor {name}.gz is below it; expected MNIST's four files")
        contents = _contents(min(places, key=lambda path: (len(path.parts), path)))
        with replaced_file(folder / name) as partial:
            partial.write_bytes(contents)


def download(folder: str | Path, *, timeout: float) -> None:
    """Download the four files into `folder`, uncompressed and checked.

    Args:
        folder: folder for the files.
        timeout: seconds after which a silent connection fails.

    Raises:
        OSError: the download failed.
        ValueError: the downloaded files are not MNIST.
    """
    from torchvision.datasets import MNIST  # takes seconds to import, and is rarely needed

    folder = Path(folder)
    scratch = folder.with_name(f"{folder.name}.partial-download")
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(timeout)  # torchvision's download has no such argument
    try:
        MNIST(str(scratch), download=True)
        copy(scratch, folder)
    except RuntimeError as error:
        raise OSError(f"MNIST could not be downloaded ({error})") from error
    finally:
        socket.setdefaulttimeout(before)
        shutil.rmtree(scratch, ignore_errors=True)


def read(folder: str | Path, *, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Read one of MNIST's two splits: images (n, 28, 28) uint8 and labels (n,).

    Raises:
        FileNotFoundError, ValueError: see `check`, for these two files.
    """
    prefix = "t10k" if test else "train"
    images = _contents(_place(Path(folder), f"{prefix}-images-idx3-ubyte"))
    labels = _contents(_place(Path(folder), f"{prefix}-labels-idx1-ubyte"))
    # IDX files have a header of 4 bytes plus 4 per dimension. The contents are known, so there is nothing to parse.
    return np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28), np.frombuffer(labels, np.uint8, offset=8)
