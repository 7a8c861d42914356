/** The fixed vector under change: how far it moves without each word, and with another word in the place of one. */

import { askLook, askVectors } from "../data/api.js";
import { common } from "../data/diff.js";
import { reason } from "../data/request.js";
import { UNCHANGED } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { decimal, percent } from "../drawing/number.js";
import { vectorCells } from "../drawing/vector.js";
import { say } from "../language/language.js";

/**
 * @typedef {import("../data/record.js").Look} Look
 * @typedef {{text: string, distance: number, cosine: number}} Move
 * @typedef {{index: number, word: string, move: Move, look: Look}} Swapped
 */

const MOST_VARIANTS = 128; // of a sentence in one request

/** @type {WeakMap<Look, Move[]>} without each word */
const known = new WeakMap();

/**
 * Draw the source words; each can be replaced.
 * @param {HTMLElement} source
 * @param {HTMLElement} moved where the outcome stands
 * @param {import("../data/store.js").Store} store
 * @returns {(look: Look) => void}
 */
export function mountSwap(source, moved, store) {
  /** @type {Look | null} */
  let current = null;
  /** @type {Swapped | null} */
  let swapped = null;
  const draw = (/** @type {Look} */ look, focus = -1) => {
    const moves = known.get(look) ?? [];
    replace(source, ...look.source.words.map((word, index) => {
      const [told, away] = [swapped?.index === index ? swapped.word : word, moves[index] ?? null];
      const button = h("button", { class: "word", "aria-label": label(told, away), title: label(told, away),
        click: () => ask(look, index, box) }, h("bdi", {}, told));
      const bar = h("span", { class: "bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", String(Math.min(away?.distance ?? 0, 1)));
      const box = h("span", { class: told === word ? "swap" : "swap swapped" }, button, bar);
      return box;
    }));
    replace(moved, ...(swapped === null ? [] : [outcome(look, swapped, () => restore(look))]));
    if (focus >= 0) /** @type {HTMLElement | undefined} */ (source.querySelectorAll("button")[focus])?.focus();
  };
  const restore = (/** @type {Look} */ look) => {
    const index = swapped?.index ?? -1;
    swapped = null;
    draw(look, index);
  };
  /** Let another word be typed in the place of one. */
  const ask = (/** @type {Look} */ look, /** @type {number} */ index, /** @type {HTMLElement} */ box) => {
    const word = swapped?.index === index ? swapped.word : look.source.words[index];
    const field = /** @type {HTMLInputElement} */ (h("input", { type: "text", value: word, maxlength: 40, dir: "auto",
      autocapitalize: "off", autocomplete: "off", spellcheck: "false", "aria-label": say("swap_word", { word }) }));
    let left = false;
    const leave = () => {
      if (left) return;
      left = true;
      const typed = field.value.trim();
      if (typed === word) draw(look, index);
      else if (typed === "" || typed === look.source.words[index]) restore(look);
      else measure(look, index, typed);
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") field.value = word;
      if (event.key === "Enter" || event.key === "Escape") leave();
      event.stopPropagation();
    });
    field.addEventListener("blur", leave);
    replace(box, field);
    field.focus();
    field.select();
  };
  const measure = async (/** @type {Look} */ look, /** @type {number} */ index, /** @type {string} */ word) => {
    const text = look.source.words.map((each, place) => (place === index ? word : each)).join(" ");
    const name = /** @type {string} */ (store.state.focus);
    try {
      const [[move], found] = await Promise.all([askVectors(name, look.source.text, [text]), askLook(name, text, UNCHANGED)]);
      if (look !== current) return; // another sentence or model is shown by now
      swapped = { index, word, move, look: found };
      draw(look, index);
    } catch (error) {
      store.set({ notice: reason(error) });
      if (look === current) draw(look, index);
    }
  };
  return (look) => {
    current = look;
    swapped = null;
    draw(look);
    const { words } = look.source;
    if (known.has(look) || words.length < 2 || words.length > MOST_VARIANTS || look.steps.length === 0) return;
    known.set(look, []);
    const without = words.map((_, index) => words.filter((_, place) => place !== index).join(" "));
    askVectors(/** @type {string} */ (store.state.focus), look.source.text, without).then((moves) => {
      known.set(look, moves);
      if (look === current && !source.querySelector("input")) draw(look);
    }, (error) => store.set({ notice: reason(error) }));
  };
}

/**
 * @param {string} word
 * @param {Move | null} away
 */
function label(word, away) {
  const told = away === null ? "" : ` · ${say("vector_without", { share: percent(away.distance) })}`;
  return say("swap_word", { word }) + told;
}

/**
 * The old and the new vector, how far apart they are, and what is made of the new one.
 * @param {Look} look
 * @param {Swapped} swapped
 * @param {() => void} restore
 */
function outcome(look, { index, word, move, look: found }, restore) {
  const full = Math.max(1e-9, ...[look, found].flatMap((each) => (each.fixed_vector ?? []).map(Math.abs)));
  const figure = (/** @type {Look} */ each, /** @type {string} */ name) => {
    const vector = each.fixed_vector ?? [];
    return h("figure", {}, vectorCells(vector, { size: 6, scale: full, columns: Math.ceil(Math.sqrt(vector.length)), label: name }),
      h("figcaption", {}, name));
  };
  const same = new Set(common(found.target.words, look.target.words).map(([place]) => place));
  const bar = h("span", { class: "bar" });
  bar.style.setProperty("--share", String(Math.min(move.distance, 1)));
  return h("div", { class: "moved" },
    h("div", { class: "moved-cells" }, figure(look, say("original")), figure(found, say("now"))),
    h("div", { class: "moved-words" },
      h("p", {}, say("vector_moved", { word: look.source.words[index], other: word, share: percent(move.distance),
        cosine: decimal(move.cosine, 3) })),
      bar,
      h("p", { dir: "auto" }, found.target.words.flatMap((each, place) =>
        [same.has(place) ? each : h("mark", { class: "new" }, each), " "])),
      h("button", { class: "quiet", click: restore }, say("swap_back"))));
}
