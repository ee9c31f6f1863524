"""VideoMem for memorability of videos, read from its public layout (SoDeep, Section 4.2.1)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import av
import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.expected import between
from rankgrad.datasets.public.reading import DrawnSplits, PhotoDataset, read_list, require, scores_of
from rankgrad.io.images import PHOTO_PIXELS, as_jpeg, squared
from rankgrad.io.parquet import IMAGE

__all__ = ["Videomem", "SCHEMA"]  # noqa: RUF022 - the dataset comes first

FRAMES = 7  # of a video of 7 seconds; the paper averages the scores of these
SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("frames", pa.list_(IMAGE, FRAMES)), ("target", pa.float32())]
)
LIST = "ground-truth/ground-truth_dev-set.csv"
Target = Literal["short-term_memorability", "long-term_memorability"]
# A file that was cut off ends earlier than its header says, without an error from the decoder.
LEAST_SHARE = 0.9
# Others are lists that name files, which would be opened wherever they are.
CONTAINERS = "matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,avi,mpeg,mpegts,ogg,flv,asf"


@dataclass(frozen=True, kw_only=True)
class Videomem(DrawnSplits, PhotoDataset):
    """Seven evenly spaced frames of each video, and its `target` in [0, 1].

    The public test set has no scores, so the development set is split here, by a hash of `seed` and the names. Frame k
    of n is number floor((k + 1/2) n / 7): the middles of seven equal parts.

    Attributes:
        target: column of the score.
        videos: folder of the videos.
    """

    target: Target = "short-term_memorability"
    videos: str = "sources"

    layout: ClassVar[str] = """\
videomem/             the contents of the dataset's dev-set
  ground-truth/
    ground-truth_dev-set.csv   with the columns video, short-term_memorability, long-term_memorability
  sources/            video1.webm and so on; the option `videos` names another folder
"""
    schema: ClassVar[pa.Schema] = SCHEMA
    checked: ClassVar[tuple[str, ...]] = ("target",)
    photos: ClassVar[int] = FRAMES
    piece: ClassVar[int] = 64
    expected: ClassVar[tuple[dict[str, Any], ...]] = (between("target", 0.0, 1.0),)

    def __post_init__(self) -> None:
        if self.target not in get_args(Target):
            raise ValueError(f"target is {self.target!r}, expected {' or '.join(get_args(Target))}")
        super().__post_init__()

    def listed(self, raw: Path, *, seed: int) -> pd.DataFrame:
        path = raw / LIST
        table = read_list(path, ["video", self.target], layout=self.layout, header=True)
        table = table[["video", self.target]]
        require(raw / self.videos, self.layout)
        names = table["video"].tolist()
        return pd.DataFrame(
            {
                "file": [f"{self.videos}/{name}" for name in names],
                "split": self.drawn(names, seed=seed),
                "name": names,
                "target": scores_of(table, self.target, path),
            }
        )

    def decode(self, path: Path, size: int) -> list[bytes]:
        try:
            count = _packets(path)
            frames, found, end, declared = _decoded(path, size, count)
            # Packets and frames are mostly as many. Where they are not (hidden frames of VP8), it is decoded once more.
            if found != count and found >= FRAMES:
                frames, found, end, declared = _decoded(path, size, found)
        except (av.error.FFmpegError, EOFError) as error:
            raise ValueError(f"cannot be decoded ({error})") from error
        if found < FRAMES:
            raise ValueError(f"{found} frames, expected at least {FRAMES}")
        if declared and end < LEAST_SHARE * declared:
            raise ValueError(f"cut off, it ends after {end:.2f} of {declared:.2f} seconds")
        return frames


def _opened(path: Path) -> Any:
    return av.open(str(path), options={"format_whitelist": CONTAINERS, "protocol_whitelist": "file"})


def _stream(container: Any) -> Any:
    if not container.streams.video:
        raise ValueError("it has no pictures")
    stream = container.streams.video[0]
    # Decoding without a context does not raise but ends the process.
    if stream.codec_context is None:
        raise ValueError("its codec is unknown or its header is cut off")
    if (pixels := stream.codec_context.width * stream.codec_context.height) > PHOTO_PIXELS:
        raise ValueError(f"{pixels:,} pixels a frame, expected at most {PHOTO_PIXELS:,}")
    stream.thread_count = 1  # threads go over videos
    return stream


def _packets(path: Path) -> int:
    """How many frames a video seems to have, without decoding it."""
    with _opened(path) as container:
        return sum(packet.size > 0 for packet in container.demux(_stream(container)))


def _decoded(path: Path, size: int, count: int) -> tuple[list[bytes], int, float, float]:
    """Seven frames of `count`; how many there are; where they end and should end, in seconds.

    Only these are kept: all frames of a video would be half a gigabyte.
    """
    chosen = {(2 * part + 1) * count // (2 * FRAMES) for part in range(FRAMES)}
    frames, found, end = [], 0, 0.0
    with _opened(path) as container:
        stream = _stream(container)
        # A container's duration is that of its longest stream, which may be the sound.
        silent = len(container.streams) == 1 and container.duration
        declared = container.duration / 1_000_000 if silent else 0.0
        begin = (container.start_time or 0) / 1_000_000
        step = float(1 / stream.average_rate) if stream.average_rate else 0.0
        for frame in container.decode(stream):
            if found in chosen:
                frames.append(as_jpeg(squared(frame.to_image(), size)))
            found += 1
            if frame.time is not None:
                end = max(end, frame.time - begin + step)
    return frames, found, end, declared
