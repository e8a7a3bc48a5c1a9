// A training run: where it stands, its curves, its checkpoints with their scores, and its recipe.

import { html, useEffect, useMemo, useState } from '/assets/vendor/htm-preact.js';
import { change, go, to, useHere } from '../address.js';
import { api, useAsked } from '../asking.js';
import { useKeys } from '../keys.js';
import { useVersion } from '../live.js';
import { Elsewhere, Facts, Json, Share, State, Tile, Title, Trouble, Troubles, Waiting, Whisker, reach } from '../parts.js';
import { Said } from '../text.js';
import { bytes, count, duration, interval, number, plural, scored, small } from '../words.js';
import { Curve, drawing } from '../curve.js';
import { Curves, DRAWN, POINTS, taught } from './curves.js';
import { Plan } from './plan.js';
import { Recipe } from './recipe.js';

export default function Run() {
  const { id, query } = useHere();
  const version = useVersion(id);
  const { value: run, error } = useAsked(api(`runs/${id}`), version);
  const { value: metrics, error: unread } = useAsked(api(`runs/${id}/metrics`, { points: POINTS, names: DRAWN.join(',') }), version);
  useEffect(() => { drawing().catch(() => null); }, []); // a curve says it, if there is none to draw it
  useKeys({ o: ['its rollouts', () => go(to('rollouts', id))] });
  if (!run) return html`<${Waiting} error=${error} what="Reading the run" />`;
  const { row, rollouts } = run;
  if (row.kind !== 'train') return html`<${Elsewhere} row=${row} kind="train" />`;
  return html`
    <${Title} over="Training run" name=${row.name}>
      <p class="lead"><${State} state=${row.state} /> <${Said} text=${row.said} /></p>
    <//>
    ${error && html`<${Waiting} error=${error} />`}
    <${Troubles} of=${[row.trouble, ...run.trouble]} />
    ${run.failures.slice(0, 1).map(one => html`<${Failure} failure=${one} />`)}
    <${Now} run=${run} metrics=${metrics} />
    <p class="ways">
      ${rollouts.tables > 0 ? html`<a href=${to('rollouts', id)}>Rollouts of ${plural(rollouts.tables, 'step')}, token by token</a> <kbd>o</kbd>`
        : rollouts.tables === 0 && html`<span class="quiet">No rollouts were kept: set save.rollouts.</span>`}
      ${row.score_id && html`<a href=${to('score', row.score_id)}>The newest score</a>`}
    </p>
    ${run.warnings.count > 0 && html`<${Warnings} warnings=${run.warnings} />`}
    <section>
      ${metrics ? html`<${Curves} metrics=${metrics} id=${id} version=${version} pick=${step => rollouts.tables > 0 && go(to('rollouts', id, { step: Math.round(step) }))} />`
        : html`<${Waiting} error=${unread} what="Reading its metrics" />`}
    </section>
    <${Scores} scores=${run.scores} />
    <${Checkpoints} checkpoints=${run.checkpoints} />
    <section class="split">
      <div><h2>Asked and used</h2><${Budget} budget=${run.budget} /></div>
      <div><h2>Plan and reality</h2><${Plan} id=${id} /></div>
    </section>
    <${Recipe} recipe=${run.recipe} all=${query.recipe === 'all'} choose=${all => change({ recipe: all ? 'all' : null })} />
    <${Notes} run=${run} />`;
}

function Now({ run, metrics }) {
  const last = name => { const column = metrics?.series[name]?.mean; return column?.length ? column[column.length - 1] : null; };
  const teachers = metrics ? taught(metrics.series) : [];
  const { row } = run;
  const many = metrics?.buckets.rows.at(-1) ?? 1; // a point may stand for several steps
  const newest = metrics?.last ? (many > 1 ? `mean of steps ${count(metrics.buckets.first.at(-1))} to ${count(metrics.last)}` : `at step ${count(metrics.last)}`) : 'no step has ended';
  return html`
    <div class="tiles">
      <${Tile} name="Step" value=${count(row.step)} below=${row.asked ? html`of ${count(row.asked)}<${Share} share=${row.step / row.asked} />` : 'no end was set'} />
      <${Tile} name="Score" tone="distilled" value=${number(row.mean)} below=${row.mean === null ? 'no checkpoint was evaluated' : html`± ${number(row.stderr)}, 95 % interval ${interval(row.ci95)}`} />
      <${Tile} name=${teachers.length > 1 ? 'KL to the teachers' : 'KL to the teacher'} value=${small(last('kl'))} unit="nats" below=${html`a token, ${newest}${teachers.length > 1 && teachers.map((one, place) => html`${place ? ', ' : '; '}<${Said} text=${one.name} most=${40} /> ${small(last(one.key))}`)}`} />
      <${Tile} name="Response" value=${small(last('mean_tokens'))} unit="tokens" below=${`on average; ${last('cut_short') === null ? '—' : `${(100 * last('cut_short')).toFixed(1)} %`} cut short`} />
      <${Tile} name="Time" value=${duration(row.seconds)} below=${`${duration(last('seconds/total'))} for the last step`} />
    </div>`;
}

function Failure({ failure }) {
  const cause = [failure.exceptions].flat().at(-1); // the first one
  const sentence = failure.signal ? `${failure.signal} ended it` : cause?.kind ? `${cause.kind}: ${cause.message}` : `see ${failure.file}`;
  return html`<${Trouble}><p><b>It failed.</b> <${Said} text=${sentence} most=${1200} /> ${failure.state && html`--resume goes on from <${Said} text=${failure.state} />.`}</p>
    <${Json} name=${failure.file} value=${failure} /><//>`;
}

function Warnings({ warnings }) {
  const [all, setAll] = useState(false);
  const shown = all ? warnings.newest : warnings.newest.slice(0, 3);
  return html`
    <section class="warnings" aria-label="Warnings"><h2>${plural(warnings.count, 'warning')}</h2>
      <ul>${shown.map(one => html`<li><span class="quiet">step ${count(one.step)}</span> <${Said} text=${one.text} most=${600} /></li>`)}</ul>
      ${warnings.newest.length > shown.length && html`<button type="button" onClick=${() => setAll(true)}>Show the newest ${count(warnings.newest.length)}</button>`}
    </section>`;
}

function Checkpoints({ checkpoints }) {
  const axis = useMemo(() => reach(checkpoints.flatMap(one => one.scores)), [checkpoints]);
  if (!checkpoints.length) return html`<section><h2>Checkpoints</h2><p class="quiet">None yet.</p></section>`;
  const lines = checkpoints.flatMap(one => (one.scores.length ? one.scores.map(score => ({ one, score })) : [{ one, score: null }]));
  return html`
    <section><h2>Checkpoints</h2>
      <div class="scroll"><table class="scores">
        <thead><tr><th scope="col">checkpoint</th><th scope="col">size</th><th scope="col">benchmark</th><th scope="col">score</th><th scope="col" class="wide">95 % interval, ${number(axis.from, 2)} to ${number(axis.until, 2)}</th></tr></thead>
        <tbody>${lines.map(({ one, score }) => html`<tr>
          <th scope="row"><${Said} text=${one.name} />${one.best !== null && html` <span class="quiet">best ${one.best}</span>`}${!one.complete && html` <b class="down">incomplete</b>`}</th>
          <td>${bytes(one.bytes)}</td>
          <td>${score ? html`<${Said} text=${score.benchmark} />` : html`<span class="quiet">not evaluated</span>`}</td>
          <td>${score ? html`<a href=${to('score', score.id)}>${scored(score)}</a>` : '—'}</td>
          <td class="wide">${score && html`<${Whisker} ...${score} ...${axis} />`}</td></tr>`)}</tbody>
      </table></div>
    </section>`;
}

function Scores({ scores }) {
  const curves = useMemo(() => scoredBy(scores), [JSON.stringify(scores)]);
  return curves.length > 0 && html`
    <section><h2>Scores</h2>
      <div class="curves">${curves.map(one => html`<figure class="one" key=${one.key} data-curve="score"><figcaption><${Said} text=${one.benchmark} most=${40} /> <span class="quiet">mean, with its 95 % interval</span></figcaption>
        <${Curve} label=${`Score on ${one.benchmark}`} x=${one.x} lines=${one.lines} sync=${one.key} say=${value => number(value)} /></figure>`)}</div>
    </section>`;
}

/** One curve for each protocol by which several checkpoints were scored: scores of two never stand in one picture. */
export function scoredBy(scores) {
  const held = new Map();
  for (const score of scores) {
    if (score.mean === null || !score.protocol_digest) continue;
    const one = held.get(score.protocol_digest) ?? { benchmark: score.benchmark ?? '', points: new Map() };
    held.set(score.protocol_digest, { ...one, points: one.points.set(score.step, score) }); // of one step the newest, which comes last
  }
  return [...held].filter(([, { points }]) => points.size > 1).map(([key, { benchmark, points }]) => {
    const found = [...points.values()];
    const line = { name: 'score', tone: '--two', mean: found.map(one => one.mean), low: found.map(one => one.ci95?.[0] ?? null), high: found.map(one => one.ci95?.[1] ?? null) };
    return { key, benchmark, x: [...points.keys()], lines: [line] };
  });
}

function Budget({ budget }) {
  const say = (one, unit) => (one === null ? 'no limit' : unit === 'seconds' ? duration(one) : `${small(one)} ${unit}`);
  return html`<div class="scroll"><table>
    <thead><tr><th scope="col">what</th><th scope="col">used</th><th scope="col">asked</th><th scope="col" class="bar"></th></tr></thead>
    <tbody>${budget.map(one => html`<tr><th scope="row">${one.what}</th><td>${one.used === null ? '—' : say(one.used, one.unit)}</td><td>${say(one.asked, one.unit)}</td>
      <td class="bar">${one.asked && one.used !== null && html`<${Share} share=${one.used / one.asked} />`}</td></tr>`)}</tbody>
  </table></div>`;
}

function Notes({ run }) {
  const machine = run.summary?.machine;
  return html`
    <section class="split">
      <div><h2>Where it ran</h2>${machine ? html`<${Facts} rows=${Object.entries(machine)} />` : html`<p class="quiet">Known when it has ended.</p>`}
        ${run.notes.map(note => html`<p><${Said} text=${note} most=${800} /></p>`)}</div>
      <div><h2>Files</h2><${Facts} rows=${[['folder', run.row.path]]} />
        ${run.summary && html`<${Json} name="run.json" value=${run.summary} />`}
        ${run.events.length > 0 && html`<${Json} name=${plural(run.events.length, 'event')} value=${run.events} />`}
        ${run.failures.map(one => html`<${Json} name=${one.file} value=${one} />`)}</div>
    </section>`;
}
