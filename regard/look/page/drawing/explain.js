/** Explanations in place: one sentence and a small figure for a term. */

import { say } from "../language/language.js";
import { h, s } from "./dom.js";

/** @typedef {"score" | "softmax" | "entropy" | "coverage" | "beam" | "piece"} Term */

let count = 0;

/**
 * A button that opens the explanation of a term.
 * @param {Term} term
 */
export function explain(term) {
  const id = `explanation-${count++}`;
  const title = say(/** @type {any} */ (`term_${term}`));
  const card = h("div", { id, popover: "auto", class: "explanation", role: "note" },
    h("strong", {}, title), h("p", {}, say(/** @type {any} */ (`about_${term}`))), FIGURES[term]());
  const name = say("what_is", { term: title });
  return h("span", {}, h("button", { class: "help", type: "button", popovertarget: id, "aria-label": name, title: name }, "?"), card);
}

/** @type {Record<Term, () => SVGElement>} */
const FIGURES = {
  score: () => frame(bars([0.2, 0.9, 0.35, 0.5], 0, "measure")),
  softmax: () => frame(bars([0.2, 0.9, 0.35, 0.5], 0, "measure"), arrow(112), bars([0.06, 0.74, 0.08, 0.12], 140, "above")),
  entropy: () => frame(bars([0.03, 0.91, 0.03, 0.03], 0, "above"), bars([0.25, 0.25, 0.25, 0.25], 140, "above")),
  coverage: () => frame([0, 1, 2].map((row) => cells([[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0.2, 0.7, 0.1]][row], row)),
    arrow(112), bars([0.4, 0.8, 0.1], 140, "measure")),
  beam: () => frame(["M10 32H60", "M60 32C90 32 90 12 120 12H180", "M60 32C90 32 90 52 120 52H150"].map((d, index) =>
    s("path", { d, class: `branch ${["best", "best", "pruned"][index]}` }))),
  piece: () => frame(["▁heureuse", "ment"].map((text, index) => s("g", {},
    s("rect", { x: index * 96, y: 18, width: index ? 56 : 90, height: 28, rx: 5, class: "cell-base" }),
    s("text", { x: index * 96 + (index ? 28 : 45), y: 37, "text-anchor": "middle" }, text)))),
};

/** @param {...(SVGElement | SVGElement[])} children */
function frame(...children) {
  return s("svg", { width: 240, height: 66, viewBox: "0 0 240 66", "aria-hidden": "true" }, children.flat());
}

/**
 * @param {number[]} values
 * @param {number} x
 * @param {string} key
 */
function bars(values, x, key) {
  return values.map((value, index) =>
    s("rect", { x: x + index * 24, y: 60 - 56 * value, width: 18, height: 56 * value, rx: 2, class: key }));
}

/**
 * @param {number[]} values
 * @param {number} row
 */
function cells(values, row) {
  return values.map((value, index) => s("rect", { x: index * 24, y: row * 20, width: 22, height: 18, rx: 2, class: "above", "fill-opacity": value }))
    .reduce((group, each) => (group.append(each), group), s("g", {}));
}

/** @param {number} x */
function arrow(x) {
  return s("path", { d: `M${x} 32h14m-5 -5l5 5l-5 5`, class: "branch" });
}
