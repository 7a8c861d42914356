/** How it learned: the attention of a watched sentence at each validation of its training, as a film. */

import { NOWHERE, shown } from "../data/store.js";
import { h, hide, replace, stillness, write } from "../drawing/dom.js";
import { icon } from "../drawing/icon.js";
import { say } from "../language/language.js";

const MOMENT_TIME = 700; // milliseconds of a validation

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountTime(place, store) {
  const slider = /** @type {HTMLInputElement} */ (
    h("input", { type: "range", min: 0, step: 1, "aria-label": say("over_time"), class: "scrub" })
  );
  const told = h("output", { class: "number" });
  const play = h("button", { class: "play" });
  place.append(h("div", { class: "slider" }, play, h("strong", {}, say("over_time")), slider, told));
  const count = () => shown(store.state)?.over_time?.length ?? 0;
  const go = (/** @type {number} */ number) => {
    const moment = number >= count() ? null : number;
    store.set({ moment, kind: "cross", layer: null, head: null, ...NOWHERE });
  };
  slider.addEventListener("input", () => go(Number(slider.value)));
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    draw();
  };
  const draw = () => {
    replace(play, icon(timer ? "pause" : "play"));
    play.setAttribute("aria-label", say(timer ? "pause" : "play_training"));
  };
  play.addEventListener("click", () => {
    if (timer) return stop();
    go(0);
    timer = setInterval(() => {
      const next = (store.state.moment ?? count()) + 1;
      if (next > count()) return stop();
      go(next);
    }, MOMENT_TIME * (stillness() ? 2 : 1));
    draw();
  });
  draw();
  store.listen((state) => {
    const moments = shown(state)?.over_time ?? [];
    hide(place, moments.length === 0);
    if (place.hidden) return void (timer && stop());
    slider.max = String(moments.length);
    slider.value = String(state.moment ?? moments.length);
    const moment = state.moment === null ? undefined : moments[state.moment];
    write(told, moment ? say("update", { update: moment.update }) : say("at_end"));
    slider.setAttribute("aria-valuetext", told.textContent ?? "");
  });
}
