/** A model without attention: source, fixed context vector, target. */

import { vectorSize } from "./cards.js";
import { h, replace, s } from "./dom.js";
import { say } from "./language.js";
import { hasAttention, labelsOf, unitsOf } from "./record.js";
import { NOWHERE, shown } from "./store.js";
import { vectorCells } from "./vector.js";

/**
 * @param {HTMLElement} place
 * @param {import("./store.js").Store} store
 */
export function mountFixed(place, store) {
  const body = h("div", { class: "fixed" });
  place.append(h("h2", { class: "hidden-visually" }, say("fixed_title")), body);
  store.listen((state, before) => {
    const look = shown(state);
    place.hidden = look === null || hasAttention(look);
    if (look === null || place.hidden || (look === shown(before) && state.step === before.step)) return;
    const held = body.contains(document.activeElement) ? document.activeElement?.getAttribute("data-step") : null;
    replace(body, ...drawing(store, look));
    if (held) /** @type {HTMLElement | null} */ (body.querySelector(`[data-step="${held}"]`))?.focus();
  });
}

/**
 * The sentence narrows to one vector, and every target word comes out of it.
 * @param {import("./store.js").Store} store
 * @param {import("./record.js").Look} look
 */
function drawing(store, look) {
  const vector = look.fixed_vector ?? [];
  const count = vectorSize(look);
  const part = count > vector.length ? say("first_numbers", { count: vector.length, all: count }) : "";
  const words = labelsOf(look.source).flatMap((word) => [h("span", { class: "word" }, word), " "]);
  const cells = vectorCells(vector, { size: 9, columns: Math.ceil(Math.sqrt(vector.length * 2)), label: say("fixed_short", { count }) });
  return [
    h("p", { class: "sentence", dir: "auto" }, words),
    funnel(false),
    h("div", { class: "the-vector", title: part }, cells),
    funnel(true),
    h("p", { class: "sentence", dir: "auto" }, targetWords(store, look)),
    h("p", { class: "hint" }, say("fixed_text", { count }), " ", part),
  ];
}

/**
 * @param {import("./store.js").Store} store
 * @param {import("./record.js").Look} look
 */
function targetWords(store, look) {
  return unitsOf(look.target, "words", store.state.specials).flatMap((unit) => {
    const here = unit.pieces.includes(store.state.step ?? -1);
    const choose = () => {
      if (store.state.step !== unit.pieces[0]) store.set({ ...NOWHERE, step: unit.pieces[0], lit: true });
    };
    const key = here ? "word target here" : "word target";
    const listeners = { focus: choose, pointerenter: choose };
    const current = here ? "true" : null;
    const word = { class: key, "data-step": unit.pieces[0], "aria-current": current, ...listeners };
    return [h("button", word, h("bdi", {}, unit.label)), " "];
  });
}

/** @param {boolean} opening */
function funnel(opening) {
  const d = opening
    ? "M44 0H56C56 26 100 18 100 44H0C0 18 44 26 44 0Z"
    : "M0 0H100C100 26 56 18 56 44H44C44 18 0 26 0 0Z";
  const frame = { class: "funnel", viewBox: "0 0 100 44", preserveAspectRatio: "none", "aria-hidden": "true" };
  return s("svg", frame, s("path", { d }));
}
