/** The architecture as a map: the model unrolled over the words on screen, the current step lit. */

import { askDiagram } from "../data/api.js";
import { labelsOf, unitsOf } from "../data/record.js";
import { reason } from "../data/request.js";
import { NOWHERE, shown } from "../data/store.js";
import { h, replace, stillness } from "../drawing/dom.js";
import { say } from "../language/language.js";
import { OpenedNode } from "./node.js";

const ENCODING = /^(source|embed\.source|encoder|annotation|joined|sum\.encoder)\./;
const CONSTANT = /^(summary|zero)$/; // boxes without numbers
const TITLE = 78; // pixels at the top of a diagram
const MOST = 8; // words of a side that a diagram can show
const LEAST_SCALE = 0.72; // a wide diagram shrinks to fit; beyond this it scrolls to the current step

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountArchitecture(place, store) {
  const told = h("p", { class: "hint" });
  const frame = h("div", { class: "scroll diagram", tabindex: 0, role: "group", "aria-label": say("panel_map") });
  const opened = new OpenedNode(store);
  place.append(h("h2", { class: "hidden-visually" }, say("panel_map")), told, frame, opened.place);
  let drawn = "";
  store.listen((state) => {
    const look = shown(state);
    if (place.hidden || look === null || state.focus === null) return;
    const sides = [labelsOf(look.source), labelsOf(look.target)];
    const wanted = JSON.stringify([state.focus, ...sides]);
    if (wanted !== drawn) {
      drawn = wanted;
      opened.close(); // its words have changed
      told.textContent = say(Math.max(...sides.map((side) => side.length)) > MOST ? "map_first" : "map_hint", { count: MOST });
      const [source, target] = sides.map((side) => side.slice(0, MOST));
      askDiagram(state.focus, source, target.length > 0 ? target : ["∅"]).then((text) => {
        if (wanted !== drawn) return;
        const drawing = parsed(text);
        drawing.style.setProperty("min-width", `${Math.round(Number(drawing.getAttribute("width")) * LEAST_SCALE)}px`);
        replace(frame, drawing);
        choosing(frame, store, opened);
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
    node.setAttribute("data-node", name.replace(/\.\d+$/, ""));
    if (CONSTANT.test(name) || /^source\./.test(name)) continue;
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", "-1");
    node.setAttribute("aria-label", node.textContent ?? name);
  }
  drawing.querySelector('[role="button"]')?.setAttribute("tabindex", "0");
  drawing.removeAttribute("role"); // its boxes are buttons
  const decoding = names.filter((name) => !ENCODING.test(name)).sort((one, other) => other.length - one.length);
  for (const line of drawing.querySelectorAll(".line[id]")) {
    const path = line.id.replace(/^(.*?)(edge|tap)\./, "").replace(/\.[a-z]+$/, "");
    const target = decoding.find((name) => path === name || path.endsWith(`.${name}`)); // the longest name that fits
    line.setAttribute("data-step", /\.(\d+)$/.exec(target ?? "")?.[1] ?? "0");
  }
  return drawing;
}

/**
 * A box opens its numbers, an attention box those of the step; one of the decoder brings its word into view.
 * @param {HTMLElement} frame
 * @param {import("../data/store.js").Store} store
 * @param {OpenedNode} opened
 */
function choosing(frame, store, opened) {
  const choose = (/** @type {Event} */ event) => {
    const node = /** @type {Element} */ (event.target).closest('[role="button"]');
    const look = shown(store.state);
    if (!node || !look) return;
    const source = node.getAttribute("data-part") === "encoder";
    const unit = unitOf(source ? look.source : look.target, Math.max(1, Number(node.getAttribute("data-place"))));
    const kind = node.getAttribute("data-kind");
    if (!unit) return;
    frame.querySelector(".opened")?.classList.remove("opened");
    if (!source) store.set({ ...NOWHERE, step: unit.pieces[0], lit: true, held: true, ...(kind === "attend" ? { panel: "steps", stage: 0 } : {}) });
    if (kind) return;
    node.classList.add("opened");
    opened.open({ node: node.getAttribute("data-node") ?? "", unit, source });
  };
  frame.onclick = choose;
  frame.onkeydown = (event) => {
    const current = /** @type {Element} */ (event.target).closest('[role="button"]');
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (current && (event.key === "Enter" || event.key === " ")) choose(event);
    else if (current && way) walk(frame, current, way[0], way[1]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}

/**
 * Move the focus to the nearest box in a direction.
 * @param {HTMLElement} frame
 * @param {Element} current
 * @param {number} right
 * @param {number} down
 */
function walk(frame, current, right, down) {
  const middle = (/** @type {Element} */ node) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
  };
  const [x, y] = middle(current);
  const others = [...frame.querySelectorAll('[role="button"]')].map((node) => {
    const [left, top] = middle(node);
    const along = (left - x) * right + (top - y) * down;
    const aside = Math.abs((left - x) * down) + Math.abs((top - y) * right);
    return { node, along, distance: along + 3 * aside };
  }).filter(({ along }) => along > 4).sort((one, other) => one.distance - other.distance);
  const next = /** @type {SVGElement | undefined} */ (others[0]?.node);
  if (!next) return;
  current.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

/**
 * The word of a place in the diagram, counted from 1; after the words that fit stands the end of the sentence.
 * @param {import("../data/record.js").Side} side
 * @param {number} place
 */
function unitOf(side, place) {
  const units = unitsOf(side, "words", true);
  return place > Math.min(labelsOf(side).length, MOST) ? units.find((unit) => unit.special) : units[place - 1];
}

/**
 * Light the current step, and the source words by their weights.
 * @param {HTMLElement} frame
 * @param {import("../data/store.js").State} state
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
