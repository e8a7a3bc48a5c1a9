// What `opd plan` says of the recipe, beside what was measured.

import { html, useState } from '/assets/vendor/htm-preact.js';
import { api, useAsked } from '../asking.js';
import { Waiting, useSeen } from '../parts.js';
import { Said } from '../text.js';
import { bytes, count, duration } from '../words.js';

export function Plan({ id }) {
  const [wanted, setWanted] = useState(false);
  const node = useSeen(() => setWanted(true)); // a program is run for it: not before somebody looks
  const { value: found, error } = useAsked(wanted ? api(`runs/${id}/plan`) : null);
  return html`<div ref=${node}>${found ? html`<${Both} found=${found} />` : html`<${Waiting} error=${error} what="Asking opd plan" />`}</div>`;
}

function Both({ found: { plan, missing, reality } }) {
  const rows = [
    ['memory at its peak', plan ? bytes(plan.memory.needed_bytes) : '—', bytes(reality?.peak_bytes)],
    ['on the disk, at most', plan ? bytes(plan.disk.needed_bytes) : '—', '—'],
    ['steps', plan ? count(plan.steps) : '—', count(reality?.steps)],
    ['rows that are seen', plan ? count(plan.rows_seen) : '—', count(reality?.rows_seen)],
    ['tokens of rollouts, at most', plan ? count(plan.rollout_tokens) : '—', count(reality?.rollout_tokens)],
    ['seconds a step', '—', duration(reality?.seconds_per_step)], // only a rehearsal would tell
    ...Object.entries(reality?.seconds ?? {}).filter(([part]) => part !== 'total').map(([part, seconds]) => [`— ${part}`, '—', duration(seconds)]),
  ];
  return html`
    ${missing && html`<p class="quiet"><${Said} text=${missing} /></p>`}
    <div class="scroll"><table><thead><tr><th scope="col">what</th><th scope="col">planned</th><th scope="col">measured</th></tr></thead>
      <tbody>${rows.map(([what, planned, measured]) => html`<tr><th scope="row">${what}</th><td>${planned}</td><td>${measured}</td></tr>`)}</tbody></table></div>
    ${[...(plan?.lacks ?? []), ...(plan?.notes ?? [])].map(note => html`<p class="note"><${Said} text=${typeof note === 'string' ? note : JSON.stringify(note)} /></p>`)}`;
}
