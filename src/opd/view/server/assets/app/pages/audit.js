// What an audit found, axis by axis: the verdict, the sentence it rests on, how much was read, and what was planted.

import { html } from '/assets/vendor/htm-preact.js';
import { api, useAsked } from '../asking.js';
import { Facts, Waiting } from '../parts.js';
import { Long, Said } from '../text.js';
import { bytes, plural } from '../words.js';

const MEANT = {
  none_found: 'none found: all of it was looked at, by means that find what is planted',
  suspected: 'suspected: something points there, and something else could be the reason',
  confirmed: 'confirmed: the evidence says so',
  not_assessed: 'not assessed: not looked, not at all of it, or by means that missed what was planted',
};

export function Audit({ id, name }) {
  const { value: found, error } = useAsked(api(`runs/${id}/audit`, { try: name }));
  const findings = found?.audit?.findings ?? [];
  return html`
    <section><h2>Audit <span class="quiet"><${Said} text=${name} /></span></h2>
      ${!found && html`<${Waiting} error=${error} what="Reading the audit" />`}
      ${found?.missing && html`<p class="note"><${Said} text=${found.missing} /></p>`}
      <div class="findings">${findings.map(one => html`<${Finding} key=${one.check} one=${one} />`)}</div>
      ${(found?.audit?.advice ?? []).map(one => html`<details><summary>What ${one.by} was asked, which changes no verdict</summary>
        <${Long} text=${one.question} /><${Long} text=${one.reply ?? one.because ?? ''} /></details>`)}
    </section>`;
}

const Finding = ({ one }) => html`
  <details class="finding"><summary>
      <b class=${`tag ${one.verdict}`} title=${MEANT[one.verdict] ?? ''}>${String(one.verdict).replaceAll('_', ' ')}</b>
      <span class="axis">${String(one.axis).replaceAll('_', ' ')}</span>
      <span class="sentence"><${Said} text=${one.sentence} most=${700} /></span></summary>
    ${one.protected && html`<p class="note">It holds all the same: <${Said} text=${one.protected} most=${700} /></p>`}
    ${one.details.length > 0 && html`<ul>${one.details.map(text => html`<li><${Said} text=${text} most=${900} /></li>`)}</ul>`}
    <${Facts} rows=${[
      ['check', one.check], ['looked at', `${plural(one.coverage.files, 'file')}, ${bytes(one.coverage.bytes)}`],
      one.coverage.unread?.length > 0 && ['left out', one.coverage.unread.join('; ')],
      ['planted', html`${one.controls.map(control => html`<div>${control.found ? '✓ found' : '✗ missed'}: <${Said} text=${control.name} /></div>`)}`],
      ['evidence', html`${one.evidence.map(at => html`<div><code><${Said} text=${at.file} />${at.pointer && html` <${Said} text=${at.pointer} />`}</code> <span class="quiet" title=${at.sha256}>${at.sha256.slice(0, 12)}</span></div>`)}`],
    ]} />
  </details>`;
