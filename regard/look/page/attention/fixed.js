/** A model without attention: source, fixed context vector, target. */

import { hasAttention, labelsOf, unitsOf, vectorSize } from "../data/record.js";
import { NOWHERE, shown } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { vectorCells } from "../drawing/vector.js";
import { say } from "../language/language.js";
import { mountSwap } from "./swap.js";

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountFixed(place, store) {
  const source = h("p", { class: "sentence", dir: "auto" });
  const moved = h("div", { "aria-live": "polite" });
  const body = h("div", {});
  const hint = h("p", { class: "hint" });
  place.append(h("h2", { class: "hidden-visually" }, say("fixed_title")), h("div", { class: "fixed" },
    h("div", { class: "bottle" }, source, body), moved, hint));
  const swap = mountSwap(source, moved, store);
  store.listen((state, before) => {
    const look = shown(state);
    place.hidden = look === null || hasAttention(look);
    if (look === null || place.hidden) return;
    const fresh = look !== shown(before);
    if (fresh && state.live) swap(look);
    else if (fresh) replace(source, ...labelsOf(look.source).flatMap((word) => [h("span", { class: "word" }, word), " "]));
    if (!fresh && state.step === before.step) return;
    const held = body.contains(document.activeElement) ? document.activeElement?.getAttribute("data-step") : null;
    replace(body, ...drawing(store, look));
    const [count, shownOf] = [vectorSize(look), look.fixed_vector?.length ?? 0];
    replace(hint, say("fixed_text", { count }), " ", count > shownOf && say("first_numbers", { count: shownOf, all: count }), " ",
      state.live && say("swap_hint"));
    if (held) /** @type {HTMLElement | null} */ (body.querySelector(`[data-step="${held}"]`))?.focus();
  });
}

/**
 * The sentence narrows to one vector, and every target word comes out of it.
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/record.js").Look} look
 */
function drawing(store, look) {
  const vector = look.fixed_vector ?? [];
  const label = say("fixed_short", { count: vectorSize(look) });
  const cells = vectorCells(vector, { size: 8, columns: Math.ceil(Math.sqrt(vector.length)), label });
  const neck = `${Number(cells.getAttribute("width")) + 12}px`; // with the padding around the cells
  const funnels = ["funnel", "funnel opening"].map((key) => h("div", { class: key, "aria-hidden": "true" }));
  for (const funnel of funnels) funnel.style.setProperty("--neck", neck);
  return [
    funnels[0],
    h("div", { class: "the-vector" }, cells),
    funnels[1],
    h("p", { class: "sentence", dir: "auto" }, targetWords(store, look)),
  ];
}

/**
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/record.js").Look} look
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
