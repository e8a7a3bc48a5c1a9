// One sample: what the model wrote, what was read out of it, and who judged it how.

import { html, useState } from '/assets/vendor/htm-preact.js';
import { useSwitch } from '../address.js';
import { api, useAsked } from '../asking.js';
import { useKeys } from '../keys.js';
import { Facts, Json, Waiting } from '../parts.js';
import { Long, Said, toEnd } from '../text.js';
import { count, plural } from '../words.js';

const WINDOW = 200000; // characters that are asked for at once

export function Sample({ id, line }) {
  const [from, setFrom] = useState(0);
  const [rendered, setRendered] = useSwitch('formulas');
  const { value: found, error } = useAsked(api(`runs/${id}/samples/${line}`, { from, count: WINDOW }));
  useKeys({
    m: ['text with its formulas, or as written', () => setRendered(!rendered)],
    e: ['the end of the response', () => found && toEnd(document.querySelector('.response'))],
  });
  if (!found) return html`<article class="sample"><${Waiting} error=${error} what="Reading the sample" /></article>`;
  const { sample, response, characters } = found;
  const { judgement } = sample;
  return html`
    <article class="sample" aria-label=${`Sample ${sample.sample} of ${sample.question}`}>
      <p class="verdict"><b class=${`tag ${judgement.verdict}`}>${judgement.verdict.replaceAll('_', ' ')}</b>
        ${judgement.reason && html`<${Said} text=${judgement.reason} most=${600} />`}</p>
      <${Facts} rows=${[
        ['extracted', judgement.extracted ?? 'nothing'], ['right would be', sample.gold],
        ['graded by', `${judgement.by ?? '—'}${judgement.stage ? `, as ${judgement.stage}` : ''}`],
        judgement.inside_reasoning && ['where', 'inside of the reasoning'],
        ['ended by', `${sample.stop}, after ${plural(sample.tokens, 'token')}`], ['seed', String(sample.seed)],
      ]} />
      ${judgement.reply && html`<details open class="reply"><summary>What the judge replied</summary><${Long} text=${judgement.reply} maths=${rendered} /></details>`}
      ${sample.opinions?.length > 0 && html`<div class="opinions"><h3>Other opinions</h3>${sample.opinions.map(one => html`<div>
        <b class=${`tag ${one.verdict}`}>${String(one.verdict).replaceAll('_', ' ')}</b> <span class="quiet"><${Said} text=${one.by ?? ''} /></span> <${Said} text=${one.reason ?? ''} most=${400} />
        ${one.reply && html`<details><summary>its reply</summary><${Long} text=${one.reply} maths=${rendered} /></details>`}</div>`)}</div>`}
      <div class="tools"><h3>Response</h3><button type="button" aria-pressed=${rendered} onClick=${() => setRendered(!rendered)}>Formulas</button>
        <span class="quiet">${plural(characters, 'character')}</span>
        ${characters > WINDOW && html`<button type="button" disabled=${from === 0} onClick=${() => setFrom(Math.max(0, from - WINDOW))}>before</button>
          <button type="button" disabled=${from + WINDOW >= characters} onClick=${() => setFrom(from + WINDOW)}>after</button>
          <span class="quiet">${count(from + 1)} to ${count(Math.min(characters, from + WINDOW))}</span>`}</div>
      <${Long} text=${response} maths=${rendered} kind="response" />
      <${Json} name="the line as it was written" value=${sample} />
    </article>`;
}
