/** The numbers of one node of the architecture: gates, states, feed-forward units, residuals, positions. */

import { askNode } from "../data/api.js";
import { reason } from "../data/request.js";
import { changeOf, shown } from "../data/store.js";
import { h, replace, stillness } from "../drawing/dom.js";
import { decimal, percent } from "../drawing/number.js";
import { say } from "../language/language.js";
import { heatStrip } from "./heat_strip.js";

/**
 * @typedef {{name: string, gate: boolean, values: number[], size: number, mean: number, norm: number}} Vector
 * @typedef {{name: string, equation: string, vectors: Vector[], active: number | null, centre: number | null}} Group
 * @typedef {{node: string, place: number, groups: Group[]}} Numbers
 * @typedef {{node: string, unit: import("../data/record.js").Unit, source: boolean}} Node a node of the diagram
 */

/** The opened node, under the diagram; it follows the words on screen. */
export class OpenedNode {
  /** @param {import("../data/store.js").Store} store */
  constructor(store) {
    this.store = store;
    this.place = h("div", { class: "node-numbers", "aria-live": "polite" });
    this.asked = "";
  }

  close() {
    this.asked = "";
    replace(this.place);
  }

  /**
   * @param {Node} node
   * @param {number} [piece] which piece of the word
   */
  async open(node, piece = node.unit.pieces[0]) {
    const look = shown(this.store.state);
    if (!look || !this.store.state.focus) return;
    const asked = `${node.node} ${piece} ${look.target.text}`;
    this.asked = asked;
    const { ban, edits } = changeOf(this.store.state);
    const ids = (/** @type {any[]} */ pieces) => pieces.map((each) => each.id);
    try {
      const found = await askNode({ model: this.store.state.focus, node: node.node, place: piece,
        source: ids(look.source.pieces), target: ids(look.steps),
        ...(ban.length > 0 || edits.length > 0 ? { intervention: { ban, edits } } : {}) });
      if (this.asked === asked) this.draw(node, piece, look, found);
    } catch (error) {
      if (this.asked === asked) replace(this.place, h("p", { class: "trouble" }, reason(error)));
    }
  }

  /**
   * @param {Node} node
   * @param {number} piece
   * @param {import("../data/record.js").Look} look
   * @param {Numbers} found
   */
  draw(node, piece, look, found) {
    const side = node.source ? look.source : look.target;
    const choices = node.unit.pieces.length > 1 && h("span", { class: "segments", role: "group", "aria-label": say("pieces") },
      node.unit.pieces.map((each) => h("button", { "aria-pressed": each === piece, click: () => this.open(node, each) },
        h("bdi", {}, side.pieces[each].text))));
    const close = h("button", { class: "quiet", click: () => this.close() }, say("close"));
    const reads = node.node === "embed.target" ? (side.pieces[piece - 1]?.text ?? "<s>") : side.pieces[piece].text;
    replace(this.place, h("div", { class: "row" },
      h("h3", {}, titleOf(node.node), h("bdi", {}, `“${reads}”`)), choices, close),
    ...found.groups.map((group) => this.group(group)));
    this.place.scrollIntoView({ block: "nearest", behavior: stillness() ? "instant" : "smooth" });
  }

  /** @param {Group} group */
  group({ name, equation, vectors, active, centre }) {
    const room = Math.max(140, this.place.clientWidth - 300);
    return h("section", {}, h("h4", {}, say(/** @type {any} */ (`box_${name}`)), " ", h("span", { class: "formula" }, equation)),
      active !== null && h("p", { class: "hint" }, say("box_active", { share: percent(active) })),
      centre !== null && h("p", { class: "hint" }, say("window_note", { centre: decimal(centre) })),
      vectors.length > 0 && h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("panel_map") },
        h("table", {}, h("tbody", {}, vectors.map((vector) => row(vector, room))))));
  }
}

/**
 * The layer of a node; others are named by their equation.
 * @param {string} node
 */
function titleOf(node) {
  const [, half, layer] = /(encoder|decoder)\.(\d+)/.exec(node) ?? [];
  return half ? `${say(half === "encoder" ? "box_encoder" : "box_decoder", { layer })} · ` : "";
}

/**
 * @param {Vector} vector
 * @param {number} room
 */
function row({ name, gate, values, size, mean, norm }, room) {
  const told = h("td", { class: "number under" });
  const figure = say(gate ? "box_mean" : "box_norm", { value: decimal(gate ? mean : norm) });
  const strip = heatStrip(values, { gate, room, label: `${name}: ${figure}`, tell: (text) => (told.textContent = text) });
  return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, strip,
    size > values.length && h("span", { class: "hint" }, say("shown_numbers", { shown: values.length, all: size }))),
  h("td", { class: "number" }, figure), told);
}
