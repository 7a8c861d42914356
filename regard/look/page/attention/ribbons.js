/** Both sentences, and between them a ribbon from each target word to the source words it attends to. */

import { toggleBan } from "../changes/actions.js";
import { replaced } from "../data/diff.js";
import { probabilityOf, traceAt, unitAt } from "../data/record.js";
import { NOWHERE, changeOf, originalOf } from "../data/store.js";
import { tableOf } from "../data/table.js";
import { h, onceAFrame, replace, s } from "../drawing/dom.js";
import { weight } from "../drawing/number.js";
import { say } from "../language/language.js";
import { follow, overview } from "./follow.js";
import { glow, grabbing } from "./grab.js";
import { drawLines } from "./lines.js";

const MOST_IN_LINE = 30; // more words stand in two columns, as do those that do not fit one line
const UNSEEN = 0.01; // a tint of this weight cannot be told from none
const NARROW = 640; // pixels; so do all words on a phone

/**
 * @typedef {import("../data/record.js").Unit} Unit
 * @typedef {import("../data/table.js").Table} Table
 * @typedef {import("../data/store.js").Store} Store
 * @typedef {{stage: HTMLElement, drawing: SVGElement, above: HTMLElement, below: HTMLElement,
 *   ends: {above: import("./lines.js").Point[], below: import("./lines.js").Point[]} | null, followed: string}} Scene `ends`:
 *   of ribbons at the words, measured once for each layout; `followed`: the words that were last brought into sight
 */

/**
 * @param {HTMLElement} place
 * @param {Store} store
 * @param {import("../data/table.js").Tables} tables
 */
export function mountRibbons(place, store, tables) {
  const drawing = s("svg", { class: "ribbon-lines", "aria-hidden": "true" });
  const above = h("p", { class: "sentence source", dir: "auto" });
  const below = h("p", { class: "sentence target", dir: "auto" });
  const stage = h("div", { class: "ribbons", tabindex: -1 }, drawing, above, h("div", { class: "gap" }), below);
  /** @type {Scene} */
  const scene = { stage, drawing, above, below, ends: null, followed: "" };
  const whole = overview(scene);
  place.append(h("h2", { class: "hidden-visually" }, say("ribbons")), stage, whole.canvas);
  const hand = grabbing(scene, store, tables, () => redraw());
  const redraw = onceAFrame(() => {
    // asking for `offsetParent` would compute style and layout of the page once more
    if (tables.current && !stage.closest("[hidden]")) {
      if (!hand.held) follow(scene, tables.current, store.state);
      whole.draw(tables.current, store.state);
      drawLines(scene, tables.current, store.state, { held: hand.held, old: oldTable(store) });
      glow(above, hand.held);
    }
  });
  new ResizeObserver(() => {
    scene.ends = null;
    if (tables.current) layOut(scene, tables.current);
    redraw();
  }).observe(stage);

  tables.listen((table) => {
    place.hidden = table === null;
    scene.ends = null;
    if (table === null) return;
    write(scene, store, table);
    layOut(scene, table);
    mark(scene, table, store);
    redraw();
  });
  store.listen((state, before) => {
    const depends = /** @type {const} */ ([
      "step", "lit", "from", "position", "reveal", "invitation", "threshold", "playing", "stage", "panel",
    ]);
    if (tables.current === null || depends.every((name) => state[name] === before[name])) return;
    mark(scene, tables.current, store);
    redraw();
  });
  leaving(stage, store);
  document.fonts?.ready.then(() => {
    scene.ends = null;
    redraw();
  });
}

/**
 * Leaving, Escape and a click beside the words bring back the overview.
 * @param {HTMLElement} stage
 * @param {Store} store
 */
function leaving(stage, store) {
  const rest = () => store.set({ lit: false, held: false, from: null, position: null, pinned: false });
  stage.addEventListener("pointerleave", () => {
    const { lit, held, from, playing } = store.state;
    if (!playing && (from !== null || (lit && !held))) store.set({ from: null, lit: held });
  });
  stage.addEventListener("click", (event) => {
    if (!(/** @type {Element} */ (event.target).closest(".word, .grip, .knob"))) rest();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") rest();
  });
}

/**
 * The original's map in the same view, while a change is shown.
 * @param {Store} store
 */
function oldTable({ state }) {
  const original = originalOf(state);
  return original === null ? null : tableOf(state, original);
}

/**
 * @param {Scene} scene
 * @param {Store} store
 * @param {Table} table
 */
function write({ stage, above, below }, store, table) {
  const { kind } = table.view;
  const mayBan = store.state.live && kind !== "decoder-self";
  const original = kind === "encoder-self" ? null : originalOf(store.state);
  const labels = table.rows.map((unit) => unit.label);
  const before = original ? (tableOf(store.state, original)?.rows ?? []).map((unit) => unit.label) : labels;
  const told = replaced(labels, before);
  const unseen = new Set((table.look.source.units ?? []).flatMap((unit, index) => (unit.unfamiliar ? [index] : [])));
  stage.classList.toggle("fresh", store.state.reveal !== null);
  stage.dataset.kind = kind;
  above.setAttribute("aria-label", say(kind === "decoder-self" ? "to_target" : "from_source"));
  below.setAttribute("aria-label", say(kind === "encoder-self" ? "from_source" : "to_target"));
  const [source, target] = [above, below].map((line) => [...line.children].indexOf(/** @type {Element} */ (document.activeElement)));
  replace(above, ...table.columns.map((unit) => sourceWord(store, table, unit, mayBan, unseen)));
  replace(below, ...table.rows.map((unit, t) => targetWord(store, table, unit, told[t])));
  const focused = /** @type {HTMLElement | undefined} */ (above.children[source] ?? below.children[target]);
  focused?.focus({ preventScroll: true });
  [...below.children].forEach((word, t) => word.setAttribute("aria-label", spoken(table, t)));
}

/**
 * @param {Store} store
 * @param {Table} table
 * @param {Unit} unit
 * @param {boolean} mayBan
 * @param {Set<number>} unseen
 */
function sourceWord(store, table, unit, mayBan, unseen) {
  const { ban } = changeOf(store.state);
  const banned = unit.pieces.every((piece) => ban.includes(piece));
  const number = table.look.source.pieces[unit.pieces[0]]?.unit ?? null;
  const strange = table.view.kind !== "decoder-self" && number !== null && unseen.has(number);
  const look = () => store.state.playing || store.set({ from: unit.pieces[0] });
  const leave = () => store.state.from === unit.pieces[0] && store.set({ from: null });
  const classes = ["word", banned && "banned", unit.special && "special", strange && "unseen"].filter(Boolean).join(" ");
  const pointing = { pointerenter: look, pointerleave: leave };
  if (!mayBan) return h("span", { class: classes, ...pointing }, h("bdi", {}, unit.label));
  const label = say(banned ? "allow_word" : "ban_word", { word: unit.label }) + (strange ? ` · ${say("unseen_word")}` : "");
  return h("button",
    { class: classes, "aria-pressed": banned, "aria-label": label, title: label, ...pointing, focus: look, blur: leave,
      click: () => toggleBan(store, unit) },
    h("bdi", {}, unit.label));
}

/**
 * @param {Store} store
 * @param {Table} table
 * @param {Unit} unit
 * @param {{changed: boolean, old: string}} told
 */
function targetWord(store, table, unit, told) {
  const step = unit.pieces[0];
  const at = { ...NOWHERE, step, lit: true };
  const look = () => store.state.playing || store.state.held || store.set(at);
  const click = () => store.set({ ...at, held: !(store.state.held && store.state.step === step) });
  const probability = table.view.kind === "encoder-self" ? 1 : probabilityOf(table.look, unit);
  const key = ["word", "target", told.changed && "changed", unit.special && "special", probability < 0.5 && "unsure"];
  const word = h("button", { class: key.filter(Boolean).join(" "), pointerenter: look, focus: look, click },
    h("bdi", {}, unit.label), told.old && h("s", { "aria-hidden": "true" }, told.old));
  word.style.setProperty("--probability", probability.toFixed(3));
  return word;
}

/**
 * One line each where they fit; else two columns, source left, target right.
 * @param {Scene} scene
 * @param {Table} table
 */
function layOut({ stage, above, below }, table) {
  const many = Math.max(table.rows.length, table.columns.length) > MOST_IN_LINE;
  stage.dataset.layout = "lines";
  const tooWide = () => [above, below].some((line) => line.scrollWidth > line.clientWidth + 1);
  const fits = ["spacious", "even", "dense"].find((size) => ((stage.dataset.size = size), !tooWide()));
  const wide = fits === undefined;
  stage.dataset.layout = many || wide || stage.clientWidth < NARROW ? "columns" : "lines";
}

/**
 * Mark the current word, the local window, and what is not yet said.
 * @param {Scene} scene
 * @param {Table} table
 * @param {Store} store
 */
function mark({ above, below }, table, store) {
  const { step, lit, from, reveal, position } = store.state;
  const row = lit ? unitAt(table.rows, step) : -1;
  const column = unitAt(table.columns, from ?? position);
  const weights = row >= 0 ? table.weights[row] : [];
  const trace = row >= 0 && table.view.kind === "cross" && step !== null ? traceAt(table.look, step, table.view) : null;
  [...above.children].forEach((word, j) => {
    const unit = table.columns[j];
    const [first, last] = trace?.window ?? [0, -1];
    word.classList.toggle("in-window", unit.pieces.some((piece) => piece >= first && piece <= last));
    word.classList.toggle("here", j === column);
    weigh(word, weights[j] ?? 0);
  });
  [...below.children].forEach((word, t) => {
    const here = t === row;
    word.classList.toggle("here", here);
    word.classList.toggle("coming", reveal !== null && t >= reveal);
    if (here) word.setAttribute("aria-current", "true");
    else word.removeAttribute("aria-current");
    const looking = column >= 0 && from !== null ? table.weights[t][column] : 0;
    weigh(word, looking);
  });
}

/**
 * Tint a word by a weight; most weights are too small to be seen, and the tint stays.
 * @param {Element} word
 * @param {number} weight
 */
function weigh(word, weight) {
  const { style } = /** @type {HTMLElement} */ (word);
  const wanted = weight < UNSEEN ? "0" : String(Math.min(weight, 1));
  if (style.getPropertyValue("--weight") !== wanted) style.setProperty("--weight", wanted);
}

/**
 * "“chat” looked at “cat” 0.93, “the” 0.05."
 * @param {Table} table
 * @param {number} row
 */
export function spoken(table, row) {
  const places = table.weights[row]
    .map((value, j) => ({ value, word: table.columns[j].label }))
    .filter((each) => each.value >= 0.1)
    .sort((one, other) => other.value - one.value)
    .slice(0, 3)
    .map((each) => say("of_weight", { word: each.word, weight: weight(each.value) }));
  return say("looks_at", { word: table.rows[row].label, places: places.join(", ") || "–" });
}
