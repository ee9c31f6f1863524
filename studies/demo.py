"""Record the demo page as docs/demo.gif: `python -m studies.demo`, after `make quickstart` or `make repro`.

It needs Chromium. The 8 grows, then the 7 shrinks, and the networks rank the digits again each time.
"""

import io
import shutil
from pathlib import Path
from threading import Thread

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from examples.demo.server import HOST, load_rankers, server

FILM = Path("docs/demo.gif")
WIDE, SHOWN = 1100, (720, 325)  # pixels of the page and of the recording
STEPS = (("8", "+", 12), ("7", "-", 14))
# Absent digits and numbers, which only the page has room for, are left out, and orders are larger.
STYLE = """
.bar:not(.right, .wrong), .bar span { visibility: hidden } .bars { --row: 44px } .bar { font-size: 20px }
.bar i { height: 30px } .chip { font-size: 24px; min-width: 36px; padding: 4px 7px }
"""
STILL, MOVING = 1200, 120  # milliseconds
FIRST = 18  # the frame to begin with, which a still shows: RLSEP is right, and regression is not


def _frame(page: Page) -> Image.Image:
    page.wait_for_timeout(400)  # bars move to their places
    high = WIDE * SHOWN[1] / SHOWN[0]
    shot = page.screenshot(clip={"x": 0, "y": 0, "width": WIDE, "height": high})
    with Image.open(io.BytesIO(shot)) as image:
        return image.convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS)


def film(address: str) -> None:
    """Press keys on the page, and record it as `FILM`."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page(viewport={"width": WIDE, "height": 700})
        page.goto(address)
        page.wait_for_selector("#models .chip")
        page.evaluate("document.querySelector('h1 + p').remove()")  # the help on moving digits
        page.add_style_tag(content=STYLE)
        frames, times = [_frame(page)], [STILL]
        for digit, key, count in STEPS:
            page.focus(f"#box{digit}")
            for _ in range(count):
                page.keyboard.press(key)
                frames.append(_frame(page))
                times.append(MOVING)
            times[-1] = STILL
    frames, times = frames[FIRST:] + frames[:FIRST], [STILL, *times[FIRST + 1 :], *times[:FIRST]]
    colors = frames[0].quantize(48)
    first, *later = (frame.quantize(48, palette=colors, dither=Image.Dither.NONE) for frame in frames)
    first.save(FILM, save_all=True, append_images=later, duration=times, loop=0, optimize=True)


def main() -> None:
    """Record the networks that the demo would show."""
    rankers = load_rankers()
    if len(rankers) < 2:
        raise SystemExit("no two networks to compare: run `make quickstart` first")
    with server(rankers, 0) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        film(f"http://{HOST}:{listening.server_port}/")
        listening.shutdown()


if __name__ == "__main__":
    main()
