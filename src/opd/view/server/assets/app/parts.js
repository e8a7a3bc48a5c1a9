// Small things that several pages are made of.

import { html, useEffect, useLayoutEffect, useRef } from '/assets/vendor/htm-preact.js';
import { toRow } from './address.js';
import { Said, seen } from './text.js';
import { interval, number, scored } from './words.js';

const NEAR = 300; // pixels from the window: what is about to be seen

const STATES = {
  running: 'running', finished: 'finished', interrupted: 'interrupted', failed: 'failed', left: 'left',
  damaged: 'damaged', waiting: 'waiting',
};
const MEANT = {
  running: 'somebody is at work', finished: 'it ended as it should', interrupted: 'it was stopped, and can go on',
  failed: 'it ended in an error', left: 'it was begun, has no end, and nobody is at work',
  damaged: 'its files cannot be read', waiting: 'more is due, and nobody is at work',
};

export const State = ({ state }) => html`
  <span class=${`state ${STATES[state] ?? 'left'}`} title=${MEANT[state] ?? ''}>${STATES[state] ?? String(state)}</span>`;

/** What an answer's absence looks like: what went wrong, or that something is on its way. */
export function Waiting({ error, what }) {
  if (error) return html`<p class="trouble" role="alert"><${Said} text=${error.message} most=${1000} /></p>`;
  return html`<p class="quiet waiting" role="status">${what} …</p>`;
}

export const Trouble = ({ children }) => html`<div class="trouble" role="alert">${children}</div>`;

/** What couldn't be read, each thing once. */
export const Troubles = ({ of }) => [...new Set(of.filter(Boolean))].slice(0, 5).map(one => html`<${Trouble}><${Said} text=${one} most=${600} /><//>`);

const KINDS = { train: 'a training run', score: 'a score', attempt: 'an attempt' };

/** What a page says of a run that is none of its kind: what it is, and where it is shown. */
export const Elsewhere = ({ row, kind }) => html`
  <${Title} over="" name=${row.name} />
  <p><${Said} text=${row.name} /> is ${KINDS[row.kind] ?? 'something else'}, not ${KINDS[kind]}: <a href=${toRow(row)}>its own page</a> shows it.</p>`;

export const Empty = ({ children }) => html`<div class="empty">${children}</div>`;

/** A figure with its name above it and its error or context below. */
export const Tile = ({ name, value, unit = null, below = null, tone = '' }) => html`
  <div class=${`tile ${tone}`}>
    <span class="name">${name}</span>
    <span class="value">${value}${unit && html`<span class="unit"> ${unit}</span>`}</span>
    <span class="below">${below}</span>
  </div>`;

/** A score with the line of its 95 % interval on an axis that a column shares. */
export function Whisker({ mean, ci95, stderr, from = 0, until = 1, tone = '' }) {
  if (mean === null || mean === undefined) return html`<span class="quiet">—</span>`;
  const at = value => 100 * Math.min(1, Math.max(0, (value - from) / (until - from || 1)));
  const [low, high] = ci95 ?? (stderr ? [mean - 1.96 * stderr, mean + 1.96 * stderr] : [mean, mean]);
  const said = `${scored({ mean, stderr })}${ci95 ? `, 95 % interval ${interval(ci95)}` : ''}`;
  return html`
    <svg class=${`whisker ${tone}`} role="img" aria-label=${said} preserveAspectRatio="none" width="100%" height="14">
      <title>${said}</title>
      <line class="axis" x1="0" x2="100%" y1="7" y2="7" />
      <line class="reach" x1=${`${at(low)}%`} x2=${`${at(high)}%`} y1="7" y2="7" />
      <circle cx=${`${at(mean)}%`} cy="7" r="3.5" />
    </svg>`;
}

/** The ends of an axis that holds all these scores and their errors, with a little air. */
export function reach(scores) {
  const ends = scores.filter(one => one.mean !== null && one.mean !== undefined)
    .flatMap(one => one.ci95 ?? [one.mean - 2 * (one.stderr ?? 0), one.mean + 2 * (one.stderr ?? 0)]);
  if (!ends.length) return { from: 0, until: 1 };
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const air = Math.max(0.02, 0.1 * (most - least));
  return { from: Math.max(0, least - air), until: Math.min(1, most + air) };
}

/** A bar that is as long as its share. */
export const Share = ({ share, tone = '', said = null }) => html`
  <span class=${`share ${tone}`} title=${said}><i style=${{ width: `${100 * Math.min(1, Math.max(0, share || 0))}%` }}></i></span>`;

/** Names and values, one below the other. */
export const Facts = ({ rows, abreast = false }) => html`
  <dl class=${abreast ? 'facts abreast' : 'facts'}>${rows.filter(Boolean).map(([name, value]) => html`
    <div><dt>${name}</dt><dd>${typeof value === 'string' ? html`<${Said} text=${value} most=${600} />` : value}</dd></div>`)}
  </dl>`;

/** Buttons of which any number, or one, is chosen. `options` are [value, label, count or null]. */
export const Choice = ({ label, options, chosen, choose }) => html`
  <div class="choice" role="group" aria-label=${label}>
    ${options.map(([value, text, many]) => html`
      <button type="button" aria-pressed=${chosen.includes(value)} onClick=${() => choose(value)} disabled=${many === 0 && !chosen.includes(value)}>
        ${text}${many === null || many === undefined ? null : html` <span class="many">${many.toLocaleString('en-US')}</span>`}
      </button>`)}
  </div>`;

/** A choice of one out of many. */
export const Pick = ({ label, options, chosen, choose }) => html`
  <label class="pick"><span>${label}</span>
    <select value=${chosen} onChange=${event => choose(event.target.value)}>
      ${options.map(([value, text]) => html`<option value=${value} selected=${value === chosen}>${text}</option>`)}
    </select>
  </label>`;

/** The title of a page, what it is about, and the name of the window. */
export function Title({ over, name, children }) {
  useEffect(() => { document.title = `${seen(name)} · opd`; }, [name]);
  return html`
    <header class="title">
      <p class="over">${over}</p>
      <h1><${Said} text=${name} most=${160} /></h1>
      ${children}
    </header>`;
}

/** A value that JSON holds, folded away until it is wanted. */
export function Json({ name, value, open = false }) {
  return html`<details class="json" open=${open}><summary>${name}</summary><${Written} value=${value} /></details>`;
}

function Written({ value }) {
  const text = JSON.stringify(value, null, 2);
  return html`<pre><${Said} text=${text} most=${40000} /></pre>`;
}

/** Runs the function when the node comes near the window, once; at once where it is there. */
export function useSeen(seen) {
  const node = useRef(null);
  useLayoutEffect(() => {
    const { top, bottom } = node.current.getBoundingClientRect();
    if (top < innerHeight + NEAR && bottom > -NEAR) { seen(); return undefined; }
    const watching = new IntersectionObserver(found => {
      if (found.some(one => one.isIntersecting)) { watching.disconnect(); seen(); }
    }, { rootMargin: `${NEAR}px` });
    watching.observe(node.current);
    return () => watching.disconnect();
  }, []);
  return node;
}

/** `+0.012`-like text with the colour of its direction. */
export const Delta = ({ value, digits = 3 }) => html`
  <span class=${value > 0 ? 'up' : value < 0 ? 'down' : ''}>${value > 0 ? '+' : ''}${number(value, digits)}</span>`;
