"""Download data from a package on PyPI by name, version, and hash; the package is never installed."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from email.parser import HeaderParser
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from rankgrad.io.atomic import replaced_folder


def check_sha256(content: bytes, expected: str, *, source: object) -> None:
    """Raise ValueError if the contents of a file or an address are not the expected ones."""
    digest = sha256(content).hexdigest()
    if digest != expected:
        raise ValueError(f"{source}: its SHA-256 is {digest}, expected {expected}: download it again")


@dataclass(frozen=True)
class PackagedFile:
    """A file, a folder, or the files of a pattern in the wheel of a package, or the whole wheel.

    Attributes:
        package, version, wheel: name and version of the package, and the SHA-256 of its wheel.
        origin: the origin of the data.
        member, digest: path of the file or folder in the wheel, or a pattern of files, and the SHA-256 of its contents
            (concatenated by name if there are several files); None for the wheel itself.
    """

    package: str
    version: str
    wheel: str
    origin: str
    member: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        return Path(self.member or f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl").name

    def is_whole(self, folder: str | Path) -> bool:
        """Return whether a folder has the file with the expected contents."""
        digest = sha256()
        for path in sorted(Path(folder).glob(self.name)):
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                digest.update(file.read_bytes() if file.is_file() else b"")
        return digest.hexdigest() == (self.digest or self.wheel)

    def complete(self, folder: str | Path) -> None:
        """Download the file if a folder does not have it, and print its license."""
        if not self.is_whole(folder):
            print(self.fetch(folder, timeout=60))

    def fetch(self, folder: str | Path, *, timeout: float) -> str:
        """Download the wheel with pip, and write the file and the package's license texts to a folder atomically.

        Args:
            folder: the folder to replace.
            timeout: seconds after which a silent connection fails.

        Returns:
            The license that the package states.

        Raises:
            OSError: pip cannot download the wheel, or its hash differs.
            ValueError: the file in the wheel is missing or differs.
        """
        with TemporaryDirectory() as scratch:
            wheel = self._downloaded(Path(scratch), timeout)
            with ZipFile(wheel) as archive, replaced_folder(folder) as partial:
                if self.member is None:
                    shutil.copyfile(wheel, partial / self.name)
                else:
                    self._unpack(archive, self.member, partial)
                if not self.is_whole(partial):
                    raise ValueError(f"{wheel.name}: {self.member} is not the expected file: its SHA-256 differs")
                return self._licenses(archive, partial)

    def _downloaded(self, folder: Path, timeout: float) -> Path:
        requirement = folder / "requirement.txt"
        requirement.write_text(f"{self.package}=={self.version} --hash=sha256:{self.wheel}\n")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        command += ["--retries", "1", "--timeout", f"{timeout:g}", "--dest", str(folder), "-r", str(requirement)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no wheel came"]
            reason = next((line for line in lines if line.startswith("ERROR")), lines[-1])
            if "DO NOT MATCH THE HASHES" in done.stderr:
                reason = f"its SHA-256 is not {self.wheel}: the download is partial, or the package was changed"
            raise OSError(f"{self.package} {self.version} could not be downloaded with pip: {reason}")
        return next(folder.glob("*.whl"))

    def _unpack(self, archive: ZipFile, member: str, folder: Path) -> None:
        for name in archive.namelist():
            if fnmatch(name, member) or name.startswith(f"{member}/"):
                target = folder / Path(name).relative_to(Path(member).parent)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))

    def _licenses(self, archive: ZipFile, folder: Path) -> str:
        texts = [
            name
            for name in archive.namelist()
            if ".dist-info/" in name and Path(name).name.startswith(("LICENSE", "COPYING"))
        ]
        for name in texts:
            (folder / Path(name).name).write_bytes(archive.read(name))
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
        stated = headers["License-Expression"] or headers["License"] or "not in the metadata"
        kept = f" ({', '.join(sorted(Path(name).name for name in texts))} kept with the data)" if texts else ""
        return f"{self.package} {self.version}: license {stated}{kept}. {self.origin}"
