/** Translations side by side: one card per model, with a small map or the fixed vector. */

import { lookInto } from "./actions.js";
import { h, replace, s } from "./dom.js";
import { say } from "./language.js";
import { decimal, percent } from "./number.js";
import { gather, hasAttention, unitsOf } from "./record.js";
import { isShown } from "./store.js";
import { vectorCells } from "./vector.js";

/**
 * @param {HTMLElement} place
 * @param {import("./store.js").Store} store
 */
export function mountCards(place, store) {
  const list = h("ul", { class: "cards" });
  const title = h("h2", { class: "hidden-visually", id: "cards-title" });
  place.append(title, list);
  store.listen((state, before) => {
    const depends = /** @type {const} */ (["entries", "focus", "models", "mode"]);
    if (depends.every((name) => state[name] === before[name])) return;
    const names = Object.keys(state.entries).filter((name) => isShown(state, name));
    title.textContent = say(state.mode === "text" ? "translations" : "findings");
    place.hidden = names.length === 0 || (!state.live && names.length < 2);
    replace(list, ...names.map((name) => card(store, name)));
  });
}

/**
 * @param {import("./store.js").Store} store
 * @param {string} name
 */
function card(store, name) {
  const { entries, focus, models } = store.state;
  const entry = entries[name];
  const served = models.find((model) => model.name === name);
  const here = focus === name;
  const look = entry.history.at(-1)?.look ?? entry.original;
  const about = [
    served?.kind ?? look?.model.kind,
    served?.parameters && say("parameters", { count: compact(served.parameters) }),
    served?.bleu && `BLEU ${decimal(served.bleu, 1)}`,
    served?.accuracy && say("accuracy", { share: percent(served.accuracy) }),
  ];
  return h(
    "li",
    { class: here ? "card here" : "card", "data-model": name, "aria-busy": entry.status === "loading" },
    h("h3", { dir: "auto" }, name),
    h("p", { class: "about" }, about.filter(Boolean).join(" · ")),
    entry.status === "loading" && h("p", { class: "waiting" }, say(store.state.mode === "text" ? "loading" : "seeing")),
    entry.status === "error" && h("p", { class: "trouble", role: "alert" }, entry.error),
    look && !store.state.live && h("p", { class: "about", dir: "auto" }, look.source.text),
    look && h("p", { class: "translation", dir: "auto" }, look.target.text || "∅"),
    look && h("div", { class: "card-foot" }, thumbnail(look), figures(look)),
    entry.seen && h("p", { class: "translation", dir: "auto" }, entry.seen.label),
    entry.seen && h("div", { class: "card-foot" },
      h("p", { class: "figures" }, percent(entry.seen.probabilities[entry.seen.label]))),
    (look || entry.seen) &&
      h("button", { class: "whole", "aria-pressed": here, click: () => lookInto(store, name) },
        h("span", { class: "hidden-visually" }, say(here ? "looking_inside" : "look_inside") + ": " + name)),
  );
}

/** @param {import("./record.js").Look} look */
function figures(look) {
  return h(
    "p",
    { class: "figures" },
    `${say("log_probability")} ${decimal(look.log_probability)}`,
    !look.finished && h("span", { class: "trouble" }, say("cut")),
    !hasAttention(look) && h("span", {}, say("fixed_short", { count: vectorSize(look) })),
  );
}

/**
 * The true size of the fixed vector.
 * @param {import("./record.js").Look} look
 */
export function vectorSize(look) {
  return look.dimensions?.summary ?? look.fixed_vector?.length ?? 0;
}

/** @param {import("./record.js").Look} look */
function thumbnail(look) {
  if (look.image) return null;
  if (!look.alignment) return vectorCells(look.fixed_vector ?? [], { size: 6, columns: 16, label: say("fixed_title") });
  const rows = unitsOf(look.target, "words", false);
  const columns = unitsOf(look.source, "words", false);
  return miniature(gather(look.alignment, rows, columns), 56);
}

/**
 * A small map without labels.
 * @param {number[][]} weights
 * @param {number} size the longer side
 */
export function miniature(weights, size) {
  const height = weights.length;
  const width = weights[0]?.length ?? 0;
  const cell = size / Math.max(height, width, 1);
  const across = Math.max(width * cell, 1);
  const down = Math.max(height * cell, 1);
  const picture = s("svg", { class: "miniature", width: across, height: down, "aria-hidden": "true" });
  picture.append(s("rect", { width: across, height: down, class: "cell-base" }));
  weights.forEach((row, t) =>
    row.forEach((value, j) => {
      if (value < 0.02) return;
      const place = { x: j * cell, y: t * cell, width: cell, height: cell };
      picture.append(s("rect", { ...place, class: "above", "fill-opacity": Math.min(value, 1).toFixed(3) }));
    }),
  );
  return picture;
}

/** @param {number} count */
function compact(count) {
  return new Intl.NumberFormat(document.documentElement.lang, { notation: "compact" }).format(count);
}
