// Numbers in words, with their units; what is unknown is said to be, and is never a zero. As `opd/view/words.py`.

export const UNKNOWN = '—';
const MINUS = '\u2212';
const RAISED = { '-': '⁻', 0: '⁰', 1: '¹', 2: '²', 3: '³', 4: '⁴', 5: '⁵', 6: '⁶', 7: '⁷', 8: '⁸', 9: '⁹' };

const absent = value => value === null || value === undefined || Number.isNaN(value);

/** `0.864`: so many decimals; a half is rounded away from zero, also where binary puts it a hair below. */
export function number(value, digits = 3) {
  return absent(value) ? UNKNOWN : (value * (1 + 1e-12)).toFixed(digits).replace(/^-0(\.0*)?$/, '0$1').replace('-', MINUS);
}

/** `+0.012`; nothing is `+0.000`, as on the terminal. */
export function signed(value, digits = 3) {
  const said = number(value, digits);
  return absent(value) || said.startsWith(MINUS) ? said : `+${said}`;
}

/** `12,034`. */
export const count = value => (absent(value) ? UNKNOWN : Math.round(value).toLocaleString('en-US').replace('-', MINUS));

/** A number of any size in three figures: `0.0412`, `1.1 × 10⁻⁷`, `12,034`. */
export function small(value) {
  if (absent(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (size < 1e-3 || size >= 1e7) {
    const [figure, power] = value.toExponential(1).split('e');
    return `${figure} × 10${[...String(Number(power))].map(one => RAISED[one]).join('')}`.replace('-', MINUS);
  }
  return size >= 1000 ? count(value) : String(Number(value.toPrecision(3))).replace('-', MINUS);
}

/** `86.4 %`; only none reads as 0.0, only all as 100.0. */
export function percent(share) {
  if (absent(share)) return UNKNOWN;
  if (share > 0 && share < 0.0005) return '< 0.1 %';
  if (share >= 0.9995 && share < 1) return '> 99.9 %';
  return `${(100 * share).toFixed(1)} %`;
}

/** `0.4 s`, `45 s`, `2 min 5 s`, `1 h 2 min`, `3 d 4 h`. */
export function duration(seconds) {
  if (absent(seconds)) return UNKNOWN;
  if (seconds === 0) return '0 s';
  if (seconds < 0.1 && seconds > 0) return `${Math.max(1, Math.round(1000 * seconds))} ms`;
  if (seconds < 10) return `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole / 3600) % 24} h`;
}

/** `633 MB`, powers of a thousand. */
export function bytes(value) {
  if (absent(value)) return UNKNOWN;
  const names = ['B', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  while (value >= 999.5 && at < names.length - 1) { value /= 1000; at += 1; }
  return `${at === 0 || value >= 100 ? value.toFixed(0) : value.toPrecision(3)} ${names[at]}`;
}

/** `3 min ago`, of POSIX seconds. */
export function ago(moment, now = Date.now() / 1000) {
  if (absent(moment)) return UNKNOWN;
  const passed = now - moment;
  if (passed < 0) return day(moment);
  if (passed < 10) return 'just now';
  if (passed < 60) return `${Math.round(passed)} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  return passed < 30 * 86400 ? `${Math.floor(passed / 86400)} d ago` : day(moment);
}

export const day = moment => new Date(moment * 1000).toISOString().slice(0, 10);

/** `21:23:35`, of a moment in UTC as text. */
export const clock = utc => (utc ? utc.slice(11, 19) : UNKNOWN);

/** `0.864 ± 0.009`. */
export const scored = ({ mean, stderr }) => (absent(mean) ? UNKNOWN : `${number(mean)}${absent(stderr) ? '' : ` ± ${number(stderr)}`}`);

/** `0.846 to 0.882`. */
export const interval = (ends, say = number) => (ends ? `${say(ends[0])} to ${say(ends[1])}` : UNKNOWN);

/** The probability that nats stand for. */
export const probability = logp => (absent(logp) ? UNKNOWN : percent(Math.exp(logp)));

/** Any value of a recipe as one would write it. */
export const value = one => (one === null || one === undefined ? 'none' : typeof one === 'string' ? one : JSON.stringify(one));

/** `1 question`, `2 questions`. */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
