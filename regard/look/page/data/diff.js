/** The words of two versions of a sentence: which stayed, which are new, and what they replaced. */

/**
 * Pairs of equal words, in the longest common subsequence.
 * @param {string[]} words
 * @param {string[]} others
 * @returns {[number, number][]}
 */
export function common(words, others) {
  const length = Array.from({ length: words.length + 1 }, () => new Array(others.length + 1).fill(0));
  for (let i = words.length - 1; i >= 0; i--) {
    for (let j = others.length - 1; j >= 0; j--) {
      length[i][j] = words[i] === others[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  /** @type {[number, number][]} */
  const pairs = [];
  for (let i = 0, j = 0; i < words.length && j < others.length; ) {
    if (words[i] === others[j]) pairs.push([i++, j++]);
    else if (length[i + 1][j] >= length[i][j + 1]) i++;
    else j++;
  }
  return pairs;
}

/**
 * For each word of the new version: null if it stayed, else the old words in its place ("" for an insertion). Words that
 * were only removed are told with the word before them.
 * @param {string[]} now
 * @param {string[]} before
 * @returns {{changed: boolean, old: string}[]}
 */
export function replaced(now, before) {
  const told = now.map(() => ({ changed: false, old: "" }));
  let [i, j] = [0, 0];
  for (const [k, l] of [...common(now, before), /** @type {[number, number]} */ ([now.length, before.length])]) {
    const gone = before.slice(j, l);
    for (let each = i; each < k; each++) {
      const own = each === k - 1 ? gone.splice(0) : gone.splice(0, 1);
      told[each] = { changed: true, old: own.join(" ") };
    }
    if (gone.length > 0 && k > 0) told[k - 1] = { ...told[k - 1], old: [told[k - 1].old, ...gone].filter(Boolean).join(" ") };
    [i, j] = [k + 1, l + 1];
  }
  return told;
}
