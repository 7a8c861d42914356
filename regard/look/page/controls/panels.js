/** What stands under the ribbons: the matrix, the steps, the architecture or the beam; one at a time. */

import { hasAttention } from "../data/record.js";
import { shown } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { say } from "../language/language.js";

/**
 * @typedef {import("../data/store.js").Panel} Panel
 * @typedef {import("../data/store.js").State} State
 */

/** @type {Panel[]} */
const PANELS = ["matrix", "steps", "map", "beam"];

/**
 * Whether a record has something for a panel.
 * @param {State} state
 * @param {Panel} panel
 */
function has(state, panel) {
  const look = shown(state);
  if (look === null) return false;
  // a long sentence's steps are asked for when they are opened
  const traced = look.steps.length > 0 && (state.live || !hasAttention(look) || look.steps.some((each) => each.attention.length > 0));
  if (panel === "matrix") return hasAttention(look) && !look.image;
  if (panel === "steps") return traced;
  if (panel === "beam") return !look.image && (state.live || look.beam !== null);
  return state.live && !look.image;
}

/**
 * @param {HTMLElement} place the row of tabs
 * @param {Partial<Record<Panel, HTMLElement>>} parts
 * @param {import("../data/store.js").Store} store
 */
export function mountPanels(place, parts, store) {
  store.listen((state, before) => {
    const able = PANELS.filter((panel) => parts[panel] && has(state, panel));
    const current = able.includes(state.panel) ? state.panel : able[0];
    for (const panel of PANELS) parts[panel]?.toggleAttribute("hidden", panel !== current);
    place.hidden = able.length < 2;
    place.closest(".columns")?.classList.toggle("wide", current === "map");
    const wanted = `${able} ${current}`;
    if (place.dataset.shown === wanted && state.focus === before.focus) return;
    place.dataset.shown = wanted;
    const held = place.contains(document.activeElement);
    replace(place, ...able.map((panel) =>
      h("button", { "aria-pressed": panel === current, "data-panel": panel, click: () => store.set({ panel }) },
        say(/** @type {any} */ (`panel_${panel}`)))));
    if (held) /** @type {HTMLElement | null} */ (place.querySelector('[aria-pressed="true"]'))?.focus();
  });
}
