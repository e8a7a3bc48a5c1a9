// The curves of a training run, in the order in which one asks: does it learn, how does it write, is it sound, what
// does it cost.

import { html, useMemo, useState } from '/assets/vendor/htm-preact.js';
import { change, useHere } from '../address.js';
import { api, useAsked } from '../asking.js';
import { Curve, TONES } from '../curve.js';
import { Waiting } from '../parts.js';
import { bytes, duration, percent, small } from '../words.js';

const GROUPS = [
  ['Learning', [
    ['kl', 'KL to the teacher', 'nats a token'],
    ['loss', 'Loss', 'nats a token'],
    ['gradient_norm', 'Gradient norm', 'before clipping'],
    ['learning_rate', 'Learning rate', ''],
    ['surprise', 'Surprise of the student', 'nats a token'],
    ['first_token_kl', 'KL at the first token', 'nats'],
  ]],
  ['Responses', [
    ['mean_tokens', 'Length', 'tokens a rollout'],
    ['cut_short', 'Cut short by the limit', 'share of rollouts', percent],
    ['repeated', 'Caught in a loop', 'share of rollouts', percent],
    ['eos_teacher_logp', 'The teacher on the last token', 'nats'],
  ]],
  ['Soundness', [
    ['clamped', 'Clamped', 'share of tokens', percent],
    ['gap/mean', 'Sampler and trainer, mean', 'nats a token'],
    ['gap/largest', 'Sampler and trainer, largest', 'nats'],
    ['gap/k3', 'Sampler and trainer, k3', 'nats a token'],
  ]],
  ['Cost', [
    ['peak_bytes', 'Memory at its peak', '', bytes],
    ['trained_tokens', 'Trained on', 'tokens a step'],
  ]],
];
const PARTS = [['sample', '--one'], ['score', '--two'], ['update', '--three'], ['save', '--four']];
const TEACHER = /^teachers\/([^/]+)\/kl$/;

/** What every run page draws. */
export const DRAWN = ['teachers/*/kl', ...GROUPS.flatMap(([, list]) => list.map(([name]) => name)), ...[...PARTS, ['total']].map(([part]) => `seconds/${part}`)];
export const POINTS = 500; // of a curve: more than a picture has pixels for
const NONE = [];
const OPEN = 4;            // curves more than these that are shown without being asked for
const COUNTED = new Set(['rollouts', 'rows_seen']); // say nothing as a curve
const WEIGHTS = [0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99];

/** The lines of KL to each teacher, where rows name theirs: as many as there are colours beside that of all. */
export const taught = series => Object.keys(series).filter(name => TEACHER.test(name)).slice(0, TONES.length - 1)
  .map((name, place) => ({ key: name, name: name.match(TEACHER)[1], tone: TONES[place + 1], ...series[name] }));

export function Curves({ metrics, id, version, pick }) {
  const { query } = useHere();
  const place = Math.min(WEIGHTS.length - 1, Math.max(0, Number(query.smooth) || 0));
  const weight = WEIGHTS[place];
  const x = metrics.buckets.until;
  const teachers = useMemo(() => taught(metrics.series), [metrics]);
  const more = metrics.names.filter(name => !DRAWN.includes(name) && !teachers.some(one => one.key === name) && !name.startsWith('seconds/') && !COUNTED.has(name));
  const each = metrics.buckets.rows.length ? Math.max(...metrics.buckets.rows) : 0;
  if (!x.length) return html`<h2>Curves</h2><p class="quiet">No step has ended yet; the first one appears here by itself.</p>`;
  const group = (name, list) => {
    const shown = list.filter(([one]) => metrics.series[one]?.mean.some(value => value !== null));
    return shown.length || name === 'Cost' ? html`
      <h3>${name}</h3>
      <div class="curves">
        ${name === 'Cost' && html`<${Seconds} metrics=${metrics} x=${x} weight=${weight} pick=${pick} />`}
        ${shown.map(([one, said, unit, say]) => html`<${One} key=${one} name=${one} said=${said} unit=${unit} say=${say ?? small} x=${x} series=${metrics.series[one]} beside=${one === 'kl' ? teachers : NONE} weight=${weight} pick=${pick} />`)}
      </div>` : null;
  };
  return html`
    <div class="tools">
      <h2>Curves</h2><span class="space"></span>
      <label class="pick"><span>Smoothing</span>
        <input type="range" min="0" max=${WEIGHTS.length - 1} step="1" value=${place} aria-valuetext=${weight ? `${weight} of each point's past` : 'none'}
               onInput=${event => change({ smooth: Number(event.target.value) || null })} /><output>${weight || 'none'}</output></label>
    </div>
    <p class="quiet">${each > 1 ? `A point stands for up to ${each} steps, and the band reaches from the least of them to the greatest. ` : 'A point is a step. '}${weight > 0 && 'The thin line is as measured, the strong one smoothed. '}Click a step to see its rollouts.${metrics.passed_over > 0 && html` <b class="down">${metrics.passed_over} damaged lines of metrics.jsonl were passed over.</b>`}</p>
    ${GROUPS.map(([name, list]) => group(name, list))}
    ${more.length > 0 && html`<${More} id=${id} names=${more} version=${version} weight=${weight} pick=${pick} />`}`;
}

function More({ id, names, version, weight, pick }) {
  const [open, setOpen] = useState(names.length <= OPEN);
  const { value: metrics, error } = useAsked(open ? api(`runs/${id}/metrics`, { points: POINTS, names: names.join(',') }) : null, version);
  return html`
    <details class="more" open=${open} onToggle=${event => setOpen(event.target.open)}><summary>More that the run wrote down (${names.length})</summary>
      ${open && (metrics ? html`<div class="curves">${names.map(name => html`<${One} key=${name} name=${name} said=${name} unit="" say=${small} x=${metrics.buckets.until} series=${metrics.series[name]} weight=${weight} pick=${pick} />`)}</div>`
        : html`<${Waiting} error=${error} what="Reading them" />`)}</details>`;
}

function One({ name, said, unit, say, x, series, beside = NONE, weight, pick }) {
  const lines = useMemo(() => [{ name: beside.length ? 'all' : name, tone: '--one', ...series }, ...beside], [series, beside]);
  return html`<figure class="one" data-curve=${name}><figcaption>${said} <span class="quiet">${unit}</span></figcaption>
    <${Curve} label=${said} x=${x} lines=${lines} weight=${weight} say=${say} pick=${pick} /></figure>`;
}

function Seconds({ metrics, x, weight, pick }) {
  const lines = useMemo(() => PARTS.filter(([part]) => metrics.series[`seconds/${part}`])
    .map(([part, tone]) => ({ name: part, tone, ...metrics.series[`seconds/${part}`] })), [metrics]);
  if (!lines.length) return null;
  return html`<figure class="one" data-curve="seconds"><figcaption>Seconds of a step, by phase</figcaption>
    <${Curve} label="Seconds of a step" x=${x} lines=${lines} weight=${weight} stacked say=${duration} pick=${pick} /></figure>`;
}
