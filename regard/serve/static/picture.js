/** A caption and the image it was made from: what a word looked at stays light, the rest is veiled. */

import { h, replace, s } from "./dom.js";
import { say } from "./language.js";
import { mapOf, unitAt, unitsOf } from "./record.js";
import { shown } from "./store.js";

const SIDE = 380; // pixels of the longer side
const VEIL = 0.72; // how dark a cell without any weight is

/**
 * @param {HTMLElement} place
 * @param {import("./store.js").Store} store
 */
export function mountPicture(place, store) {
  const frame = h("div", { class: "picture-frame" });
  const caption = h("p", { class: "sentence", dir: "auto" });
  place.append(h("h3", {}, say("picture")), h("p", { class: "hint" }, say("ribbons_hint")),
    h("div", { class: "picture" }, frame, caption));
  const depends = /** @type {const} */ (["step", "layer", "head", "unit", "specials"]);
  store.listen((state, before) => {
    const look = shown(state);
    const image = look?.image;
    place.hidden = !image;
    if (!look || !image) return;
    const fresh = look !== shown(before);
    if (!fresh && depends.every((name) => state[name] === before[name])) return;
    const units = unitsOf(look.target, state.unit, state.specials);
    if (fresh || state.unit !== before.unit || state.specials !== before.specials) {
      replace(frame, drawing(image));
      replace(caption, ...units.flatMap((unit) => [word(store, unit), " "]));
    }
    const row = unitAt(units, state.step);
    [...caption.children].forEach((each, t) => {
      each.classList.toggle("here", t === row);
      if (t === row) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    });
    veil(frame, look, row < 0 ? [] : units[row].pieces, state);
  });
}

/**
 * @param {import("./store.js").Store} store
 * @param {import("./record.js").Unit} unit
 */
function word(store, unit) {
  const look = () => {
    if (!store.state.playing) store.set({ step: unit.pieces[0], position: null, pinned: false });
  };
  return h("button", { class: "word target", pointerenter: look, focus: look, click: look }, h("bdi", {}, unit.label));
}

/** @param {import("./record.js").Picture} image */
function drawing({ width, height, rows, columns, png }) {
  const scale = SIDE / Math.max(width, height);
  const across = width * scale;
  const down = height * scale;
  const picture = s("svg", { width: across, height: down, viewBox: `0 0 ${across} ${down}`, role: "img" });
  picture.setAttribute("aria-label", say("picture"));
  picture.append(s("image", { href: `data:image/png;base64,${png}`, width: across, height: down,
    class: scale > 2 ? "pixels" : "" }));
  for (let p = 0; p < rows * columns; p++) {
    const cell = { width: across / columns, height: down / rows };
    const at = { x: (p % columns) * cell.width, y: Math.floor(p / columns) * cell.height };
    picture.append(s("rect", { ...at, ...cell, class: "veil" }));
  }
  return picture;
}

/**
 * Veil each cell by how little it was looked at, beside the one that was looked at most.
 * @param {HTMLElement} frame
 * @param {import("./record.js").Look} look
 * @param {number[]} steps
 * @param {import("./record.js").View} view
 */
function veil(frame, look, steps, view) {
  const map = mapOf(look, { ...view, kind: "cross" });
  const cells = [...frame.querySelectorAll(".veil")];
  const weights = cells.map((_, p) => steps.reduce((sum, t) => sum + (map?.[t]?.[p] ?? 0), 0));
  const most = Math.max(...weights, 1e-9);
  cells.forEach((cell, p) => {
    const dark = steps.length === 0 ? 0 : VEIL * (1 - weights[p] / most);
    cell.setAttribute("fill-opacity", dark.toFixed(3));
  });
}
