"""VideoMem for memorability of videos, read from its public layout (SoDeep, Section 4.2.1)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from rankops.datasets.public.reading import (
    check_listed,
    check_shares,
    csv_rows,
    measure_photos,
    photo_expectations,
    pieces,
    require,
    score_of,
    share_of,
)
from rankops.io.images import BrokenFile, as_jpeg, squared
from rankops.io.parquet import IMAGE, read_table

__all__ = ["FRAMES", "LAYOUT", "SCHEMA", "check", "expectations", "measure", "tables"]

FRAMES = 7  # of a video of 7 seconds; the paper averages the scores of these
LAYOUT = """\
videomem/             the contents of the dataset's dev-set
  ground-truth/
    ground-truth_dev-set.csv   with the columns video, short-term_memorability, long-term_memorability
  sources/            video1.webm and so on; the option `videos` names another folder
"""
SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("frames", pa.list_(IMAGE, FRAMES)), ("score", pa.float32())]
)
LIST = "ground-truth/ground-truth_dev-set.csv"
TARGETS = ("short-term_memorability", "long-term_memorability")
# A file that was cut off ends earlier than its header says, without an error from the decoder.
LEAST_SHARE = 0.9


def tables(
    raw: str | Path,
    split: str,
    skipped: list[str] | None = None,
    *,
    size: int,
    threads: int,
    seed: int,
    target: Literal["short-term_memorability", "long-term_memorability"] = "short-term_memorability",
    videos: str = "sources",
    val_share: float = 0.1,
    test_share: float = 0.2,
    skip_broken: bool = False,
) -> Iterator[pa.Table]:
    """One split in pieces: `id`, `name`, `frames` (seven, evenly spaced) and `score` in [0, 1].

    The public test set has no scores, so the development set is split here, at random by `seed`. Frame k of n is number
    floor((k + 1/2) n / 7): the middles of seven equal parts.

    Args:
        raw: folder of the dataset, see `LAYOUT`.
        split: train, val, test or all.
        skipped: takes the names of broken files that were left out.
        size: pixels on a side.
        threads: to decode with, a video each.
        seed: of the splits.
        target: column of the score.
        videos: folder of the videos.
        val_share, test_share: of all videos; train gets the rest.
        skip_broken: leave out videos that cannot be decoded or have fewer than seven frames.

    Raises:
        FileNotFoundError: the list or a video is missing.
        ValueError: PyAV is not installed, the list or a score is not as expected, a video is there twice or broken.
    """
    path, scores = _scores(Path(raw), target)
    every = list(scores)
    shares = {"val_share": val_share, "test_share": test_share}
    chosen = share_of(every, split, seed=seed, use="videomem", listed_in=path, **shares)
    names = [every[place] for place in chosen]
    files = [f"{videos}/{name}" for name in names]
    check_listed(raw, files, listed_in=path)

    def read(file: str) -> list[dict[str, Any]]:
        return [{"bytes": frame, "path": file} for frame in _frames(Path(raw) / file, size)]

    rows = 0
    for places, clips in pieces(files, read, threads=threads, skip_broken=skip_broken, skipped=skipped, rows=64):
        columns = {
            "id": range(rows, rows + len(places)),
            "name": [names[place] for place in places],
            "frames": clips,
            "score": [scores[names[place]] for place in places],
        }
        yield pa.table(columns, schema=SCHEMA)
        rows += len(places)


def check(
    raw: str | Path,
    *,
    target: Literal["short-term_memorability", "long-term_memorability"] = "short-term_memorability",
    videos: str = "sources",
    val_share: float = 0.1,
    test_share: float = 0.2,
    skip_broken: bool = False,
) -> None:
    """Sees that the folder has the public layout, before anything is decoded; options as for `tables`.

    Raises:
        FileNotFoundError: a file is missing; the message names it and shows the layout.
        ValueError: PyAV is not installed, or an option is impossible.
    """
    check_shares(val_share, test_share)
    _scores(Path(raw), target)
    require(Path(raw) / videos, LAYOUT)
    _av()


def _av() -> Any:
    """PyAV, which nothing but videos needs."""
    try:
        import av
    except ImportError as error:
        raise ValueError(f"videomem: videos are read with PyAV, which is missing ({error}): pip install av") from error
    return av


def _scores(raw: Path, target: str) -> tuple[Path, dict[str, float]]:
    """The list, and the scores by video, in its order."""
    if target not in TARGETS:
        raise ValueError(f"videomem: target is {target!r}, expected {' or '.join(TARGETS)}")
    path = require(raw / LIST, LAYOUT)
    scores: dict[str, float] = {}
    for number, row in csv_rows(path, ["video", target])[1]:
        where = f"{path}: line {number}"
        if not row["video"]:
            raise ValueError(f"{where}: no video is named; correct or remove the line")
        if row["video"] in scores:
            raise ValueError(f"{where}: video {row['video']} is there twice; remove one of the lines")
        scores[row["video"]] = score_of(row[target], where=where)
    return path, scores


def _frames(path: Path, size: int) -> list[bytes]:
    """Seven evenly spaced frames of a video as JPEG.

    Raises:
        BrokenFile: it cannot be decoded, is cut off, or has fewer than seven frames.
    """
    advice = "get it again, or set skip_broken: true"
    av = _av()
    try:
        count = _packets(path)
        taken, found, end, declared = _decoded(path, size, count)
        # Packets and frames are mostly as many. Where they are not (hidden frames of VP8), it is decoded once more.
        if found != count and found >= FRAMES:
            taken, found, end, declared = _decoded(path, size, found)
    except (av.error.FFmpegError, ValueError, EOFError) as error:
        raise BrokenFile(f"{path}: cannot be decoded ({error}); {advice}") from error
    if found < FRAMES:
        raise BrokenFile(f"{path}: {found} frames, expected at least {FRAMES}; {advice}")
    if declared and end < LEAST_SHARE * declared:
        raise BrokenFile(f"{path}: cut off, it ends after {end:.2f} of {declared:.2f} seconds; {advice}")
    return taken


def _stream(container: Any) -> Any:
    if not container.streams.video:
        raise ValueError("it has no pictures")
    stream = container.streams.video[0]
    # Decoding without a context does not raise but ends the process.
    if stream.codec_context is None:
        raise ValueError("its codec is unknown or its header is cut off")
    stream.thread_count = 1  # threads go over videos
    return stream


def _packets(path: Path) -> int:
    """How many frames a video seems to have, without decoding it."""
    with _av().open(str(path)) as container:
        return sum(packet.size > 0 for packet in container.demux(_stream(container)))


def _decoded(path: Path, size: int, count: int) -> tuple[list[bytes], int, float, float]:
    """The frames that are wanted of `count`; how many there are; where they end and should end, in seconds.

    Only wanted frames are kept: all frames of a video would be half a gigabyte.
    """
    wanted = {(2 * part + 1) * count // (2 * FRAMES) for part in range(FRAMES)}
    taken, found, end = [], 0, 0.0
    with _av().open(str(path)) as container:
        stream = _stream(container)
        # A container's duration is that of its longest stream, which may be the sound.
        silent = len(container.streams) == 1 and container.duration
        declared = container.duration / 1_000_000 if silent else 0.0
        begin = (container.start_time or 0) / 1_000_000
        step = float(1 / stream.average_rate) if stream.average_rate else 0.0
        for frame in container.decode(stream):
            if found in wanted:
                taken.append(as_jpeg(squared(frame.to_image(), size)))
            found += 1
            if frame.time is not None:
                end = max(end, frame.time - begin + step)
    return taken, found, end, declared


def measure(folder: str | Path, split: str, *, threads: int = 1) -> dict[str, Any]:
    """What the expectations are held against, one row a video."""
    scores = read_table(Path(folder) / f"{split}.parquet", ["score"])["score"].to_pylist()
    return measure_photos(folder, split, "frames", threads=threads) | {"score": scores}


def expectations(*, rows: dict[str, int], size: int) -> list[dict[str, Any]]:
    """What must hold, as plain data: `type` and arguments of a Great Expectations expectation.

    Args:
        rows: of each split, as the manifest has them.
        size: pixels on a side.
    """
    return [
        *photo_expectations(rows=rows, size=size, photos=FRAMES),
        {"type": "expect_column_values_to_not_be_null", "column": "score"},
        {"type": "expect_column_values_to_be_between", "column": "score", "min_value": 0.0, "max_value": 1.0},
    ]
