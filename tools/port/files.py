"""Files and folders in, ported files out: nothing is written before everything was read."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from musaagent.errors import InfraError, UsageError
from musaagent.tools.host.reading import read
from musaagent.tools.port.cxx import defined_names, port_cxx
from musaagent.tools.port.portability import find_remarks
from musaagent.tools.port.python_source import cxx_texts, port_python
from musaagent.tools.port.remarks import Ported, Remark
from musaagent.tools.port.sdk_tables import find_tables
from musaagent.tools.port.tables import Tables

CXX_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".inl")
PYTHON_SUFFIXES = (".py",)
_NEW_SUFFIX = {".cu": ".mu", ".cuh": ".muh"}
_MOST_BYTES = 4 << 20
_SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "build", "node_modules", ".venv"})


@dataclass(frozen=True)
class PortedFile:
    """One file with what came of it."""

    path: Path
    """Relative to the folder that was given, or the file's own name."""
    target: Path
    """The new name, relative in the same way."""
    before: str
    ported: Ported

    @property
    def changed(self) -> bool:
        return self.ported.text != self.before or self.path != self.target

    def diff(self) -> str:
        """As `patch -p1` reads it."""
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.ported.text.splitlines(keepends=True),
            f"a/{self.path}",
            f"b/{self.target}",
        )
        return "".join(
            line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
            for line in lines
        )


@dataclass(frozen=True)
class Porting:
    """All files of one call."""

    arch: str
    tables: str
    """Where the tables came from."""
    files: tuple[PortedFile, ...] = field(default_factory=tuple)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        return tuple(r for file in self.files for r in file.ported.remarks)

    @property
    def clean(self) -> bool:
        return not self.remarks


def port(path: Path, arch: str, tables: Tables | None = None) -> Porting:
    """Port one file, or every source below a folder. Raises UsageError for bad input."""
    known = tables or find_tables()
    root, paths = _sources(path)
    texts = {p: _read(root / p) for p in paths}
    own = _own_names(texts)
    headers = frozenset(p.name for p in paths if p.suffix == ".cuh")
    files = []
    for relative, text in texts.items():
        ported = _port_text(relative, text, arch, known, own, headers)
        suffix = _NEW_SUFFIX.get(relative.suffix, relative.suffix)
        files.append(PortedFile(relative, relative.with_suffix(suffix), text, ported))
    return Porting(arch, known.source, tuple(files))


def write(porting: Porting, out: Path, *, force: bool = False) -> list[Path]:
    """Write every file below `out` (or to it, for one file). Raises UsageError, InfraError."""
    single = len(porting.files) == 1 and out.suffix != "" and not out.is_dir()
    places = [out] if single else [out / file.target for file in porting.files]
    taken = [p for p in places if p.exists()]
    if taken and not force:
        raise UsageError(f"{taken[0]}: is there already; give --force to replace it")
    for place, file in zip(places, porting.files, strict=True):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(file.ported.text, encoding="utf-8", newline="")
        except OSError as error:
            raise InfraError(f"{place}: {error.strerror}") from None
    return places


def default_out(path: Path) -> Path:
    """`DIR_musa` for a folder, `NAME.mu` beside a `.cu`, `NAME_musa.py` for a candidate."""
    if path.is_dir():
        return path.resolve().with_name(path.resolve().name + "_musa")
    if new := _NEW_SUFFIX.get(path.suffix):
        return path.with_suffix(new)
    return path.with_name(f"{path.stem}_musa{path.suffix}")


def _port_text(
    path: Path,
    text: str,
    arch: str,
    tables: Tables,
    own: frozenset[str],
    headers: frozenset[str],
) -> Ported:
    label = str(path)
    if path.suffix not in PYTHON_SUFFIXES:
        ported = port_cxx(text, tables, own_names=own, own_headers=headers, source=label)
        lint = find_remarks(text, arch, source=label)
        return _with(ported, lint, text)
    try:
        ported = port_python(text, tables, arch, source=label)
        pieces = cxx_texts(text)
    except SyntaxError as error:
        raise UsageError(f"{path}, line {error.lineno}: not Python: {error.msg}") from None
    lint = tuple(
        remark.model_copy(update={"line": line_of(remark.line)})
        for piece, line_of in pieces
        for remark in find_remarks(piece, arch, source=label)
    )
    return _with(ported, lint, text)


def _with(ported: Ported, lint: Sequence[Remark], text: str) -> Ported:
    lines = text.splitlines()
    found = [*ported.remarks, *lint]
    shown = [
        r.model_copy(update={"text": lines[r.line - 1].strip()}) if 0 < r.line <= len(lines) else r
        for r in found
    ]
    shown.sort(key=lambda r: r.line)
    return ported.model_copy(update={"remarks": tuple(shown)})


def _own_names(texts: dict[Path, str]) -> frozenset[str]:
    """What the program defines anywhere is its own, in every file."""
    names: set[str] = set()
    if len(texts) > 1:
        for path, text in texts.items():
            if path.suffix not in PYTHON_SUFFIXES:
                names |= defined_names(read(text))
    return frozenset(names)


def _sources(path: Path) -> tuple[Path, list[Path]]:
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    known = CXX_SUFFIXES + PYTHON_SUFFIXES
    if path.is_file():
        if path.suffix not in known:
            raise UsageError(f"{path}: port reads {', '.join(known)}")
        return path.parent, [Path(path.name)]
    found = [
        p.relative_to(path)
        for p in sorted(path.rglob("*"))
        if p.is_file() and p.suffix in known and not _SKIPPED_FOLDERS & set(p.parts)
    ]
    if not found:
        raise UsageError(f"{path}: no file below it ends in {', '.join(known)}")
    return path, found


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path}: larger than {_MOST_BYTES >> 20} MiB")
        with path.open(encoding="utf-8", newline="") as stream:  # line ends stay as they are
            return stream.read()
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
