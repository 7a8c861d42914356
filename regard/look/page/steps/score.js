/** The score of a source piece as its formula says, with the numbers of the record: a sum of terms over dimensions. */

import { h } from "../drawing/dom.js";
import { decimal } from "../drawing/number.js";
import { say } from "../language/language.js";

/**
 * @typedef {import("../data/record.js").Look} Look
 * @typedef {import("../data/record.js").Trace} Trace
 * @typedef {import("../data/record.js").HeadKeys} HeadKeys
 */

/**
 * The formula, and the names of its query, key and factor.
 * @param {Look} look
 * @param {HeadKeys} keys
 */
export function formulaOf(look, keys) {
  const root = `√${keys.size}`;
  switch (look.model.score) {
    case "general": return { formula: "qᵀ W k", query: "q", key: "W k", factor: "" };
    case "scaled_dot": return { formula: "qᵀ k / √d", query: "q", key: "k", factor: `1 / ${root}` };
    case "location": return { formula: "(W q)ⱼ", query: "q", key: "Wⱼ", factor: "" };
    case "cosine": return { formula: "β cos(q, k)", query: "q / |q|", key: "k / |k|", factor: "β" };
    default:
      if (!keys.additive) return { formula: "qᵀ k", query: "q", key: "k", factor: "" };
      if (look.model.kind === "luong") return { formula: "vᵀ tanh(W [q; k])", query: "W₁ q", key: "W₂ k", factor: "v" };
      return { formula: "vᵀ tanh(W q + U k)", query: "W q", key: "U k", factor: "v" };
  }
}

/**
 * The keys of the head of a trace, if the record has them and what the query meets them with.
 * @param {Look} look
 * @param {Trace} trace
 * @returns {HeadKeys | null}
 */
export function keysOf(look, trace) {
  if (!trace.asked || !trace.rest) return null;
  return look.keys?.find(({ kind, layer, head }) => kind === trace.kind && layer === trace.layer && head === trace.head) ?? null;
}

/**
 * The terms of a position: factor · q · k, or factor · tanh(q + k).
 * @param {HeadKeys} keys
 * @param {Trace} trace
 * @param {number} j
 */
export function termsAt({ additive, factor, keys }, trace, j) {
  return (trace.asked ?? []).map((query, i) =>
    factor[i] * (additive ? Math.tanh(query + keys[j][i]) : query * keys[j][i]));
}

/**
 * The sum, written out: a column for each dimension, then all others, then the score.
 * @param {Look} look
 * @param {Trace} trace
 * @param {HeadKeys} keys
 * @param {{label: string, position: number}} place
 */
export function scoreSum(look, trace, keys, { label, position }) {
  const names = formulaOf(look, keys);
  const masked = trace.scores[position] === null || trace.scores[position] === undefined;
  const terms = termsAt(keys, trace, position);
  const others = keys.size - terms.length;
  const row = (/** @type {string} */ name, /** @type {number[]} */ numbers, /** @type {any[]} */ ...more) =>
    h("tr", {}, h("th", { scope: "row" }, name),
      numbers.map((number) => h("td", { class: "number", title: String(number) }, decimal(number))), more);
  const empty = () => others > 0 && h("td", {});
  return h("table", { class: "score-sum" },
    h("caption", {}, say("score_of"), " ", h("bdi", {}, `“${label}”`), " = ", h("span", { class: "formula" }, names.formula),
      masked && ` · ${say("score_masked")}`),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "i"),
      keys.dimensions.map((i) => h("th", { scope: "col" }, i + 1)),
      others > 0 && h("th", { scope: "col" }, say("other_dimensions", { count: others })),
      h("th", { scope: "col", class: "sum" }, "Σ"))),
    h("tbody", {},
      row(names.query, trace.asked ?? [], empty(), h("td", { class: "sum" })),
      row(names.key, keys.keys[position], empty(), h("td", { class: "sum" })),
      names.factor && row(names.factor, keys.factor, empty(), h("td", { class: "sum" })),
      h("tr", { class: "products" }, h("th", { scope: "row" }, termName(names, keys.additive)),
        terms.map((number) => h("td", { class: "number", title: String(number) }, decimal(number))),
        others > 0 && h("td", { class: "number" }, masked ? "" : decimal(trace.rest?.[position] ?? 0)),
        h("td", { class: "number sum" }, decimal(trace.scores[position])))));
}

/**
 * @param {{query: string, key: string, factor: string}} names
 * @param {boolean} additive
 */
function termName({ query, key, factor }, additive) {
  if (additive) return `${factor} · tanh(${query} + ${key})`;
  const product = `${query} · ${key}`;
  return factor.startsWith("1 /") ? `${product} ${factor.slice(2)}` : [factor, product].filter(Boolean).join(" · ");
}
