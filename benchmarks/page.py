"""The page with a long sentence: bytes, time to the first ribbons, nodes, and the time of a hover.

    python benchmarks/page.py --model FOLDER [--words 64]

The model is a Transformer, or any translator. Chromium opens a link to a sentence of that many words, then points at
each word of the translation: the script of a hover and the frame that shows it; its layouts, style computations and
changes of the document, which do not depend on the load of the machine. The targets are 1 second and 16 milliseconds on
an idle machine; the exit status says whether they were met. `--text` is the sentence; by default the model's first
example is repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

FIRST_PAINT, HOVER = 1000.0, 16.0  # milliseconds

# From the request of the page to the frame after the first ribbons.
WATCH = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("path.ribbon")) return;
  observer.disconnect();
  requestAnimationFrame(() => (window.firstRibbons = performance.now()));
}).observe(document, { childList: true, subtree: true });
"""

# The script of each hover, and the frame that shows it from its beginning to its end; not the wait between the two.
HOVERS = """
async () => {
  const found = [];
  const frame = () => new Promise((done) => requestAnimationFrame(() => {
    const started = performance.now();
    const channel = new MessageChannel();
    channel.port1.onmessage = () => done(performance.now() - started);
    channel.port2.postMessage(0);
  }));
  for (const word of document.querySelectorAll(".word.target")) {
    await frame();
    const started = performance.now();
    word.dispatchEvent(new PointerEvent("pointerenter"));
    const script = performance.now() - started;
    found.push(script + (await frame()));
  }
  return found;
}
"""


# What a hover changes in the document: attributes, texts, nodes added and removed.
CHANGES = """
async () => {
  let count = 0;
  const seen = new MutationObserver((all) => {
    for (const each of all) count += each.type === "childList" ? each.addedNodes.length + each.removedNodes.length : 1;
  });
  seen.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  const words = document.querySelectorAll(".word.target");
  for (const word of words) {
    word.dispatchEvent(new PointerEvent("pointerenter"));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)));
  }
  seen.disconnect();
  return count / Math.max(words.length, 1);
}
"""


def main() -> int:
    """Measure and print; 1 if a target was missed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--words", type=int, default=64)
    options.add_argument("--text")
    given = options.parse_args()
    with serving(given.model) as address, sync_playwright() as engine:
        text = given.text or long_text(address, given.words)
        sandbox = os.geteuid() != 0  # Chromium refuses its sandbox to root
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=sandbox)
        found = measure(browser, address, text)
        browser.close()
    print(json.dumps(found, indent=1))
    return int(found["first ribbons, ms"] > FIRST_PAINT or found["hover, ms (median)"] > HOVER)


def measure(browser: Any, address: str, text: str) -> dict[str, Any]:
    """One visit of a link to the sentence."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    sizes: dict[str, int] = {}

    def finished(request: Any) -> None:
        if "/api/look" in request.url:
            sizes.setdefault("first", request.sizes()["responseBodySize"])

    page.on("requestfinished", finished)
    page.add_init_script(WATCH)
    name = served(address)["name"]
    page.goto(f"{address}/#{urlencode({'text': text, 'model': name, 'look': name})}")
    for _ in range(1200):  # the page's Content-Security-Policy lets no string be waited for as a condition
        if page.evaluate("window.firstRibbons"):
            break
        page.wait_for_timeout(100)
    page.wait_for_timeout(3000)  # the heads have come
    page.evaluate(HOVERS)  # once for the compiler
    counter = page.context.new_cdp_session(page)
    counter.send("Performance.enable")
    before = counts(counter)
    hovers = page.evaluate(HOVERS)
    after = counts(counter)
    return {
        "words": len(text.split()),
        "target words": page.locator(".word.target").count(),
        "first answer, bytes": sizes.get("first", 0),
        "first ribbons, ms": round(page.evaluate("window.firstRibbons")),
        "nodes": page.evaluate("document.querySelectorAll('*').length"),
        "hover, ms (median)": round(statistics.median(hovers), 1),
        "hover, ms (largest)": round(max(hovers), 1),
        "layouts of a hover": round((after["LayoutCount"] - before["LayoutCount"]) / len(hovers), 1),
        "styles of a hover": round((after["RecalcStyleCount"] - before["RecalcStyleCount"]) / len(hovers), 1),
        "changes of a hover": round(page.evaluate(CHANGES)),
    }


def counts(counter: Any) -> dict[str, float]:
    """What the browser has counted so far, by name."""
    return {each["name"]: each["value"] for each in counter.send("Performance.getMetrics")["metrics"]}


def served(address: str) -> dict[str, Any]:
    """The model, as the server describes it."""
    with urllib.request.urlopen(f"{address}/api/models") as answer:
        found: dict[str, Any] = json.load(answer)["models"][0]
    return found


def long_text(address: str, words: int) -> str:
    """The model's first example, repeated to a number of words."""
    examples = served(address)["examples"]
    example = examples[0]["text"] if examples else "a b c d e f g h"
    return " ".join((example.split() * words)[:words])


@contextmanager
def serving(model: Path) -> Iterator[str]:
    """The address of `regard serve` with this model, which may look at as many characters as the sentence has."""
    command = [sys.executable, "-m", "regard", "serve", str(model), "--port", "0", "--max-look-characters", "2000"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
