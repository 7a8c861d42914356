/** The bar that stays in sight while anything is changed: how much, undo, reset, and the original while it is held. */

import { focused } from "../data/store.js";
import { h, hide, write } from "../drawing/dom.js";
import { say } from "../language/language.js";
import { reset, undo } from "./actions.js";

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountBar(place, store) {
  const count = h("strong", {});
  const peek = h("button", { class: "quiet hold" }, say("hold_original"));
  const hold = (/** @type {boolean} */ on) => () => store.state.peek !== on && store.set({ peek: on });
  for (const name of ["pointerdown", "keydown"]) {
    peek.addEventListener(name, (event) => {
      const key = /** @type {KeyboardEvent} */ (event).key;
      if (key === undefined || key === " " || key === "Enter") hold(true)();
    });
  }
  for (const name of ["pointerup", "pointerleave", "pointercancel", "keyup", "blur"]) peek.addEventListener(name, hold(false));
  peek.addEventListener("contextmenu", (event) => event.preventDefault()); // a long touch holds, it does not ask
  place.append(count,
    h("button", { class: "quiet", title: "Ctrl+Z", click: () => undo(store) }, say("undo")),
    h("button", { class: "quiet", click: () => reset(store) }, say("reset")), peek);
  store.listen((state) => {
    const changes = focused(state)?.history.length ?? 0;
    hide(place, changes === 0);
    write(count, say(changes === 1 ? "one_change" : "some_changes", { count: changes }));
  });
}
