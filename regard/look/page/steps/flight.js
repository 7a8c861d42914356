/** A copy of an element that flies to another one, as values slide into the context vector. */

import { stillness } from "../drawing/dom.js";

const TIME = 620; // milliseconds

/**
 * @param {Element | null} from
 * @param {Element | null} to
 */
export function fly(from, to) {
  if (!from || !to || stillness()) return;
  const [start, end] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
  if (start.width === 0 || end.width === 0) return;
  const copy = /** @type {HTMLElement} */ (from.cloneNode(true));
  copy.setAttribute("aria-hidden", "true");
  copy.classList.add("flying");
  Object.assign(copy.style, { left: `${start.left}px`, top: `${start.top}px` });
  document.body.append(copy);
  const [x, y] = [end.left + end.width / 2 - start.left - start.width / 2, end.top + end.height / 2 - start.top - start.height / 2];
  copy.animate([{ transform: "none", opacity: 1 }, { transform: `translate(${x}px, ${y}px)`, opacity: 0.5 }],
    { duration: TIME, easing: "ease-in-out" }).finished.finally(() => copy.remove());
}
