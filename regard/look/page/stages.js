/** The arithmetic of one step with its numbers: a column for each source piece, from score to weighted value. */

import { h, replace } from "./dom.js";
import { explain } from "./explain.js";
import { say } from "./language.js";
import { decimal, percent } from "./number.js";
import { hasAttention, placesOf, traceAt } from "./record.js";
import { shown } from "./store.js";
import { vectorCells } from "./vector.js";

export const STAGES = /** @type {const} */ (["scores", "softmax", "values", "context", "output"]);

/**
 * @typedef {import("./record.js").Look} Look
 * @typedef {import("./record.js").Trace} Trace
 * @typedef {import("./store.js").Store} Store
 */

/**
 * @param {HTMLElement} place
 * @param {Store} store
 */
export function mountStages(place, store) {
  const stages = h("ol", { class: "stages" }, STAGES.map((name, index) =>
    h("li", {}, h("button", { "data-stage": index, click: () => store.set({ stage: index, lit: true }) }, say(`stage_${name}`)))));
  const said = h("p", { class: "telling", "aria-live": "polite" });
  const body = h("div", { class: "step-body" });
  const terms = h("span", { class: "hint terms" }, say("term_score"), explain("score"), say("term_softmax"), explain("softmax"));
  place.append(h("h2", { class: "hidden-visually" }, say("panel_steps")), stages, h("div", { class: "row" }, said, terms), body);
  let drawn = "";
  /** @type {Look | null} */
  let of = null;
  store.listen((state) => {
    const look = shown(state);
    if (look === null || place.hidden) return;
    const own = state.kind !== "cross" && hasAttention(look);
    stages.hidden = own;
    if (own) {
      drawn = "";
      write(said, say("steps_cross_only"));
      return void replace(body, h("button", { class: "quiet", click: () => store.set({ kind: "cross", layer: null, head: null }) },
        say("cross")));
    }
    const bare = !hasAttention(look);
    [...stages.children].forEach((each, index) => each.toggleAttribute("hidden", bare && index < 3));
    write(/** @type {HTMLElement} */ (stages.querySelector('[data-stage="3"]')), say(bare ? "fixed_title" : "stage_context"));
    const stage = bare ? Math.max(3, state.stage) : state.stage;
    const step = Math.min(state.step ?? 0, look.steps.length - 1);
    const trace = traceAt(look, step, state);
    if (trace === null && !bare) return void (write(said, say("working")), replace(body), (drawn = "")); // on its way
    const wanted = `${step} ${trace?.layer} ${trace?.head}`;
    if (wanted !== drawn || of !== look) drawStep(body, look, step, trace);
    [drawn, of] = [wanted, look];
    showStage(body, stage);
    write(said, tellStage(look, step, trace, stage));
    for (const each of stages.querySelectorAll("button")) {
      each.setAttribute("aria-current", Number(each.dataset.stage) === stage ? "step" : "false");
    }
  });
}

/**
 * Write text only if it changed, so a screen reader announces it once.
 * @param {HTMLElement} element
 * @param {string} text
 */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Draw the whole step once; `showStage` then reveals its parts.
 * @param {HTMLElement} place
 * @param {Look} look
 * @param {number} step
 * @param {Trace | null} trace
 */
function drawStep(place, look, step, trace) {
  const { piece, probability } = look.steps[step];
  const output = h("p", { class: "outcome", "data-from": 4 },
    say(trace === null ? "vector_gives" : "context_gives"), " ",
    h("strong", {}, h("bdi", {}, piece)), " ", h("span", { class: "number" }, percent(probability)));
  if (trace === null) {
    const cells = vectorCells(look.fixed_vector ?? [], { size: 12, columns: 16 });
    return replace(place, h("div", { "data-from": 3 }, cells), output);
  }
  const size = look.dimensions;
  const query = h("p", { class: "query" }, h("strong", {}, say("query")), vectorCells(trace.query, { written: true }),
    h("span", { class: "hint" }, of(trace.query.length, size?.query)),
    look.steps[step].attention.length > 1 && h("span", { class: "hint" },
      say("layer_head", { layer: trace.layer + 1, head: trace.head + 1 })));
  replace(place, query, h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("panel_steps") }, table(look, trace)), output);
}

/**
 * @param {number} shown
 * @param {number | undefined} all
 */
function of(shown, all) {
  return all && all > shown ? say("shown_numbers", { shown, all }) : "";
}

/**
 * Rows are the stages, columns the source pieces; the last column is the sum.
 * @param {Look} look
 * @param {Trace} trace
 */
function table(look, trace) {
  const places = placesOf(look, trace);
  const finite = trace.scores.filter((score) => score !== null).map(Number);
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low || 1;
  const values = places.map(({ position }) => valueAt(trace, position));
  const scale = Math.max(1e-9, ...trace.context.map(Math.abs), ...values.flat().map(Math.abs));
  const local = trace.gaussian !== null && trace.gaussian !== undefined;
  const outside = (/** @type {number} */ j) => trace.scores[j] === null || trace.scores[j] === undefined;
  const row = (/** @type {string} */ name, /** @type {number} */ stage, /** @type {(j: number, index: number) => any} */ cell,
    /** @type {any} */ sum = "", key = "") =>
    h("tr", { "data-from": stage, class: key }, h("th", { scope: "row" }, name),
      places.map(({ position }, index) => h("td", { class: outside(position) ? "outside" : "" }, cell(position, index))),
      h("td", { class: "sum", "data-from": stage === 2 ? 3 : stage }, sum));
  const total = trace.weights.reduce((sum, value) => sum + value, 0);
  const context = h("span", { class: "context" }, vectorCells(trace.context, { scale, size: 11, upright: true, key: "context-cells" }));
  return h("table", { class: "attention-table" },
    h("thead", {}, h("tr", {}, h("td", {}),
      places.map(({ label }) => h("th", { scope: "col" }, h("bdi", {}, label))), h("th", { scope: "col" }, "Σ"))),
    h("tbody", {},
      row(say("score"), 0, (j) => measured(decimal(trace.scores[j] ?? null), outside(j) ? 0 : 0.06 + (0.94 * (Number(trace.scores[j]) - low)) / span, "score-bar"), "", "scores"),
      local && row(say("gaussian"), 1, (j) => measured(decimal(trace.gaussian?.[j] ?? 0, 3), trace.gaussian?.[j] ?? 0, "score-bar")),
      row(say("weight"), 1, (j) => measured(decimal(trace.weights[j], 3), trace.weights[j]), h("span", { class: "number" }, decimal(total, 3)), "weights"),
      row(say("plain_value"), 2, (_, index) => vectorCells(values[index], { scale, size: 11, upright: true }), "", "plain"),
      row(say("value"), 2, (j) => vectorCells(trace.weighted_values[j], { scale, size: 11, upright: true }), context, "weighted")),
    h("caption", {}, look.image || places.length < look.source.pieces.length ? say("largest_places", { count: places.length }) : "",
      " ", of(trace.context.length, look.dimensions?.value)));
}

/**
 * The value before weighting; zeros where the weight is 0.
 * @param {Trace} trace
 * @param {number} j
 */
function valueAt({ weights, weighted_values }, j) {
  return weighted_values[j].map((number) => (Math.abs(weights[j]) < 1e-12 ? 0 : number / weights[j]));
}

/**
 * A number over its bar.
 * @param {string} number
 * @param {number} share
 * @param {string} [key]
 */
function measured(number, share, key = "") {
  const mark = h("span", { class: `bar ${key}` });
  mark.style.setProperty("--share", String(Math.max(0, Math.min(1, share))));
  return h("span", { class: "measured" }, h("span", { class: "number" }, number), mark);
}

/**
 * Show everything up to a stage.
 * @param {HTMLElement} place
 * @param {number} stage
 */
function showStage(place, stage) {
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
function tellStage(look, step, trace, stage) {
  if (trace === null) return say(stage < 4 ? "tell_fixed" : "tell_output_fixed", { piece: look.steps[step].piece });
  if (stage === 1 && trace.gaussian) return say("tell_softmax_local", { centre: decimal(trace.centre) });
  const over = look.image && (stage === 0 || stage === 2) ? "_image" : "";
  return say(/** @type {any} */ (`tell_${STAGES[stage]}${over}`), { piece: look.steps[step].piece });
}
