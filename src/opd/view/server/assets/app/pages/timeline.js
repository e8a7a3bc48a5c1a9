// The course of an attempt: each try as a bar over its time. Time in which nothing was at work is folded to a gap.

import { html, useMemo } from '/assets/vendor/htm-preact.js';
import { Said } from '../text.js';
import { clock, duration } from '../words.js';

const FOLDED = 0.05; // of the busy time: how wide a longer pause is drawn

export function Timeline({ tries, chosen, choose }) {
  const { at, pauses } = useMemo(() => axisOf(tries), [tries]);
  if (!tries.length) return html`<p class="quiet">No try has begun: <code>opd attempt explore</code> begins the first.</p>`;
  return html`
    <div class="timeline" role="list">
      ${tries.map(one => {
        const began = moment(one.began_utc);
        const ended = endOf(one);
        const until = one.ended_utc ? `to ${clock(one.ended_utc)} UTC` : 'UTC on';
        const told = `${one.name}: ${one.outcome ?? one.liveness}, ${clock(one.began_utc)} ${until}, at work for ${duration(one.active_seconds)}`;
        return html`
          <button type="button" role="listitem" class=${`try ${one.stage} ${tone(one)}`} aria-pressed=${one.name === chosen} title=${told} onClick=${() => choose(one.name)}>
            <span class="name"><${Said} text=${one.name} /></span>
            <span class="track">${pauses.map(pause => html`<i class="pause" style=${{ left: `${pause.left}%`, width: `${pause.width}%` }}></i>`)}
              ${began !== null && html`<i class="bar" style=${{ left: `${at(began)}%`, width: `${Math.max(0.4, at(ended) - at(began))}%` }}></i>`}</span>
            <span class="outcome">${(one.outcome ?? one.liveness).replaceAll('_', ' ')}</span>
            <span class="quiet right">${duration(one.active_seconds)}</span>
          </button>`;
      })}
      <p class="quiet ends"><span>${tries[0].began_utc?.slice(0, 10)} ${clock(tries[0].began_utc)} UTC</span>
        ${pauses.length > 0 && html`<span>shaded: ${pauses.map(one => duration(one.seconds)).join(', ')} in which nothing was at work</span>`}
        <span>${clock(tries.map(one => one.ended_utc).filter(Boolean).sort().at(-1))}</span></p>
    </div>`;
}

const moment = utc => (utc ? Date.parse(utc) / 1000 : null);
/** Of what is being filled: how far it has come. */
const endOf = one => (one.ended_utc ? moment(one.ended_utc) : one.began_utc ? moment(one.began_utc) + (one.active_seconds ?? 0) : null);
const BAD = /fail|abort|lost|damaged|invalid|interrupted|error/;
const tone = one => (one.liveness === 'damaged' || BAD.test(one.outcome ?? '') ? 'bad' : one.liveness === 'sealed' ? '' : 'open');

/** `at(moment)` in percent, and the pauses that are folded. */
function axisOf(tries) {
  const busy = tries.filter(one => one.began_utc).map(one => [moment(one.began_utc), endOf(one)]).sort((one, other) => one[0] - other[0]);
  const spans = [];
  for (const [began, ended] of busy) {
    const last = spans.at(-1);
    if (last && began <= last[1]) last[1] = Math.max(last[1], ended);
    else spans.push([began, ended]);
  }
  const worked = spans.reduce((sum, [began, ended]) => sum + ended - began, 0) || 1;
  const pieces = []; // [from, until, width]
  spans.forEach(([began, ended], place) => {
    if (place) { const from = spans[place - 1][1]; pieces.push([from, began, Math.min(began - from, FOLDED * worked), began - from > FOLDED * worked]); }
    pieces.push([began, ended, ended - began, false]);
  });
  const whole = pieces.reduce((sum, [, , width]) => sum + width, 0) || 1;
  let left = 0;
  const placed = pieces.map(([from, until, width, folded]) => { const one = { from, until, left: (100 * left) / whole, width: (100 * width) / whole, folded }; left += width; return one; });
  const at = when => {
    const piece = placed.find(one => when <= one.until) ?? placed.at(-1);
    return piece.left + piece.width * Math.min(1, Math.max(0, (when - piece.from) / (piece.until - piece.from || 1)));
  };
  return { at, pauses: placed.filter(one => one.folded).map(one => ({ ...one, seconds: one.until - one.from })) };
}
