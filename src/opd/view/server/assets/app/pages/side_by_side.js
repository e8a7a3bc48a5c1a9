// Runs that were chosen in the list: their curves in one picture, and where their recipes differ.

import { html, useEffect, useState } from '/assets/vendor/htm-preact.js';
import { change, go, to, toRow, useHere } from '../address.js';
import { api, ask } from '../asking.js';
import { Curve, TONES } from '../curve.js';
import { Pick, Waiting } from '../parts.js';
import { Said } from '../text.js';
import { scored, value } from '../words.js';

const POINTS = 400;

export function SideBySide({ rows, varying, scores }) {
  const { query } = useHere();
  const name = query.curve ?? 'kl';
  const trained = rows.filter(row => row.kind === 'train').slice(0, TONES.length);
  const [held, setHeld] = useState({ key: null });
  const key = `${name} ${trained.map(row => row.id).join()}`;
  useEffect(() => {
    if (!trained.length) return;
    Promise.all(trained.map(row => ask(api(`runs/${row.id}/metrics`, { names: name, points: POINTS }))))
      .then(answers => setHeld({ key, answers }), error => setHeld({ key, error }));
  }, [key]);
  const drawn = held.key === key && held.answers ? together(held.answers, trained, name) : null;
  const differing = varying.filter(one => new Set(trained.map(row => JSON.stringify(row.varies[one] ?? null))).size > 1);
  const names = [...new Set((held.answers ?? []).flatMap(answer => answer.names))];
  return html`
    <section class="panel" aria-label="Side by side">
      <div class="tools">
        <h2>Side by side</h2>
        ${trained.length > 0 && names.length > 0 && html`<${Pick} label="Curve" chosen=${name} options=${names.map(one => [one, one])} choose=${curve => change({ curve })} />`}
        <span class="space"></span>
        <button type="button" disabled=${scores.length !== 2} title=${scores.length === 2 ? '' : 'choose two that have a score'}
                onClick=${() => go(to('compare', null, { a: scores[0], b: scores[1] }))}>Compare two scores</button>
        <button type="button" onClick=${() => change({ chosen: null })}>Choose none</button>
      </div>
      ${held.error && html`<${Waiting} error=${held.error} />`}
      ${drawn && html`<${Curve} label=${name} x=${drawn.x} lines=${drawn.lines} height=${210} sync="chosen" />`}
      <div class="scroll"><table class="scores">
        <thead><tr><th scope="col">chosen</th><th scope="col">score</th>${differing.map(one => html`<th scope="col">${one}</th>`)}</tr></thead>
        <tbody>${rows.map(row => html`<tr>
          <th scope="row">${trained.includes(row) && html`<i class="dot" style=${{ background: `var(${TONES[trained.indexOf(row)]})` }}></i>`}<a href=${toRow(row)}><${Said} text=${row.name} most=${80} /></a></th>
          <td>${scored(row)}</td>${differing.map(one => html`<td>${row.varies && one in row.varies ? value(row.varies[one]) : '—'}</td>`)}</tr>`)}</tbody>
      </table></div>
    </section>`;
}

/** One axis of steps for all: a run that has no step there has no point there. */
function together(answers, rows, name) {
  const x = [...new Set(answers.flatMap(answer => answer.buckets.until))].sort((one, other) => one - other);
  const lines = answers.map((answer, place) => {
    const at = new Map(answer.buckets.until.map((step, index) => [step, index]));
    const column = kind => x.map(step => (at.has(step) ? answer.series[name]?.[kind][at.get(step)] ?? null : null));
    return { name: rows[place].name, tone: TONES[place], mean: column('mean'), low: column('low'), high: column('high') };
  });
  return { x, lines };
}
