// A score: the number and its error, question by question, and every sample with how it was graded.

import { html, useEffect, useMemo, useState } from '/assets/vendor/htm-preact.js';
import { change, go, to, useHere } from '../address.js';
import { api, useAsked, usePaged } from '../asking.js';
import { useKeys } from '../keys.js';
import { List } from '../list.js';
import { useVersion } from '../live.js';
import { Choice, Elsewhere, Empty, Facts, Json, Pick, State, Tile, Title, Troubles, Waiting } from '../parts.js';
import { Strip } from '../strip.js';
import { Said } from '../text.js';
import { count, duration, interval, number, percent, plural, scored } from '../words.js';
import { Sample } from './sample.js';

const VERDICTS = [['correct', 'right'], ['wrong', 'wrong'], ['no_answer', 'no answer'], ['unreadable', 'unreadable'], ['cut_short', 'cut short'], ['grader_failed', 'grader failed'], ['judge_failed', 'judge failed']];
const SORTS = [['order', 'as in the file'], ['longest', 'longest first'], ['shortest', 'shortest first']];

export default function Score() {
  const { id, query } = useHere();
  const version = useVersion(id);
  const { value: found, error } = useAsked(api(`runs/${id}`), version);
  useKeys({ c: ['compare with another score', () => go(to('compare', null, { a: id }))] });
  if (!found) return html`<${Waiting} error=${error} what="Reading the score" />`;
  const { row, score } = found;
  if (row.kind !== 'score') return html`<${Elsewhere} row=${row} kind="score" />`;
  return html`
    <${Title} over=${html`Score${row.run_id && html` of <a href=${to('run', row.run_id)}>a training run</a>${row.trained_steps !== null && ` after step ${count(row.trained_steps)}`}`}`} name=${row.name}>
      <p class="lead"><${State} state=${row.state} /> <${Said} text=${row.said} /></p>
    <//>
    <${Troubles} of=${[row.trouble, ...found.trouble]} />
    <${Numbers} found=${found} />
    <${Verdicts} verdicts=${score?.verdicts ?? found.verdicts} />
    <p class="ways"><a href=${to('compare', null, { a: id })}>Compare with another score</a> <kbd>c</kbd></p>
    <${Questions} id=${id} version=${version} chosen=${query.question ?? null} />
    <${Samples} id=${id} query=${query} lines=${found.lines} />
    <section class="split"><${Majority} score=${score} /><div><h2>Protocol</h2>
      <${Facts} rows=${Object.entries(found.protocol ?? {}).map(([name, one]) => [name.replaceAll('_', ' '), one === null ? 'none' : typeof one === 'string' ? one : JSON.stringify(one)])} />
      ${score && html`<${Json} name="score.json" value=${score} />`}</div></section>`;
}

function Numbers({ found: { row, score, lines, protocol } }) {
  if (!score?.questions) return html`<div class="tiles"><${Tile} name="Samples so far" value=${count(lines)} below=${row.asked ? `of ${count(row.asked)}` : ''} /></div>`;
  return html`
    <div class="tiles">
      <${Tile} name="Right" tone="distilled" value=${number(score.mean)} below=${html`± ${number(score.stderr)}, clustered by question<br />95 % interval ${interval(score.ci95)}`} />
      <${Tile} name="Questions" value=${count(score.questions)} below=${`× ${protocol?.samples_per_question ?? '?'} samples; ${count(score.correct)} of ${count(score.samples)} right`} />
      <${Tile} name="Length" value=${count(score.mean_tokens)} unit="tokens" below=${`on average; ${percent(score.cut_short)} cut short`} />
      <${Tile} name="Answered" value=${percent(score.answered)} below=${`design effect ${number(score.design_effect, 2)}`} />
      <${Tile} name="Time" value=${duration(score.seconds)} below=${`${count(score.tokens)} tokens`} />
    </div>`;
}

function Verdicts({ verdicts }) {
  const shown = VERDICTS.map(([name, said]) => [name, said, verdicts?.[name] ?? 0]).filter(([, , many]) => many > 0);
  const all = shown.reduce((sum, [, , many]) => sum + many, 0);
  if (!all) return null;
  return html`
    <figure class="verdicts">
      <div class="stack" role="img" aria-label=${shown.map(([, said, many]) => `${said} ${many}`).join(', ')}>
        ${shown.map(([name, , many]) => html`<i class=${name} style=${{ flexGrow: many }}></i>`)}</div>
      <figcaption>${shown.map(([name, said, many]) => html`<span><i class=${`dot ${name}`}></i>${said} <b>${count(many)}</b> <span class="quiet">${percent(many / all)}</span></span>`)}</figcaption>
    </figure>`;
}

function Questions({ id, version, chosen }) {
  const { value: found, error } = useAsked(api(`runs/${id}/questions`), version);
  const { query } = useHere();
  const order = useMemo(() => {
    if (!found) return [];
    const places = found.questions.map((_, at) => at);
    const share = at => found.right[at] / (found.samples[at] || 1);
    return query.by === 'file' ? places : places.sort((one, other) => share(one) - share(other) || one - other);
  }, [found, query.by]);
  const values = useMemo(() => order.map(at => found.right[at] / (found.samples[at] || 1)), [order]);
  if (!found) return html`<section><h2>Questions</h2><${Waiting} error=${error} what="Counting by question" /></section>`;
  const place = chosen === null ? null : order.findIndex(at => found.questions[at] === chosen);
  const never = found.right.filter(one => one === 0).length;
  const always = found.right.filter((one, at) => one === found.samples[at]).length;
  const says = at => { const one = order[at]; return `${found.questions[one]}: ${found.right[one]} of ${found.samples[one]} right, answer ${String(found.gold[one]).slice(0, 60)}`; };
  return html`
    <section>
      <div class="tools"><h2>Questions</h2><span class="space"></span>
        <${Choice} label="Order" options=${[['hard', 'hardest first', null], ['file', 'as in the file', null]]} chosen=${[query.by === 'file' ? 'file' : 'hard']} choose=${by => change({ by: by === 'file' ? 'file' : null })} />
        ${chosen !== null && html`<button type="button" onClick=${() => change({ question: null })}>All questions</button>`}</div>
      <p class="quiet">A column is a question, as tall as its share of right samples. ${count(always)} are always right, ${count(never)} never. Click one to see its samples.</p>
      <${Strip} label="Share of right samples, by question; arrows move" values=${values} from=${0} until=${1.02} current=${place === -1 ? null : place} height=${96}
        tone=${share => [share === 0 ? '--lower-ink' : '--one', share === 1 ? 0.45 : 0.95]} pick=${at => change({ question: found.questions[order[at]], line: null })} says=${says} />
    </section>`;
}

function Samples({ id, query, lines }) {
  const verdicts = query.verdict ? query.verdict.split(',') : [];
  const asked = { verdict: query.verdict, question: query.question, stop: query.stop, disputed: query.disputed, sort: query.sort };
  const [turn, setTurn] = useState(0); // what came since is shown when it is asked for: the list doesn't move under the reader
  const key = JSON.stringify([id, asked, turn]);
  const { answer, row, error } = usePaged(key, (offset, limit) => api(`runs/${id}/samples`, { ...asked, offset, limit }));
  const [current, setCurrent] = useState(null);
  const narrowed = Object.values(asked).some(one => one !== undefined);
  useEffect(() => { setCurrent(!narrowed && query.line !== undefined ? Number(query.line) : null); }, [key]); // then a row is a line
  const open = index => { const found = row(index); if (found) { setCurrent(index); change({ line: found.line }); } };
  const options = VERDICTS.map(([name, said]) => [name, said, answer?.verdicts[name] ?? 0]).filter(([name, , many]) => many > 0 || verdicts.includes(name));
  const toggle = name => change({ verdict: (verdicts.includes(name) ? verdicts.filter(one => one !== name) : [...verdicts, name]).join(','), line: null });
  const line = query.line !== undefined ? Number(query.line) : answer?.rows[0]?.line ?? null;
  return html`
    <section>
      <div class="tools"><h2>Samples</h2>
        <${Choice} label="Verdict" options=${options} chosen=${verdicts} choose=${toggle} />
        <${Choice} label="Graders" options=${[['1', 'disputed', null]]} chosen=${[query.disputed]} choose=${() => change({ disputed: query.disputed ? null : 1, line: null })} />
        ${answer && lines > answer.total && html`<button type="button" onClick=${() => setTurn(turn + 1)}>Show ${plural(lines - answer.total, 'new sample')}</button>`}
        <span class="space"></span>
        <${Pick} label="Order" options=${SORTS} chosen=${query.sort ?? 'order'} choose=${sort => change({ sort: sort === 'order' ? null : sort, line: null })} /></div>
      ${query.question && html`<p class="quiet">Only those of <b><${Said} text=${query.question} most=${120} /></b>.</p>`}
      ${error && html`<${Waiting} error=${error} />`}
      ${answer && (answer.matching === 0 ? html`<${Empty}><h2>No sample fits</h2><p>Of ${plural(answer.total, 'sample')} none is like that. <button type="button" onClick=${() => change({ verdict: null, question: null, disputed: null, stop: null })}>Show all</button></p><//>` : html`
        <div class="beside">
          <${List} label="Samples" count=${answer.matching} height=${64} most="76vh" current=${current} move=${open} row=${index => html`<${Line} row=${row(index)} />`}
            head=${html`<span>${plural(answer.matching, 'sample')}${answer.matching === answer.total ? '' : ` of ${count(answer.total)}`}</span>`} />
          ${line !== null && html`<${Sample} key=${line} id=${id} line=${line} />`}
        </div>`)}
    </section>`;
}

function Line({ row }) {
  if (!row) return html`<span class="quiet" role="cell">…</span>`;
  return html`<div class="rollout-line" role="cell">
    <span class="problem"><b class=${`tag ${row.verdict}`}>${row.verdict.replaceAll('_', ' ')}</b> <${Said} text=${row.question} most=${60} /> <span class="quiet">sample ${row.sample}</span></span>
    <span class="quiet">said <b><${Said} text=${row.extracted ?? 'nothing'} most=${40} /></b>, right is <b><${Said} text=${row.gold} most=${40} /></b>, ${count(row.tokens)} tokens${row.opinions > 0 && `, ${plural(row.opinions, 'opinion')}`}</span></div>`;
}

function Majority({ score }) {
  const ks = Object.keys(score?.pass_at_k ?? {});
  if (!ks.length) return html`<div></div>`;
  return html`<div><h2>With more samples</h2><div class="scroll"><table>
    <thead><tr><th scope="col">k</th><th scope="col">one of k is right</th><th scope="col">the majority of k is right</th></tr></thead>
    <tbody>${ks.map(k => html`<tr><th scope="row">${k}</th><td>${scored(score.pass_at_k[k])}</td><td>${score.majority_at_k?.[k] ? scored(score.majority_at_k[k]) : '—'}</td></tr>`)}</tbody></table></div></div>`;
}
