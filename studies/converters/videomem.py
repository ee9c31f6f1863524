"""VideoMem: videos and how many people remember them (SoDeep, Section 4.2.1). It needs the package av."""

from pathlib import Path
from typing import Any

import av
import pandas as pd
from PIL import Image

from rankgrad.io.atomic import replaced_file
from rankgrad.io.pictures import PHOTO_PIXELS, as_jpeg
from studies.converters.writing import block_of, convert, drawn_splits

FRAMES = 7  # frames of a 7-second video; the paper averages their scores
# Another target column is `long-term_memorability`.
BLOCK = block_of("videomem", size=224, frames="frames", target="short-term_memorability", id="video", split="split")
# A truncated file ends earlier than its header says, without an error from the decoder.
LEAST_SHARE = 0.9
# Other formats are lists of file names, which would be opened anywhere on the disk.
CONTAINERS = "matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,avi,mpeg,mpegts,ogg,flv,asf"


def table(raw: Path) -> pd.DataFrame:
    """Return a row for each video of the development set; write seven frames of each into frames/.

    The public test set has no scores. The frames are the middles of seven equal parts: frame k is number
    floor((k + 1/2) n / 7) of n.
    """
    rows = pd.read_csv(raw / "ground-truth/ground-truth_dev-set.csv")
    cells = []
    for video in rows["video"]:
        names = [f"frames/{video}-{number}.jpg" for number in range(FRAMES)]
        for name, frame in zip(names, frames_of(raw / "sources" / video), strict=True):
            with replaced_file(raw / name) as partial:
                partial.write_bytes(as_jpeg(frame))
        cells.append("|".join(names))
    return rows.assign(frames=cells, split=drawn_splits(rows["video"], test=0.2, val=0.1, gate=0.1))


def frames_of(path: Path) -> list[Image.Image]:
    """Return seven frames of a video.

    Raises:
        ValueError: the video cannot be decoded, or is truncated or too short.
    """
    try:
        count = _packets(path)
        frames, decoded, end, declared = _decoded(path, count)
        # The numbers of packets and frames are usually equal. If not (hidden frames in VP8), decode again.
        if decoded != count and decoded >= FRAMES:
            frames, decoded, end, declared = _decoded(path, decoded)
    except (av.error.FFmpegError, EOFError) as error:
        raise ValueError(f"{path}: cannot be decoded ({error})") from error
    if decoded < FRAMES:
        raise ValueError(f"{path}: {decoded} frames, expected at least {FRAMES}")
    if declared and end < LEAST_SHARE * declared:
        raise ValueError(f"{path}: cut off after {end:.2f} of {declared:.2f} seconds")
    return frames


def _opened(path: Path) -> Any:
    return av.open(str(path), options={"format_whitelist": CONTAINERS, "protocol_whitelist": "file"})


def _stream(container: Any) -> Any:
    if not container.streams.video:
        raise ValueError("it has no video stream")
    stream = container.streams.video[0]
    # Decoding without a context would crash the process instead of raising.
    if stream.codec_context is None:
        raise ValueError("its codec is unknown or its header is cut off")
    if (pixels := stream.codec_context.width * stream.codec_context.height) > PHOTO_PIXELS:
        raise ValueError(f"{pixels:,} pixels per frame, expected at most {PHOTO_PIXELS:,}")
    stream.thread_count = 1  # videos are processed in parallel instead
    return stream


def _packets(path: Path) -> int:
    """Return the apparent number of frames of a video, without decoding it."""
    with _opened(path) as container:
        return sum(packet.size > 0 for packet in container.demux(_stream(container)))


def _decoded(path: Path, count: int) -> tuple[list[Image.Image], int, float, float]:
    """Return seven of `count` frames, the actual number of frames, and the actual and declared end in seconds.

    Only seven are kept, since all frames of a video would take half a gigabyte.
    """
    chosen = {(2 * number + 1) * count // (2 * FRAMES) for number in range(FRAMES)}
    frames, decoded, end = [], 0, 0.0
    with _opened(path) as container:
        stream = _stream(container)
        # A container's duration is that of its longest stream, which may be the audio.
        silent = len(container.streams) == 1 and container.duration
        declared = container.duration / 1_000_000 if silent else 0.0
        begin = (container.start_time or 0) / 1_000_000
        step = float(1 / stream.average_rate) if stream.average_rate else 0.0
        for frame in container.decode(stream):
            if decoded in chosen:
                frames.append(frame.to_image())
            decoded += 1
            if frame.time is not None:
                end = max(end, frame.time - begin + step)
    return frames, decoded, end, declared


if __name__ == "__main__":
    convert(table, BLOCK)
