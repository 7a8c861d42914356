/** A classifier's record: class probabilities, and the maps of its attention modules over the image. */

import { seenIn } from "../data/store.js";
import { h, replace, s } from "../drawing/dom.js";
import { cellName } from "../drawing/label.js";
import { miniature } from "../drawing/miniature.js";
import { decimal, percent } from "../drawing/number.js";
import { say } from "../language/language.js";
import { drawCells, isFine, lightCells, markCells, overlayChoice, tellGrid } from "./cells.js";

const THUMB = 84;
const MOST_CLASSES = 8;

/**
 * @typedef {{kind: "gate", grid: [number, number], weights: number[][], channels: number[], before: number[][],
 *   after: number[][], branches?: {channel: number[], spatial: number[][], join: Join} | null}} Gate
 * @typedef {"sigmoid(sum)" | "sigmoid(product)" | "product"} Join how the branches give the weights
 * @typedef {{kind: "encoder-self", grid: [number, number], class_token: boolean, weights: number[][][]}} SelfAttention
 * @typedef {{format: string, model: {name: string, kind: string}, image: import("./cells.js").Pixels, label: string,
 *   probabilities: Record<string, number>, modules: (Gate | SelfAttention)[]}} Seen
 * @typedef {{title: string, note: string, values: number[][], lit: number[], module: number}} Panel a map: as it is
 *   drawn small, and as it lights the image
 */

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountSeen(place, store) {
  const body = h("div", {});
  const choice = overlayChoice(store);
  place.append(h("div", { class: "row picture-head" }, h("h2", {}, say("seen")), choice), body);
  /** @type {View | null} */
  let view = null;
  store.listen((state, before) => {
    const seen = seenIn(state);
    place.hidden = seen === null;
    if (seen === null) return;
    if (seen !== seenIn(before)) {
      choice.hidden = seen.modules.every(({ grid }) => isFine({ rows: grid[0], columns: grid[1] }));
      view = new View(seen, store);
      replace(body, ...drawing(seen, view));
    } else if (state.overlay !== before.overlay) view?.show(null);
  });
}

/**
 * @param {Seen} seen
 * @param {View} view
 */
function drawing(seen, view) {
  const { frame, note } = view;
  const modules = seen.modules.map((module, index) => moduleRow(view, module, index));
  view.show(null);
  return [
    h("p", { class: "hint" }, say(seen.modules.length > 0 ? "seen_hint" : "seen_nothing")),
    h("div", { class: "picture seen" },
      h("div", { class: "stays" }, frame, note), h("div", { class: "telling-side" }, classes(seen), modules)),
  ];
}

/** The large image under the hovered map, else under the selected one. */
class View {
  /**
   * @param {Seen} seen
   * @param {import("../data/store.js").Store} store
   */
  constructor(seen, store) {
    this.seen = seen;
    this.store = store;
    this.frame = h("div", { class: "picture-frame" });
    this.note = h("div", { "aria-live": "polite" });
    /** @type {Panel | null} */
    this.chosen = null;
    /** @type {number | null} which module's cells are drawn */
    this.drawn = -1;
  }

  /** @param {Panel | null} panel */
  show(panel) {
    const wanted = panel ?? this.chosen;
    this.draw(wanted?.module ?? null);
    const picture = /** @type {SVGElement} */ (/** @type {unknown} */ (this.frame.firstElementChild));
    lightCells(picture, wanted?.lit ?? null, this.store.state.overlay);
    markCells(picture, [], "asking");
    const module = wanted === null ? null : this.seen.modules[wanted.module];
    const asks = module?.kind === "encoder-self" && !module.class_token;
    const told = module && wanted ? `${nameOf(module, wanted.module)}, ${wanted.title}: ${wanted.note}` : "";
    replace(this.note, told && h("p", { class: "pair" }, told),
      module && tellGrid({ rows: module.grid[0], columns: module.grid[1] }),
      asks && h("p", { class: "hint" }, say("ask_cell")));
  }

  /** @param {number | null} index of the module whose cells are wanted */
  draw(index) {
    if (this.drawn === index) return;
    this.drawn = index;
    const module = index === null ? null : this.seen.modules[index];
    const [rows, columns] = module?.grid ?? [1, 1];
    const choose = module?.kind === "encoder-self" && !module.class_token
      ? (/** @type {number} */ position) => this.ask(module, position) : undefined;
    const name = (/** @type {number} */ position) => say("what_cell_looks_at", { cell: cellName(position, columns) });
    replace(this.frame, drawCells(this.seen.image, { rows, columns }, { label: say("seen_image"), name, choose }));
  }

  /**
   * Show the self-attention of one cell.
   * @param {SelfAttention} module
   * @param {number} position
   */
  ask(module, position) {
    const picture = /** @type {SVGElement} */ (/** @type {unknown} */ (this.frame.firstElementChild));
    const weights = module.weights[0][position];
    lightCells(picture, weights, this.store.state.overlay);
    markCells(picture, [position], "asking");
    const told = say("what_cell_looks_at", { cell: cellName(position, module.grid[1]) });
    replace(this.note, h("p", { class: "pair" }, `${told}: ${largest(weights)}`));
  }
}

/**
 * The most probable classes.
 * @param {Seen} seen
 */
function classes({ probabilities }) {
  // Sort here: JavaScript objects list numeric names first.
  const shown = Object.entries(probabilities).sort((one, other) => other[1] - one[1]).slice(0, MOST_CLASSES);
  return h("ol", { class: "bars" }, shown.map(([name, probability], index) => {
    const bar = h("span", { class: "bar" });
    bar.style.setProperty("--share", String(probability));
    return h("li", { class: index === 0 ? "said" : "" }, h("div", { class: "candidate" },
      h("span", { class: "name" }, h("bdi", {}, name)), bar, h("span", { class: "number" }, percent(probability))));
  }));
}

/**
 * @param {View} view
 * @param {Gate | SelfAttention} module
 * @param {number} index
 */
function moduleRow(view, module, index) {
  const gate = module.kind === "gate";
  const name = nameOf(module, index);
  const title = h("h3", {}, `${name} · ${module.grid[0]} × ${module.grid[1]}`);
  const row = (/** @type {any[]} */ ...maps) =>
    h("div", { class: "module", role: "group", "aria-label": name }, title, h("div", { class: "maps" }, maps.flat()));
  if (!gate) return row(headPanels(module, index).map((panel) => mapButton(view, panel)));
  const [before, weights, after] = gatePanels(module, index).map((panel) => mapButton(view, panel));
  if (!module.branches) return row(before, weights, after, channels(module));
  const sign = (/** @type {string} */ text) => h("span", { class: "operator", "aria-hidden": "true" }, text);
  const spatial = mapButton(view, spatialPanel(module.branches.spatial, index));
  return row(before, sign("→"), channelBranch(module.branches.channel), sign(module.branches.join === "sigmoid(sum)" ? "+" : "×"),
    spatial, sign("→"), weights, sign("→"), after);
}

/** The weights as the branches give them. */
const JOINED = { "sigmoid(sum)": "σ(M_c + M_s)", "sigmoid(product)": "σ(M_c · M_s)", product: "M_c · M_s" };

/**
 * @param {number[][]} spatial
 * @param {number} index
 * @returns {Panel}
 */
function spatialPanel(spatial, index) {
  const [low, high] = [Math.min(...spatial.flat()), Math.max(...spatial.flat())];
  const values = scaled(spatial, low, high);
  return { title: say("branch_spatial"), note: say("from_to", { low: decimal(low), high: decimal(high) }), values,
    lit: values.flat(), module: index };
}

/**
 * The number of each channel as a bar above or below zero.
 * @param {number[]} values
 */
function channelBranch(values) {
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const [wide, tall] = [THUMB / values.length, THUMB / Math.max(high - low, 1e-9)];
  const zero = high * tall;
  const bars = values.map((value, index) => s("rect", { class: value < 0 ? "below" : "above", "fill-opacity": 0.8, x: index * wide,
    width: Math.max(wide * 0.85, 0.5), y: value < 0 ? zero : zero - value * tall, height: Math.abs(value) * tall }));
  return h("div", { class: "map still" }, s("svg", { class: "miniature", width: THUMB, height: THUMB, "aria-hidden": "true" },
    s("rect", { width: THUMB, height: THUMB, class: "cell-base" }), bars),
    h("span", {}, say("branch_channel")),
    h("small", {}, `${say("gate_channels", { count: values.length })}, ${say("from_to", { low: decimal(Math.min(...values)), high: decimal(Math.max(...values)) })}`));
}

/**
 * @param {Gate | SelfAttention} module
 * @param {number} index
 */
function nameOf(module, index) {
  return say(module.kind === "gate" ? "module" : "layer", { number: index + 1 });
}

/**
 * @param {Gate} module
 * @param {number} index
 * @returns {Panel[]}
 */
function gatePanels({ before, weights, after, branches }, index) {
  const brightest = Math.max(...before.flat(), ...after.flat(), 1e-12);
  const [low, high] = [Math.min(...weights.flat()), Math.max(...weights.flat())];
  const panel = (/** @type {string} */ title, /** @type {string} */ note, /** @type {number[][]} */ values) =>
    ({ title, note, values, lit: values.flat(), module: index });
  const upTo = (/** @type {number[][]} */ map) => say("up_to", { value: decimal(Math.max(...map.flat())) });
  return [
    panel(say("gate_before"), upTo(before), scaled(before, 0, brightest)),
    // Gate weights differ little: stretch the contrast.
    panel(branches ? JOINED[branches.join] : say("gate_weights"), say("from_to", { low: decimal(low, 3), high: decimal(high, 3) }), scaled(weights, low, high)),
    panel(say("gate_after"), upTo(after), scaled(after, 0, brightest)),
  ];
}

/**
 * Attention of the class token by head, or the mean attention each cell receives.
 * @param {SelfAttention} module
 * @param {number} index
 * @returns {Panel[]}
 */
function headPanels({ weights, grid, class_token }, index) {
  const columns = grid[1];
  const mean = (/** @type {number[][]} */ rows) => rows[0].map((_, p) =>
    rows.reduce((sum, row) => sum + row[p], 0) / rows.length);
  const flat = weights.map((head) => (class_token ? head[0].slice(1) : mean(head)));
  return flat.map((lit, head) => {
    const title = class_token || flat.length > 1 ? say("head", { number: head + 1 }) : say("looked_at");
    const map = Array.from({ length: grid[0] }, (_, row) => lit.slice(row * columns, (row + 1) * columns));
    return { title, note: largest(lit), values: scaled(map, 0, Math.max(...lit, 1e-12)), lit, module: index };
  });
}

/** @param {number[]} weights */
function largest(weights) {
  return say("largest_weight", { value: decimal(Math.max(...weights), 3) });
}

/**
 * @param {number[][]} map
 * @param {number} low
 * @param {number} high
 */
function scaled(map, low, high) {
  return map.map((row) => row.map((value) => (value - low) / Math.max(high - low, 1e-12)));
}

/**
 * @param {View} view
 * @param {Panel} panel
 */
function mapButton(view, panel) {
  const choose = () => {
    view.chosen = view.chosen === panel ? null : panel;
    for (const each of button.closest(".part")?.querySelectorAll("button.map") ?? []) each.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", String(view.chosen === panel));
    view.show(null);
  };
  const look = () => view.show(panel);
  const leave = () => view.show(null);
  const listeners = { pointerenter: look, focus: look, pointerleave: leave, blur: leave, click: choose };
  const button = h("button", { class: "map", "aria-pressed": false, ...listeners },
    miniature(panel.values, THUMB), h("span", {}, panel.title), h("small", {}, panel.note));
  return button;
}

/**
 * The weight of each channel as a bar.
 * @param {Gate} module
 */
function channels({ channels: values }) {
  const wide = THUMB / values.length;
  const note = say("from_to", { low: decimal(Math.min(...values)), high: decimal(Math.max(...values)) });
  const picture = s("svg", { class: "miniature", width: THUMB, height: THUMB, "aria-hidden": "true" },
    s("rect", { width: THUMB, height: THUMB, class: "cell-base" }),
    values.map((value, index) => s("rect", { class: "above", "fill-opacity": 0.8, x: index * wide, width: wide * 0.85,
      y: THUMB * (1 - value), height: THUMB * value })));
  return h("div", { class: "map still" }, picture, h("span", {}, say("gate_channels", { count: values.length })),
    h("small", {}, note));
}
