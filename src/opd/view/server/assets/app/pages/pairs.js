// The picture of a pairing: right answers of A across, of B up, and how many questions are at each place.

import { html, useMemo } from '/assets/vendor/htm-preact.js';
import { plural } from '../words.js';

const SIDE = 340; // of the square, in its own units
const EDGE = 44;
const AIR = 26;   // around the outermost dots

export function Pairs({ all, chosen, choose }) {
  const { cells, most, wide, tall } = useMemo(() => {
    const held = new Map();
    for (const { a, b, as, bs } of all) {
      const key = `${a}-${b}`;
      held.set(key, { a, b, as, bs, many: (held.get(key)?.many ?? 0) + 1 });
    }
    const cells = [...held.values()].sort((one, other) => other.many - one.many);
    return { cells, most: cells[0]?.many ?? 1, wide: Math.max(1, ...all.map(one => one.as)), tall: Math.max(1, ...all.map(one => one.bs)) };
  }, [all]);
  const room = SIDE - EDGE - 2 * AIR;
  const x = a => EDGE + AIR + (room * a) / wide;
  const y = b => SIDE - EDGE - AIR - (room * b) / tall;
  const largest = Math.min(AIR - 2, (room / Math.max(wide, tall)) * 0.46);
  const ticks = n => [...new Set(Array.from({ length: Math.min(n, 8) + 1 }, (_, at) => Math.round((at * n) / Math.min(n, 8))))];
  return html`
    <svg class="pairs" viewBox=${`0 0 ${SIDE} ${SIDE}`} role="group" aria-label="Right samples of A and of B, by question">
      <line class="axis" x1=${EDGE} x2=${SIDE - 4} y1=${SIDE - EDGE} y2=${SIDE - EDGE} /><line class="axis" x1=${EDGE} x2=${EDGE} y1="4" y2=${SIDE - EDGE} />
      <line class="diagonal" x1=${x(0)} y1=${y(0)} x2=${x(wide)} y2=${y(tall)} />
      ${ticks(wide).map(at => html`<text x=${x(at)} y=${SIDE - EDGE + 16} text-anchor="middle">${at}</text>`)}
      ${ticks(tall).map(at => html`<text x=${EDGE - 8} y=${y(at) + 4} text-anchor="end">${at}</text>`)}
      <text class="label" x=${(SIDE + EDGE) / 2} y=${SIDE - 8} text-anchor="middle">right in A, of ${wide}</text>
      <text class="label" transform=${`translate(13 ${(SIDE - EDGE) / 2}) rotate(-90)`} text-anchor="middle">right in B, of ${tall}</text>
      ${cells.map(({ a, b, as, bs, many }) => html`
        <g class=${`cell ${b / bs > a / as ? 'gained' : b / bs < a / as ? 'lost' : 'same'} ${chosen && chosen[0] === a && chosen[1] === b ? 'chosen' : ''}`}
           tabindex="0" role="button" aria-pressed=${Boolean(chosen && chosen[0] === a && chosen[1] === b)} aria-label=${`${plural(many, 'question')}: A ${a} of ${as}, B ${b} of ${bs}`}
           onClick=${() => choose(a, b)} onKeyDown=${event => (event.key === 'Enter' || event.key === ' ') && (event.preventDefault(), event.stopPropagation(), choose(a, b))}>
          <title>${`${plural(many, 'question')}: A ${a} of ${as}, B ${b} of ${bs}`}</title>
          <circle cx=${x(a)} cy=${y(b)} r=${Math.max(3, largest * Math.sqrt(many / most))} />
          ${largest * Math.sqrt(many / most) > 9 && html`<text x=${x(a)} y=${y(b) + 4} text-anchor="middle">${many}</text>`}
        </g>`)}
    </svg>`;
}
