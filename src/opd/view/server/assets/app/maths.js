// LaTeX inside of a text: where it stands, and how it is shown. KaTeX makes MathML of it, with nothing trusted;
// what it cannot read stays as it was written.

import { classic } from './classic.js';

const LONGEST = 2000; // characters of one formula
const LIMITS = { output: 'mathml', trust: false, strict: 'ignore', throwOnError: true, maxExpand: 200, maxSize: 4 };
const STYLED = /\\(fcolorbox|pmb)\b/; // would need styles in the text, which the page's policy forbids
const MATH = /\\\[([\s\S]+?)\\\]|\\\(([\s\S]+?)\\\)|\$\$([\s\S]+?)\$\$|\$(?![\s$])((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d)|\\boxed(?=\{)/g;

/** The text in parts, in order: { text } or { text, tex, display }. */
export function mathIn(text) {
  const parts = [];
  let from = 0;
  MATH.lastIndex = 0;
  for (let found; (found = MATH.exec(text));) {
    const boxed = found[0] === '\\boxed' ? braced(text, found.index + 6) : null;
    if (found[0] === '\\boxed' && boxed === null) continue;
    const whole = found[0] + (boxed ?? '');
    const tex = boxed ? whole : found.slice(1).find(one => one !== undefined);
    if (found.index > from) parts.push({ text: text.slice(from, found.index) });
    parts.push(tex.length > LONGEST || STYLED.test(tex) ? { text: whole } : { text: whole, tex, display: /^(\\\[|\$\$)/.test(whole) });
    from = MATH.lastIndex = found.index + whole.length;
  }
  if (from < text.length) parts.push({ text: text.slice(from) });
  return parts;
}

/** `{…}` from here with its braces in balance, or null. */
function braced(text, from) {
  let depth = 0;
  for (let at = from; at < Math.min(text.length, from + LONGEST); at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '{') depth += 1;
    else if (text[at] === '}' && --depth === 0) return text.slice(from, at + 1);
  }
  return null;
}

/** Puts the formula in the place of its text, once KaTeX is there. */
export async function setMath(node, { tex, display }) {
  const katex = await classic('/assets/vendor/katex.js', 'katex').catch(() => null);
  if (!katex) return; // the server is gone, which the bar says; the text stays
  const made = document.createElement('span');
  try {
    katex.render(tex, made, { ...LIMITS, displayMode: display });
  } catch (error) {
    if (error instanceof katex.ParseError) return; // it stays as it was written
    throw error;
  }
  made.title = tex;
  node.replaceChildren(made);
}
