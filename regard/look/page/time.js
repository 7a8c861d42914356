/** The alignment during training, if the record has it. */

import { h } from "./dom.js";
import { say } from "./language.js";
import { NOWHERE, shown } from "./store.js";

/**
 * @param {HTMLElement} place
 * @param {import("./store.js").Store} store
 */
export function mountTime(place, store) {
  const slider = /** @type {HTMLInputElement} */ (
    h("input", { type: "range", min: 0, step: 1, "aria-label": say("over_time") })
  );
  const told = h("output", { class: "number" });
  place.append(h("div", { class: "slider" }, slider, told));
  slider.addEventListener("input", () => {
    const count = shown(store.state)?.over_time?.length ?? 0;
    const moment = Number(slider.value) >= count ? null : Number(slider.value);
    store.set({ moment, kind: "cross", layer: null, head: null, ...NOWHERE });
  });
  store.listen((state) => {
    const moments = shown(state)?.over_time ?? [];
    slider.max = String(moments.length);
    slider.value = String(state.moment ?? moments.length);
    const moment = state.moment === null ? undefined : moments[state.moment];
    told.textContent = moment ? say("update", { update: moment.update }) : say("at_end");
    slider.setAttribute("aria-valuetext", told.textContent);
  });
}
