/** The architecture as a map: the model unrolled over the words on screen, the current step lit. */

import { askDiagram } from "./api.js";
import { h, replace, stillness } from "./dom.js";
import { say } from "./language.js";
import { labelsOf, unitsOf } from "./record.js";
import { reason } from "./request.js";
import { NOWHERE, shown } from "./store.js";

const ENCODING = /^(source|embed\.source|encoder|annotation|sum\.encoder)\./;
const TITLE = 78; // pixels at the top of a diagram
const MOST = 8; // words of a side that a diagram can show
const LEAST_SCALE = 0.72; // a wide diagram shrinks to fit; beyond this it scrolls to the current step

/**
 * @param {HTMLElement} place
 * @param {import("./store.js").Store} store
 */
export function mountArchitecture(place, store) {
  const told = h("p", { class: "hint" });
  const frame = h("div", { class: "scroll diagram", tabindex: 0, role: "group", "aria-label": say("panel_map") });
  place.append(h("h2", { class: "hidden-visually" }, say("panel_map")), told, frame);
  let drawn = "";
  store.listen((state) => {
    const look = shown(state);
    if (place.hidden || look === null || state.focus === null) return;
    const sides = [labelsOf(look.source), labelsOf(look.target)];
    const wanted = JSON.stringify([state.focus, ...sides]);
    if (wanted !== drawn) {
      drawn = wanted;
      told.textContent = say(Math.max(...sides.map((side) => side.length)) > MOST ? "map_first" : "map_hint", { count: MOST });
      const [source, target] = sides.map((side) => side.slice(0, MOST));
      askDiagram(state.focus, source, target.length > 0 ? target : ["∅"]).then((text) => {
        if (wanted !== drawn) return;
        const drawing = parsed(text);
        drawing.style.setProperty("min-width", `${Math.round(Number(drawing.getAttribute("width")) * LEAST_SCALE)}px`);
        replace(frame, drawing);
        choosing(frame, store);
        light(frame, store.state);
      }, (error) => store.set({ notice: reason(error) }));
    }
    light(frame, state);
  });
}

/**
 * The drawing; the page's style sheet has its colours, in both themes. Each box gets its half, its kind and its source
 * position or decoder step, each line the step that it leads to, from the names of the graph.
 * @param {string} text
 */
function parsed(text) {
  const drawing = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  const [width, height] = ["width", "height"].map((name) => Number(drawing.getAttribute(name)));
  drawing.setAttribute("viewBox", `0 ${TITLE} ${width} ${height - TITLE}`); // the page has a title
  drawing.setAttribute("height", String(height - TITLE));
  /** @type {string[]} */
  const names = [];
  for (const node of drawing.querySelectorAll(".node")) {
    const name = node.id.replace(/^.*?node\./, "");
    names.push(name);
    node.setAttribute("data-part", ENCODING.test(name) ? "encoder" : "decoder");
    node.setAttribute("data-kind", /^attend\./.test(name) ? "attend" : /^(source|target|output)\./.test(name) ? "word" : "");
    node.setAttribute("data-place", /\.(\d+)$/.exec(name)?.[1] ?? "0");
  }
  const decoding = names.filter((name) => !ENCODING.test(name)).sort((one, other) => other.length - one.length);
  for (const line of drawing.querySelectorAll(".line[id]")) {
    const path = line.id.replace(/^(.*?)(edge|tap)\./, "").replace(/\.[a-z]+$/, "");
    const target = decoding.find((name) => path === name || path.endsWith(`.${name}`)); // the longest name that fits
    line.setAttribute("data-step", /\.(\d+)$/.exec(target ?? "")?.[1] ?? "0");
  }
  return drawing;
}

/**
 * A box of the decoder brings its word into view; an attention box opens its numbers.
 * @param {HTMLElement} frame
 * @param {import("./store.js").Store} store
 */
function choosing(frame, store) {
  frame.onclick = (event) => {
    const node = /** @type {Element} */ (event.target).closest('[data-part="decoder"]');
    const look = shown(store.state);
    const unit = look && unitsOf(look.target, "words", true)[Number(node?.getAttribute("data-place")) - 1];
    if (!node || !unit) return;
    const attends = node.getAttribute("data-kind") === "attend";
    store.set({ ...NOWHERE, step: unit.pieces[0], lit: true, held: true, ...(attends ? { panel: "steps", stage: 0 } : {}) });
  };
}

/**
 * Light the current step, and the source words by their weights.
 * @param {HTMLElement} frame
 * @param {import("./store.js").State} state
 */
function light(frame, state) {
  const look = shown(state);
  if (!look) return;
  const targets = unitsOf(look.target, "words", true);
  const row = state.lit ? targets.findIndex((unit) => unit.pieces.includes(state.step ?? -1)) : -1;
  const sources = unitsOf(look.source, "words", true);
  const map = look.alignment?.[targets[row]?.pieces[0]] ?? [];
  const weights = sources.map((unit) => unit.pieces.reduce((sum, j) => sum + (map[j] ?? 0), 0));
  frame.classList.toggle("lit", row >= 0 && row < MOST);
  for (const node of frame.querySelectorAll(".node")) {
    const at = Number(node.getAttribute("data-place"));
    const own = node.getAttribute("data-part") === "decoder";
    node.classList.toggle("on", own ? at === row + 1 : look.alignment === null || (weights[at - 1] ?? 0) >= 0.1);
  }
  const current = frame.querySelector('[data-part="decoder"].on rect')?.getBoundingClientRect();
  const box = frame.getBoundingClientRect();
  if (current && (current.left < box.left || current.right > box.right)) {
    frame.scrollBy({ left: current.left - box.left - box.width / 2, behavior: stillness() ? "instant" : "smooth" });
  }
  for (const line of frame.querySelectorAll(".line")) {
    line.classList.toggle("on", Number(line.getAttribute("data-step")) === row + 1);
  }
}
