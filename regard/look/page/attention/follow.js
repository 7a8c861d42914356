/** A long sentence in two columns: the lit word and its strongest partner stay in view, and an overview shows the whole. */

import { unitAt } from "../data/record.js";
import { h } from "../drawing/dom.js";

/**
 * @typedef {import("./ribbons.js").Scene} Scene
 * @typedef {import("../data/table.js").Table} Table
 * @typedef {import("../data/store.js").State} State
 */

/**
 * Scroll to the lit word, and move the other column where its strongest partner would be out of sight.
 * @param {Scene} scene
 * @param {Table} table
 * @param {State} state
 */
export function follow(scene, table, state) {
  const { stage, above, below } = scene;
  const columns = stage.dataset.layout === "columns";
  const lit = columns && state.lit ? unitAt(table.rows, state.step) : -1;
  const column = columns ? unitAt(table.columns, state.from) : -1;
  // once for each word: then the visitor may scroll elsewhere; and pointing at the other side moves nothing away
  const wanted = lit >= 0 ? `lit ${lit}` : `from ${column}`;
  if (scene.followed === wanted) return;
  scene.followed = wanted;
  const word = /** @type {HTMLElement | undefined} */ (below.children[lit]);
  if (word) reveal(stage, heightOf(below, word), word.offsetHeight);
  const best = lit < 0 ? -1 : strongest(table.weights[lit]);
  const row = lit >= 0 || column < 0 ? -1 : strongest(table.weights.map((weights) => weights[column]));
  const moved = [
    [above, word ? apart(stage, above.children[best], above, heightOf(below, word)) : 0],
    [below, row < 0 ? 0 : apart(stage, below.children[row], below, heightOf(above, above.children[column]))],
  ].map(([line, by]) => shift(/** @type {HTMLElement} */ (line), /** @type {number} */ (by)));
  if (moved.some(Boolean)) scene.ends = null;
}

/** @param {number[]} weights */
function strongest(weights) {
  return weights.indexOf(Math.max(...weights));
}

/**
 * @param {HTMLElement} line
 * @param {Element} word
 */
function heightOf(line, word) {
  return line.offsetTop + /** @type {HTMLElement} */ (word).offsetTop;
}

/**
 * @param {HTMLElement} stage
 * @param {number} top
 * @param {number} height
 */
function reveal(stage, top, height) {
  const outside = top + height < stage.scrollTop || top > stage.scrollTop + stage.clientHeight;
  if (outside) stage.scrollTop = top - stage.clientHeight / 2;
}

/**
 * How far a column has to move so that a word of it stands beside the lit one; 0 where it is in sight.
 * @param {HTMLElement} stage
 * @param {Element | undefined} partner
 * @param {HTMLElement} line
 * @param {number} beside
 */
function apart(stage, partner, line, beside) {
  if (!partner) return 0;
  const top = heightOf(line, partner);
  const seen = top >= stage.scrollTop && top + 24 <= stage.scrollTop + stage.clientHeight;
  return seen ? 0 : Math.round(beside - top);
}

/**
 * @param {HTMLElement} line
 * @param {number} by
 */
function shift(line, by) {
  const wanted = by === 0 ? "" : `translateY(${by}px)`;
  if (line.style.transform === wanted) return false;
  line.style.setProperty("transform", wanted);
  return true;
}

/**
 * All of the strongest links, small, and which part of them is in sight; a click or a stroke of the finger goes there.
 * @param {Scene} scene
 */
export function overview({ stage }) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "overview", hidden: true, "aria-hidden": "true" }));
  /** @type {{table: Table, state: State} | null} */
  let last = null;
  const go = (/** @type {PointerEvent} */ event) => {
    if (event.buttons === 0 && event.type === "pointermove") return;
    const share = event.offsetY / Math.max(canvas.clientHeight, 1);
    stage.scrollTop = share * stage.scrollHeight - stage.clientHeight / 2;
  };
  const paint = () => {
    const needed = stage.dataset.layout === "columns" && stage.scrollHeight > stage.clientHeight + 8 && last !== null;
    canvas.hidden = !needed;
    if (needed && last) paintLinks(canvas, stage, last.table, last.state);
  };
  canvas.addEventListener("pointerdown", go);
  canvas.addEventListener("pointermove", go);
  canvas.addEventListener("repaint", paint);
  stage.addEventListener("scroll", paint, { passive: true });
  return {
    canvas,
    /**
     * @param {Table} table
     * @param {State} state
     */
    draw(table, state) {
      last = { table, state };
      paint();
    },
  };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {HTMLElement} stage
 * @param {Table} table
 * @param {State} state
 */
function paintLinks(canvas, stage, table, state) {
  const sharp = Math.max(1, globalThis.devicePixelRatio ?? 1);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const style = getComputedStyle(document.documentElement);
  const lit = state.lit ? unitAt(table.rows, state.step) : -1;
  pen.scale(sharp, sharp);
  pen.fillStyle = style.getPropertyValue("--cell");
  pen.fillRect(0, (stage.scrollTop / stage.scrollHeight) * height, width, (stage.clientHeight / stage.scrollHeight) * height);
  table.weights.forEach((row, t) => {
    const best = strongest(row);
    pen.strokeStyle = style.getPropertyValue(t === lit ? "--ink" : "--accent");
    pen.globalAlpha = t === lit ? 1 : 0.15 + 0.5 * Math.min(row[best], 1);
    pen.lineWidth = t === lit ? 2 : 1;
    pen.beginPath();
    pen.moveTo(4, ((best + 0.5) / row.length) * height);
    pen.lineTo(width - 4, ((t + 0.5) / table.rows.length) * height);
    pen.stroke();
  });
}
