/** Two models as two bands over one source line; pointing at a word lights what belongs to it in both. */

import { curve } from "../attention/lines.js";
import { spoken } from "../attention/ribbons.js";
import { unitAt, vectorSize } from "../data/record.js";
import { NOWHERE } from "../data/store.js";
import { h, onceAFrame, replace, s } from "../drawing/dom.js";
import { weight as written } from "../drawing/number.js";
import { say } from "../language/language.js";
import { best, compared, counterparts } from "./counterparts.js";

const FAINTEST = 0.03; // weights below it have no ribbon
const TOLD = 0.1; // weights from here on have their number written while a word is lit
const MOST_IN_LINE = 24; // words; more stand in three columns
const NARROW = 640; // pixels; so do all words on a phone

/**
 * @typedef {import("../data/store.js").Store} Store
 * @typedef {import("./counterparts.js").Compared} Compared
 * @typedef {import("./counterparts.js").Band} Band
 * @typedef {import("../attention/lines.js").Point} Point
 * @typedef {{band: 0 | 1, row: number} | {column: number} | null} Pointed
 * @typedef {{stage: HTMLElement, drawing: SVGElement, lines: [HTMLElement, HTMLElement, HTMLElement]}} Scene the words of
 *   the first translation, of the source, of the second translation
 */

/**
 * @param {HTMLElement} place
 * @param {Store} store
 */
export function mountCompare(place, store) {
  const drawing = s("svg", { class: "ribbon-lines", "aria-hidden": "true" });
  const names = [0, 1].map(() => h("p", { class: "band-name" }));
  const notes = [0, 1].map(() => h("div", { class: "between" }));
  const sentence = (/** @type {string} */ key) => h("p", { class: `sentence ${key}`, dir: "auto" });
  /** @type {Scene["lines"]} */
  const lines = [sentence("target first"), sentence("source"), sentence("target second")];
  const stage = h("div", { class: "compare" }, drawing,
    names[0], lines[0], notes[0], lines[1], notes[1], lines[2], names[1]);
  const gold = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: true }));
  const legend = h("label", { class: "check gold-check" }, gold, s("svg", { width: 28, height: 8, "aria-hidden": "true" },
    s("path", { class: "gold-link", d: "M0 4H28" })), say("gold_links"));
  const close = h("button", { class: "quiet", click: () => store.set({ beside: null }) }, say("compare_end"));
  place.append(h("div", { class: "row compare-head" }, h("h2", {}, say("compare_title")), legend, close), stage);
  /** @type {Compared | null} */
  let both = null;
  /** @type {Pointed} */
  let pointed = null;
  const redraw = onceAFrame(() => {
    if (both && stage.offsetParent !== null) draw({ stage, drawing, lines }, both, lit(), gold.checked);
  });
  const lit = () => {
    const { state } = store;
    const row = both && state.lit && state.kind === "cross" ? unitAt(both.bands[0].rows, state.step) : -1;
    return pointed ?? (row >= 0 ? { band: /** @type {0} */ (0), row } : null);
  };
  const point = (/** @type {Pointed} */ wanted) => {
    if (store.state.playing) return;
    pointed = wanted;
    const step = both && wanted && "row" in wanted && wanted.band === 0 ? both.bands[0].rows[wanted.row].pieces[0] : null;
    if (step !== null) store.set({ ...NOWHERE, kind: "cross", step, lit: true });
    else if (store.state.lit) store.set({ lit: false, held: false });
    redraw();
  };
  const rest = () => point(null);
  stage.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && rest());
  stage.addEventListener("click", (event) => (/** @type {Element} */ (event.target)).closest(".word") || rest());
  document.addEventListener("keydown", (event) => event.key === "Escape" && pointed && rest());
  gold.addEventListener("change", redraw);
  new ResizeObserver(() => {
    if (both) layOut(stage, lines, both);
    redraw();
  }).observe(stage);
  store.listen((state, before) => {
    const depends = /** @type {const} */ (["entries", "focus", "beside", "peek", "reveal"]);
    if (depends.some((name) => state[name] !== before[name])) {
      both = compared(state);
      pointed = null;
      place.hidden = both === null;
      place.closest(".inside")?.classList.toggle("comparing", both !== null);
      if (both) {
        legend.hidden = both.bands.every((band) => band.gold.length === 0);
        write(lines, names, notes, both, point);
        layOut(stage, lines, both);
      }
    }
    if (state.playing) pointed = null;
    redraw();
  });
}

/**
 * @param {Scene["lines"]} lines
 * @param {HTMLElement[]} names
 * @param {HTMLElement[]} notes
 * @param {Compared} both
 * @param {(pointed: Pointed) => void} point
 */
function write(lines, names, notes, both, point) {
  const pointing = (/** @type {Pointed} */ at) => {
    const look = () => point(at);
    return { pointerenter: look, focus: look, click: look };
  };
  // translations into two languages have at most punctuation in common
  const any = both.pairs.some(([row]) => /[\p{L}\p{N}]/u.test(both.bands[0].rows[row].label));
  both.bands.forEach((band, n) => {
    replace(names[n], h("strong", {}, h("bdi", {}, band.name)),
      band.agree && h("span", {}, say("gold_agree", band.agree)));
    replace(notes[n], band.weights === null && h("p", { class: "band-note" },
      say("no_attention_band", { count: vectorSize(band.look) })));
    const words = band.rows.map((unit, row) => {
      const differs = any && !band.same.has(row);
      const told = [band.weights === null ? unit.label : spoken(/** @type {any} */ (band), row), differs && say("compare_differs")];
      return h("button", { class: differs ? "word target differs" : "word target", "aria-label": told.filter(Boolean).join(" "),
        ...pointing({ band: /** @type {0 | 1} */ (n), row }) }, h("bdi", {}, unit.label));
    });
    const line = lines[n === 0 ? 0 : 2];
    line.setAttribute("aria-label", say("translation_of", { model: band.name }));
    replace(line, ...words);
  });
  lines[1].setAttribute("aria-label", say("from_source"));
  replace(lines[1], ...both.source.map((unit, column) =>
    h("button", { class: unit.special ? "word special" : "word", "aria-label": heard(both, column), ...pointing({ column }) },
      h("bdi", {}, unit.label))));
}

/**
 * "“cat”: chat, 고양이를": the words of both translations whose strongest ribbon ends at a source word.
 * @param {Compared} both
 * @param {number} column
 */
function heard({ source, bands }, column) {
  const words = bands.map(({ name, rows, weights }) =>
    `${name}: ${(weights ?? []).flatMap((row, t) => (best(row) === column ? [rows[t].label] : [])).join(", ") || "–"}`);
  return `“${source[column].label}” · ${words.join("; ")}`;
}

/**
 * Three lines where they fit; else three columns, the source in the middle.
 * @param {HTMLElement} stage
 * @param {Scene["lines"]} lines
 * @param {Compared} both
 */
function layOut(stage, lines, both) {
  const most = Math.max(both.source.length, ...both.bands.map((band) => band.rows.length));
  stage.dataset.layout = "lines";
  const tooWide = () => lines.some((line) => line.scrollWidth > line.clientWidth + 1);
  const fits = ["even", "dense"].find((size) => ((stage.dataset.size = size), !tooWide()));
  stage.dataset.layout = fits === undefined || most > MOST_IN_LINE || stage.clientWidth < NARROW ? "columns" : "lines";
}

/**
 * @param {Scene} scene
 * @param {Compared} both
 * @param {Pointed} lit
 * @param {boolean} gold
 */
function draw({ stage, drawing, lines }, both, lit, gold) {
  const upright = stage.dataset.layout === "lines";
  const ends = anchors(stage, drawing, lines, upright);
  const rows = [0, 1].map((n) => (lit === null || !("row" in lit) ? []
    : lit.band === n ? [lit.row] : counterparts(both, lit.band, lit.row)));
  const column = lit !== null && "column" in lit ? lit.column : -1;
  const paths = both.bands.flatMap((band, n) => {
    const [starts, goals] = n === 0 ? [ends.first, ends.above] : [ends.second, ends.below];
    const links = linksOf(band, lit, rows[n], column);
    const golden = gold ? band.gold.filter((link) => lit === null || rows[n].includes(link.row) || link.column === column) : [];
    const numbers = links.filter((link) => link.key === "chosen" && link.value >= TOLD)
      .map((link) => number(link.value, column >= 0 ? starts[link.row] : goals[link.column], n, upright, column >= 0));
    const along = (/** @type {{row: number, column: number}} */ link) => curve(starts[link.row], goals[link.column], upright);
    return [...links.map((link) => ribbon(link, along(link))),
      ...golden.map((link) => s("path", { class: "gold-link", d: along(link) })), ...numbers];
  });
  replace(drawing, ...paths);
  [lines[0], lines[2]].forEach((line, n) => [...line.children].forEach((word, t) => word.classList.toggle("here", rows[n].includes(t))));
  [...lines[1].children].forEach((word, j) => {
    word.classList.toggle("here", j === column);
    const most = both.bands.flatMap(({ weights }, n) => rows[n].map((t) => weights?.[t]?.[j] ?? 0));
    /** @type {HTMLElement} */ (word).style.setProperty("--weight", String(Math.min(Math.max(0, ...most), 1)));
  });
}

/**
 * At rest the strongest ribbon of each word; else all of the lit words, or all that end at the lit source word.
 * @param {Band} band
 * @param {Pointed} lit
 * @param {number[]} rows
 * @param {number} column
 */
function linksOf({ weights }, lit, rows, column) {
  return (weights ?? []).flatMap((row, t) => row.flatMap((value, j) => {
    const chosen = rows.includes(t) || j === column;
    if (value < FAINTEST || !(chosen || j === best(row))) return [];
    return [{ row: t, column: j, value, key: chosen ? "chosen" : lit === null ? "rest" : "quiet" }];
  }));
}

/**
 * @param {import("../attention/lines.js").Link} link
 * @param {string} d
 */
function ribbon({ value, key }, d) {
  const strength = Math.min(value, 1);
  return s("path", { d, class: `ribbon ${key}`, "stroke-width": (1.5 + 10 * strength).toFixed(2),
    "stroke-opacity": (0.16 + (key === "chosen" ? 0.72 : 0.5) * strength).toFixed(3) });
}

/**
 * The weight beside the end of a ribbon.
 * @param {number} value
 * @param {Point} at
 * @param {number} band
 * @param {boolean} upright
 * @param {boolean} outside whether it stands at the target word
 */
function number(value, at, band, upright, outside) {
  const up = (band === 0) === outside;
  const place = upright ? { x: at.x + 8, y: at.y + (up ? 14 : -6) }
    : { x: at.x + (up ? 4 : -4), y: at.y - 6, "text-anchor": up ? "start" : "end" };
  return s("text", { ...place, class: "link-weight" }, written(value));
}

/**
 * Where ribbons end: at both translations, and on both sides of the source.
 * @param {HTMLElement} stage
 * @param {SVGElement} drawing
 * @param {Scene["lines"]} lines
 * @param {boolean} upright
 */
function anchors(stage, drawing, lines, upright) {
  drawing.setAttribute("width", "0"); // so that its own old size is not measured
  drawing.setAttribute("height", "0");
  const frame = stage.getBoundingClientRect();
  const shift = { x: stage.scrollLeft - frame.x - stage.clientLeft, y: stage.scrollTop - frame.y - stage.clientTop };
  const at = (/** @type {HTMLElement} */ line, /** @type {boolean} */ after) => [...line.children].map((word) => {
    const box = word.getBoundingClientRect();
    return upright
      ? { x: box.x + box.width / 2 + shift.x, y: (after ? box.bottom + 2 : box.top - 2) + shift.y }
      : { x: (after ? box.right + 3 : box.left - 3) + shift.x, y: box.y + box.height / 2 + shift.y };
  });
  const ends = { first: at(lines[0], true), above: at(lines[1], false), below: at(lines[1], true), second: at(lines[2], false) };
  drawing.setAttribute("width", String(stage.scrollWidth));
  drawing.setAttribute("height", String(stage.scrollHeight));
  return ends;
}
