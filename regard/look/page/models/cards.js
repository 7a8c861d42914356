/** The chosen models as a strip: name, translation, how sure it is, and a small map. */

import { lookInto } from "../changes/actions.js";
import { common } from "../data/diff.js";
import { gather, unitsOf, vectorSize } from "../data/record.js";
import { isShown, lookOf, shown } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { miniature } from "../drawing/miniature.js";
import { percent } from "../drawing/number.js";
import { vectorCells } from "../drawing/vector.js";
import { say } from "../language/language.js";
import { figureOf, measuredOn } from "./models.js";

const UNSURE = 0.5; // below it, on average, a translation is called unsure

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountCards(place, store) {
  const list = h("ul", { class: "cards" });
  const title = h("h2", { class: "hidden-visually", id: "cards-title" });
  place.append(title, list);
  store.listen((state, before) => {
    const depends = /** @type {const} */ (["entries", "focus", "beside", "models", "mode", "peek", "reveal"]);
    if (depends.every((name) => state[name] === before[name])) return;
    const names = Object.keys(state.entries).filter((name) => isShown(state, name));
    title.textContent = say(state.mode === "text" ? "translations" : "findings");
    place.hidden = names.length === 0;
    list.classList.toggle("alone", names.length === 1);
    const held = list.contains(document.activeElement) ? document.activeElement?.closest("li")?.dataset.model : null;
    const button = document.activeElement?.classList.contains("compare-with") ? ".compare-with" : ".whole";
    replace(list, ...names.map((name) => card(store, name)));
    if (held) /** @type {HTMLElement | null} */ (list.querySelector(`[data-model="${CSS.escape(held)}"] ${button}`))?.focus();
  });
}

/**
 * @param {import("../data/store.js").Store} store
 * @param {string} name
 */
function card(store, name) {
  const { entries, focus, models, peek, reveal } = store.state;
  const entry = entries[name];
  const served = models.find((model) => model.name === name);
  const here = focus === name;
  const look = (peek && here ? null : (entry.preview ?? entry.history.at(-1))?.look) ?? entry.original;
  const about = [
    served?.kind ?? look?.model.kind,
    served?.parameters && say("parameters", { count: compact(served.parameters) }),
    figureOf(served),
  ];
  const writing = here && reveal !== null;
  return h("li", { class: here ? "card here" : "card", "data-model": name, "aria-busy": entry.status === "loading" },
    h("div", { class: "card-head" }, h("h3", { dir: "auto" }, name),
      h("p", { class: "about", title: measuredOn(served) },
        about.filter(Boolean).join(" · ")), look && figures(look)),
    entry.status === "loading" && h("p", { class: "waiting" }, say(store.state.mode === "text" ? "loading" : "seeing")),
    entry.status === "error" && h("p", { class: "trouble", role: "alert" }, entry.error),
    look && !store.state.live && h("p", { class: "about", dir: "auto" }, look.source.text),
    look && h("p", { class: writing ? "translation writing" : "translation", dir: "auto", title: look.target.text },
      told(store, name, look)),
    look && thumbnail(look),
    look && comparable(store, name) && h("button", { class: "compare-with", "aria-pressed": store.state.beside === name,
      click: () => store.set({ beside: store.state.beside === name ? null : name }) },
      say("compare"), h("span", { class: "hidden-visually" }, ` ${name}`)),
    entry.seen && h("p", { class: "translation", dir: "auto" }, entry.seen.label),
    entry.seen && h("p", { class: "figures" }, percent(entry.seen.probabilities[entry.seen.label])),
    (look || entry.seen) &&
      h("button", { class: "whole", "aria-pressed": here, click: () => lookInto(store, name) },
        h("span", { class: "hidden-visually" }, say(here ? "looking_inside" : "look_inside") + ": " + name)),
  );
}

/**
 * A translation; words that the opened model does not say are marked.
 * @param {import("../data/store.js").Store} store
 * @param {string} name
 * @param {import("../data/record.js").Look} look
 */
function told(store, name, look) {
  const other = shown(store.state);
  if (!other || name === store.state.focus || look.target.words.length === 0) return look.target.text || "∅";
  const same = new Set(common(look.target.words, other.target.words).map(([index]) => index));
  return look.target.words.flatMap((word, index) => [same.has(index) ? word : h("em", { title: say("differs") }, word), " "]);
}

/**
 * Whether a translation can stand beside the opened one: another model's, of the same sentence.
 * @param {import("../data/store.js").Store} store
 * @param {string} name
 */
function comparable({ state }, name) {
  const [own, other] = [shown(state), lookOf(state, name)];
  return name !== state.focus && own !== null && other !== null && !own.image && !other.image &&
    own.source.text === other.source.text;
}

/** @param {import("../data/record.js").Look} look */
function figures(look) {
  const mean = look.mean_probability ?? null;
  return h("p", { class: "figures" },
    mean !== null && h("span", { class: mean < UNSURE ? "trouble" : "", title: say("mean_probability_note") },
      say("mean_probability", { share: percent(mean) })),
    !look.finished && h("span", { class: "trouble" }, say("cut")));
}

/**
 * One honest line where a translation is not to be trusted; null elsewhere.
 * @param {import("../data/record.js").Look} look
 */
export function doubt(look) {
  const strange = (look.source.units ?? []).filter((unit) => unit.unfamiliar).map((unit) => `“${unit.text}”`);
  const share = percent(look.mean_probability ?? 1);
  if (look.doubtful) return say("doubt_both", { words: strange.join(", "), share });
  if (strange.length > 0) return say("doubt_unseen", { words: strange.join(", ") });
  return (look.mean_probability ?? 1) < UNSURE ? say("doubt_unsure", { share }) : null;
}

/** @param {import("../data/record.js").Look} look */
function thumbnail(look) {
  if (look.image) return null;
  if (!look.alignment) return vectorCells(look.fixed_vector ?? [], { size: 4, columns: 16, label: say("fixed_short", { count: vectorSize(look) }) });
  const rows = unitsOf(look.target, "words", false);
  const columns = unitsOf(look.source, "words", false);
  return miniature(gather(look.alignment, rows, columns), 34);
}

/** @param {number} count */
function compact(count) {
  return new Intl.NumberFormat(document.documentElement.lang, { notation: "compact" }).format(count);
}
