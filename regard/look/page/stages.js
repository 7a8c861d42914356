/** The arithmetic of one step with its numbers: scores, softmax, weighted values, context, next word. */

import { h, replace } from "./dom.js";
import { say } from "./language.js";
import { decimal, percent } from "./number.js";
import { placesOf } from "./record.js";
import { vectorCells } from "./vector.js";

export const STAGES = /** @type {const} */ (["scores", "softmax", "values", "context", "output"]);

/**
 * @typedef {import("./record.js").Look} Look
 * @typedef {import("./record.js").Trace} Trace
 */

/**
 * Draw the whole step once; `showStage` then reveals its parts.
 * @param {HTMLElement} place
 * @param {Look} look
 * @param {number} step
 * @param {Trace | null} trace
 */
export function drawStep(place, look, step, trace) {
  const output = h("div", { class: "outcome", "data-from": 4 },
    h("h4", {}, say("stage_output")),
    h("ol", { class: "bars" }, look.steps[step].candidates.map((each) => bar(each, each.id === look.steps[step].id))));
  if (trace === null) {
    const vector = look.fixed_vector ?? [];
    const cells = vectorCells(vector, { size: 12, columns: 16 });
    replace(place, h("div", { class: "arithmetic" },
      h("div", {}, h("h4", {}, say("fixed_title")), cells), output));
    return;
  }
  const size = look.dimensions;
  const query = h("p", { class: "query" }, h("strong", {}, say("query")), vectorCells(trace.query, { written: true }),
    h("span", { class: "hint" }, of(trace.query.length, size?.query)),
    look.steps[step].attention.length > 1 && h("span", { class: "hint" },
      say("layer_head", { layer: trace.layer + 1, head: trace.head + 1 })));
  replace(place, query, h("div", { class: "arithmetic" }, h("div", { class: "scroll" }, table(look, trace)), output));
}

/**
 * @param {number} shown
 * @param {number | undefined} all
 */
function of(shown, all) {
  return all && all > shown ? say("shown_numbers", { shown, all }) : "";
}

/**
 * @param {Look} look
 * @param {Trace} trace
 */
function table(look, trace) {
  const finite = trace.scores.filter((score) => score !== null).map(Number);
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low || 1;
  const scale = Math.max(1e-9, ...trace.weighted_values.flat().map(Math.abs), ...trace.context.map(Math.abs));
  const local = trace.gaussian !== null && trace.gaussian !== undefined;
  const heads = [
    h("th", { scope: "col" }, say(look.image ? "image_cell" : "source_piece")),
    h("th", { scope: "col", "data-from": 0 }, say("score")),
    h("th", { scope: "col", "data-from": 1 }, say("weight")),
    local && h("th", { scope: "col", "data-from": 1 }, say("gaussian")),
    h("th", { scope: "col", "data-from": 2 }, say("value")),
  ];
  const rows = placesOf(look, trace).map(({ label, position: j }) => {
    const score = trace.scores[j];
    const outside = score === null || score === undefined;
    return h("tr", { class: outside ? "outside" : "" },
      h("th", { scope: "row" }, h("bdi", {}, label)),
      measured(decimal(score ?? null), outside ? 0 : 0.06 + (0.94 * (Number(score) - low)) / span, 0, "score-bar"),
      measured(decimal(trace.weights[j], 3), trace.weights[j], 1),
      local && measured(decimal(trace.gaussian?.[j] ?? 0, 3), trace.gaussian?.[j] ?? 0, 1, "score-bar"),
      h("td", { "data-from": 2 }, vectorCells(trace.weighted_values[j], { scale, written: true })));
  });
  const total = trace.weights.reduce((sum, value) => sum + value, 0);
  const sum = h("tr", { class: "sum" },
    h("th", { scope: "row" }, "Σ"),
    h("td", { "data-from": 0 }),
    h("td", { "data-from": 1, class: "number" }, decimal(total, 3)),
    local && h("td", {}),
    h("td", { "data-from": 3 }, h("span", { class: "context" },
      vectorCells(trace.context, { scale, written: true, key: "context-cells" }),
      h("span", { class: "hint" }, say("context"), " ", of(trace.context.length, look.dimensions?.value)))));
  return h("table", { class: local ? "attention-table local" : "attention-table" },
    h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows), h("tfoot", {}, sum));
}

/**
 * A number with its bar.
 * @param {string} number
 * @param {number} share
 * @param {number} stage from which it is seen
 * @param {string} [key]
 */
function measured(number, share, stage, key = "") {
  const mark = h("span", { class: `bar ${key}` });
  mark.style.setProperty("--share", String(Math.max(0, Math.min(1, share))));
  const written = h("span", { class: "number" }, number);
  return h("td", { "data-from": stage }, h("span", { class: "measured" }, written, mark));
}

/**
 * @param {import("./record.js").Candidate} each
 * @param {boolean} said
 */
function bar(each, said) {
  const mark = h("span", { class: "bar" });
  mark.style.setProperty("--share", String(each.probability));
  const name = h("span", { class: "name" }, h("bdi", {}, each.piece));
  const number = h("span", { class: "number" }, percent(each.probability));
  return h("li", { class: said ? "said" : "" }, h("div", { class: "candidate" }, name, mark, number));
}

/**
 * Show everything up to a stage.
 * @param {HTMLElement} place
 * @param {number} stage
 */
export function showStage(place, stage) {
  place.querySelectorAll("[data-from]").forEach((element) => {
    const from = Number(element.getAttribute("data-from"));
    element.classList.toggle("later", from > stage);
    element.classList.toggle("now", from === stage);
  });
}

/**
 * One sentence about a stage.
 * @param {Look} look
 * @param {number} step
 * @param {Trace | null} trace
 * @param {number} stage
 */
export function tellStage(look, step, trace, stage) {
  if (trace === null && stage < 4) return say("tell_fixed");
  if (stage === 1 && trace?.gaussian) return say("tell_softmax_local", { centre: decimal(trace.centre) });
  const over = look.image && (stage === 0 || stage === 2) ? "_image" : "";
  return say(/** @type {any} */ (`tell_${STAGES[stage]}${over}`), { piece: look.steps[step].piece });
}
