/** The beam search tree: one column per step, best path marked, pruned hypotheses faint. */

import { continueFrom } from "../changes/actions.js";
import { reason, request } from "../data/request.js";
import { changeOf, focused, shown } from "../data/store.js";
import { h, replace, s } from "../drawing/dom.js";
import { explain } from "../drawing/explain.js";
import { measure } from "../drawing/label.js";
import { clamp, decimal } from "../drawing/number.js";
import { say } from "../language/language.js";

const ROW = 34;
const GAP = 18;
const LEAST_SCALE = 0.72; // a wide tree shrinks to fit; beyond this it scrolls

/** @typedef {import("../data/record.js").Node} Node */

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountTree(place, store) {
  const scroll = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("panel_beam") });
  const width = /** @type {HTMLInputElement} */ (h("input", { type: "number", min: 1 }));
  width.addEventListener("change", () => {
    store.set({ beam: clamp(Math.round(Number(width.value)) || 1, 1, widest(store.state)) });
    growTree(store);
  });
  const size = h("label", { class: "check" }, say("beam_width"), width);
  place.append(h("h2", { class: "hidden-visually" }, say("panel_beam")),
    h("div", { class: "row" }, h("p", { class: "hint" }, say("tree_hint"), explain("beam")), size), scroll);
  /** @type {unknown} the look and the width that the last search was for */
  let searched = null;
  store.listen((state, before) => {
    if (place.hidden) return;
    const wanted = focused(state)?.preview || state.peek ? searched : shown(state);
    if (state.live && wanted !== searched && wanted !== null) {
      searched = wanted;
      growTree(store);
    }
    const beam = (state.live ? focused(state)?.tree : shown(state))?.beam ?? null;
    size.hidden = !state.live;
    width.max = String(widest(state));
    width.value = String(state.beam);
    if (focused(state) === focused(before) && state.panel === before.panel) return;
    replace(scroll, beam === null ? h("p", { class: "waiting" }, say("working")) : drawTree(store, beam.nodes));
  });
}

/**
 * Run the beam search again with its tree.
 * @param {Store} store
 */
async function growTree(store) {
  const { focus, live, beam } = store.state;
  if (focus === null || !live || !focused(store.state) || shown(store.state)?.image) return;
  try {
    const look = await request(store, focus, changeOf(store.state), { tree: true, beam });
    if (look !== null && !("label" in look)) store.setEntry(focus, { tree: look });
  } catch (error) {
    store.set({ notice: reason(error) });
  }
}

/**
 * The server's maximum beam size.
 * @param {import("../data/store.js").State} state
 */
function widest({ limits }) {
  return limits.max_beam ?? 10;
}

/**
 * @param {import("../data/store.js").Store} store
 * @param {Node[]} nodes
 */
function drawTree(store, nodes) {
  const placed = layOut(nodes);
  const { columns, rows, at } = placed;
  const wide = columns.at(-1) ?? { x: 0, width: 0 };
  const width = wide.x + wide.width + 16;
  const height = rows * ROW + 20;
  const label = say("tree_label", { count: nodes.length, steps: columns.length });
  const frame = { class: "tree", width, height, viewBox: `0 0 ${width} ${height}` };
  const picture = s("svg", { ...frame, role: "group", "aria-label": label });
  picture.style.setProperty("min-width", `${Math.round(width * LEAST_SCALE)}px`);
  const lines = s("g", { class: "branches" });
  const words = s("g", {});
  for (const node of nodes) {
    const here = /** @type {{x: number, y: number, width: number}} */ (at.get(node.id));
    const from = node.parent === null ? undefined : at.get(node.parent);
    if (from) {
      const x = from.x + from.width;
      const middle = (x + here.x) / 2;
      const d = `M${x} ${from.y}C${middle} ${from.y} ${middle} ${here.y} ${here.x} ${here.y}`;
      lines.append(s("path", { d, class: `branch ${node.state}` }));
    }
    words.append(leaf(store, nodes, node, here));
  }
  picture.append(lines, words);
  return picture;
}

/**
 * A hypothesis; choosing it goes on from there.
 * @param {import("../data/store.js").Store} store
 * @param {Node[]} nodes
 * @param {Node} node
 * @param {{x: number, y: number, width: number}} here
 */
function leaf(store, nodes, node, here) {
  const told = say("node", { piece: node.piece, score: decimal(node.score), state: say(node.state) });
  const box = { x: here.x, y: here.y - 13, width: here.width, height: 26, rx: 5 };
  const byId = new Map(nodes.map((each) => [each.id, each]));
  const goOn = () => {
    /** @type {number[]} */
    const path = [];
    for (let each = /** @type {Node | undefined} */ (node); each; each = byId.get(each.parent ?? -1)) path.unshift(each.token);
    continueFrom(store, path);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    goOn();
  };
  const open = store.state.live && node.state !== "finished"
    ? { role: "button", tabindex: 0, "aria-label": `${say("go_on_from")} ${told}`, click: goOn, keydown: key } : {};
  return s("g", { class: `leaf ${node.state}`, ...open },
    s("rect", box),
    s("text", { x: here.x + 7, y: here.y, "dominant-baseline": "central" }, node.piece,
      s("tspan", { class: "score", dx: 6 }, decimal(node.score))),
    s("title", {}, told));
}

/**
 * The position of every node: columns by step; within a column by parent, then by score.
 * @param {Node[]} nodes
 */
function layOut(nodes) {
  /** @type {Node[][]} */
  const steps = [];
  for (const node of nodes) (steps[node.step] ??= []).push(node);
  const levels = steps.filter(Boolean);
  const at = new Map();
  const columns = [];
  let x = 4;
  let rows = 0;
  for (const level of levels) {
    const above = (/** @type {Node} */ node) => (node.parent === null ? 0 : (at.get(node.parent)?.y ?? 0));
    level.sort((one, other) => above(one) - above(other) || other.score - one.score);
    const width = Math.max(...level.map((node) => measure(node.piece) + 58));
    level.forEach((node, row) => at.set(node.id, { x, y: 18 + row * ROW, width: measure(node.piece) + 58 }));
    columns.push({ x, width });
    rows = Math.max(rows, level.length);
    x += width + GAP;
  }
  return { columns, rows, at };
}
