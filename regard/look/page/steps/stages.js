/** The arithmetic of one step with its numbers: a column for each source piece, from score to weighted value. */

import { hasAttention, placesOf, traceAt } from "../data/record.js";
import { shown } from "../data/store.js";
import { h, replace, write } from "../drawing/dom.js";
import { explain } from "../drawing/explain.js";
import { decimal, percent } from "../drawing/number.js";
import { vectorCells } from "../drawing/vector.js";
import { say } from "../language/language.js";
import { fly } from "./flight.js";
import { formulaOf, keysOf, scoreSum, termsAt } from "./score.js";

export const STAGES = /** @type {const} */ (["scores", "softmax", "values", "context", "output"]);

/**
 * @typedef {import("../data/record.js").Look} Look
 * @typedef {import("../data/record.js").Trace} Trace
 * @typedef {import("../data/store.js").Store} Store
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
    const same = wanted === drawn && of === look;
    if (!same) drawStep(body, look, step, trace);
    [drawn, of] = [wanted, look];
    const before = Number(body.dataset.stage);
    showStage(body, stage);
    if (same && trace && stage === before + 1) move(body, stage);
    write(said, tellStage(look, step, trace, stage));
    for (const each of stages.querySelectorAll("button")) {
      each.setAttribute("aria-current", Number(each.dataset.stage) === stage ? "step" : "false");
    }
  });
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
  const keys = keysOf(look, trace);
  const names = keys && formulaOf(look, keys);
  const asked = keys ? /** @type {number[]} */ (trace.asked) : trace.query;
  const query = h("p", { class: "query" }, h("strong", {}, say("query"), names && ` ${names.query}`),
    vectorCells(asked, { written: true }),
    h("span", { class: "hint" }, keys ? differing(keys) : of(trace.query.length, look.dimensions?.query)),
    look.steps[step].attention.length > 1 && h("span", { class: "hint" },
      say("layer_head", { layer: trace.layer + 1, head: trace.head + 1 })));
  const places = placesOf(look, trace);
  const frame = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("panel_steps") },
    table(look, trace, places, keys));
  const sum = keys && h("div", { class: "scroll", "data-until": 0, tabindex: 0, role: "group", "aria-label": say("score_of") });
  replace(place, query, frame, sum, output);
  if (sum && keys) choosing(frame, places, trace, (chosen) => replace(sum, scoreSum(look, trace, keys, chosen)));
}

/**
 * The source piece whose score is written out: the one pointed at or chosen, at first the one with the largest weight.
 * @param {HTMLElement} frame
 * @param {{label: string, position: number}[]} places
 * @param {Trace} trace
 * @param {(place: {label: string, position: number}) => void} write
 */
function choosing(frame, places, trace, write) {
  let current = -1;
  const choose = (/** @type {number} */ position) => {
    const found = places.find((each) => each.position === position);
    if (!found || position === current) return;
    current = position;
    for (const each of frame.querySelectorAll("[data-position]")) {
      const own = Number(each.getAttribute("data-position")) === position;
      each.classList.toggle("asked", own);
      if (each.hasAttribute("aria-pressed")) each.setAttribute("aria-pressed", String(own));
    }
    write(found);
  };
  for (const kind of ["pointerover", "focusin", "click"]) {
    frame.addEventListener(kind, (event) => {
      const cell = /** @type {Element} */ (event.target).closest("[data-position]");
      if (cell) choose(Number(cell.getAttribute("data-position")));
    });
  }
  choose(places.toSorted((one, other) => trace.weights[other.position] - trace.weights[one.position])[0]?.position ?? -1);
}

/**
 * Which dimensions are shown.
 * @param {import("../data/record.js").HeadKeys} keys
 */
function differing({ dimensions, size }) {
  return size > dimensions.length ? say("differing_numbers", { shown: dimensions.length, all: size }) : "";
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
 * @param {{label: string, position: number}[]} places
 * @param {import("../data/record.js").HeadKeys | null} keys
 */
function table(look, trace, places, keys) {
  const finite = trace.scores.filter((score) => score !== null).map(Number);
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low || 1;
  const values = places.map(({ position }) => valueAt(trace, position));
  const scale = Math.max(1e-9, ...trace.context.map(Math.abs), ...values.flat().map(Math.abs));
  const local = trace.gaussian !== null && trace.gaussian !== undefined;
  const outside = (/** @type {number} */ j) => trace.scores[j] === null || trace.scores[j] === undefined;
  const row = (/** @type {string} */ name, /** @type {number} */ stage, /** @type {(j: number, index: number) => any} */ cell,
    /** @type {any} */ sum = "", key = "") =>
    h("tr", { "data-from": stage, "data-until": UNTIL[key], class: key }, h("th", { scope: "row" }, name),
      places.map(({ position }, index) =>
        h("td", { class: outside(position) ? "outside" : "", "data-position": position }, cell(position, index))),
      h("td", { class: "sum", "data-from": stage === 2 ? 3 : stage }, sum));
  const names = keys && formulaOf(look, keys);
  const terms = keys ? places.map(({ position }) => termsAt(keys, trace, position)) : [];
  const [deepest, largest] = [keys?.keys ?? [], terms].map((all) => Math.max(1e-9, ...all.flat().map(Math.abs)));
  const head = (/** @type {{label: string, position: number}} */ { label, position }) => h("th", { scope: "col" },
    keys ? h("button", { class: "asks", "data-position": position, "aria-pressed": false }, h("bdi", {}, label)) : h("bdi", {}, label));
  const total = trace.weights.reduce((sum, value) => sum + value, 0);
  const context = h("span", { class: "context" }, vectorCells(trace.context, { scale, size: 8, upright: true, key: "context-cells" }));
  return h("table", { class: "attention-table" },
    h("thead", {}, h("tr", {}, h("td", {}),
      places.map(head), h("th", { scope: "col" }, "Σ"))),
    h("tbody", {},
      keys && row(`${say("key_vector")} ${names?.key}`, 0, (j) => vectorCells(keys.keys[j], { scale: deepest, size: 7, upright: true }), "", "key-row"),
      keys && row(say("score_terms"), 0, (_, index) => vectorCells(terms[index], { scale: largest, size: 7, upright: true }), "", "products"),
      row(say("score"), 0, (j) => measured(decimal(trace.scores[j] ?? null), outside(j) ? 0 : 0.06 + (0.94 * (Number(trace.scores[j]) - low)) / span, "score-bar"), "", "scores"),
      local && row(say("gaussian"), 1, (j) => measured(decimal(trace.gaussian?.[j] ?? 0, 3), trace.gaussian?.[j] ?? 0, "score-bar")),
      row(say("weight"), 1, (j) => measured(decimal(trace.weights[j], 3), trace.weights[j]), h("span", { class: "number" }, decimal(total, 3)), "weights"),
      row(say("plain_value"), 2, (_, index) => vectorCells(values[index], { scale, size: 8, upright: true }), "", "plain"),
      row(say("value"), 2, (j) => vectorCells(trace.weighted_values[j], { scale, size: 8, upright: true }), context, "weighted")),
    h("caption", {}, look.image || places.length < look.source.pieces.length ? say("largest_places", { count: places.length }) : "",
      " ", h("span", { "data-from": 2 }, of(trace.context.length, look.dimensions?.value))));
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

/** Rows of the first stage alone; the values take their place. */
const UNTIL = /** @type {Record<string, number>} */ ({ "key-row": 0, products: 0 });

/**
 * The values slide into the context, the context into the next word.
 * @param {HTMLElement} body
 * @param {number} stage
 */
function move(body, stage) {
  const context = body.querySelector(".context-cells");
  if (stage === 2) for (const value of body.querySelectorAll(".plain td .vector")) flyToOwn(body, value);
  if (stage === 3) for (const value of body.querySelectorAll(".weighted td:not(.sum) .vector")) fly(value, context);
  if (stage === 4) fly(context, body.querySelector(".outcome strong"));
}

/**
 * A value slides down to its weighted value.
 * @param {HTMLElement} body
 * @param {Element} value
 */
function flyToOwn(body, value) {
  const position = value.closest("td")?.dataset.position;
  fly(value, body.querySelector(`.weighted [data-position="${position}"] .vector`));
}

/**
 * Show everything up to a stage; what is for earlier stages alone, and the values before theirs, take no room.
 * @param {HTMLElement} place
 * @param {number} stage
 */
function showStage(place, stage) {
  place.querySelectorAll("[data-from]").forEach((element) => {
    const from = Number(element.getAttribute("data-from"));
    element.classList.toggle("later", from > stage);
    element.classList.toggle("now", from === stage);
  });
  place.dataset.stage = String(stage);
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
