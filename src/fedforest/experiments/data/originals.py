"""The original files of a data set: in a folder, in archives of it, or at a mirror.

A mirror is an address that the user gives. Files are fetched one after the other with a limit of
size and a deadline, into a folder that is removed afterwards.
"""

import gzip
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path

from fedforest.errors import DataError
from fedforest.experiments.data.catalogue import PaperDataSet

MOST_BYTES = 2 * 1024**3  # of one file
SILENT_SECONDS = 60.0
_CHUNK = 2**20


def find_originals(data: PaperDataSet, source: str, scratch: Path) -> Mapping[str, Path]:
    """Return where each original file is; raises `DataError` for those that are missing.

    `source` is a folder, an archive or an http address; `scratch` takes what is unpacked.
    """
    if source.startswith(("http://", "https://")):
        return _download(data, source, scratch)
    folder = Path(source).expanduser()
    if not folder.exists():
        raise DataError(f"there is no folder or archive {source!r}")
    found = {name: _find(name, folder, scratch) for name in data.originals}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise DataError(
            f"{source} has no {', '.join(missing)}, neither plain nor in a .gz or .zip file; get "
            f"it from {data.source}"
        )
    return {name: path for name, path in found.items() if path is not None}


def _find(name: str, folder: Path, scratch: Path) -> Path | None:
    files = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.is_file())
    for path in files:
        if path.name == name:
            return path
        if path.name == f"{name}.gz":
            with gzip.open(path) as packed, (scratch / name).open("wb") as plain:
                shutil.copyfileobj(packed, plain)
            return scratch / name
    for path in files:
        if path.suffix == ".zip" and (unpacked := _unzip(name, path, scratch)) is not None:
            return unpacked
    return None


def _unzip(name: str, archive: Path, scratch: Path) -> Path | None:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.namelist():
            if Path(member).name in (name, f"{name}.gz"):
                out = scratch / Path(member).name  # the name alone: no path of the archive
                with packed.open(member) as source, out.open("wb") as target:
                    shutil.copyfileobj(source, target)
                return out if out.name == name else _find(name, out, scratch)
    return None


def _download(data: PaperDataSet, address: str, scratch: Path) -> Mapping[str, Path]:
    """Fetch an archive, or each file, plain or packed by gzip, below an address."""
    if address.endswith(".zip"):
        archive = scratch / "archive.zip"
        _fetch(address, archive)
        return find_originals(data, str(archive), scratch)
    for name in data.originals:
        try:
            _fetch(f"{address.rstrip('/')}/{name}", scratch / name)
        except DataError:
            _fetch(f"{address.rstrip('/')}/{name}.gz", scratch / f"{name}.gz")
            _find(name, scratch / f"{name}.gz", scratch)
    return {name: scratch / name for name in data.originals}


def _fetch(address: str, target: Path) -> None:
    try:
        with (
            urllib.request.urlopen(address, timeout=SILENT_SECONDS) as source,
            target.open("wb") as file,
        ):
            n_bytes = 0
            while chunk := source.read(_CHUNK):
                n_bytes += len(chunk)
                if n_bytes > MOST_BYTES:
                    raise DataError(f"{address} has more than {MOST_BYTES:,} bytes")
                file.write(chunk)
    except (urllib.error.URLError, OSError) as error:
        target.unlink(missing_ok=True)
        raise DataError(f"{address} could not be fetched: {error}") from error
