// Curves over steps or seconds, drawn by uPlot in the page's colours: the extremes of what a point stands for as a
// band, the points as a thin line, and what smoothing makes of them as a strong one.

import { html, useEffect, useRef, useState } from '/assets/vendor/htm-preact.js';
import { classic, style } from './classic.js';
import { useMedia } from './list.js';
import { useSeen } from './parts.js';
import { small } from './words.js';

const ROUNDING = 1e-9; // of a value: less is no difference

export const TONES = ['--one', '--two', '--three', '--four', '--five', '--six'];

/** What draws; asked for before there is something to draw, it is there by then. */
export const drawing = () => Promise.all([classic('/assets/vendor/uplot.js', 'uPlot'), style('/assets/vendor/uplot.css')]).then(([uPlot]) => uPlot);

/** Each point drawn toward those before it; `weight` of 0 changes nothing. Its beginning is not drawn to zero. */
export function smoothed(values, weight) {
  let sum = 0;
  let share = 0;
  return values.map(value => {
    if (value === null) return null;
    sum = sum * weight + (1 - weight) * value;
    share = share * weight + (1 - weight);
    return sum / share;
  });
}

/**
 * `lines` are { name, tone, mean, low, high }; `stacked` puts each upon the one before; `at` is what x means.
 * `pick(x)` is told where somebody clicked.
 */
export function Curve({ x, lines, weight = 0, stacked = false, at = 'step', say = small, height = 150, sync = 'steps', pick = null, label }) {
  const [near, setNear] = useState(false);
  const box = useSeen(() => setNear(true));
  const plot = useRef(null);
  const newest = useRef(null);
  const [cursor, setCursor] = useState(null);
  const [fault, setFault] = useState(null);
  const dark = useMedia('(prefers-color-scheme: dark)');
  newest.current = { x, lines, pick };

  useEffect(() => {
    if (!near) return undefined;
    let gone = false;
    let sizes = null;
    drawing().then(uPlot => {
      if (gone) return;
      plot.current = new uPlot(options(uPlot, { lines, weight, stacked, at, say, height, sync, width: box.current.clientWidth || 320, setCursor, newest }),
        tableOf(x, lines, weight, stacked), box.current);
      sizes = new ResizeObserver(([{ contentRect }]) => plot.current?.setSize({ width: contentRect.width, height }));
      sizes.observe(box.current);
    }).catch(error => { if (!gone) setFault(error); });
    return () => {
      gone = true;
      sizes?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [near, dark, stacked, height, lines.map(one => one.name).join('\n'), weight > 0]);
  useEffect(() => { plot.current?.setData(tableOf(x, lines, weight, stacked)); }, [x, lines, weight]);

  const pointed = cursor !== null && cursor < x.length ? cursor : null;
  const reading = one => one.mean[pointed ?? lastKnown([one])] ?? null; // each line has an end of its own
  const place = pointed ?? lastKnown(lines);
  return html`
    <div class="curve" role="img" aria-label=${`${label}: ${lines.map(one => `${one.name} ${say(one.mean[lastKnown([one])] ?? null)}`).join(', ')} at the end`}>
      <p class="reading" aria-hidden="true">
        ${lines.map(one => html`<span><i class="dot" style=${{ background: `var(${one.tone})` }}></i>${lines.length > 1 ? `${one.name} ` : ''}<b>${say(reading(one))}</b></span>`)}
        <span class="quiet">${at} ${x[place] === undefined ? '' : small(Math.round(x[place]))}</span>
      </p>
      ${fault && html`<p class="quiet">It can't be drawn: ${fault.message}.</p>`}
      <div class="plot" ref=${box} style=${{ minHeight: `${height}px` }}></div>
    </div>`;
}

function lastKnown(lines) {
  let last = 0;
  for (const { mean } of lines) for (let at = mean.length - 1; at > last; at -= 1) if (mean[at] !== null) last = at;
  return last;
}

/** Columns for uPlot. Of each line: low, high, mean, smoothed; of a stack: the sums up to each line, from the top down. */
function tableOf(x, lines, weight, stacked) {
  if (!stacked) return [x, ...lines.flatMap(one => [one.low, one.high, one.mean, weight > 0 ? smoothed(one.mean, weight) : one.mean])];
  let below = x.map(() => 0);
  const sums = lines.map(one => {
    const mean = weight > 0 ? smoothed(one.mean, weight) : one.mean;
    below = below.map((sum, at) => sum + (mean[at] ?? 0));
    return below;
  });
  return [x, ...sums.reverse()];
}

function options(uPlot, { lines, weight, stacked, at, say, height, sync, width, setCursor, newest }) {
  const css = getComputedStyle(document.documentElement);
  const ink = name => css.getPropertyValue(name).trim();
  const none = { stroke: null, width: 0, points: { show: false } };
  const series = stacked
    ? [...lines].reverse().map(one => ({ stroke: ink(one.tone), fill: faded(ink(one.tone), 0.55), width: 1, points: { show: false } }))
    : lines.flatMap(one => [
        none, none,
        { stroke: faded(ink(one.tone), weight > 0 ? 0.3 : 1), width: weight > 0 ? 1 : 1.6, points: { show: false }, spanGaps: true },
        { stroke: ink(one.tone), width: weight > 0 ? 1.8 : 0, points: { show: false }, spanGaps: true },
      ]);
  const bands = stacked ? [] : lines.map((one, place) => ({ series: [2 + 4 * place, 1 + 4 * place], fill: faded(ink(one.tone), 0.16) }));
  const axis = { stroke: ink('--muted'), font: '11px system-ui, sans-serif', grid: { stroke: ink('--rule'), width: 1 }, ticks: { show: false } };
  return {
    width, height, bands,
    padding: [6, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, sync: { key: sync, setSeries: false }, points: { size: 6 }, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { range: (_, low, high) => rangeOf(low, high, stacked) } },
    series: [{ label: at }, ...series],
    axes: [
      { ...axis, size: 24, space: 60, values: (_, ticks) => ticks.map(small) },
      { ...axis, size: (_, labels) => 14 + 6.3 * Math.max(4, ...(labels ?? []).map(one => one.length)), space: 28, values: (_, ticks) => ticks.map(one => (one === null ? '' : say(one))) },
    ],
    hooks: {
      setCursor: [self => setCursor(self.cursor.idx ?? null)],
      ready: [self => self.over.addEventListener('click', () => {
        const { x, pick } = newest.current;
        if (pick && self.cursor.idx !== null && self.cursor.idx !== undefined) pick(x[self.cursor.idx]);
      })],
    },
  };
}

/**
 * A stack stands on zero; zero is shown where it is near. A curve that never changes still has a height: what smoothing
 * rounds is no change, and an axis as short as that would have more ticks than memory.
 */
export function rangeOf(low, high, stacked = false) {
  if (low === null || high === null) return [0, 1];
  if (stacked) return [0, high * 1.05 || 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low <= ROUNDING * size) return size ? [low - 0.1 * size, high + 0.1 * size] : [0, 1];
  const air = (high - low) * 0.06;
  return [low >= 0 && low - air < (high - low) * 0.15 ? Math.min(0, low) : low - air, high + air];
}

function faded(colour, alpha) {
  const [red, green, blue] = colour.match(/[0-9a-f]{2}/gi).map(one => parseInt(one, 16));
  return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}
