// What an exploration did with its device, second by second, and what it asked of the protocol's desk.

import { html, useMemo, useState } from '/assets/vendor/htm-preact.js';
import { api, useAsked } from '../asking.js';
import { Curve, TONES } from '../curve.js';
import { Waiting, useSeen } from '../parts.js';
import { Said } from '../text.js';
import { bytes, clock, count, duration, percent, plural, small } from '../words.js';

const POINTS = 600;
const NAMED = { cpu_share: ['Processor, 1 is a core', small], processes: ['Processes', count], evaluating: ['Measuring at the desk', percent] };
const UNITS = [[/bytes$/, bytes], [/watts$/, value => `${small(value)} W`]]; // by how a name ends
const PLACES = /^gpus\/\d+\/index$/; // which GPU it is: no course

export function Exploration({ id, one, version }) {
  const [wanted, setWanted] = useState(false);
  const node = useSeen(() => setWanted(true));
  const { value: device, error } = useAsked(wanted ? api(`runs/${id}/device`, { try: one.folder, points: POINTS }) : null, version);
  const { value: desk } = useAsked(wanted ? api(`runs/${id}/desk`, { try: one.folder }) : null, version);
  return html`
    <section ref=${node}><h2>The device during <${Said} text=${one.name} /></h2>
      ${device ? html`<${Device} device=${device} />` : html`<${Waiting} error=${error} what="Reading its ledger" />`}
      ${desk?.rows.length > 0 && html`<h3>What was asked at the desk</h3><div class="scroll"><table class="log">
        <thead><tr><th scope="col">began, UTC</th><th scope="col">took</th><th scope="col">command</th><th scope="col">exit</th><th scope="col" class="wide">what it was told</th></tr></thead>
        <tbody>${desk.rows.map(row => html`<tr><td>${clock(row.began)}</td><td>${duration(row.seconds)}</td>
          <td><${Said} text=${row.command} /> <span class="quiet"><${Said} text=${Object.values(row.arguments ?? {}).filter(one => typeof one === 'string' || typeof one === 'number').join(', ')} most=${140} /></span></td>
          <td>${row.exit ?? '—'}</td><td class="wide">${(row.said ?? []).map(line => html`<div><${Said} text=${line} most=${400} /></div>`)}</td></tr>`)}</tbody></table></div>
        ${desk.total > desk.rows.length && html`<p class="quiet">${plural(desk.total, 'line')} in all; these are the first.</p>`}`}
    </section>`;
}

function Device({ device }) {
  const x = device.buckets.until;
  const curves = useMemo(() => Object.entries(device.series).filter(([name, series]) => !PLACES.test(name) && series.mean.some(value => value !== null)), [device]);
  if (!curves.length) return html`<p class="quiet">No second of it was written down.</p>`;
  return html`
    <p class="quiet">${duration(device.seconds)} from ${clock(device.began_utc)} UTC${device.passed_over > 0 && html`; <b class="down">${plural(device.passed_over, 'damaged line')} passed over</b>`}.</p>
    <div class="curves">${curves.map(([name, series], place) => {
      const [said, say] = NAMED[name] ?? [name.replace(/^gpus\//, 'GPU ').replace(/[/_]/g, ' '), UNITS.find(([end]) => end.test(name))?.[1] ?? small];
      return html`<figure class="one"><figcaption><${Said} text=${said} /></figcaption><${Curve} label=${said} x=${x} lines=${[{ name, tone: TONES[place % TONES.length], ...series }]} at="second" say=${say} height=${110} sync="seconds" /></figure>`;
    })}</div>`;
}
