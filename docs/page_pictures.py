"""Take the pictures of docs/page.md in Chromium, of the installed models: python docs/page_pictures.py."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from pictures import BOUGHT, IMAGES, KNOW
from playwright.sync_api import sync_playwright

BAHDANAU, TRANSFORMER, SEQ2SEQ = "de-en/bahdanau", "de-en/transformer", "de-en/seq2seq"
LOCAL, CAPTIONER = "de-en/luong-local-p", "scenes/captioner"
SCENE = "scenes.108"


def main() -> None:
    """Serve the models, and look at the page."""
    with serving() as address, sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=os.geteuid() != 0)
        open_page(browser, address)
        side_by_side = link(BOUGHT, TRANSFORMER, BAHDANAU, SEQ2SEQ, step=6)
        take(browser, address + side_by_side, "page-side-by-side.png")
        heads = link(BOUGHT, TRANSFORMER, heads="0.0,0.2,1.1")
        take(browser, address + heads, "page-heads.png", part=".inside")
        window = link(BOUGHT, LOCAL, step=3)
        take(browser, address + window, "page-local.png", part=".columns")
        compare = link(KNOW, TRANSFORMER, BAHDANAU, beside=BAHDANAU)
        take(browser, address + compare, "page-compare.png", part=".compare-part")
        vector = link(KNOW, SEQ2SEQ, step=1)
        take(browser, address + vector, "page-vector.png", part=".fixed-part", act=replace_word)
        player = link(KNOW, BAHDANAU, step=4, stage=4, panel="steps")
        take(browser, address + player, "page-player.png", part=".inside")
        take(browser, address + link(KNOW, BAHDANAU, panel="beam"), "page-beam.png", part=".columns")
        phone = {"color_scheme": "dark", "locale": "ko-KR"}
        take(browser, address + link(BOUGHT, BAHDANAU, step=0), "page-phone.png", width=390, height=1480, **phone)
        take_scene(browser, address)
        browser.close()


def open_page(browser: Any, address: str) -> None:
    """The first model after it has opened, and with the proposed ribbon pulled."""
    page = browser.new_page(viewport={"width": 1440, "height": 900}, locale="en-US")
    page.goto(f"{address}/#model={TRANSFORMER}")
    grip = page.locator(".knob.invited")
    grip.wait_for()
    page.wait_for_timeout(1000)
    page.screenshot(path=IMAGES / "page-open.png")
    other = page.locator(".invitation strong").last.inner_text()
    word = page.locator(".source .word", has_text=other).first
    page.mouse.move(*_middle(grip))
    page.mouse.down()
    page.mouse.move(*_middle(word), steps=10)
    page.mouse.up()
    page.locator(".change-bar").wait_for()
    page.mouse.move(5, 5)
    page.wait_for_timeout(800)
    page.screenshot(path=IMAGES / "page-pull.png")
    page.close()
    print(IMAGES / "page-open.png", IMAGES / "page-pull.png")


def _middle(place: Any) -> tuple[float, float]:
    box = place.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def take_scene(browser: Any, address: str) -> None:
    """The picture of an image with its caption, a word of it in view."""
    scene = f"/#image={SCENE}&model={CAPTIONER}&look={CAPTIONER}&step=3"
    take(browser, address + scene, "page-image.png", height=1000)


def replace_word(page: Any) -> None:
    """Another word in the place of “heute”."""
    page.locator(".swap button", has_text="heute").click()
    page.keyboard.type("morgen")
    page.keyboard.press("Enter")
    page.locator(".moved").wait_for()


def link(text: str, *models: str, **state: int | str) -> str:
    """The fragment that shows a sentence by these models, the first of them looked into."""
    pairs = [("text", text), *(("model", name) for name in models), ("look", models[0])]
    return "/#" + urlencode([*pairs, *state.items()])


def take(
    browser: Any,
    address: str,
    name: str,
    *,
    width: int = 1440,
    height: int = 900,
    part: str | None = None,
    act: Callable[[Any], None] | None = None,
    **settings: str,
) -> None:
    """One picture: of a part of the page, or of its upper `height` pixels."""
    context = browser.new_context(viewport={"width": width, "height": height}, **{"locale": "en-US", **settings})
    page = context.new_page()
    page.goto(address)
    page.locator(".card:not([aria-busy=true])").first.wait_for()
    page.locator(".player").wait_for()
    if "panel=beam" in address:
        page.locator("svg.tree").wait_for()
    if act is not None:
        act(page)
    page.wait_for_timeout(1500)  # until everything has faded in
    (page.locator(part) if part else page).screenshot(path=IMAGES / name)
    context.close()
    print(IMAGES / name)


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The address of `regard serve` with the models."""
    command = [sys.executable, "-m", "regard", "serve", BAHDANAU, TRANSFORMER, SEQ2SEQ, LOCAL, CAPTIONER]
    command += ["--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
